"""Pictures of unit 08: what one more token costs, counted and measured, and how large a cache gets."""

from collections.abc import Callable, Sequence

import matplotlib.pyplot as plt
import torch

from helpers.labels import name_lines
from helpers.style import KEY, OUTPUT, QUERY, VALUE, show, waits_for

from ..generation import TokenCost, cost_with_cache, cost_without_cache, growth, small_model, throughput
from ..published import MODELS

__all__ = ["cache_over_context", "cost_per_token", "counted_steps", "tokens_per_second"]

GB = 1e9


@waits_for("KVCache")
def cost_per_token(cache: Callable, lengths: Sequence[int] = (64, 128, 256, 512, 1024)) -> None:
    """Run a small Transformer with a cache of this class and without any; count FLOPs, take times, plot, and print the
    exponents."""
    model = small_model()
    cost_with_cache(model, cache, lengths[:1])  # the first run of a process is slow: it starts threads
    costs = {"with a cache": cost_with_cache(model, cache, lengths), "without": cost_without_cache(model, lengths)}
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    for (name, found), colour in zip(costs.items(), (QUERY, KEY)):
        axes[0].plot(lengths, [cost.weights_flops for cost in found], "o-", color=colour)
        axes[0].plot(lengths, [cost.attention_flops for cost in found], "o:", color=colour)
        axes[1].plot(lengths, [1000 * cost.seconds for cost in found], "o-", color=colour, label=name)
        axes[2].plot(lengths, [cost.bytes / 1e6 for cost in found], "o-", color=colour)
        _say_growth(name, lengths, found)
    for axis, title in zip(
        axes, ("FLOPs of one token, counted", "milliseconds of one token", "MB: the cache, or the largest tensor")
    ):
        axis.set(xscale="log", yscale="log", xlabel="tokens so far", title=title)
        axis.title.set_fontsize(10)
        axis.set_xticks(lengths, lengths)
        axis.tick_params(which="minor", bottom=False, labelbottom=False)
    for mark, words in (("-", "products with weights"), (":", "attention")):
        axes[0].plot([], [], "o" + mark, color=OUTPUT, label=words)
    figure.legend(ncols=4, frameon=False, loc="outside lower center")
    ends = "; ".join(
        f"{name}: {last.weights_flops + last.attention_flops:,} FLOPs, {1000 * last.seconds:.3g} ms"
        for name, (*_, last) in costs.items()
    )
    show(f"FLOPs, time and memory of one token over the tokens so far, log-log. After {lengths[-1]} tokens {ends}.")


def _say_growth(name: str, lengths: Sequence[int], costs: Sequence[TokenCost]) -> None:
    weights, attention, seconds = (
        growth(lengths, [getattr(cost, what) for cost in costs])
        for what in ("weights_flops", "attention_flops", "seconds")
    )
    print(
        f"{name:>12}: products with weights grow like n^{abs(weights):.2f}, attention like n^{attention:.2f}, seconds "
        f"like n^{seconds:.2f}"
    )


@waits_for("decode_step", "decode_cost")
def counted_steps(step: Callable, cost: Callable, n: int, d: int, h: int) -> None:
    """Step n of one layer with a cache and without: the FLOPs that torch counts and the formula predicts. Ready-made
    attention is taken apart for it: of the fused kernel for CPUs the counter knows nothing."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode  # imports triton where there is one

    x, weights = torch.randn(1, n, d), [torch.randn(d, d) for _ in range(4)]
    empty, old = torch.zeros(1, h, 0, d // h), torch.zeros(1, h, n - 1, d // h)
    inputs = {"with a cache": (x[:, -1:], old, old), "without": (x, empty, empty)}
    for (name, given), predicted in zip(inputs.items(), cost(n, d)):
        with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            step(*given, *weights)
        print(f"{name:>12}: counted {counter.get_total_flops():>11,}, predicted {predicted:>11,}")


@waits_for("KVCache")
def tokens_per_second(cache: Callable, n: int = 256, batches: Sequence[int] = (1, 2, 4, 8, 16, 32)) -> None:
    """Tokens per second against the size of the batch, with a cache of this class and without; the caches' size."""
    model = small_model()
    figure, (speed, memory) = plt.subplots(1, 2, figsize=(9, 3), width_ratios=[1.4, 1])
    for name, kind, colour, sizes in (("with a cache", cache, QUERY, batches), ("without", None, KEY, batches[:5])):
        speed.plot(sizes, throughput(model, kind, n, sizes), "o-", color=colour, label=name)
    speed.set(
        xscale="log", yscale="log", xlabel="sequences in the batch", title=f"tokens per second, {n} tokens behind each"
    )
    speed.set_xticks(batches, batches)
    speed.tick_params(which="minor", bottom=False)
    speed.legend(frameon=False)
    c = model.config
    sizes = [2 * c.layers * b * n * c.h_kv * c.d_h * 4 / 1e6 for b in batches]
    memory.bar_label(memory.bar([str(b) for b in batches], sizes, color=QUERY), fmt="%.1f", fontsize=8)
    memory.set(xlabel="sequences in the batch", yticks=[], title="MB of their caches together")
    show()


@waits_for("cache_bytes")
def cache_over_context(cache_bytes: Callable) -> None:
    """The cache of four published models against the length of the context, one sequence in 16 bits: full as far as a
    model was released for, dotted beyond. A wide line lies below another."""
    lengths = [2**power for power in range(10, 18)]
    figure, axis = plt.subplots(figsize=(10.5, 3.9))
    axis.set(xscale="log", yscale="log", xlim=(900, lengths[-1]), ylim=(0.08, 150))
    ends = []
    for (name, shape), colour, width in zip(MODELS.items(), (OUTPUT, KEY, VALUE, QUERY), (6, 2, 2, 2)):
        kept = [min(n, shape.window or n) for n in lengths]  # a ring holds no more than its window
        per_token, *sizes = (cache_bytes(shape.layers, shape.h, shape.h_kv, shape.d, n, 1, 2) / GB for n in (1, *kept))
        inside = sum(n <= shape.context for n in lengths)
        axis.plot(lengths, sizes, ls=(0, (1, 1)), color=colour, lw=width, alpha=0.45 if width > 2 else 1)
        axis.plot(lengths[:inside], sizes[:inside], "o-", color=colour, lw=width, ms=3 + width, mec="white")
        keeps = f", keeps {shape.window // 1024}k" if shape.window else ""
        ends.append((f"{name}: {per_token * 1e6:.0f} kB per token{keeps}", sizes[-1], colour))
    for memory, device in ((16, "all of a T4: 16 GB"), (80, "all of an H100: 80 GB")):
        axis.axhline(memory, color="black", lw=0.8, ls="--", zorder=0)
        axis.text(1024, memory * 1.1, device, fontsize=8.5)
    axis.text(
        lengths[-1], 0.1, "dotted: longer than the model was released for", ha="right", fontsize=8.5, color=OUTPUT
    )
    axis.set(xlabel="tokens in the cache", ylabel="GB per sequence")
    axis.set_xticks(lengths, [f"{n // 1024}k" for n in lengths])
    axis.set_yticks([0.1, 1, 10, 100], ["0.1", "1", "10", "100"])
    axis.minorticks_off()
    name_lines(axis, lengths[-1], ends, apart=0.085)
    show()
