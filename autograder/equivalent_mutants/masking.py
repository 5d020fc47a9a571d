"""Of unit 03."""

import re

masked_softmax = {
    "~mask & ~nothing → ~mask": "a row that sees nothing is set to 0, and `masked_fill` sends it no gradient",
    "mask | ~mask.any(-1, keepdim=True) → mask": "the same: `torch.where` sends no gradient to what it doesn't choose",
}
causal_attention = {
    "q.shape[-1] → k.shape[-1]": "q and k have the same width",
    re.compile("^q → v   in: .*device=v.device"): "all inputs are on one device",
}
padding_mask = {re.compile(r"^0 → -1   in: .*lengths\.shape\[-1\]"): "the lengths have one axis"}
combine_masks = {
    "mask.int() → mask": "`sum` begins with the number 0: what it adds to it become numbers",
    "masks[1:] → masks": "m & m is m",
    re.compile("^1 → 0   in: for mask in masks"): "the same",
}
leaks_future = {
    "range(1, len(x)) → range(1, len(x) + 1)": "behind the last token there is nothing to change",
    re.compile("^model\\(.*\\) - before → before - model"): "of the difference only the size is taken",
    re.compile(
        r"^.* > 1e-05 → .* >= 1e-05|^1e-05 → 2e-05"
    ): "rounding stays far below the threshold, and the faintest leak lies far above",
}
shift_targets = {re.compile(r"> lengths\[:, None\] → .*>= lengths"): "the end is written there in the next line"}
copy_without_mask = {
    re.compile(r"\.squeeze\(-1\) → "): "a mask (b, n) picks from (b, n, 1) as from (b, n)",
    re.compile(
        r"^-1 → -2   in: .*squeeze\(-2\)$"
    ): "the same: where there is no axis of size 1, `squeeze` does nothing",
}
mask_zoo = {
    "torch.zeros(n, m, dtype=torch.bool) → torch.zeros(n, m)": "`logical_not` makes truth values of numbers",
    re.compile(
        r" // 2 → .* / 2   in"
    ): "one of two neighbours is even: the division is exact, and 6.0 is as right as 6",
}
