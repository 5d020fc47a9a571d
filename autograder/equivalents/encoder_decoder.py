"""Of unit 06."""

import re

ONE_RATE = "all dropouts of a layer have the same rate"

EncoderLayer = {re.compile(r"memory=x, mask=encoder_padding_mask\) → "): "an attention without a memory reads x itself"}
DecoderLayer = {re.compile(r"self\.dropouts\[-?\d\]"): ONE_RATE}
enc_dec_cost = {re.compile(r"^product\("): "2·a·b·c doesn't depend on the order of the three"}
