"""What a card says of an answer that no known slip explains: where it stopped, what it never read, and the like."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from helpers.engine.cases import explicit_case, random_case
from helpers.engine.check import Check
from helpers.engine.misconceptions import Misconception
from helpers.engine.requirements import Behaviour
from helpers.engine.score import NOT_ATTEMPTED


def attend(q: Float[Tensor, "n d"], k: Float[Tensor, "m d"], v: Float[Tensor, "m d_v"]) -> Float[Tensor, "n d_v"]:
    return (q @ k.mT).softmax(-1) @ v


def counts(n: int, d: int) -> tuple[int, int]:
    return 6 * n * d, n * n + d


TWICE = Misconception("twice", lambda q, k, v: (q @ k.mT).softmax(-2) @ v, "Along the keys.")
ATTENTION = Check(attend, [random_case(n=4, m=6, d=5, d_v=3), random_case(n=3, m=5, d=4, d_v=2)], [TWICE])
HALVED = Misconception("halved", lambda n, d: (3 * n * d, n * n + d), "Two each.")
NO_SQUARE = Misconception("no square", lambda n, d: (6 * n * d, n + d), "All pairs.")
COUNTS = Check(counts, [random_case(n=n, d=d) for n, d in ((3, 5), (7, 2), (4, 9))], [HALVED, NO_SQUARE])


def told(check: Check, answer) -> str:
    score = check(answer, points=2)
    assert score < 2
    return score.message


def test_an_intermediate_result_is_known():
    assert "right as far as it goes: these are the weights" in told(ATTENTION, lambda q, k, v: (q @ k.mT).softmax(-1))
    assert "right as far as it goes: a product of matrices" in told(ATTENTION, lambda q, k, v: q @ k.mT)


def test_a_softmax_at_the_end_is_seen():
    assert "sums to 1 along its last axis" in told(ATTENTION, lambda q, k, v: (q @ k.mT @ v).softmax(-1))


def test_an_input_that_is_never_read_is_named():
    assert "whatever `q` and `k` are. Should it not depend on them" in told(
        ATTENTION, lambda q, k, v: v.mean(0).expand(len(q), -1) * torch.arange(1, 1 + len(q))[:, None]
    )


def test_a_hard_maximum_reads_its_scores_and_a_choice_is_no_softmax():
    message = told(ATTENTION, lambda q, k, v: v[(q @ k.mT).argmax(-1)])
    assert "stays the same" not in message
    assert "sums to 1" not in told(
        ATTENTION, lambda q, k, v: torch.eye(v.shape[-1])[torch.arange(len(q)) % v.shape[-1]]
    )


def test_a_multiple_of_a_slip_is_that_slip():
    assert "Apart from a factor" in told(ATTENTION, lambda q, k, v: TWICE.function(q, k, v) / len(k))


def test_two_slips_in_numbers_are_both_named():
    assert COUNTS(lambda n, d: (3 * n * d, n + d), points=2).diagnosis == "halved, and no square"
    assert COUNTS(lambda n, d: (n * d, 7 * n), points=2).diagnosis is None


def test_values_in_another_order_are_placed():
    def pair(x: Float[Tensor, "n d"]) -> tuple[Float[Tensor, "d"], Float[Tensor, "d"]]:
        return x.sum(0), x.amax(0)

    check = Check(pair, [random_case(n=3, d=4)], names=("sum", "maximum"))
    assert "sum: That is what maximum should be" in told(check, lambda x: pair(x)[::-1])


def test_float32_on_the_way_is_said():
    check = Check(attend, [random_case(n=4, m=6, d=5, d_v=3, dtype=torch.float64)])
    assert "about seven digits only" in told(check, lambda *args: attend(*(x.float() for x in args)).double())


def test_a_class_with_a_stub_left_earns_what_it_does():
    class Both:
        def one(self) -> int:
            return 1

        def two(self) -> int:
            raise NotImplementedError

    check = Check(
        lambda: None,
        [explicit_case("one", "one", 1), explicit_case("two", "two", 2)],
        drive=lambda cls, name, right: getattr(cls(), name)() if isinstance(cls, type) else right,
    )
    score = check(Both, points=2)
    assert score == 1 and "stands there still" in score.message
    Both.one = Both.two
    assert check(Both, points=2).diagnosis == NOT_ATTEMPTED


def test_a_mask_or_a_flag_that_is_never_read_is_named():
    def masked(x: Float[Tensor, "n m"], mask: Bool[Tensor, "n m"], negated: bool) -> Float[Tensor, "n m"]:
        return (-x if negated else x).masked_fill(~mask, -9.0)

    mask = torch.eye(3, dtype=torch.bool)
    check = Check(masked, [explicit_case(f"negated: {flag}", torch.randn(3, 3), mask, flag) for flag in (True, False)])
    assert "whatever `mask` and `negated` are" in told(check, lambda x, mask, negated: x + 1)


def test_where_nothing_is_returned_no_rule_of_the_way_is_spoken_of():
    rule = Behaviour("in one go", lambda seen: seen.output.dim() == 2, "It was made in several goes.")
    check = Check(attend, [random_case(n=4, m=6, d=5, d_v=3)], behaviours=[rule])
    assert "goes" not in told(check, lambda q, k, v: None)


def test_a_factor_is_that_of_the_number_which_the_card_shows():
    def variances(d: int, s: float) -> tuple[float, float]:
        return d * s**4, s**4

    check = Check(variances, [explicit_case(f"s = {s}", d, s) for d, s in ((64, 1.0), (16, 0.5), (100, 3.0))])
    assert "In all 3 cases" not in told(check, lambda d, s: (d * s**2, d**0.5 * s**2))


def test_how_a_number_grows_is_told_where_no_slip_is_known():
    def flops(n: int, d: int) -> int:
        return 2 * n * d * d + n * n

    check = Check(flops, [random_case(n=n, d=d) for n, d in ((3, 5), (7, 2), (4, 9))])
    message = told(check, lambda n, d: 2 * n * d + n**2)
    assert "The right number has a part that grows with `d²`, and yours has none." in message
    message = told(check, lambda n, d: n**4 * d**3 + 7)
    assert "With twice the `n` your number becomes" in message and "With twice the `d`" in message
    assert "In all 3 cases this number is 1/20 times" in told(check, lambda n, d: flops(n, d) / 20)


def test_chance_is_seen_and_a_case_that_goes_well_is_named():
    assert "drawn at random" in told(ATTENTION, lambda q, k, v: attend(q, k, v) + torch.rand(()))
    assert "drawn at random" not in told(ATTENTION, lambda q, k, v: attend(q, k, v) * float("nan"))
    assert "With n = 4, m = 6, d = 5, d_v = 3 nothing is off." in told(
        ATTENTION, lambda q, k, v: attend(q, k, v) if len(q) == 4 else attend(q, k, v) ** 3
    )
