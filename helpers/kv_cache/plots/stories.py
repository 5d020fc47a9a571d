"""The end of unit 08: a trained model writes with a student's cache, step and loop, and without a cache."""

import textwrap
import time
from collections.abc import Callable, Sequence

import matplotlib.pyplot as plt
import torch
from jaxtyping import Int
from torch import Tensor

from helpers.style import KEY, QUERY, show, waits_for

from ..generation import CountedModel, generate_without_cache

__all__ = ["tell_stories"]

CARDS = "Do the cards of your cache, your step and your loop show all points?"


@waits_for("KVCache", "decode_step", "generate_cached")
def tell_stories(
    model: Callable, generate: Callable, whole: Callable, vocabulary: Sequence[str], prompts: Sequence[str], n: int
) -> None:
    """Let `model(tokens, start, cache)` go on with the prompts for n words, by `generate` and without a cache. Prints
    the stories, and draws what both ways cost; says in one line where the words aren't those of `whole(tokens)`, the
    same model without any part of a student's. A vocabulary that is one string holds characters in place of words."""
    parts, between, units = (list, "", "characters") if isinstance(vocabulary, str) else (str.split, " ", "words")
    tokens = torch.tensor([[0, *map(vocabulary.index, parts(prompt))] for prompt in prompts])
    expected = generate_without_cache(lambda tokens, *_: (whole(tokens), None), tokens, n)
    runs = {}
    for name, write in (("without a cache", generate_without_cache), ("with your cache", generate)):
        try:
            write(model, tokens, 2)  # the first calls of a process are slow
            words, *runs[name] = _measured(write, model, tokens, n)
        except NotImplementedError:
            raise
        except Exception as error:
            print(f"Written {name}, your parts stop with an error: {type(error).__name__}: {error} {CARDS}")
            return
        if not torch.equal(words, expected):
            print(f"Written {name}, the words are not those of the model. {CARDS}")
            return
    for row in torch.cat([tokens, expected], dim=1).tolist()[:2]:
        print(textwrap.fill(between.join(_story(row, vocabulary)), 96))
    print(f"\nWith your cache and without: the same {expected.numel()} {units}.")
    _draw(runs, expected.numel(), units)


def _measured(
    write: Callable, model: Callable, tokens: Int[Tensor, "b p"], n: int
) -> tuple[Int[Tensor, "b n"], int, float]:
    """The words, the positions that the model had to compute, and the seconds of the quickest of three times."""
    seconds = []
    for _ in range(3):
        counted, start = CountedModel(model), time.perf_counter()
        words = write(counted, tokens, n)
        seconds.append(time.perf_counter() - start)
    return words, counted.positions, min(seconds)


def _story(row: Sequence[int], vocabulary: Sequence[str]) -> list[str]:
    """The words between the end of the last story, token 0, and the next end."""
    end = row.index(0, 1) if 0 in row[1:] else len(row)
    return [vocabulary[token] for token in row[1:end]]


def _draw(runs: dict[str, list], written: int, units: str) -> None:
    figure, axes = plt.subplots(1, 2, figsize=(9, 1.6), sharey=True)
    titles = "positions that the model computed", f"{units} per second"
    for axis, title, sizes in zip(axes, titles, zip(*((found, written / seconds) for found, seconds in runs.values()))):
        axis.bar_label(
            axis.barh(list(runs), sizes, color=(KEY, QUERY)), [f" {size:,.0f}" for size in sizes], fontsize=9
        )
        axis.set(title=title, xticks=[], xlim=(0, 1.2 * max(sizes)))
        axis.spines[["top", "right", "bottom"]].set_visible(False)
        axis.title.set_fontsize(10)
    axes[0].invert_yaxis()
    said = [
        f"{name}: {found:,} positions, {written / spent:,.0f} {units} per second"
        for name, (found, spent) in runs.items()
    ]
    show(f"What both ways of writing cost. {'; '.join(said)}.")
