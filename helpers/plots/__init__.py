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
from .cache import changed_outputs, decoding_step, page_tables, ragged_masks, repeated_work, ring, rounding_errors
from .copying import loss_curves, who_looks_where
from .costs import (
    attention_share,
    cost_shares,
    crossing,
    intensities,
    model_counts,
    predicted_and_counted,
    product_traffic,
)
from .decoding_cost import cache_over_context, cost_per_token, counted_steps, tokens_per_second
from .flash import (
    backward_walks,
    causal_saving,
    causal_tiles_map,
    decoding_splits,
    gradients_agree,
    kernel_speed,
    kernel_tiles,
    largest_tensor,
    merging,
    online_softmax_steps,
    program_offsets,
    tile_walk,
    tile_walk_still,
    time_and_memory,
)
from .grouped_query import cache_per_token, shared_heads
from .induction import completion, induction_steps, stream_columns, two_heads
from .layer_types import layer_costs, measured_growth
from .leaks import influences, which_peek
from .linear_attention import blurred_weights, brackets, chunk_sizes, linear_growth, state_or_cache, three_forms
from .low_rank import summary_error, summary_shapes
from .masks import (
    causal_steps,
    mask_grids,
    mask_zoo,
    masking_a_row,
    padding_and_causal,
    renormalising_error,
    shifted_rows,
)
from .multi_head import cost_over_heads, head_maps, heads_cut, heads_learned, parts_add_up
from .parallel import score_table, time_over_length, worker_pool
from .pattern_costs import global_pattern, patch_windows, patches_or_channels, sparse_costs
from .recurrence import composed_steps, scan_race, scan_rounds
from .roofline import measured_products, rooflines
from .rotation import fp8_error, rotated_outliers
from .schedules import dependency_graphs, idle_share, pipeline_charts, rnn_unrolled, schedules
from .score_memory import context_limits
from .shapes import average_of_rows, row_pairs
from .sparse import attention_patterns, hops, local_growth, strided_growth, two_layers, window_slots
from .throughput import gflops_ladder
from .traffic import attention_on_roofline, traffic_against_n
from .variant_costs import cost_of_all, formulas_and_counts

__all__ = [
    "attention_flow", "attention_map", "average_of_rows", "cache_per_token", "causal_steps", "completion",
    "composed_steps", "cost_over_heads", "dependency_graphs", "gflops_ladder", "head_maps", "heads_cut",
    "heads_learned", "idle_share", "induction_steps", "influences", "jacobians", "loss_curves", "mask_zoo",
    "mask_grids", "masking_a_row", "padding_and_causal", "parts_add_up", "permutation_gaps", "pipeline_charts",
    "query_among_keys", "renormalising_error", "rnn_unrolled", "row_pairs", "scan_race", "scan_rounds", "schedules",
    "score_maps", "score_spread", "score_table", "shared_heads", "shifted_rows", "softmax_steps", "time_over_length",
    "two_explanations", "stream_columns", "two_heads", "which_peek", "who_looks_where", "worker_pool",
    "attention_share", "context_limits", "cost_shares", "crossing", "global_pattern", "intensities", "layer_costs",
    "measured_growth", "measured_products", "model_counts", "patch_windows", "patches_or_channels",
    "predicted_and_counted", "product_traffic", "rooflines", "sparse_costs",
    "attention_patterns", "blurred_weights", "brackets", "chunk_sizes", "cost_of_all", "formulas_and_counts", "hops",
    "linear_growth", "local_growth", "state_or_cache", "strided_growth", "summary_error", "summary_shapes",
    "three_forms", "two_layers", "window_slots",
    "cache_over_context", "changed_outputs", "cost_per_token", "counted_steps", "decoding_step", "page_tables", "ragged_masks", "repeated_work",
    "ring", "rounding_errors", "tokens_per_second",
    "attention_on_roofline", "fp8_error", "rotated_outliers", "traffic_against_n",
    "backward_walks", "causal_saving", "causal_tiles_map", "decoding_splits", "gradients_agree", "kernel_speed", "kernel_tiles", "largest_tensor",
    "merging", "online_softmax_steps", "program_offsets", "tile_walk", "tile_walk_still", "time_and_memory",
]  # fmt: skip
