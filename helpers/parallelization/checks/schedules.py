"""Checks of what must wait for what: the longest chain, the step of every cell, the pipeline, the forward passes."""

import math

import torch
from torch import Tensor

from helpers.engine.cases import explicit_case, random_case
from helpers.engine.check import Check, CheckGroup, Misconception, Property
from helpers.engine.common_misconceptions import EXACT, axes_of_size_1_dropped

from .. import schedules

__all__ = ["critical_path", "forward_passes", "layers_in_sequence", "pipeline_steps"]

# ------------------------------------------------------------------------------------------------- the longest chain

LONG = 10_000  # tokens: too many for a call inside a call for each

CALL_IN_A_CALL = "A function of yours calls itself once for each token, and Python ends that at about a thousand calls. What they add up to is a formula."


def a_call_for_each_token(n) -> int:
    return 1 if n == 1 else a_call_for_each_token(n - 1) + 1


def a_call_for_each_token_read(n, layers) -> int:
    return layers if n == 1 else a_call_for_each_token_read(n - 1, layers) + 1


def a_call_for_each_token_written(n, layers) -> int:
    return layers if n == 1 else a_call_for_each_token_written(n - 1, layers) + layers


rnn_steps = Check(
    reference=schedules.rnn_steps,
    cases=[random_case(n=7), random_case(n=LONG), random_case(n=1)],
    within=EXACT,
    misconceptions=[
        Misconception("1 for an RNN", lambda n: 1, "State 2 needs state 1, state 3 needs state 2: no two of them can be computed at once."),
        Misconception("the arrows counted instead of the steps", lambda n: n - 1,
                      "n states in a chain have n − 1 arrows between them. Count the states: each takes a step."),
        Misconception("a tree over the tokens", lambda n: max(1, (n - 1).bit_length()),
                      "Halving works where the operator is associative. A tanh step is not (section 1.8): it has to be done in order."),
        Misconception("all pairs of tokens", lambda n: n * n,
                      "Each token is read once. n² is what attention computes, and it computes it side by side."),
        Misconception("a call inside a call for every token", a_call_for_each_token, CALL_IN_A_CALL, raises="RecursionError"),
    ],
)  # fmt: skip

stacked_rnn_steps = Check(
    reference=schedules.stacked_rnn_steps,
    cases=[random_case(n=7, layers=4), random_case(n=3, layers=5), random_case(n=LONG, layers=2), random_case(n=1, layers=6)],
    within=EXACT,
    misconceptions=[
        Misconception("n·L for the stacked RNN", lambda n, layers: n * layers,
                      "That does one layer after the other. But layer 2 can read token 1 as soon as layer 1 has it, while layer 1 goes on to "
                      "token 2: a wavefront. Trace the longest path with arrows to the right and up only."),
        Misconception("one step too many at the corner", lambda n, layers: n + layers,
                      "A path from the first token at the bottom to the last at the top has n − 1 steps to the right and L − 1 up, and "
                      "a cell at its start."),
        Misconception("the arrows counted instead of the steps", lambda n, layers: n + layers - 2,
                      "The longest path has n + L − 2 arrows. Count its cells: each takes a step."),
        Misconception("all layers at once", lambda n, layers: n,
                      "Layer 2 reads the states of layer 1, so at every token it comes one step later."),
        Misconception("the longer of the two sides", lambda n, layers: max(n, layers),
                      "A path can go right and up. It can't do both in one step."),
        Misconception("2n − L, which fits the picture", lambda n, layers: 2 * n - layers,
                      "It gives 7 for n = 5 and L = 3, by chance. With one layer it must be n, and it has to grow with L, not to fall."),
        Misconception("2L + 1, which fits the picture", lambda n, layers: 2 * layers + 1,
                      "It gives 7 for L = 3, by chance, and doesn't know n. With one layer it must be n."),
        Misconception("2n − 3, which fits the picture", lambda n, layers: 2 * n - 3,
                      "It gives 7 for n = 5, by chance, and doesn't know L. With one layer it must be n."),
        Misconception("L + 4, which fits the picture", lambda n, layers: layers + 4,
                      "It gives 7 for L = 3, by chance, and doesn't know n. Each further token makes the path one cell longer."),
        Misconception("n + 2, which fits the picture", lambda n, layers: n + 2,
                      "It gives 7 for n = 5, by chance, and doesn't know L. Each further layer makes the path one cell longer."),
        Misconception("no more layers than tokens counted", lambda n, layers: n + min(n, layers) - 1,
                      "With fewer tokens than layers the path still goes up through all of the layers: L − 1 times up, whatever n is."),
        Misconception("twice the longer side, less one", lambda n, layers: 2 * max(n, layers) - 1,
                      "That is right only with as many layers as tokens. A path goes n − 1 times to the right and L − 1 times up."),
        Misconception("the longer side plus L − 1", lambda n, layers: max(n, layers) + layers - 1,
                      "That is right only with at least as many tokens as layers. A path goes n − 1 times to the right, also where n is the smaller number, and "
                      "L − 1 times up."),
        Misconception("a call inside a call for every token", a_call_for_each_token_read, CALL_IN_A_CALL, raises="RecursionError"),
    ],
)  # fmt: skip

encoder_steps = Check(
    reference=schedules.encoder_steps,
    cases=[random_case(n=7, layers=4), random_case(n=3, layers=5), random_case(n=LONG, layers=2), random_case(n=1, layers=6)],
    within=EXACT,
    misconceptions=[
        Misconception("1 for all layers of a Transformer", lambda n, layers: 1,
                      "Within a layer all tokens run at once. But layer 2 reads the outputs of layer 1, so layers wait for each other."),
        Misconception("tokens one after the other", lambda n, layers: n,
                      "No token of a layer reads another token of the same layer: all arrows go up, so a path is as long as the stack is high. (`n` is the "
                      "first argument, `layers` the second.)"),
        Misconception("n·L for a Transformer that reads", lambda n, layers: n * layers,
                      "That is the number of cells. All n cells of a layer run in the same step."),
        Misconception("a wavefront in a Transformer", lambda n, layers: n + layers - 1,
                      "That is the stacked RNN, where arrows also go to the right. Here they go up only."),
        Misconception("the arrows counted instead of the steps", lambda n, layers: layers - 1,
                      "L layers have L − 1 arrows between them. Count the layers: each takes a step."),
        Misconception("one step for a single token", lambda n, layers: layers if n > 1 else 1,
                      "A single token goes up through all layers too, one after the other: L steps, whatever n is."),
        Misconception("n − 2, which fits the picture", lambda n, layers: max(n - 2, 1),
                      "It gives 3 for n = 5, by chance. A Transformer that reads takes one step for each layer, however many tokens it reads."),
        Misconception("a tree over the tokens", lambda n, layers: math.ceil(math.log2(n)),
                      "⌈log2 n⌉ gives 3 for n = 5, by chance. A cell reads as many cells as it likes in its one step, so no tree is needed: one step for each "
                      "layer."),
        Misconception("half of the tokens", lambda n, layers: (n + 1) // 2,
                      "It gives 3 for n = 5, by chance. A Transformer that reads takes one step for each layer, however many tokens it reads."),
        Misconception("the shorter of the two sides", lambda n, layers: min(n, layers),
                      "A text shorter than the stack doesn't make the stack shorter: every token goes up through all L layers."),
    ],
)  # fmt: skip

decoder_steps = Check(
    reference=schedules.decoder_steps,
    cases=[random_case(n=7, layers=4), random_case(n=3, layers=5), random_case(n=LONG, layers=2), random_case(n=1, layers=6)],
    within=EXACT,
    misconceptions=[
        Misconception("writing taken for reading", lambda n, layers: layers,
                      "In training the whole text is there and L steps are enough. In writing, a token does not exist before the one before it "
                      "has been through all layers."),
        Misconception("one step for each token written", lambda n, layers: n,
                      "Each token is one pass through the model, and a pass goes up all the layers."),
        Misconception("a wavefront in writing", lambda n, layers: n + layers - 1,
                      "The next token enters at the bottom, and it is known only when the one before it has come out at the top. Nothing can run ahead."),
        Misconception("every token written again at every pass", lambda n, layers: layers * n * (n + 1) // 2,
                      "Token t may look at t tokens, but it does so side by side: a pass costs L steps, however many tokens it reads."),
        Misconception("passes and layers added", lambda n, layers: n + layers,
                      "Each of the n tokens goes up L layers, and none starts before the one before it has arrived: multiply."),
        Misconception("1 + 2 + … + n", lambda n, layers: n * (n + 1) // 2,
                      "It gives 15 for n = 5, by chance. Each new token takes one pass up through the L layers, however many came before it."),
        Misconception("a pass for the start token", lambda n, layers: (n + 1) * layers,
                      "The start token is given, and no pass writes it. It is the input of the pass that writes token 1: n passes in all."),
        Misconception("five steps for each layer", lambda n, layers: 5 * layers,
                      "It gives 15 for L = 3, by chance: n was 5 there. Each of the n tokens takes L steps."),
        Misconception("three steps for each token", lambda n, layers: 3 * n,
                      "It gives 15 for n = 5, by chance: L was 3 there. Each of the n tokens takes L steps."),
        Misconception("the arrows counted instead of the steps", lambda n, layers: n * layers - 1,
                      "n·L cells in a chain have n·L − 1 arrows between them. Count the cells: each takes a step."),
        Misconception("no pass for the first token", lambda n, layers: max(n - 1, 1) * layers,
                      "The first token that is written takes a pass too: it comes from the start token, through all L layers."),
        Misconception("a call inside a call for every token", a_call_for_each_token_written, CALL_IN_A_CALL, raises="RecursionError"),
    ],
)  # fmt: skip

critical_path = CheckGroup("critical_path", rnn_steps, stacked_rnn_steps, encoder_steps, decoder_steps)

# --------------------------------------------------------------------------------------------- the step of every cell

GRIDS = (
    random_case(layers=3, n=5),
    random_case(layers=4, n=2),
    random_case(layers=3, n=3),
    random_case(layers=1, n=5),
    random_case(layers=2, n=300),
)

WHOLE_NUMBERS = Property(
    "whole numbers",
    lambda table, *_: not table.is_floating_point(),
    "The numbers are right, but the table holds floats: a step is a whole number. `torch.ones(…)` and `torch.zeros(…)` make floats unless "
    "you give `dtype=torch.long`.",
)


def as_floats(schedule) -> Misconception:
    return Misconception(
        "a table of floats",
        lambda layers, n: schedule(layers, n).float(),
        "A step is a whole number, and the table is `Int[Tensor, …]`.",
        lambda seen: seen.output.is_floating_point(),
    )


def in_few_bits(schedule) -> Misconception:
    return Misconception(
        "whole numbers of too few bits",
        lambda layers, n: schedule(layers, n).to(torch.int16),
        "`int8` ends at 127, `uint8` at 255, `int16` at 32,767, and then they begin again from below. Long texts have more steps: leave it at the 64 "
        "bits of `torch.arange`.",
        lambda seen: seen.output.dtype in (torch.int8, torch.uint8, torch.int16),
    )


def wavefront(layers, n) -> Tensor:
    return torch.arange(layers)[:, None] + torch.arange(n) + 1


def rows_in_order(layers, n) -> Tensor:
    return torch.arange(1, layers + 1)[:, None].expand(layers, n).clone()


def columns_in_order(layers, n) -> Tensor:
    return torch.arange(1, n + 1).expand(layers, n).clone()


def column_after_column(layers, n) -> Tensor:
    return torch.arange(n) * layers + torch.arange(1, layers + 1)[:, None]


def row_after_row(layers, n) -> Tensor:
    return torch.arange(1, layers * n + 1).view(layers, n)


def one_layer_token_by_token(layers, n) -> Tensor:
    return (columns_in_order if layers == 1 else rows_in_order)(layers, n)


def rows_that_are_one(layers, n) -> Tensor:
    steps = [[0] * n] * layers
    for layer in range(layers):
        for token in range(n):
            steps[layer][token] = 1 + max(
                steps[layer - 1][token] if layer else 0, steps[layer][token - 1] if token else 0
            )
    return torch.tensor(steps)


rnn_schedule = Check(
    reference=schedules.rnn_schedule,
    cases=GRIDS,
    properties=[WHOLE_NUMBERS],
    within=EXACT,
    misconceptions=[
        Misconception("layer after layer", row_after_row,
                      "You let layer 2 wait until layer 1 has read the whole text. It needs only the state of layer 1 at its own token: it can "
                      "start in step 2. (In a loop: for the first token t − 1 is −1, and Python takes that for the last token.)"),
        Misconception("token after token", column_after_column,
                      "You let token 2 wait until token 1 is through all layers. Layer 1 needs only its own state at token 1: it can go on in step 2."),
        Misconception("steps counted from 0", lambda layers, n: wavefront(layers, n) - 1,
                      "The order is right. The first step has the number 1 here, so that the largest number is the length of the critical path."),
        Misconception("tokens and layers swapped", lambda layers, n: wavefront(n, layers),
                      "Rows are layers and columns are tokens: the result is (layers, n)."),
        Misconception("reshaped where axes should be swapped", lambda layers, n: wavefront(n, layers).reshape(layers, n),
                      "These are the steps of an (n, layers) table. A reshape only cuts the same row of numbers into other pieces; a transpose, `table.T`, turns "
                      "its rows into columns."),
        Misconception("all layers of a token at once", columns_in_order,
                      "Layer 2 reads what layer 1 makes of the same token, so it comes one step later."),
        Misconception("all tokens of a layer at once", rows_in_order,
                      "That is a Transformer. In an RNN every state reads the state to its left."),
        Misconception("the two numbers multiplied", lambda layers, n: torch.arange(1, layers + 1)[:, None] * torch.arange(1, n + 1),
                      "A path goes to the right and up, one step at a time: the numbers of its steps add up. `table[1, 1]` is 3."),
        Misconception("the later of the two", lambda layers, n: torch.maximum(rows_in_order(layers, n), columns_in_order(layers, n)),
                      "A cell comes one step after the later of the two cells that it reads, and these have waited too. Fill the grid by hand: "
                      "`table[1, 1]` is 3."),
        Misconception("no two cells in one step, the first layer last", lambda layers, n: row_after_row(layers, n).flip(0),
                      "Layer 1 is row 0, and it comes first. And cells that don't read each other can share a step."),
        Misconception("the last layer in row 0", lambda layers, n: wavefront(layers, n).flip(0),
                      "Row 0 of the table is the first layer, although the pictures draw it at the bottom: don't turn the table round."),
        Misconception("rows that are one and the same list", rows_that_are_one,
                      "`[[0] * n] * layers` holds one row several times: what you write into one layer stands in all of them. "
                      "`[[0] * n for _ in range(layers)]` makes a row for each."),
        as_floats(schedules.rnn_schedule),
        axes_of_size_1_dropped(schedules.rnn_schedule),
        in_few_bits(schedules.rnn_schedule),
    ],
)  # fmt: skip

transformer_schedule = Check(
    reference=schedules.transformer_schedule,
    cases=GRIDS,
    properties=[WHOLE_NUMBERS],
    within=EXACT,
    misconceptions=[
        Misconception("cells of different layers in one step", lambda layers, n: torch.ones(layers, n, dtype=torch.long),
                      "A layer reads what the layer below has made. Cells of different layers can never share a step when all tokens are read."),
        Misconception("a wavefront in a Transformer", wavefront,
                      "That is the stacked RNN. In a Transformer no cell reads its left neighbour in the same layer, so the row need not wait."),
        Misconception("tokens one after the other", columns_in_order,
                      "All tokens of a layer run side by side. It is the layers that wait for each other."),
        Misconception("layer after layer, token after token", row_after_row,
                      "The layers are in the right order, but within a layer all tokens share one step."),
        Misconception("steps counted from 0", lambda layers, n: rows_in_order(layers, n) - 1,
                      "The order is right. The first step has the number 1 here, so that the largest number is the length of the critical path."),
        Misconception("the top layer first", lambda layers, n: rows_in_order(layers, n).flip(0),
                      "Row 0 is the first layer, which reads the tokens: it has step 1."),
        Misconception("one column for all tokens", lambda layers, n: rows_in_order(layers, 1),
                      "The table has a column for every token, even where all columns are alike: `.expand(layers, n)`."),
        Misconception("1 … L written out again and again", lambda layers, n: torch.arange(1, layers + 1).repeat(n).view(layers, n),
                      "Whole copies of 1 … L stand one behind the other (so `repeat(n)` puts them, and so they lie in an (n, layers) table), and a row cuts through "
                      "them. In row l every number is l + 1: `repeat_interleave`, a second axis that is expanded, or a transpose."),
        Misconception("tokens one after the other in a single layer", one_layer_token_by_token,
                      "With several layers your table is right. In a single one, too, all tokens run in step 1. (In a loop: for the first layer l − 1 is −1, and Python "
                      "takes that for the last row. With one layer it is the row that is being filled.)"),
        as_floats(schedules.transformer_schedule),
        in_few_bits(schedules.transformer_schedule),
        axes_of_size_1_dropped(schedules.transformer_schedule),
        Misconception("tokens and layers swapped", lambda layers, n: rows_in_order(layers, n).mT.contiguous(),
                      "Rows are layers and columns are tokens: the result is (layers, n)."),
    ],
)  # fmt: skip

writing_schedule = Check(
    reference=schedules.writing_schedule,
    cases=GRIDS,
    properties=[WHOLE_NUMBERS],
    within=EXACT,
    misconceptions=[
        Misconception("writing taken for reading", rows_in_order,
                      "All tokens of a layer share a step only if all tokens are known. Token 2 is not known before token 1 has been through the "
                      "top layer."),
        Misconception("a wavefront in writing", wavefront,
                      "Token 2 can't enter layer 1 in step 2: it is chosen from the top layer's output for token 1."),
        Misconception("layer after layer", row_after_row,
                      "You take the whole text through layer 1 first. But there is no token 2 yet when layer 1 runs for the first time. (If the numbers came from an "
                      "(n, layers) table: a reshape leaves them in this order, `table.T` turns its rows into columns.)"),
        Misconception("all layers of a token at once", columns_in_order,
                      "Each token goes up through the layers one by one: L steps for a token."),
        Misconception("steps counted from 0", lambda layers, n: column_after_column(layers, n) - 1,
                      "The order is right. The first step has the number 1 here, so that the largest number is the length of the critical path."),
        Misconception("L − 1 steps from token to token", lambda layers, n: torch.arange(layers)[:, None] + (layers - 1) * torch.arange(n) + 1,
                      "A token goes up through L layers, a step each, and only then can the next one start: L steps from token to token, not L − 1."),
        Misconception("tokens and layers swapped", lambda layers, n: column_after_column(layers, n).mT.contiguous(),
                      "Rows are layers and columns are tokens: the result is (layers, n)."),
        Misconception("a row cut where a column should be", lambda layers, n: torch.arange(1, layers * n + 1).view(layers, n).mT.contiguous(),
                      "The steps run up the columns: cut 1, 2, 3 … into n pieces of L, `view(n, layers)`, and then transpose."),
        Misconception("n steps from token to token", lambda layers, n: torch.arange(layers)[:, None] + n * torch.arange(n) + 1,
                      "From one token to the next it takes as many steps as there are layers. With as many tokens as layers one doesn't notice."),
        Misconception("the last layer in row 0", lambda layers, n: column_after_column(layers, n).flip(0),
                      "Row 0 of the table is the first layer, although the pictures draw it at the bottom: don't turn the table round."),
        as_floats(schedules.writing_schedule),
        axes_of_size_1_dropped(schedules.writing_schedule),
        in_few_bits(schedules.writing_schedule),
    ],
)  # fmt: skip

layers_in_sequence = CheckGroup("layers_in_sequence", rnn_schedule, transformer_schedule, writing_schedule)

# ------------------------------------------------------------------------------------------ pipelines, forward passes


def _smaller_bubble(seen) -> bool:
    """A bubble of the right form, which the smaller of L and M has made too small: for one device, or the whole area."""
    layers, micro_batches = seen.args
    side, steps = min(seen.args), layers + micro_batches - 1
    wrong = ((side - 1) / steps, side * (side - 1) / (layers * steps))
    return (
        side < layers
        and seen.output[0] == steps
        and any(math.isclose(seen.output[1], one, abs_tol=1e-9) for one in wrong)
    )


pipeline_steps = Check(
    reference=schedules.pipeline_steps,
    cases=[random_case(layers=4, micro_batches=8), random_case(layers=3, micro_batches=2), random_case(layers=6, micro_batches=1), random_case(layers=1, micro_batches=5)],
    within=(1e-3, 1e-6),
    misconceptions=[
        Misconception("L·M: one micro-batch at a time",
                      lambda layers, micro_batches: (layers * micro_batches, (layers - 1) / layers),
                      "While device 2 works on the first micro-batch, device 1 can take the second. It is the wavefront of section 1.3 again."),
        Misconception("the drain forgotten", lambda layers, micro_batches: (micro_batches, 0.0),
                      "After M steps the last micro-batch has left device 1, and no other. It still has L − 1 devices to go."),
        Misconception("all L layers idle", lambda layers, micro_batches: (micro_batches + layers - 1, layers / (micro_batches + layers - 1)),
                      "A device waits for the *other* devices, L − 1 of them. With one layer it never waits."),
        Misconception("a step too many", lambda layers, micro_batches: (micro_batches + layers, (layers - 1) / (micro_batches + layers)),
                      "The first micro-batch takes L steps, and each of the other M − 1 comes out one step later: M + L − 1."),
        Misconception("divided by the devices once more", lambda layers, micro_batches: (micro_batches + layers - 1, (layers - 1) / layers / (micro_batches + layers - 1)),
                      "L − 1 idle steps of M + L − 1: that is the fraction for one device, and the same for all. For the whole chart both numbers are L times as large."),
        Misconception("the first micro-batch counted twice",
                      lambda layers, micro_batches: (micro_batches + layers, layers / (micro_batches + layers)),
                      "The first micro-batch takes L steps. Each of the other M − 1 comes out one step later."),
        Misconception("idle time against working time",
                      lambda layers, micro_batches: (micro_batches + layers - 1, (layers - 1) / micro_batches),
                      "L − 1 idle steps for M working steps is a ratio of the two. The fraction is of all M + L − 1 steps."),
        Misconception("the busy fraction",
                      lambda layers, micro_batches: (micro_batches + layers - 1, micro_batches / (micro_batches + layers - 1)),
                      "That is the share of time in which a device works. The idle fraction is the rest."),
        Misconception("fill and drain counted twice",
                      lambda layers, micro_batches: (micro_batches + 2 * (layers - 1), 2 * (layers - 1) / (micro_batches + 2 * (layers - 1))),
                      "Device 1 idles only at the end and device L only at the start. Each idles L − 1 steps in all, not twice that."),
        Misconception("idle cells instead of a fraction",
                      lambda layers, micro_batches: (micro_batches + layers - 1, layers * (layers - 1)),
                      "L devices idle L − 1 steps each: that is the area of the bubble. Divide it by the area of the whole chart."),
        Misconception("a percentage",
                      lambda layers, micro_batches: (micro_batches + layers - 1, 100 * (layers - 1) / (micro_batches + layers - 1)),
                      "A fraction lies between 0 and 1."),
        Misconception("micro-batches and layers swapped",
                      lambda layers, micro_batches: (micro_batches + layers - 1, (micro_batches - 1) / (micro_batches + layers - 1)),
                      "The steps are the same either way, the bubble is not: it is the other devices that a device waits for, L − 1 of them."),
        Misconception("twice the longer side, less one",
                      lambda layers, micro_batches: (2 * max(layers, micro_batches) - 1, 1 - micro_batches / (2 * max(layers, micro_batches) - 1)),
                      "That is right only for M = L. The last micro-batch starts in step M and takes L steps."),
        Misconception("the longer side plus L − 1",
                      lambda layers, micro_batches: (max(layers, micro_batches) + layers - 1, 1 - micro_batches / (max(layers, micro_batches) + layers - 1)),
                      "That is right only with at least as many micro-batches as layers. The last micro-batch starts in step M, however small M is, and takes "
                      "L steps."),
        Misconception("2L − 1 steps, whatever M is",
                      lambda layers, micro_batches: (2 * layers - 1, (layers - 1) / (2 * layers - 1)),
                      "That is right only for M = L. Each further micro-batch comes out one step later.",
                      lambda seen: seen.output[0] == 2 * seen.args[0] - 1),
        Misconception("the bubble cut down to the micro-batches",
                      lambda layers, micro_batches: (micro_batches + layers - 1, (min(layers, micro_batches) - 1) / (micro_batches + layers - 1)),
                      "With fewer micro-batches than layers a device still waits as long: L − 1 steps, and works M of them. The two idle corners of the chart are as "
                      "large as ever, L(L − 1)/2 cells each.",
                      _smaller_bubble),
        Misconception("one corner of the bubble",
                      lambda layers, micro_batches: (micro_batches + layers - 1, (layers - 1) / 2 / (micro_batches + layers - 1)),
                      "Devices wait for work at the start (fill) and have run out of it at the end (drain): both corners are idle."),
        Misconception("nothing idle with one micro-batch",
                      lambda layers, micro_batches: (layers, 0.0) if micro_batches == 1 else
                      (micro_batches + layers - 1, (layers - 1) / (micro_batches + layers - 1)),
                      "With one micro-batch one device works at a time and the others wait: (L − 1)/L of all device time is idle."),
        Misconception("the backward pass counted too",
                      lambda layers, micro_batches: (2 * (micro_batches + layers - 1), (layers - 1) / (micro_batches + layers - 1)),
                      "Only the way through the layers is asked for: a forward pass, in which each layer takes one step."),
        Misconception("a fraction cut off by //",
                      lambda layers, micro_batches: (micro_batches + layers - 1, (layers - 1) // (micro_batches + layers - 1)),
                      "`//` cuts off the fraction, and what is left of a number below 1 is 0. Divide with `/`."),
        Misconception("a rounded fraction",
                      lambda layers, micro_batches: (micro_batches + layers - 1, round((layers - 1) / (micro_batches + layers - 1), 2)),
                      "Return the fraction as it comes out, with all its digits. The example by hand is rounded for reading."),
    ],
)  # fmt: skip

forward_passes = Check(
    reference=schedules.forward_passes,
    quiz=True,
    cases=[explicit_case("both numbers")],
    within=EXACT,
    misconceptions=[
        Misconception("one pass for each token in training", lambda: (128, 128),
                      "In training the whole text is known. Each position can be given the true tokens before it (teacher forcing), all in one pass."),
        Misconception("one pass to write everything", lambda: (1, 1),
                      "Token 2 is an input of the pass that makes token 3. It has to be known before that pass can start."),
        Misconception("training and writing swapped", lambda: (128, 1),
                      "Where is the whole text known from the start, in training or in writing?"),
        Misconception("one token without a pass", lambda: (1, 127),
                      "Every one of the 128 new tokens comes out of a pass, the first and the last too."),
        Misconception("a pass for each token before it", lambda: (1, 8256),
                      "A pass runs on all tokens that are known at once. A new token takes one pass, not one for each token before it."),
        Misconception("tokens counted instead of passes", lambda: (128, 8256),
                      "A pass is one run of the whole model, however many tokens it reads: it counts as 1."),
        Misconception("one more pass to stop", lambda: (1, 129),
                      "If the model has to write 128 tokens, it can stop when the 128th is there."),
    ],
)  # fmt: skip
