"""Query heads that share keys and values in groups (Ainslie et al., 2023): one group is multi-query (Shazeer, 2019)."""

from jaxtyping import Float
from torch import Tensor

from helpers.qkv_attention.attention import scaled_dot_product_attention


def grouped_query_attention(
    q: Float[Tensor, "b h n d_h"], k: Float[Tensor, "b h_kv m d_h"], v: Float[Tensor, "b h_kv m d_h"]
) -> Float[Tensor, "b h n d_h"]:
    """Query head i uses key/value head i // (h / h_kv). h_kv divides h."""
    size = q.shape[1] // k.shape[1]
    return scaled_dot_product_attention(q, k.repeat_interleave(size, dim=1), v.repeat_interleave(size, dim=1))
