"""The pictures of the course, one function each."""

from .attention import (
    attention_flow,
    attention_map,
    jacobians,
    permutation_gaps,
    query_among_keys,
    score_maps,
    score_spread,
    softmax_steps,
    two_explanations,
)

__all__ = [
    "attention_flow", "attention_map", "jacobians", "permutation_gaps", "query_among_keys", "score_maps", "score_spread",
    "softmax_steps", "two_explanations",
]  # fmt: skip
