"""The checks of all exercises, by their ids: `check.softmax(softmax, points=2)`."""

from .attention import (
    attend,
    attention_weights,
    parameter_counts,
    permutation_equivariance,
    qkv_projections,
    scaled_dot_product_attention,
)
from .constructions import equal_attention, same_output_other_weights, select_one_value
from .scores import score_functions, score_variance, two_word_example
from .softmax import softmax, softmax_jacobian

__all__ = [
    "attend", "attention_weights", "equal_attention", "parameter_counts", "permutation_equivariance", "qkv_projections",
    "same_output_other_weights", "scaled_dot_product_attention", "score_functions", "score_variance", "select_one_value",
    "softmax", "softmax_jacobian", "two_word_example",
]  # fmt: skip
