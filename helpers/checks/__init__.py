"""The checks of all exercises, by their ids: `check.softmax(softmax, points=2)`."""

from .attention import (
    attend,
    attention_weights,
    parameter_counts,
    permutation_equivariance,
    qkv_projections,
    scaled_dot_product_attention,
)
from .cache import KVCache, new_operations, what_to_store
from .constructions import equal_attention, same_output_other_weights, select_one_value
from .costs import (
    arithmetic_intensity,
    crossover,
    decode_table,
    matmul_flops,
    matmul_io,
    model_flops,
    training_table,
)
from .decoding import bidirectional_cannot_cache, decode_step, generate_cached, mqa_gqa_cache
from .decoding_cost import cache_bytes, decode_cost, redundant_projections
from .flash import causal_tiles, flash_attention_forward
from .flash_backward import forward_and_backward as flash_attention_backward
from .flash_decoding import flash_decoding
from .flash_triton import triton_backward, triton_forward, triton_rows
from .grouped_query import grouped_query_attention
from .induction import two_hand_made_heads
from .layer_types import layer_types
from .leaks import leaks_future
from .linear_attention import linear_attention
from .low_rank import low_rank_attention
from .masked_attention import (
    causal_attention,
    mask_then_renormalise,
    masked_softmax,
    what_is_it_for,
    why_before_softmax,
)
from .masks import causal_mask, combine_masks, mask_zoo, padding_mask, which_positions
from .multi_head import (
    MultiHeadAttention,
    head_flops,
    head_parameters,
    heads_as_sum,
    merge_heads,
    multi_head_loop,
    split_heads,
)
from .online import merge_partials, online_softmax
from .paged_cache import paged_cache
from .parallel import chunks_by_workers as chunked_attention
from .parallel import one_token_then_all as attention_one_token
from .pattern_costs import channel_attention, global_tokens_cost, vit_windows
from .quantized_cache import quantized_cache
from .ragged import ragged_batch
from .recurrence import rnn_encoder
from .recurrence import steps_as_a_scan as associative_scan
from .roofline import roofline
from .rotation import incoherent_rotation
from .schedules import critical_path, forward_passes, layers_in_sequence, pipeline_steps
from .score_memory import longest_context, score_memory
from .scores import score_functions, score_variance, two_word_example
from .shapes import pairwise_dot, read_shape, row_means, weighted_rows
from .sliding_cache import sliding_cache
from .softmax import softmax, softmax_jacobian
from .sparse import global_local, local_attention, strided_sparse
from .targets import copy_without_mask, shift_targets
from .throughput import matmul_gflops
from .traffic import hbm_traffic
from .variant_costs import cost_of_all

__all__ = [
    "KVCache", "MultiHeadAttention", "arithmetic_intensity", "associative_scan", "attend", "attention_one_token",
    "attention_weights", "bidirectional_cannot_cache", "cache_bytes", "causal_attention", "causal_mask", "causal_tiles", "channel_attention",
    "chunked_attention", "combine_masks", "copy_without_mask", "cost_of_all", "critical_path", "crossover", "decode_cost",
    "decode_step", "decode_table", "equal_attention", "flash_attention_backward", "flash_attention_forward", "flash_decoding", "forward_passes", "generate_cached", "global_local",
    "global_tokens_cost", "grouped_query_attention", "hbm_traffic", "head_flops", "head_parameters", "heads_as_sum", "incoherent_rotation", "layer_types",
    "layers_in_sequence", "leaks_future", "linear_attention", "local_attention", "longest_context", "low_rank_attention",
    "mask_then_renormalise", "mask_zoo", "masked_softmax", "matmul_flops", "matmul_gflops", "matmul_io", "merge_heads", "merge_partials",
    "model_flops", "mqa_gqa_cache", "multi_head_loop", "new_operations", "online_softmax", "padding_mask", "paged_cache", "pairwise_dot",
    "parameter_counts", "permutation_equivariance", "pipeline_steps", "qkv_projections", "quantized_cache", "ragged_batch",
    "read_shape", "redundant_projections", "rnn_encoder", "roofline", "row_means", "same_output_other_weights",
    "scaled_dot_product_attention", "score_functions", "score_memory", "score_variance", "select_one_value", "shift_targets",
    "sliding_cache", "softmax", "softmax_jacobian", "split_heads", "strided_sparse", "training_table", "triton_backward", "triton_forward", "triton_rows", "two_hand_made_heads",
    "two_word_example", "vit_windows", "weighted_rows", "what_is_it_for", "what_to_store", "which_positions",
    "why_before_softmax",
]  # fmt: skip
