"""Of unit 06."""

import re

ONE_RATE = "all dropouts of a layer have the same rate"

SPREAD = "a size 1 in place of the queries is spread over all of them"
ITSELF = {re.compile(r"memory=x, mask=encoder_padding_mask\) → "): "an attention without a memory reads x itself"}

EncoderLayer = ITSELF
DecoderLayer = {
    re.compile(r"^\d → -?\d   in: .*self\.dropouts\["): ONE_RATE,
    "hidden > 0 → hidden >= 0": "where it is 0 both give 0",
}
EncoderDecoder = {
    **ITSELF,
    re.compile(r"^sinusoidal_positions\(.*\)\.to\(x\) → "): "positions in float32 are added to float64 as they are",
    re.compile(r"^real\[:, None, :\]\.(expand|repeat)\("): SPREAD,
}
teacher_forcing = {
    re.compile(r"^F\.pad\(.*value=PAD\) → F\.pad\(target, \(\d, \d\)\) "): "PAD is 0, and so is what F.pad fills with"
}
exact_match = {
    re.compile(r"^target → written   in: return right / len"): "both have a row for each string",
    "target.tolist() → target": "the rows of a tensor hold the same tokens",
    "n - written.shape[1] → n + written.shape[1]": "what is padded too far is cut off again",
    re.compile(r"\.mean\(\)\.item\(\) → .*\.mean\(\)"): "a tensor of one number is a number",
}
train_reversal = {
    re.compile(r"^torch\.manual_seed\(1\) → "): "any seed will do",
    re.compile(r"^\d → \d   in: torch\.manual_seed"): "any seed will do",
    re.compile(
        r"^range\(layers\) → range\(layers [+-] 1\)"
    ): "the class is that of 6.4, whose check counts its layers; here is asked what a trained model writes",
    re.compile(
        r"^d \*\* \(-0\.5\) → "
    ): "the class is that of 6.4, and embeddings that begin still smaller learn it as well",
    re.compile(
        r"^labels → shifted   in: .*full_like\(shifted"
    ): "only its shape and dtype are taken, and both have the same",
    "zip(sources, targets, strict=True) → zip(targets, sources, strict=True)": "turning round is its own inverse",
    "model.train() → (nothing)": "a new model is in training mode",
    re.compile(r"^x = F\.dropout\(.*\) → \(nothing\)"): "the model is made without dropout",
    re.compile(
        r"→ train_reversal = first_output_again"
    ): "differs only where one trains twice with as many batches, and the check takes 2 and then 80",
}
enc_dec_cost = {re.compile(r"^product\("): "2·a·b·c doesn't depend on the order of the three"}
