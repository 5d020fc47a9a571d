"""Check, cases, comparison and diagnosis, on one small exercise."""

import math
from dataclasses import replace

import pytest
import torch
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor

from helpers.engine.cases import RandomArg, explicit_case, normal, random_case
from helpers.engine.check import NOT_ATTEMPTED, Check, CheckGroup, Misconception, Property
from helpers.engine.compare import Message, agree, difference
from helpers.engine.observe import observe
from helpers.engine.requirements import exceeded_steps


def scaled(x: Float[Tensor, "*batch n d"], y: Float[Tensor, "*batch m d"]) -> Float[Tensor, "*batch n m"]:
    return x @ y.mT / math.sqrt(x.shape[-1])


def unscaled(x, y):
    return x @ y.mT


CHECK = Check(
    scaled,
    [random_case(n=3, m=5, d=4), random_case(batch=(2, 3), n=4, m=2, d=6)],
    [
        Misconception("no scale", unscaled, "Divide by √d."),
        Misconception("scaled by d", lambda x, y: x @ y.mT / x.shape[-1], "Not d."),
    ],
)


def test_right_answers_get_all_points_in_any_dtype():
    for right in (
        scaled,
        lambda x, y: scaled(x.double(), y.double()),
        lambda x, y: torch.einsum("...nd,...md->...nm", x, y) / x.shape[-1] ** 0.5,
    ):
        score = CHECK(right, points=3)
        assert score == 3 and score.full and score.diagnosis is None


def test_a_wrong_answer_loses_points_and_is_named():
    score = CHECK(unscaled, points=3)
    assert score == 0 and score.diagnosis == "no scale" and "Divide by √d." in score.message
    assert score.as_json()["failed"] == ["n = 3, m = 5, d = 4", "batch = 2×3, n = 4, m = 2, d = 6"]


def test_partial_points_come_in_quarters():
    only_matrices = CHECK(lambda x, y: scaled(x, y) if x.dim() == 2 else None, points=1)
    assert only_matrices == 0.5 and only_matrices.diagnosis is None and "returns nothing" in only_matrices.message


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda x, y: None, "Is there a `return`?"),
        (lambda x, y: scaled(x, y).mT, "last two axes swapped"),
        (lambda x, y: scaled(x, y) * 3, "3 times the expected"),
        (lambda x, y: scaled(x, y) / 0, "infinite"),
        (lambda x, y: (scaled(x, y) - scaled(x, y)) / 0, "NaN"),
        (lambda x, y: scaled(x, y).numpy(), "a numpy.ndarray, and a torch tensor"),
        (lambda x, y: scaled(x, y) + torch.eye(*scaled(x, y).shape[-2:]), "values are off"),
        (lambda x, y: x @ y, "RuntimeError"),
        ("not a function", "TypeError"),
    ],
)
def test_unknown_slips_are_described(answer, words):
    score = CHECK(answer, points=2)
    assert score < 2 and words in score.message


def test_a_stub_is_not_attempted():
    def stub(x, y):
        raise NotImplementedError

    score = CHECK(stub, points=2)
    assert score == 0 and score.diagnosis == NOT_ATTEMPTED and "error" not in score.message


def test_changed_inputs_cost_points_and_are_not_taken_for_a_misconception():
    def in_place(x, y):
        x /= math.sqrt(x.shape[-1])
        return x @ y.mT

    score = CHECK(in_place, points=3)
    assert 0 < score < 3 and score.diagnosis is None and "in place" in score.message


def test_a_forbidden_function_earns_nothing():
    score = Check(scaled, CHECK.cases, forbids=["einsum"])(
        lambda x, y: torch.einsum("...nd,...md->...nm", x, y) / x.shape[-1] ** 0.5, points=3
    )
    assert score == 0 and score.diagnosis == "forbidden function" and "`einsum`" in score.message


def test_limits_on_operations_and_memory():
    def wasteful(x, y):
        return (x.unsqueeze(-2) * y.unsqueeze(-3)).sum(-1) / math.sqrt(x.shape[-1])

    check = Check(
        scaled, [random_case(n=30, m=30, d=8, max_elements=900), random_case(n=4, m=3, d=8, max_operations=12)]
    )
    assert check(scaled, points=2) == 2
    assert "7,200 elements" in check(wasteful, points=2).message


def test_a_search_that_tries_all_is_stopped_and_earns_half_at_most():
    def root(n: int) -> int:
        return math.isqrt(n)

    def one_by_one(n, less=0):
        found = 0
        while (found + 1) ** 2 <= n - less:
            found += 1
        return found

    slip = Misconception("one by one", one_by_one, "Halve.", cost=exceeded_steps)
    check = Check(root, [random_case(n=n) for n in (16, 24, 0, 10**16)], [slip], steps=1_000, counts=False)
    assert check(root, points=4) == 4
    score = check(lambda n: one_by_one(n), points=4)
    assert score == 2 and score.diagnosis == "one by one" and "more than 1,000 lines of Python" in score.message
    assert "Your output is" not in score.message and score.as_json()["failed"] == ["n = 10000000000000000"]
    hidden = check(lambda n: one_by_one(n) if n > 30 else root(n), points=4, cases=[random_case(n=10**14)])
    assert hidden == 2 and hidden.diagnosis == "one by one"
    both = check(lambda n: one_by_one(n, less=1), points=4)
    assert both.diagnosis is None and both == 2


def test_small_tensors_that_pile_up_are_found():
    """600 numbers in pieces of 20: one piece at a time is held, or all of them."""
    n = 30

    def total(x: Float[Tensor, "n d"]) -> Float[Tensor, "d"]:
        out = torch.zeros_like(x[0])
        for i in range(n):
            out += x[i].exp()
        return out

    def piled(x):
        return sum([x[i].exp() for i in range(n)])

    check = Check(total, [random_case(n=n, d=20, max_living=300)])
    assert check(total, points=2) == 2
    score = check(piled, points=2)
    assert score < 2 and "held tensors of 6" in score.message and "the limit is 300" in score.message
    seen = observe(piled, (torch.ones(n, 20),))
    assert seen.largest == 20 and 600 <= seen.living <= 700


def test_elementwise_work_is_counted_and_copies_are_not():
    """A thousand sums of 20 numbers, or one product; a result that is put together is no work."""

    def gram(x: Float[Tensor, "n d"]) -> Float[Tensor, "n n"]:
        return x @ x.mT

    def by_numbers(x):
        rows = torch.empty(len(x), len(x))
        for i in range(len(x)):
            rows[i] = (x[i] * x).sum(-1)
        return torch.cat([rows, rows[:0]]).clone()

    check = Check(gram, [random_case(n=30, d=20, max_elementwise=10_000)])
    assert check(gram, points=2) == 2
    score = check(by_numbers, points=2)
    assert score < 2 and "went through 36,000 numbers one by one" in score.message
    assert observe(gram, (torch.ones(30, 20),)).elementwise == 0


def test_properties_decide_where_many_answers_are_right():
    def unit(d: int) -> Float[Tensor, "d"]:
        return torch.eye(d)[0]

    zero = Misconception("zero", lambda d: torch.zeros(d), "…", lambda seen: seen.output.norm() == 0)
    length_1 = Property("length 1", lambda out, d: abs(out.norm() - 1) < 1e-6)
    check = Check(unit, [random_case(d=3), random_case(d=5)], [zero], properties=[length_1], compare=False)
    assert check(lambda d: torch.ones(d) / math.sqrt(d), points=1) == 1
    assert check(lambda d: 0 * torch.ones(d), points=1).diagnosis == "zero"
    assert check(lambda d: "no tensor", points=1) == 0


def test_a_property_shows_its_example_of_the_visible_cases_alone():
    def evens(n: int):
        return list(range(0, n, 2))

    even = Property(
        "even numbers", lambda out, n: not any(x % 2 for x in out), "Some are odd.", lambda out, n: f"{out[1]} is."
    )
    check = Check(evens, [random_case(n=6), random_case(n=8)], properties=[even], compare=False)
    assert check(lambda n: list(range(n)), points=1).message == "With n = 6: Some are odd. 1 is."
    hidden = check(lambda n: [0] if n < 100 else [0, 7], points=1, cases=[random_case(n=100)]).message
    assert "Some are odd." in hidden and "7" not in hidden
    assert check(lambda n: [1], points=1).message == "With n = 6: Some are odd."  # there is no such place


def test_drive_checks_a_class():
    class Counter:
        def __init__(self):
            self.total = 0

        def add(self, x):
            self.total = self.total + x
            return self.total

    class Forgets(Counter):
        def add(self, x):
            return x

    def drive(cls, first, second):
        counter = cls()
        counter.add(first)
        return counter.add(second)

    check = Check(
        Counter, [explicit_case("two numbers", 2, 3)], [Misconception("nothing kept", Forgets, "…")], drive=drive
    )
    assert check(Counter, points=1) == 1 and check(Forgets, points=1).diagnosis == "nothing kept"


def test_a_group_adds_its_parts_up():
    def twice(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
        return 2 * x

    group = CheckGroup("both", CHECK, Check(twice, [random_case(n=4)]))
    assert group(scaled, twice, points=2) == 2
    assert group(unscaled, twice, points=2) == 1
    assert group(unscaled, twice, points=2).diagnosis == "no scale"
    with pytest.raises(TypeError, match="takes 2 functions: scaled, twice"):
        group(scaled, points=2)


def test_inputs_are_drawn_from_the_signature():
    def reference(a: Float[Tensor, "*batch n d"], b: Bool[Tensor, "n 3"], i: Int[Tensor, "m"], d: int): ...

    a, b, i, d = random_case(batch=(2,), n=4, d=6).draw(reference, Generator().manual_seed(0))
    assert a.shape == (2, 4, 6) and b.shape == (4, 3) and b.dtype == torch.bool and i.dtype == torch.int64 and d == 6
    assert i.shape[0] not in (4, 6), "an axis that is not named must differ from the others"


def test_inputs_are_fresh_unless_a_seed_is_given():
    case = explicit_case("drawn", RandomArg(lambda g: torch.randn(3, generator=g)))
    seen = []
    check = Check(lambda x: x, [case], exercise="echo")
    for seed in (None, None, 7, 7):
        check(lambda x: seen.append(x) or x, points=1, seed=seed)
    first = seen[::2]  # each check calls its first case twice
    assert not torch.equal(first[0], first[1]) and torch.equal(first[2], first[3])


def test_exercises_whose_inputs_have_one_shape_are_not_given_the_same_numbers():
    case = explicit_case("drawn", RandomArg(lambda g: torch.randn(3, generator=g)))
    seen = []
    for exercise in ("cheap", "limited"):
        Check(lambda x: x, [case], exercise=exercise)(lambda x: seen.append(x) or x, points=1, seed=7)
    assert not torch.isin(seen[0], seen[-1]).any()


def test_what_is_kept_between_calls_is_found():
    check = Check(
        lambda x: 2 * x, [explicit_case("drawn", RandomArg(lambda g: torch.randn(3, generator=g)))], exercise="double"
    )
    kept = {}
    score = check(lambda x: kept.setdefault(x.shape, 2 * x), points=4)
    assert not score.full and "is something kept from one call to the next?" in score.message.lower()
    assert [item.label for item in score.items if not item.passed] == ["a second call, same sizes, other numbers"]
    assert check(lambda x: 2 * x, points=4).full


def test_whole_numbers_stay_whole():
    check = Check(
        lambda x: x.argsort(),
        [explicit_case("drawn", RandomArg(lambda g: torch.randn(3, generator=g)))],
        exercise="order",
    )
    assert check(lambda x: x.argsort().to(torch.int32), points=1).full
    assert "torch.int64 is expected" in check(lambda x: x.argsort().float(), points=1).message


@pytest.mark.parametrize("few", [torch.int16, torch.int8, torch.uint8], ids=str)
def test_whole_numbers_have_32_bits_at_least(few):
    check = Check(lambda x: x.argsort(), [explicit_case("drawn", normal(3))], exercise="order")
    assert (
        f"dtype {few}, and torch.int64 or torch.int32 is expected"
        in check(lambda x: x.argsort().to(few), points=1).message
    )
    assert agree(torch.ones(2, dtype=few), torch.ones(2, dtype=few), (0, 0)) and agree(
        torch.ones(2, dtype=few), torch.ones(2), (0, 0)
    )


def test_an_input_that_is_changed_is_named_by_its_kind():
    check = Check(lambda x, order: x[order], [explicit_case("drawn", normal(3), [2, 0, 1])], exercise="picked")
    popped = check(lambda x, order: torch.stack([x[order.pop(0)] for _ in range(3)]), points=1)
    added = check(lambda x, order: x.add_(1)[order] - 1, points=1)
    assert "`pop`" in popped.message and "end in `_`" in added.message and "`pop`" not in added.message


def test_float64_is_not_computed_in_float32():
    check = Check(lambda x: x / 3, [explicit_case("float64", normal(3, dtype=torch.float64))], exercise="third")
    assert check(lambda x: x * (1 / 3), points=1).full and not check(lambda x: x.float() / 3, points=1).full


def test_agree_tells_structures_apart():
    within = (1e-4, 1e-5)
    assert agree([1, 2.0], (1, 2), within) and agree(torch.tensor(1.0), 1, within)
    assert not agree((1, 2, 3), (1, 2), within) and not agree(True, 1, within) and not agree("a", "b", within)
    assert not agree(torch.ones(2), torch.ones(2, dtype=torch.bool), within)
    assert agree({"a": 1}, {"a": 1.0}, within) and not agree({"b": 1}, {"a": 1}, within)
    assert "Value 2 of 2" in difference((1, 3), (1, 2))
    assert "'b' is off. You have 3" in difference(
        {"a": 1, "b": 3}, {"a": 1, "b": 2}
    ) and "'b' is missing" in difference({"a": 1}, {"a": 1, "b": 2})
    assert not agree(10**400, 10**3, within) and agree(10**30, 1e30, within) and difference(10**400, 1000)


def test_what_a_check_tells_is_no_answer_of_the_students():
    told, right = (1.0, Message("3 tokens are lost")), (1.0, Message("no token is lost"))
    assert difference(told, right) == "3 tokens are lost."
    assert difference((1.0, "b"), (1.0, "c")) == "Value 1 is right. Value 2 of 2: You answered 'b'."


def test_a_check_counts_where_something_asks_for_it():
    slip, mark = Misconception("none", torch.zeros_like, "…"), lambda seen: bool(seen.operations)
    assert not Check(torch.relu, [random_case(n=2)], [slip], exercise="relu").counts
    assert Check(torch.relu, [random_case(n=2, max_operations=3)], exercise="relu").counts
    assert Check(torch.relu, [random_case(n=2)], [replace(slip, cost=mark)], exercise="relu").counts
    with pytest.raises(ValueError, match="counts=True"):
        Check(torch.relu, [random_case(n=2)], exercise="relu")(
            torch.relu, points=1, cases=[random_case(n=2, max_operations=3)]
        )


def test_a_limit_is_not_accused_where_values_are_off():
    def shifted(x):
        return x + 1

    check = Check(lambda x: x, [explicit_case("counted", torch.ones(2), max_operations=5)], exercise="same")
    assert [item.label for item in check(shifted, points=1).items if item.counts] == ["counted (values are off)"]
