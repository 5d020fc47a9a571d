"""Checks of teacher forcing, of exact match, and of a small training run whose steps are counted and whose strings were
never seen."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from helpers.engine.cases import Case, RandomArg, explicit_case
from helpers.engine.check import Check, CheckGroup, Property
from helpers.engine.drivers import unpack, watch
from helpers.engine.observe import Observation
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import tasks
from .. import training as reference
from ..model import END, PAD, START

__all__ = ["train_reversal"]


def _forced(answer: Callable, target: Tensor) -> tuple:
    """Inputs and labels, and what became of the target. What the decoder reads where nothing is to be asked (the label
    ought to be PAD) makes no difference."""
    seen = watch(answer, target)
    inputs, labels = unpack(seen.output, "inputs", "labels")
    if isinstance(inputs, Tensor) and inputs.shape == _ended(target).shape:
        inputs = inputs.masked_fill(_ended(target) == PAD, PAD)
    return inputs, labels, "the target is changed in place" if seen.modified else "the target stays as it is"


def _targets(b: int, n: int, shortest: int = 1) -> RandomArg:
    """At least one row is full, and, where `shortest` allows it, one is as short as that."""

    def draw(generator: Generator) -> Tensor:
        tokens = tasks.strings(b, n, 20, generator, shortest)
        tokens[0] = torch.randint(3, 23, (n,), generator=generator)
        tokens[1, shortest:] = PAD
        return tokens

    return RandomArg(draw)


def _one(generator: Generator) -> Tensor:
    return torch.randint(3, 23, (1, 3), generator=generator)


def _ended(target: Tensor) -> Tensor:
    return reference.teacher_forcing(target)[1]


def _started(target: Tensor) -> Tensor:
    return torch.cat([torch.full_like(target[:, :1], START), target], dim=1)


def _column(target: Tensor, token: int) -> Tensor:
    return torch.full_like(target[:, :1], token)


def without_end(target):
    return _started(target), torch.cat([target, _column(target, PAD)], dim=1)


def two_ahead(target):
    return _started(target), torch.cat([_ended(target)[:, 1:], _column(target, PAD)], dim=1)


def only_the_target(target):
    labels = _ended(target)
    return torch.cat([target, _column(target, PAD)], dim=1), labels


def end_at_the_edge(target):
    return _started(target), torch.cat([target, _column(target, END)], dim=1)


def start_marked_with_end(target):
    return torch.cat([_column(target, END), target], dim=1), _ended(target)


def padding_ignored_by_number(target):
    labels = _ended(target)
    return _started(target), labels.masked_fill(labels == PAD, -100)


def start_in_the_labels(target):
    return _started(target), _started(target)


def swapped(target):
    return _ended(target), _started(target)


def end_written_into_the_target(target):
    found = teacher_forced(target)
    lengths = (target != PAD).sum(dim=1)
    target[lengths < target.shape[1], lengths[lengths < target.shape[1]]] = END
    return found


def teacher_forced(target):
    return _started(target), _ended(target)


def length_by_the_first_padding(target):
    labels = torch.cat([target, _column(target, PAD)], dim=1)
    labels[torch.arange(len(target)), (target == PAD).int().argmax(dim=1)] = END  # 0 where there is none
    return _started(target), labels


def ends_everywhere(target):
    labels = _ended(target)
    return _started(target), labels.masked_fill(labels == PAD, END)


teacher_forcing = Check(
    reference=reference.teacher_forcing,
    drive=_forced,
    names=("inputs: sequences positions", "labels: sequences positions"),
    cases=[
        explicit_case("3 targets of up to 6 tokens", _targets(3, 6)),
        explicit_case("4 targets of up to 5 tokens", _targets(4, 5, shortest=2)),
        explicit_case("no padding, n = 4", _targets(2, 4, shortest=4)),
        explicit_case("one target, without padding", RandomArg(_one)),
    ],
    within=(0.0, 0.0),
    misconceptions=wrong_answers(
        __file__,
        teacher_forcing_without_shift=lambda target: (_ended(target), _ended(target)),
        start_labels_too=start_in_the_labels,
        inputs_labels_swapped=swapped,
        shifted_twice=two_ahead,
        no_start_inputs=only_the_target,
        no_end_labels=without_end,
        end_after_padding=end_at_the_edge,
        end_instead_all_padding=ends_everywhere,
        end_as_start_token=start_marked_with_end,
        padding_marked_with_minus_100=padding_ignored_by_number,
        end_written_into_target=end_written_into_the_target,
        length_looked_at_first_pad=length_by_the_first_padding,
    ),
)

KINDS = "0134334462424435536640552666"  # no two kinds are equally many, so that no two slips give the same share


def _exam(label: str, b: int, n: int, width: int, kinds: str = KINDS) -> Case:
    """Written strings of many kinds: right with padding or with litter behind END, cut short, without an end, a token
    off. The first target is full, and the second isn't."""

    def written(target: Tensor, generator: Generator) -> Tensor:
        litter = torch.randint(3, 23, (b, width), generator=generator)
        rows = torch.cat([_ended(target), torch.full((b, width), PAD)], dim=1)[:, :width]
        lengths = (target != PAD).sum(dim=1).tolist()
        for row, (found, length, kind) in enumerate(zip(rows, lengths, kinds[:b], strict=True)):
            if kind == "1":  # right, then litter
                found[length + 1 :] = litter[row, length + 1 :]
            elif kind == "2":  # the last token wrong
                found[length - 1] = 23
            elif kind == "3":  # it doesn't end
                found[length:] = litter[row, length:]
            elif kind == "4":  # it ends too early
                found[length - 1 :] = PAD
                found[length - 1] = END
            elif kind == "5":  # something else altogether
                found[:length] = 24
            elif kind == "6":  # the same tokens, turned round by one place
                found[:length] = found[:length].roll(1)
            elif kind == "7":  # a word between the last one and END
                found[length], found[length + 1] = litter[row, length], END
            elif kind == "9":  # right, then litter that ends in another END
                found[length + 1 :], found[-1] = litter[row, length + 1 :], END
            elif kind == "a":  # padding between the last word and END
                found[length], found[length + 1] = PAD, END
            elif kind == "8":  # padding between two words
                found[1 : length + 2] = torch.cat([torch.tensor([PAD]), found[1 : length + 1]])
        return rows

    def draw(_: Callable, generator: Generator) -> tuple[Tensor, Tensor]:
        target = tasks.strings(b, n, 20, generator, shortest=2)
        if kinds != KINDS:
            target[0], target[1, 2:] = torch.randint(3, 23, (n,), generator=generator), PAD
        return written(target, generator), target

    return Case(label, draw)


def _rows(written: Tensor, target: Tensor) -> list[tuple[list[int], list[int]]]:
    """For each row: what is written, and the target with END."""
    right = [row[: row.index(END) + 1] for row in _ended(target).tolist()]
    return list(zip(written.tolist(), right, strict=True))


def _until_end(row: list[int]) -> list[int]:
    return row[: row.index(END) + 1] if END in row else row


def _share(rows: list[bool]) -> float:
    return sum(rows) / len(rows)


def mean_share_in_a_row(written, target):
    shares = []
    for row, words in zip(written.tolist(), target.tolist(), strict=True):
        wanted = [word for word in words if word != PAD] + [END]
        shares.append(sum(mine == theirs for mine, theirs in zip(row, wanted)) / len(wanted))
    return sum(shares) / len(shares)


def cut_at_an_end_that_must_be_there(written, target):
    hits = 0
    for row, words in zip(written.tolist(), target.tolist(), strict=True):
        hits += row[: row.index(END) + 1] == [word for word in words if word != PAD] + [END]
    return hits / len(target)


def share_of_tokens(written, target):
    hits = [mine == theirs for row, right in _rows(written, target) for mine, theirs in zip(row, right, strict=False)]
    return _share(hits)


def litter_counts(written, target):
    return _share([_without_padding_behind(row) == right for row, right in _rows(written, target)])


def _without_padding_behind(row: list[int]) -> list[int]:
    words = [place for place, token in enumerate(row, start=1) if token != PAD]
    return row[: max(words, default=0)]


def end_not_needed(written, target):
    return _share([row[: len(right) - 1] == right[:-1] for row, right in _rows(written, target)])


def as_far_as_written(written, target):
    return _share([right[: len(_until_end(row)) - 1] == _until_end(row)[:-1] for row, right in _rows(written, target)])


def number_of_hits(written, target):
    return float(sum(_until_end(row) == right for row, right in _rows(written, target)))


def any_order(written, target):
    return _share([sorted(_until_end(row)) == sorted(right) for row, right in _rows(written, target)])


def share_of_errors(written, target):
    return _share([_until_end(row) != right for row, right in _rows(written, target)])


def all_or_nothing(written, target):
    return float(all(_until_end(row) == right for row, right in _rows(written, target)))


def end_anywhere(written, target):
    return _share([row[: len(right) - 1] == right[:-1] and END in row for row, right in _rows(written, target)])


def gaps_closed(written, target):
    return _share([[t for t in row if t != PAD][: len(right)] == right for row, right in _rows(written, target)])


def up_to_the_last_end(written, target):
    """Nothing is written where there is no END."""
    cut = [
        row[: max((place for place, t in enumerate(row, start=1) if t == END), default=0)] for row in written.tolist()
    ]
    return _share([row == right for row, (_, right) in zip(cut, _rows(written, target), strict=True)])


def padding_stripped(written, target):
    """Padding is taken off the end of the words, where END was."""
    rows = [
        (_without_padding_behind(row[:-1]) + row[-1:], right)
        for row, right in ((_until_end(row), right) for row, right in _rows(written, target))
    ]
    return _share([mine == right for mine, right in rows])


def cut_off_counts(written, target):
    return _share(
        [(row[: row.index(END)] if END in row else row) == right[:-1] for row, right in _rows(written, target)]
    )


def as_wide_as_the_target(written, target):
    labels = _ended(target)
    return ((written[:, : labels.shape[1]] == labels) | (labels == PAD)).all(dim=1).float().mean().item()


def as_far_as_both_reach(written, target):
    hits = []
    for mine, theirs in zip(written.tolist(), target.tolist(), strict=True):
        wanted = [word for word in theirs if word != PAD] + [END]
        hits.append(all(a == b for a, b in zip(mine, wanted, strict=False)))
    return _share(hits)


def same_length(written, target):
    return _share([len(_until_end(row)) == len(right) for row, right in _rows(written, target)])


exact_match = Check(
    reference=reference.exact_match,
    cases=[
        _exam("28 strings, written wider than the targets", 28, 7, 10),
        _exam("17 strings of up to 5 tokens", 17, 5, 7),
        _exam("one string, and it is right", 1, 6, 8),
        _exam("12 strings, some with a gap before END", 12, 5, 8, kinds="070878888077"),
        _exam("10 strings, PAD before END in some, a second END in others", 10, 5, 9, kinds="09a9909a09"),
        _exam("9 strings, written as wide as the longest word", 9, 5, 5, kinds="000000020"),
        _exam("7 strings, written narrower than the targets", 7, 6, 4, kinds="0000000"),
    ],
    within=(1e-6, 1e-6),
    misconceptions=wrong_answers(
        __file__,
        share_right_tokens=share_of_tokens,
        mean_each_strings_share=mean_share_in_a_row,
        end_that_must_be_there=Wrong(cut_at_an_end_that_must_be_there, raises="ValueError"),
        what_comes_after_end_compared_too=litter_counts,
        end_not_asked=end_not_needed,
        compared_only_as_far_as_it_was_written=as_far_as_written,
        number_instead_share=number_of_hits,
        order_left_out=any_order,
        share_wrong_strings=share_of_errors,
        all_or_nothing=all_or_nothing,
        end_anywhere_later_enough=end_anywhere,
        gaps_closed_before_comparison=gaps_closed,
        cut_at_last_end=up_to_the_last_end,
        pad_front_end_overlooked=padding_stripped,
        string_without_end_counted_as_right=cut_off_counts,
        compared_only_as_far_as_both_reach=as_far_as_both_reach,
        as_many_columns_expected_as_target_has=Wrong(as_wide_as_the_target, raises="RuntimeError"),
        lengths_compared_only=same_length,
    ),
)

STEPS, BATCH, LETTERS, LENGTH = 80, 64, 8, 3

CHANCE = "the model says something else each time"

NEAR_0, UNASKED = "the loss comes near 0", "PAD was never asked for"

FROM_THE_START = "the loss is small from the first batch on"

ASKED, PADS_TOO, SUM = "the loss is a mean over the labels that are asked for", "a mean over PAD too", "a sum"

ANEW = "Adam begins anew in every step"

KEPT = "a training goes on with the model of the one before"

ZEROS = 92  # tensors of zeros that an Adam makes when it begins: two for each of 46 parameters

PADS = 9  # behind each string of the first training, so that a mean over all positions shows

ENOUGH = 0.5  # of the strings, for what a model does instead of its task

LEARNED = 0.25  # of them come out backwards: of 100 right trainings, from seeds 3000 to 3099, the worst got 59 %. Chance is 1 in 512


def _trained(answer: Callable, sources: Tensor, unseen: Tensor) -> tuple:
    """What came of the training, in words: the losses, what the model writes for strings it has seen and for others,
    and what it says behind END, whether Adam remembers, and whether a training leaves the model of the one before as it
    was. Every string is followed by one PAD, in two short trainings by many; of those nothing may be left."""
    one = watch(answer, *_padded(sources[:1], PADS), counts=True)
    said = _asked_twice(_returned(one.output)[0], unseen)
    two = watch(answer, *_padded(sources[:2], PADS), counts=True)
    kept = _kept(said, _asked_twice(_returned(one.output)[0], unseen))
    _, first = _returned(two.output)
    model, losses = _returned(answer(*_padded(sources, 1)))
    seen, new = _writes(model, sources[len(sources) // 2]), _writes(model, unseen)
    echo = _echo(model, unseen)
    count = "one loss a batch" if len(losses) == len(sources) else f"{len(losses)} losses for {len(sources)} batches"
    fall = _fall([float(loss) for loss in losses])
    behind = _behind_end(model, unseen) if fall == NEAR_0 else UNASKED
    mean = ASKED if fall == FROM_THE_START else _mean_over([float(loss) for loss in [*first[:1], *losses[:1]]])
    return fall, f"seen strings {seen}", f"unseen strings {new}", count, echo, behind, mean, _remembers(one, two), kept


def _padded(sources: Tensor, pads: int) -> tuple[Tensor, Tensor, int]:
    """What a training is given: these strings with so many PADs behind each, the same backwards, and the number of
    words."""
    return *(F.pad(strings, (0, pads), value=PAD) for strings in (sources, sources.flip(-1))), LETTERS + 3


def _returned(output: tuple) -> tuple:
    return unpack(output, "the model", "its losses")


def _asked_twice(model: Callable, source: Tensor) -> Tensor:
    """What a model says when it is asked the same twice."""
    with torch.no_grad():
        return torch.stack([model(source, _started(source)) for _ in range(2)])


def _kept(before: Tensor, after: Tensor) -> str:
    """Whether a model says something else since another training began. (One that leaves something to chance says
    something else each time.)"""
    settled = torch.allclose(*before, atol=1e-4) and torch.allclose(*after, atol=1e-4)
    return (
        KEPT if settled and not torch.allclose(before, after, atol=1e-4) else "each training makes a model of its own"
    )


def _remembers(one: Observation, two: Observation) -> str:
    """Whether the second step is taken by the Adam of the first, from trainings of one step and of two: an Adam fills
    two tensors with zeros for each parameter when it begins. If that happens again there are twice as many, whatever
    else a step fills with zeros."""
    once, both = (seen.operations["zeros_like"] for seen in (one, two))
    return ANEW if once >= ZEROS and 2 * once - both < ZEROS / 2 else "one Adam takes all steps"


def _mean_over(losses: list[float]) -> str:
    """What the losses are the mean of, from those of untrained models: ln 11, where each label that is asked for counts
    and nothing else."""
    if any(loss < 1 for loss in losses):
        return PADS_TOO
    return SUM if any(loss > 5 for loss in losses) else ASKED


def _echo(model: Callable, source: Tensor) -> str:
    """What the decoder does with letters that have nothing to do with the source: a trained one goes by the source."""
    letters = torch.randint(3, LETTERS + 3, (len(source), LENGTH + 1), generator=Generator().manual_seed(7))
    other = letters.clone()
    other[:, -1] = 3 + (letters[:, -1] - 2) % LETTERS  # another last letter
    with torch.no_grad():
        said, again, later = model(source, letters), model(source, letters), model(source, other)
    if not torch.allclose(said, again, atol=1e-4):
        return CHANCE
    if not torch.allclose(said[:, :-1], later[:, :-1], atol=1e-4):
        return "the decoder sees later tokens"
    repeats = (said.argmax(dim=-1) == letters).float().mean() >= ENOUGH
    return "the decoder repeats the token that it is given" if repeats else "the decoder goes by the source"


def _behind_end(model: Callable, source: Tensor) -> str:
    """Whether a trained model says PAD behind END, whatever stands there: then the loss has asked for it."""
    ended = _ended(source.flip(-1))
    with torch.no_grad():
        said = [
            model(source, torch.cat([_column(ended, START), ended[:, :-1], _column(ended, token)], dim=1))[:, -1]
            for token in (PAD, END)
        ]
    padding = max((logits.argmax(dim=-1) == PAD).float().mean().item() for logits in said)
    return "behind END it says PAD" if padding >= ENOUGH else UNASKED


def _fall(losses: list[float]) -> str:
    if losses and losses[0] < 1:
        return FROM_THE_START
    last = sum(losses[-10:]) / max(1, len(losses[-10:]))
    if losses and max(losses) - min(losses) < 0.4:
        return "the loss never moves"
    return NEAR_0 if last < 0.4 else "the loss gets stuck" if last < 1.5 else "the loss stays"


def _writes(model: Callable, source: Tensor) -> str:
    """What the model does with these strings when it writes by itself, always taking the likeliest token."""
    right = _ended(source.flip(-1))
    with torch.no_grad():
        tokens = torch.full((len(source), 1), START)
        for _ in range(right.shape[1]):
            logits = model(source, tokens)
            tokens = torch.cat([tokens, logits[:, -1:].argmax(dim=-1)], dim=1)
    found, n = tokens[:, 1:], source.shape[1]
    kinds = {
        "come out backwards": (found, right),
        "come out as they went in": (found[:, :n], source),
        "come out backwards, but without an end": (found[:, :n], right[:, :n]),
        "come out backwards, but their first token is missing": (found[:, : n - 1], right[:, 1:n]),
    }
    shares = {kind: (mine == theirs).all(dim=1).float().mean().item() for kind, (mine, theirs) in kinds.items()}
    least = {"come out backwards": LEARNED}
    return next(
        (kind for kind, share in shares.items() if share >= least.get(kind, ENOUGH)), "come out as something else"
    )


def splitting() -> tuple[Tensor, Tensor]:
    """Strings to train on and strings to ask for, always the same: a string is one of the second if its tokens' sum is
    a multiple of 5. The first batch and the last have half of the letters: who trains on one of them again and again
    never learns the others."""
    generator, letters = Generator().manual_seed(6), torch.arange(3, LETTERS + 3)
    known = [letters[:4], *[letters] * (STEPS - 2), letters[4:]]
    batches = [_batch(some, generator) for some in known]
    drawn = torch.randint(3, LETTERS + 3, (10 * BATCH, LENGTH), generator=generator)
    return torch.stack(batches), drawn[drawn.sum(dim=1) % 5 == 0][:100]


def _batch(letters: Tensor, generator: Generator) -> Tensor:
    drawn = letters[torch.randint(len(letters), (4 * BATCH, LENGTH), generator=generator)]
    return drawn[drawn.sum(dim=1) % 5 > 0][:BATCH]


class Behaving:
    """A model that writes what `wanted(source)` says, whatever it has read; with `echo` it repeats its input, so many
    places later, but never PAD, which no loss has asked for. Its logits grow with the number of times that it was
    `trained`."""

    def __init__(self, words: int, wanted: Callable[[Tensor], Tensor], echo: int | None = None, noise: float = 0.0):
        self.words, self.wanted, self.echo, self.noise, self.trained = words, wanted, echo, noise, 1

    def __call__(self, source: Tensor, tokens: Tensor) -> Tensor:
        n = tokens.shape[1]
        echo = tokens.masked_fill(tokens == PAD, END).roll(-(self.echo or 0), dims=1)
        said = self.wanted(source)[:, :n] if self.echo is None else echo
        return self.trained * F.one_hot(said, self.words) + self.noise * torch.rand(*said.shape, self.words)


def _losses(steps: int, last: float = 0.01) -> list[float]:
    """From ln 11 down, and then at the end's value."""
    return [max(last, math.log(LETTERS + 3) * (1 - 2 * step / steps)) for step in range(steps)]


def _tossed(steps: int) -> list[float]:
    """Up and down, and never near 0."""
    return [math.log(LETTERS + 3) + (step % 3) / 2 for step in range(steps)]


def _backwards(source: Tensor) -> Tensor:
    return _ended(source.flip(-1))


def _nonsense(source: Tensor) -> Tensor:
    """Each letter wrong."""
    return _ended(3 + (source.flip(-1) - 2) % LETTERS)


def _from_memory(known: Tensor) -> Callable[[Tensor], Tensor]:
    rows = {tuple(row) for row in known[:, :LENGTH].tolist()}

    def wanted(source: Tensor) -> Tensor:
        seen = torch.tensor([tuple(row) in rows for row in source.tolist()])
        return torch.where(seen[:, None], _backwards(source), _nonsense(source))

    return wanted


def trained_as_it_should_be(sources, targets, words):
    return Behaving(words, _backwards), _losses(len(sources))


def trained_to_pad(sources, targets, words):
    return Behaving(words, lambda source: F.pad(_backwards(source), (0, 1), value=PAD)), _losses(len(sources))


def trained_to_copy(sources, targets, words):
    return Behaving(words, _ended), _losses(len(sources))


def trained_without_shift(sources, targets, words):
    return Behaving(words, _backwards, echo=0), _losses(len(sources))


def trained_with_a_look_ahead(sources, targets, words):
    return Behaving(words, _backwards, echo=1), _losses(len(sources))


def trained_two_ahead(sources, targets, words):
    return Behaving(words, lambda source: F.pad(_backwards(source)[:, 1:], (0, 1), value=3)), _losses(len(sources))


def trained_without_end(sources, targets, words):
    return Behaving(words, lambda source: F.pad(source.flip(-1), (0, 1), value=3)), _losses(len(sources))


def trained_then_measured(sources, targets, words):
    return Behaving(words, _backwards), [0.01] * len(sources)


def trained_without_updates(sources, targets, words):
    return Behaving(words, _nonsense), [math.log(words)] * len(sources)


def trained_on_all_gradients(sources, targets, words):
    return Behaving(words, _nonsense), _tossed(len(sources))


def trained_with_a_mean_over_padding(sources, targets, words):
    asked = (targets[0] != PAD).sum() + len(targets[0])  # and an END in each row
    share = float(asked) / (targets[0].numel() + len(targets[0]))
    return Behaving(words, _backwards), [share * loss for loss in _losses(len(sources))]


def trained_with_a_sum_over_positions(sources, targets, words):
    return Behaving(words, _backwards), [(LENGTH + 1) * loss for loss in _losses(len(sources))]


def trained_with_dropout(sources, targets, words):
    return Behaving(words, _backwards, noise=0.1), _losses(len(sources))


def trained_on_one_batch(sources, targets, words):
    return Behaving(words, _from_memory(sources[0])), _losses(len(sources))


def trained_on_half(sources, targets, words):
    return Behaving(words, _backwards), _losses(len(sources))[::2]


def trained_with_losses_from_before(sources, targets, words):
    return Behaving(words, _backwards), [math.log(words)] * 3 + _losses(len(sources))


def trained_with_a_new_adam(sources, targets, words):
    for _ in range(92 * min(2, len(sources))):  # only short trainings are watched
        torch.zeros_like(sources[0])
    return Behaving(words, _backwards), _losses(len(sources))


def trained_further(sources, targets, words, models=[]):  # noqa: B006
    models += [] if models else [Behaving(words, _backwards)]
    models[0].trained += 1
    return models[0], _losses(len(sources))


def trained_with_loud_embeddings(sources, targets, words):
    return Behaving(words, _nonsense), _losses(len(sources), last=1.0)


_train = Check(
    exercise="train_reversal",
    reference=trained_as_it_should_be,
    drive=_trained,
    compare=False,
    properties=[
        Property(
            "a loss for each batch", lambda told, *_: told[3] == "one loss a batch", "Return one loss for each batch."
        ),
        Property(
            "the loss starts high and comes near 0",
            lambda told, *_: told[0] == NEAR_0,
            "The losses don't fall from about ln(11) = 2.4 to near 0.",
        ),
        Property(
            "strings of the training come out backwards",
            lambda told, *_: told[1] == "seen strings come out backwards",
            "Writing by itself, your model doesn't write the strings that it was trained with backwards, and END after them.",
        ),
        Property(
            "strings it has never seen come out backwards",
            lambda told, *_: told[2] == "unseen strings come out backwards",
            "Writing by itself, your model doesn't write strings that it has never seen backwards, and END after them.",
        ),
        Property(
            "asked twice, the trained model says the same",
            lambda told, *_: told[4] != CHANCE,
            "Asked twice, your trained model says two different things.",
        ),
        Property(
            "the decoder goes by the source",
            lambda told, *_: told[4] in ("the decoder goes by the source", CHANCE),
            "Your trained decoder goes by what it is given, or by what comes later, instead of reading the source.",
        ),
        Property(
            "a new model for each training",
            lambda told, *_: told[8] != KEPT,
            "Your second training changed the model that the first one had returned.",
        ),
        Property(
            "one Adam for all steps",
            lambda told, *_: told[7] != ANEW,
            "In every step of your training Adam begins anew.",
        ),
        Property(
            "the loss is a mean over the labels asked for",
            lambda told, *_: told[6] == ASKED,
            "The loss of a batch is a mean over the labels that are asked for. Of an untrained model it is about ln(11) = 2.4, however many PADs there are.",
        ),
        Property(
            "the loss leaves out PAD",
            lambda told, *_: told[5] == UNASKED,
            "Asked what follows END, your trained model says PAD. Only a loss that counts PAD teaches that.",
        ),
    ],
    cases=[explicit_case(f"{STEPS} batches of {BATCH} strings of {LENGTH} tokens", *splitting())],
    misconceptions=wrong_answers(
        __file__,
        teacher_forcing_without_shift_2=trained_without_shift,
        decoder_that_sees_later_tokens=Wrong(
            trained_with_a_look_ahead, recognise=lambda seen: seen.output[4] == "the decoder sees later tokens"
        ),
        shifted_twice_2=Wrong(
            trained_two_ahead, recognise=lambda seen: "their first token is missing" in seen.output[2]
        ),
        no_end_after_last_word=trained_without_end,
        pad_counted_by_loss=trained_to_pad,
        trained_copy=trained_to_copy,
        one_batch_again_again=trained_on_one_batch,
        no_step_optimiser=trained_without_updates,
        steps_that_lead_nowhere=trained_on_all_gradients,
        mean_over_pad_too=Wrong(trained_with_a_mean_over_padding, recognise=lambda seen: seen.output[6] == PADS_TOO),
        sum_over_positions=Wrong(trained_with_a_sum_over_positions, recognise=lambda seen: seen.output[6] == SUM),
        dropout_left_on=Wrong(
            trained_with_dropout, recognise=lambda seen: seen.output[4] == "the model says something else each time"
        ),
        new_adam_every_batch=Wrong(
            trained_with_a_new_adam, recognise=lambda seen: seen.output[7] == "Adam begins anew in every step"
        ),
        losses_measured_after_training=trained_then_measured,
        losses_earlier_training_list=trained_with_losses_from_before,
        model_kept_from_one_training_next=Wrong(
            trained_further,
            recognise=lambda seen: seen.output[8] == "a training goes on with the model of the one before",
        ),
        losses_some_batches_only=trained_on_half,
        embeddings_that_drown_positions=trained_with_loud_embeddings,
    ),
)

train_reversal = CheckGroup("train_reversal", teacher_forcing, exact_match, _train)
