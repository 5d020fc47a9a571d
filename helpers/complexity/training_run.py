"""The bill of a training run: arithmetic, time, memory, and how much text is worth it."""

SECONDS_A_DAY = 86_400
BYTES_A_PARAMETER = 16
"""Of mixed precision with Adam: weight and gradient in 16 bits, 2 + 2; weight, mean and mean square in float32, 4 + 4 +
4 (Rajbhandari et al., 2020, section 3.1)."""
TOKENS_A_PARAMETER = 20
"""The rule of thumb from Hoffmann et al. (2022), table 3: 8 billion parameters want about 160 billion tokens."""


def training_run(parameters: int, tokens: int, devices: int, peak: float, mfu: float) -> dict[str, float]:
    """Row → number for a dense decoder LM that sees so many tokens.

    flops: 6 for each parameter and token (Kaplan et al., 2020, section 2.1); days: on devices of `peak` FLOP/s each, of
    which the share `mfu` is used (Chowdhery et al., 2022, section 4.1); bytes: of weights, gradients and Adam's state;
    chinchilla_tokens: the tokens for which a model of this size is the best use of the FLOPs.
    """
    flops = 6 * parameters * tokens
    return {
        "flops": flops,
        "days": flops / (devices * peak * mfu * SECONDS_A_DAY),
        "bytes": BYTES_A_PARAMETER * parameters,
        "chinchilla_tokens": TOKENS_A_PARAMETER * parameters,
    }
