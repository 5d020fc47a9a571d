"""Checks of what attention costs when it looks at windows, at global tokens, or along the channels."""

from helpers.engine.cases import random_case
from helpers.engine.check import Check, Misconception
from helpers.engine.common_misconceptions import EXACT

from .. import pattern_costs

__all__ = ["channel_attention", "global_tokens_cost", "vit_windows"]


def _windows(side, patch, keys, d, *, n=None, factor=4):
    n = (side // patch) ** 2 if n is None else n
    return factor * n * n * d, factor * n * keys * d


def _sliding_windows(side, patch, window, d):
    per_side, low, high = side // patch, window // 2, (window - 1) // 2
    seen = sum(min(i + high, per_side - 1) - max(i - low, 0) + 1 for i in range(per_side))
    return 4 * per_side**4 * d, 4 * seen**2 * d


vit_windows = Check(
    reference=pattern_costs.vit_windows,
    cases=[
        random_case(side=224, patch=16, window=7, d=96), random_case(side=64, patch=8, window=2, d=5),
        random_case(side=90, patch=3, window=5, d=32), random_case(side=192, patch=2, window=6, d=17),
        random_case(side=9999, patch=11, window=9, d=12_000_000_019, label="large: every digit counts"),
    ],
    within=EXACT,
    misconceptions=[
        Misconception(
            "patches along one side", lambda side, patch, window, d: _windows(side, patch, window**2, d, n=side // patch),
            "Patches lie in rows and columns: (side / patch)² in all.",
        ),
        Misconception(
            "pixels instead of patches", lambda side, patch, window, d: _windows(side, patch, window**2, d, n=side**2),
            "A token is a patch of patch × patch pixels.",
        ),
        Misconception(
            "the window's side instead of its area", lambda side, patch, window, d: _windows(side, patch, window, d),
            "A window of 7 × 7 patches has 49 of them, and each attends to all 49.",
        ),
        Misconception(
            "one window only",
            lambda side, patch, window, d: (4 * (side // patch) ** 4 * d, 4 * window**4 * d),
            "That is one window. The image has (side / patch / window)² of them.",
        ),
        Misconception(
            "the weighted sum forgotten", lambda side, patch, window, d: _windows(side, patch, window**2, d, factor=2),
            "Scores and weighted sum are two products: 2d + 2d FLOPs for every pair of a query and a key.",
        ),
        Misconception(
            "multiply-adds instead of FLOPs", lambda side, patch, window, d: _windows(side, patch, window**2, d, factor=1),
            "There are two products, and each of their multiply-adds is 2 FLOPs: 4d for every pair.",
        ),
        Misconception(
            "n and d swapped",
            lambda side, patch, window, d: (4 * (side // patch) ** 2 * d * d, 4 * window**2 * d * d),
            "Every pair of patches costs a dot product over d features. With n = (side / patch)² patches: n²·d.",
        ),
        Misconception(
            "windows of pixels", lambda side, patch, window, d: _windows(side, patch, (window / patch) ** 2, d),
            "The window is given in patches already: it holds window² of them.",
        ),
        Misconception(
            "windows of pixels, cut into patches",
            lambda side, patch, window, d: _windows(side, patch, max(1, window // patch) ** 2, d),
            "`window` counts patches already: a window holds window² of them. You divide it by `patch`, and keep 1 at least.",
        ),
        Misconception(
            "a window's patches taken for its pairs", lambda side, patch, window, d: _windows(side, patch, 1, d),
            "A window holds window² patches, and each of them attends to all window²: that is window⁴ pairs a window.",
        ),
        Misconception(
            "windows of pixels, rounded down to nothing",
            lambda side, patch, window, d: _windows(side, patch, (window // patch) ** 2, d),
            "`window` counts patches already: a window holds window² of them. You divide it by `patch`, and `//` makes 0 of it.",
        ),
        Misconception(
            "windows counted in pixels",
            lambda side, patch, window, d: (4 * (side // patch) ** 4 * d, 4 * (side // window) ** 2 * window**4 * d),
            "`window` counts patches. side / patch patches lie along one side, so side / patch / window windows.",
        ),
        Misconception(
            "the windows of one row",
            lambda side, patch, window, d: (4 * (side // patch) ** 4 * d, 4 * (side // patch // window) * window**4 * d),
            "An image has as many rows of windows as it has windows in a row: (side / patch / window)² in all.",
        ),
        Misconception(
            "twice the windows of a row",
            lambda side, patch, window, d: (4 * (side // patch) ** 4 * d, 8 * (side // patch // window) * window**4 * d),
            "With c windows in a row there are c rows of them: c², not 2c, which is the same only for c = 2.",
        ),
        Misconception(
            "as many windows as patches by the window's side",
            lambda side, patch, window, d: (4 * (side // patch) ** 4 * d, 4 * (side // patch) ** 2 * window**3 * d),
            "A window holds window² patches, so of them there are patches / window²: of 14 × 14 patches and 7 × 7 windows four, not 28.",
        ),
        Misconception(
            "windows that slide and end at the border", _sliding_windows,
            "Swin's windows don't slide. They tile the image, and each patch attends to the window² patches of the one it lies in.",
        ),
        Misconception(
            "the weighted sum forgotten in the windows",
            lambda side, patch, window, d: (4 * (side // patch) ** 4 * d, 2 * (side // patch * window) ** 2 * d),
            "Windows have two products as well, scores and weighted sum: 4d for every pair.",
        ),
        Misconception(
            "the two swapped", lambda side, patch, window, d: _windows(side, patch, window**2, d)[::-1],
            "Return the cost of global attention first, then that of the windows.",
        ),
        Misconception(
            "windows that attend to each other", lambda side, patch, window, d: (
                4 * (side // patch) ** 4 * d, 4 * (side // patch // window) ** 4 * d,
            ),
            "No window attends to another one. Within each, window² patches attend to window² patches.",
        ),
    ],
)  # fmt: skip


def _cut_window(n, w, g, d, low=None):
    """The windows of the tokens at both ends hold fewer than w."""
    low, high = (w - 1) // 2 if low is None else low, w // 2
    pairs = sum(min(n - 1, i + high) - max(0, i - low) + 1 for i in range(n))
    return 4 * d * (pairs + n * g + g * (n + g))


global_tokens_cost = Check(
    reference=pattern_costs.global_tokens_cost,
    cases=[
        random_case(n=100, w=7, g=3, d=16), random_case(n=4096, w=512, g=1, d=64), random_case(n=30, w=6, g=27, d=8),
        random_case(n=4003, w=3001, g=997, d=400_000_000_009, label="large: every digit counts"),
    ],
    within=EXACT,
    misconceptions=[
        Misconception(
            "global tokens that nobody reads", lambda n, w, g, d: 4 * d * (n * w + g * (n + g)),
            "Every ordinary token also reads all g global ones: n·g more pairs.",
        ),
        Misconception(
            "global tokens that read nothing", lambda n, w, g, d: 4 * d * n * (w + g),
            "You have counted the ordinary queries. The g global tokens have queries too, and each meets all n + g keys.",
        ),
        Misconception(
            "global tokens that see only ordinary ones", lambda n, w, g, d: 4 * d * (n * (w + g) + g * n),
            "A global token attends to everything: the n ordinary tokens and the g global ones, itself among them.",
        ),
        Misconception(
            "global tokens that see no other global one", lambda n, w, g, d: 4 * d * (n * (w + g) + g * (n + 1)),
            "A global token attends to the other global ones as well: g² pairs among them, not g. (With g = 1 it makes no difference.)",
        ),
        Misconception(
            "w + 1 keys where w is even", lambda n, w, g, d: 4 * d * (n * (w // 2 * 2 + 1 + g) + g * (n + g)),
            "w // 2 on either side and the token itself make w + 1 keys if w is even. A window holds exactly w, odd or even.",
        ),
        Misconception(
            "never more than n keys", lambda n, w, g, d: 4 * d * (n * min(w + g, n) + g * (n + g)),
            "There are n + g tokens in all. Only the window is limited to the n ordinary ones: w ≤ n. The g global ones come on top.",
        ),
        Misconception(
            "only the windows", lambda n, w, g, d: 4 * d * n * w,
            "Add the pairs in which a global token is the query, and those in which it is the key.",
        ),
        Misconception(
            "every token with every token", lambda n, w, g, d: 4 * d * (n + g) ** 2,
            "That is dense attention. An ordinary token sees only w ordinary tokens and g global ones.",
        ),
        Misconception(
            "global tokens with a window only", lambda n, w, g, d: 4 * d * (n + g) * (w + g),
            "A global token doesn't look through a window: it sees all n + g.",
        ),
        Misconception(
            "the weighted sum forgotten", lambda n, w, g, d: 2 * d * (n * (w + g) + g * (n + g)),
            "2d FLOPs for the score of a pair, and 2d for its share of the weighted sum.",
        ),
        Misconception(
            "global tokens taken from the n", lambda n, w, g, d: 4 * d * ((n - g) * (w + g) + g * n),
            "n counts only the ordinary tokens. The g global ones come on top: n + g in all.",
        ),
        Misconception(
            "windows cut at the ends", _cut_window,
            "Every ordinary token attends to exactly w ordinary ones. At the ends the window is moved inwards, not cut.",
        ),
        Misconception(
            "windows of w // 2 to each side, cut at the ends", lambda n, w, g, d: _cut_window(n, w, g, d, low=w // 2),
            "Every ordinary token attends to exactly w ordinary ones, whether w is odd or even. At the ends the window is moved inwards, not cut.",
        ),
        Misconception(
            "the token itself added to the window", lambda n, w, g, d: 4 * d * (n * (w + 1 + g) + g * (n + g)),
            "The token itself is one of the w.",
        ),
        Misconception(
            "w tokens to each side", lambda n, w, g, d: 4 * d * (n * (2 * w + 1 + g) + g * (n + g)),
            "w is the whole window, the token itself among them.",
        ),
        Misconception(
            "multiply-adds instead of FLOPs", lambda n, w, g, d: d * (n * (w + g) + g * (n + g)),
            "There are two products, and each of their multiply-adds is 2 FLOPs: 4d for every pair.",
        ),
    ],
)  # fmt: skip


def _axes(n, d, patches, channels, projections=8):
    return projections * n * d * d + patches, projections * n * d * d + channels


channel_attention = Check(
    reference=pattern_costs.channel_attention,
    cases=[random_case(n=256, d=512, h=1), random_case(n=256, d=512, h=8), random_case(n=100, d=12, h=3), random_case(n=7, d=32, h=4),
           random_case(n=3_000_017, d=4_000_040, h=8, label="large: every digit counts")],
    within=EXACT,
    misconceptions=[
        Misconception(
            "the projections left out", lambda n, d, h: _axes(n, d, 4 * n * n * d, 4 * n * d * d // h, projections=0),
            "Both need four projections: queries, keys, values, output. A fair count has them on both sides.",
        ),
        Misconception(
            "projections on one side only",
            lambda n, d, h: (8 * n * d * d + 4 * n * n * d, 4 * n * d * d // h),
            "The channels' queries, keys and values come from projections as well: the same 8·n·d² on both sides.",
        ),
        Misconception(
            "heads that don't divide the channels", lambda n, d, h: _axes(n, d, 4 * n * n * d, 4 * n * d * d),
            "A channel attends to the d/h channels of its own head only: h blocks of (d/h)² scores, so d²/h in all.",
        ),
        Misconception(
            "h taken for the width of a head", lambda n, d, h: _axes(n, d, 4 * n * n * d, 4 * n * d * h),
            "h is the number of heads, and each has d/h channels. You have it the other way round, which is the same only where h·h = d.",
        ),
        Misconception(
            "heads that divide the patches' cost too", lambda n, d, h: _axes(n, d, 4 * n * n * d // h, 4 * n * d * d // h),
            "Between patches each head still has all n² pairs, each over d/h features: h heads cost as much as one.",
        ),
        Misconception(
            "heads that multiply the cost", lambda n, d, h: _axes(n, d, 4 * n * n * d * h, 4 * n * d * d * h),
            "Heads divide the width: each gets d/h features, or d/h channels.",
        ),
        Misconception(
            "the two swapped", lambda n, d, h: _axes(n, d, 4 * n * d * d // h, 4 * n * n * d),
            "Return the cost between patches first, then the cost between channels.",
        ),
        Misconception(
            "the weighted sum forgotten", lambda n, d, h: _axes(n, d, 2 * n * n * d, 2 * n * d * d // h),
            "Scores and weighted sum: two products of the same size, on either side.",
        ),
        Misconception(
            "channels of width d", lambda n, d, h: _axes(n, d, 4 * n * n * d, 4 * d**3 // h),
            "Two channels are compared over the n patches: their dot product has length n.",
        ),
        Misconception(
            "n × n projections for the channels",
            lambda n, d, h: (8 * n * d * d + 4 * n * n * d, 8 * n * n * d + 4 * n * d * d // h),
            "Such weights would fit only one number of patches. Queries, keys and values are made by d × d weights as before, "
            "and then transposed.",
        ),
        Misconception(
            "the channels of one head only", lambda n, d, h: _axes(n, d, 4 * n * n * d, 4 * n * (d // h) ** 2),
            "That is one head. There are h of them, each with its own d/h channels.",
        ),
        Misconception(
            "patches' heads of full width", lambda n, d, h: _axes(n, d, 4 * n * n * d * h, 4 * n * d * d // h),
            "Between patches a head compares d/h features: h heads cost as much as one of width d.",
        ),
        Misconception(
            "three projections instead of four", lambda n, d, h: _axes(n, d, 4 * n * n * d, 4 * n * d * d // h, projections=6),
            "Queries, keys, values, and the output: four products with d × d weights.",
        ),
        Misconception(
            "multiply-adds instead of FLOPs", lambda n, d, h: _axes(n, d, 2 * n * n * d, 2 * n * d * d // h, projections=4),
            "Each multiply-add is 2 FLOPs, in the projections and in attention.",
        ),
    ],
)  # fmt: skip
