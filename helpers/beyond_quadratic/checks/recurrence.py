"""What linear attention, its decay and the delta rule share: a state that goes from token or chunk to the next."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._pytree import tree_map

from helpers.engine.check import Property
from helpers.engine.compare import in_float64
from helpers.engine.observe import Observation
from helpers.engine.wrong_answers import Slip, Wrong, shared

from .sparse import square_made


def phi(x: Tensor) -> Tensor:
    return F.elu(x) + 1


def outer(k: Tensor, v: Tensor) -> Tensor:
    return k.mT @ v


@dataclass(frozen=True)
class Walk:
    """A state (…, d, d_v) fades, a token is added, and its query reads. By default nothing fades."""

    empty: Callable = lambda k, v: k.new_zeros(*k.shape[:-2], k.shape[-1], v.shape[-1])
    carried: Callable = lambda state: state  # from token to token
    factor: Callable = lambda factors, t: None if factors is None else factors[..., t, None, None]
    faded: Callable = lambda state, factor: state
    added: Callable = lambda state, k, v, factor: outer(k, v)
    join: Callable = lambda old, new: old + new
    read: Callable = lambda q, before, after, k, v: q @ after


def walk(steps: Walk, q: Tensor, k: Tensor, v: Tensor, factors: Tensor | None = None) -> Tensor:
    """The outputs of all tokens, (…, n, d_v)."""
    after, outputs = steps.empty(k, v), []
    for t in range(q.shape[-2]):
        q_t, k_t, v_t = (x[..., t : t + 1, :] for x in (q, k, v))
        before, factor = steps.carried(after), steps.factor(factors, t)
        after = steps.join(steps.faded(before, factor), steps.added(before, k_t, v_t, factor))
        outputs.append(steps.read(q_t, before, after, k_t, v_t))
    return torch.cat(outputs, dim=-2)


def _of_the_batch(old: Tensor, new: Tensor) -> Tensor:
    axes = tuple(range(new.dim() - 2))
    return old + (new.sum(axes, keepdim=True) if axes else new)


class State:
    """Each sequence has its own, (…, d, d_v), and gradients go through it."""

    cut_off = Slip(carried=lambda state: state.detach())
    one_for_the_batch = Slip(join=_of_the_batch)
    overwritten = Slip(faded=lambda state, factor: 0 * state)
    read_before = Slip(read=lambda q, before, after, k, v: q @ before)
    d_by_d = Slip(empty=lambda k, v: k.new_zeros(*k.shape[:-2], k.shape[-1], k.shape[-1]), raises="RuntimeError")


def backwards(right: Callable) -> Wrong:
    """The answer `right`, of q, k, v and perhaps a factor for each token and c, of the text turned round."""

    def answer(q: Tensor, *others) -> Tensor:
        turned = [x.flip(-2 if x.dim() == q.dim() else -1) if isinstance(x, Tensor) else x for x in (q, *others)]
        return right(*turned).flip(-2)

    return shared(__file__, "backwards", answer)


def changed_in_place(answer: Callable) -> Wrong:
    """Right values, and numbers that the way back needs overwritten. answer: one that does so."""

    def shown(seen: Observation) -> bool:
        error = seen.backward_error  # without a message in a hidden case
        changed = error and (not error.message or "after it had been kept" in error.message)
        return bool(changed and not seen.modified)

    return shared(__file__, "changed_in_place", answer, recognise=shown, raises="RuntimeError")


def in_another_dtype(answer: Callable) -> Wrong:
    """The right numbers, left in float64."""

    def shown(seen: Observation) -> bool:
        return seen.output.dtype == torch.float64 != seen.args[0].dtype

    return shared(__file__, "another_dtype", lambda *args: answer(*tree_map(in_float64, args)), recognise=shown)


IN_THEIR_DTYPE = Property(
    "the dtype of the inputs",
    lambda output, q, *_: output.dtype == q.dtype,
    "The numbers are right, but they come in another dtype than the inputs.",
)


def sums_anew(seen: Observation) -> bool:
    """A mark: all that stands before a token summed up again for it."""
    q, _, v = seen.args[:3]
    (n, d), d_v = q.shape[-2:], v.shape[-1]
    again = n * (n + 1) * d * d_v
    return not square_made(seen) and again <= seen.flops <= again + 4 * n * d * (d_v + 1)


# --------------------------------------------------------------------------------------------------------------- chunks

MOST_PER_CHUNK = 120  # operations: right answers take 20 to 70, and a loop over the 25 tokens of a chunk at least 125


def limits_of_tokens(n: int, d: int, d_v: int) -> dict[str, int]:
    """O(n d²), for answers that go from token to token."""
    state = n * (d + 1) * (d_v + 1)
    return {"max_flops": 2 * 2 * 2 * n * d * (d_v + 1), "max_elements": 2 * state, "max_elementwise": 16 * state}


def limits_of_chunks(n: int, d: int, d_v: int, c: int) -> dict[str, int]:
    """O(n d² + n c d)."""
    work = n * (2 * d * (d_v + 1) + c * (d + d_v + 1))
    return {
        "max_operations": MOST_PER_CHUNK * -(-n // c),
        "max_flops": 2 * 2 * work,
        "max_elementwise": 2 * work,
        "max_elements": 2 * n * max((d + 1) * (d_v + 1), c),
    }


def chunks(n: int, c: int) -> tuple[Tensor, Tensor]:
    """The chunk of each token, as a column and as a row."""
    chunk = torch.arange(n) // c
    return chunk[:, None], chunk


def last_chunk_left_at_0(right: Callable) -> Callable:
    def answer(q: Tensor, *others) -> Tensor:
        n, c = q.shape[-2], others[-1]
        return right(q, *others) * (torch.arange(n) < n // c * c)[:, None]

    return answer


def last_chunk_dropped(right: Callable) -> Callable:
    return lambda q, *others: right(q, *others)[..., : max(q.shape[-2] // others[-1], 1) * others[-1], :]


def whole_chunks_joined(right: Callable) -> Callable:
    """Where there is none, `cat` has nothing to join."""

    def answer(q: Tensor, *others) -> Tensor:
        output, c = right(q, *others), others[-1]
        return torch.cat([output[..., i * c : (i + 1) * c, :] for i in range(q.shape[-2] // c)], dim=-2)

    return answer


def chunks_anew(seen: Observation) -> bool:
    """A mark: all that stands before a chunk summed up again for it."""
    (q, _, v), c = seen.args[:3], seen.args[-1]
    again = q.numel() * q.shape[-2] * v.shape[-1] // c  # n²/2c multiply-adds for every entry of the state
    return not square_made(seen) and 0.9 * again <= seen.flops < 1.5 * again


def token_by_token(seen: Observation) -> bool:
    """A mark: as many operations as a loop over tokens. A short chunk takes as many as its tokens would."""
    return seen.args[-1] >= 20 and sum(seen.operations.values()) >= 5 * seen.args[0].shape[-2]
