"""Checks of the formulas: FLOPs of the matrix products of every kind of attention, exact to the digit."""

import math

from helpers.engine.cases import random_case
from helpers.engine.check import Check, CheckGroup, Misconception
from helpers.engine.common_misconceptions import EXACT

from .. import variant_costs as reference

__all__ = ["cost_of_all"]

HALF = "Each slot costs 4 d FLOPs: 2 d for its score and 2 d for the mixture. You count half of that."
local_flops = Check(
    reference=reference.local_flops,
    cases=[random_case(n=100, d=16, w=4), random_case(n=4096, d=64, w=128), random_case(n=7, d=3, w=5)],
    within=EXACT,
    misconceptions=[
        Misconception("still n²", lambda n, d, w: 4 * n**2 * d, "Each of the n tokens scores 2w + 1 slots, not n."),
        Misconception("w slots instead of 2w + 1", lambda n, d, w: 4 * n * w * d, "A window has w tokens on each side and the token itself: 2w + 1 slots."),
        Misconception("the token itself not counted", lambda n, d, w: 8 * n * w * d, "A window has 2w neighbours and the token itself: 2w + 1 slots."),
        Misconception("a factor of 2 lost", lambda n, d, w: 2 * n * (2 * w + 1) * d, HALF),
        Misconception(
            "a window no wider than the text", lambda n, d, w: 4 * n * min(2 * w + 1, n) * d,
            "Count what is computed: every token has 2w + 1 slots, also where that is more than n and some of them are masked.",
        ),
        Misconception(
            "the ends cut off", lambda n, d, w: 4 * d * (n * (2 * w + 1) - w * (w + 1)),
            "You count the allowed pairs. Count what is computed: every token has 2w + 1 slots, also at the ends, where some are masked.",
        ),
    ],
)  # fmt: skip

global_local_flops = Check(
    reference=reference.global_local_flops,
    cases=[random_case(n=100, d=16, w=4, g=2), random_case(n=4096, d=64, w=128, g=16), random_case(n=9, d=3, w=6, g=2)],
    within=EXACT,
    misconceptions=[
        Misconception("still n²", lambda n, d, w, g: 4 * n**2 * d, "Only g of the n tokens read all n keys. The n − g others have g + 2w + 1 slots."),
        Misconception(
            "the rows of the global tokens left out", lambda n, d, w, g: 4 * d * (n - g) * (2 * w + 1 + g),
            "The global tokens read too, and they read everything: g · n more slots.",
        ),
        Misconception(
            "global tokens that read no more than others", lambda n, d, w, g: 4 * d * n * (2 * w + 1 + g),
            "A global token reads all n keys, not 2w + 1 + g.",
        ),
        Misconception(
            "the columns of the global tokens left out", lambda n, d, w, g: 4 * d * ((n - g) * (2 * w + 1) + g * n),
            "Every other token reads the g global ones as well as its window: 2w + 1 + g slots.",
        ),
        Misconception(
            "a window for the global tokens too", lambda n, d, w, g: 4 * d * (n * (2 * w + 1 + g) + g * n),
            "You give the global tokens a window and g slots as well as all n keys. They read each key once: n slots. 2w + 1 + g slots are for the n − g "
            "others.",
        ),
        Misconception(
            "global rows that keep their window too", lambda n, d, w, g: 4 * d * (n * (2 * w + 1) + 2 * g * (n - g)),
            "You count a window for all n tokens, then g columns and g rows of n − g slots. So a global token has n − g slots and a window. It should have "
            "n slots, and only the n − g others a window.",
        ),
        Misconception("a factor of 2 lost", lambda n, d, w, g: 2 * d * ((n - g) * (2 * w + 1 + g) + g * n), HALF),
        Misconception(
            "global tokens that don't read each other", lambda n, d, w, g: 4 * d * ((n - g) * (2 * w + 1 + g) + g * (n - g)),
            "A global token reads all n keys, the global ones and itself among them.",
        ),
        Misconception(
            "a window no wider than the text", lambda n, d, w, g: 4 * d * ((n - g) * (g + min(2 * w + 1, n)) + g * n),
            "Count what is computed: every token that isn't global has a window of 2w + 1 slots, also where that is more than n and some of them are masked.",
        ),
        Misconception(
            "a window of g to each side", lambda n, d, w, g: 4 * d * ((n - g) * (3 * g + 1) + g * n),
            "g is the number of global tokens. The window reaches w to each side: 2w + 1 slots.",
        ),
        Misconception(
            "2g + 1 slots for the other tokens",
            lambda n, d, w, g: 4 * d * ((n - g) * (2 * g + 1) + g * n),
            "Every other token has a slot for each of the g global tokens, and a window of w to each side: g + 2w + 1. Yours has no w.",
        ),
        Misconception(
            "2w slots for a window", lambda n, d, w, g: 4 * d * ((n - g) * (2 * w + g) + g * n),
            "A window has w neighbours on each side and the token itself: 2w + 1 slots.",
        ),
    ],
)  # fmt: skip

strided_flops = Check(
    reference=reference.strided_flops,
    cases=[random_case(n=100, d=16), random_case(n=4096, d=64), random_case(n=25, d=3)],
    within=EXACT,
    misconceptions=[
        Misconception("still n²", lambda n, d: 4 * n**2 * d, "Each of the n tokens has 3√n − 2 slots, not n."),
        Misconception(
            "only the window", lambda n, d: 4 * n * (2 * math.isqrt(n) - 1) * d, "Add the column: √n − 1 more tokens (the token itself is in the window)."
        ),
        Misconception("only the column", lambda n, d: 4 * n * math.isqrt(n) * d, "Add the window: √n − 1 tokens before and as many after."),
        Misconception(
            "the token itself counted twice", lambda n, d: 4 * n * (3 * math.isqrt(n) - 1) * d,
            "Window: 2√n − 1 slots. Column: √n, but the token itself is one of them and is in the window already: √n − 1 more.",
        ),
        Misconception(
            "3√n in round numbers", lambda n, d: 12 * n * math.isqrt(n) * d,
            "3√n is only nearly right. Exactly: 2√n − 2 neighbours, the token itself and √n − 1 more in its column, together 3√n − 2.",
        ),
        Misconception("a factor of 2 lost", lambda n, d: 2 * n * (3 * math.isqrt(n) - 2) * d, HALF),
    ],
)  # fmt: skip

low_rank_flops = Check(
    reference=reference.low_rank_flops,
    cases=[random_case(n=100, d=16, r=4), random_case(n=4096, d=64, r=128), random_case(n=9, d=3, r=2)],
    within=EXACT,
    misconceptions=[
        Misconception("still n²", lambda n, d, r: 4 * n**2 * d, "The scores are n × r now."),
        Misconception(
            "the projections forgotten", lambda n, d, r: 4 * n * r * d,
            "E k and F v are matrix products too, 2 r n d each.",
        ),
        Misconception("one projection instead of two", lambda n, d, r: 6 * n * r * d, "Keys and values are projected: 2 r n d each."),
        Misconception(
            "features projected instead of positions", lambda n, d, r: 4 * n**2 * r + 6 * n * d * r,
            "You make the keys narrower, and there are still n² scores. E makes the *list* shorter: r keys of width d.",
        ),
        Misconception(
            "full attention on top", lambda n, d, r: 8 * n * r * d + 4 * n**2 * d, "You add full attention. No query meets the n keys: only the r mixtures."
        ),
        Misconception(
            "d × d projections", lambda n, d, r: 4 * n * d**2 + 4 * n * r * d,
            "Here features aren't mixed. E is r × n and mixes the keys: 2 r n d.",
        ),
        Misconception("r × r projections", lambda n, d, r: 4 * r**2 * d + 4 * n * r * d, "E is r × n: it has a column for every one of the n keys."),
    ],
)  # fmt: skip

linear_flops = Check(
    reference=reference.linear_flops,
    cases=[random_case(n=100, d=16), random_case(n=4096, d=64), random_case(n=9, d=3)],
    within=EXACT,
    misconceptions=[
        Misconception("still n²", lambda n, d: 4 * n**2 * d, "φ(k)ᵀ v is (d × n)(n × d). No product has n twice."),
        Misconception("one product instead of two", lambda n, d: 2 * n * d**2, "Making the state costs 2 n d², and reading it 2 n d² more."),
        Misconception(
            "linear in d as well", lambda n, d: 4 * n * d,
            "The state has d × d entries. Every token adds to all of them, 2 n d², and every query reads all of them, 2 n d².",
        ),
        Misconception("reading the state once for all", lambda n, d: 2 * n * d**2 + 2 * d**2, "Each of the n queries reads the whole state: 2 n d²."),
        Misconception(
            "the normaliser counted too", lambda n, d: 4 * n * d**2 + 2 * n * d,
            "Leave out normalisers, as well as sums, softmaxes and masks. Only the two matrix products count.",
        ),
        Misconception("n d² in all", lambda n, d: n * d**2, "A multiply-add is 2 FLOPs, and there are two products of n·d² multiply-adds each."),
    ],
)  # fmt: skip

chunked_flops = Check(
    reference=reference.chunked_flops,
    cases=[random_case(n=96, d=16, c=8), random_case(n=4096, d=64, c=128), random_case(n=12, d=5, c=3)],
    within=EXACT,
    misconceptions=[
        Misconception("still n²", lambda n, d, c: 4 * n**2 * d, "The squares are c × c, and there are n/c of them."),
        Misconception("the state left out", lambda n, d, c: 4 * n * c * d, "Each chunk also reads the state (2 c d²) and adds to it (2 c d²)."),
        Misconception("the squares left out", lambda n, d, c: 4 * n * d**2, "Each chunk also has a c × c square: 4 c² d, n/c times."),
        Misconception(
            "one square instead of n/c", lambda n, d, c: 4 * n * d**2 + 4 * c**2 * d, "Every chunk has a square of its own: n/c of them."
        ),
        Misconception(
            "n squares instead of n/c", lambda n, d, c: 4 * n * d**2 + 4 * n * c**2 * d, "There is one square for each chunk, not one for each token: n/c "
            "squares."
        ),
        Misconception(
            "c chunks instead of n/c", lambda n, d, c: c * (4 * c * c * d + 4 * c * d**2),
            "c is the number of tokens in a chunk. There are n/c chunks.",
        ),
        Misconception(
            "half a square", lambda n, d, c: 4 * n * d**2 + 2 * n * (c + 1) * d,
            "You count the triangle only. The product computes the whole c × c square; half of it is then thrown away.",
        ),
        Misconception(
            "the state updated but never read", lambda n, d, c: 2 * n * d**2 + 4 * n * c * d, "Each chunk adds to the state, 2 c d², and reads it, 2 c d²."
        ),
        Misconception(
            "the first chunk's reading left out", lambda n, d, c: 4 * n * d**2 + 4 * n * c * d - 2 * c * d**2,
            "The first chunk reads a state of zeros, but the product is computed all the same. All n/c chunks cost the same.",
        ),
        Misconception(
            "the first reading and the last update left out", lambda n, d, c: 4 * n * d**2 + 4 * n * c * d - 4 * c * d**2,
            "The first chunk reads a state of zeros, and the last one updates a state that is never read. Both are computed all the same: count four "
            "products for each of the n/c chunks.",
        ),
        Misconception(
            "the normalisers counted too", lambda n, d, c: 4 * n * d**2 + 4 * n * c * d + 2 * n * d,
            "Leave out normalisers, as well as sums, softmaxes and masks. Only the four matrix products of each chunk count.",
        ),
    ],
)  # fmt: skip

cost_of_all = CheckGroup(
    "cost_of_all", local_flops, global_local_flops, strided_flops, low_rank_flops, linear_flops, chunked_flops
)
