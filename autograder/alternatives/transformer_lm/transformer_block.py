"""Right answers of transformer_block in other styles."""

import torch


def block_annotated(x, attention, feed_forward, norm_1, norm_2, pre_norm):
    """The Annotated Transformer's sublayer connection."""

    def connect(x, norm, layer):
        return x + layer(norm(x)) if pre_norm else norm(x + layer(x))

    return connect(connect(x, norm_1, attention), norm_2, feed_forward)


def block_written_out(x, attention, feed_forward, norm_1, norm_2, pre_norm):
    if pre_norm:
        middle = x + attention(norm_1(x))
        return middle + feed_forward(norm_2(middle))
    middle = norm_1(x + attention(x))
    return norm_2(middle + feed_forward(middle))


def block_with_a_stored_residual(x, attention, feed_forward, norm_1, norm_2, pre_norm):
    """Hugging Face: the residual is kept in a variable."""
    for layer, norm in zip([attention, feed_forward], [norm_1, norm_2]):
        kept = x
        hidden = layer(norm(x) if pre_norm else x)
        x = kept + hidden
        x = x if pre_norm else norm(x)
    return x


def block_as_a_loop(x, attention, feed_forward, norm_1, norm_2, pre_norm):
    same = lambda z: z
    for layer, norm in ((attention, norm_1), (feed_forward, norm_2)):
        before, after = (norm, same) if pre_norm else (same, norm)
        x = after(torch.add(layer(before(x)), x))
    return x


def block_of_closures(x, attention, feed_forward, norm_1, norm_2, pre_norm):
    def before(norm, f):
        return lambda stream: torch.add(f(norm(stream)), stream)

    def after(norm, f):
        return lambda stream: norm(torch.add(f(stream), stream))

    wrap = before if pre_norm else after
    return wrap(norm_2, feed_forward)(wrap(norm_1, attention)(x))


transformer_block = {
    "a closure for each half": block_of_closures,
    "a loop with what stands before and after": block_as_a_loop,
    "a sublayer connection (the Annotated Transformer)": block_annotated,
    "written out": block_written_out,
    "a stored residual (Hugging Face)": block_with_a_stored_residual,
}
