"""Of unit 08. In rooms that are made once, every place is written before it is read: what stood there is never seen."""

import re

NEVER_READ = {re.compile("torch.zeros → torch.ones"): "the room is overwritten before anything reads it"}

redundant_projections = {
    "step > seen → step >= seen": "`seen` is always the step before",
    "0 → 1": "the other branch is never taken: `seen` is always the step before",
}
KVCache = NEVER_READ
cache_bytes = {
    re.compile(r"→ torch.empty\(h_kv, b, n"): "how many numbers there are doesn't depend on the order of the axes",
    re.compile(r"^round\(2\.0"): "a whole float is a whole number",
}
sliding_cache = NEVER_READ | {
    re.compile(r"→ torch\.zeros\(b, h, 0, d_h\)"): "an empty tensor that is joined to others takes their wider dtype"
}
decode_step = {
    "d // h → d / h": "h divides d, and only a square root is taken of it",
    "room = x.new_empty(3, b, h, m + n, d // h)": "a third of the room stays unused",
}
bidirectional_cannot_cache = {
    re.compile(r"→ layer\(x\) - layer\(torch.cat\("): "the largest change, up or down, has no sign",
    re.compile(r"→ zip\(layer\(torch.cat|→ torch\.dist\(layer\(x\), "): "the same: of both only the distance is taken",
}
paged_cache = NEVER_READ | {
    re.compile(
        r"^torch\.tensor\(self\.table\[name\], dtype=torch\.long\) → "
    ): "every sequence has a row, so its table isn't empty"
}
