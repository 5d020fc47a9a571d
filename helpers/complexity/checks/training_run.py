"""The check of the bill of a training run."""

from helpers.engine.cases import random_case
from helpers.engine.check import Misconception
from helpers.engine.common_misconceptions import EXACT
from helpers.engine.table_check import Table, in_rows

from ..training_run import training_run as reference

__all__ = ["training_run"]

HOUR, DAY = 3600, 86_400


def _bill(parameters, tokens, devices, peak, mfu, *, each=6, seconds=DAY, rate=None, state=16, text=20):
    """The four rows with one thing or another done wrong."""
    flops = each * parameters * tokens
    rate = devices * peak * mfu if rate is None else rate
    return {
        "flops": flops,
        "days": flops / (rate * seconds),
        "bytes": state * parameters,
        "chinchilla_tokens": text * parameters,
    }


def _slip(name, wrong, words, *rows):
    return Misconception(name, wrong, words, in_rows(wrong, *rows))


def _swapped(parameters, tokens, *machine):
    return {**_bill(parameters, tokens, *machine), "chinchilla_tokens": tokens / 20}


def _of_tokens(parameters, tokens, *machine):
    return {**_bill(parameters, tokens, *machine), "chinchilla_tokens": 20 * tokens}


def _this_run(parameters, tokens, *machine):
    return {**_bill(parameters, tokens, *machine), "chinchilla_tokens": tokens}


def _from_flops(parameters, tokens, *machine):
    rows = _bill(parameters, tokens, *machine)
    return {**rows, "chinchilla_tokens": (20 * rows["flops"] / 6) ** 0.5}


def _rounded(parameters, tokens, *machine):
    rows = _bill(parameters, tokens, *machine)
    return {**rows, "days": rows["days"] // 1}


def _of_each_device(parameters, tokens, devices, *machine):
    rows = _bill(parameters, tokens, devices, *machine)
    return {**rows, "bytes": rows["bytes"] / devices}


def _copied_to_each_device(parameters, tokens, devices, *machine):
    rows = _bill(parameters, tokens, devices, *machine)
    return {**rows, "bytes": rows["bytes"] * devices}


def _flops_times_mfu(*run):
    rows = _bill(*run)
    return {**rows, "flops": rows["flops"] * run[-1]}


def _flops_by_mfu(*run):
    rows = _bill(*run)
    return {**rows, "flops": rows["flops"] / run[-1]}


def _own_days(rows, parameters, tokens, devices, peak, mfu):
    """The days that follow from the FLOPs in the same table."""
    return rows["flops"] / (devices * peak * mfu * DAY)


training_run = Table(
    reference=reference,
    columns=("value",),
    follows={"days": _own_days},
    cases=[
        random_case(
            "1 billion parameters, one A100", parameters=10**9, tokens=20 * 10**9, devices=1, peak=312e12, mfu=0.4
        ),
        random_case(
            "a small model on 8 devices", parameters=124_439_808, tokens=10**10, devices=8, peak=65e12, mfu=0.3
        ),
        random_case("GPT-3's size", parameters=175 * 10**9, tokens=300 * 10**9, devices=1024, peak=125e12, mfu=0.25),
        random_case("7 parameters, 3 tokens", parameters=7, tokens=3, devices=2, peak=10.0, mfu=0.5),
        random_case("8 parameters, 3 tokens", parameters=8, tokens=3, devices=2, peak=10.0, mfu=0.5),
        random_case("7 parameters, 4 tokens", parameters=7, tokens=4, devices=2, peak=10.0, mfu=0.5),
        random_case("7 parameters, 3 tokens, 3 devices", parameters=7, tokens=3, devices=3, peak=10.0, mfu=0.5),
        random_case("7 parameters, 3 tokens, slower", parameters=7, tokens=3, devices=2, peak=5.0, mfu=0.5),
        random_case("7 parameters, 3 tokens, better used", parameters=7, tokens=3, devices=2, peak=10.0, mfu=0.7),
    ],
    within=EXACT,
    misconceptions=[
        _slip(
            "the forward pass only",
            lambda *run: _bill(*run, each=2),
            "2 FLOPs for each parameter and token is the forward pass. The backward pass costs 4 more: 6 in all (7.14).",
            "flops",
        ),
        _slip(
            "multiply-adds instead of FLOPs",
            lambda *run: _bill(*run, each=3),
            "Each multiply-add is 2 FLOPs: 3 products, 6 FLOPs.",
            "flops",
        ),
        _slip(
            "4 FLOPs instead of 6",
            lambda *run: _bill(*run, each=4),
            "Forward takes 2 FLOPs for each parameter and token, backward 4: together 6.",
            "flops",
        ),
        _slip(
            "recomputation counted",
            lambda *run: _bill(*run, each=8),
            "8 counts the forward pass twice, as when activations are recomputed. The rule counts only what the model needs: 6.",
            "flops",
        ),
        _slip(
            "FLOPs times the utilisation",
            _flops_times_mfu,
            "The model needs all of its FLOPs, however well its devices are used: the utilisation changes only the days.",
            "flops",
        ),
        _slip(
            "FLOPs divided by the utilisation",
            _flops_by_mfu,
            "That is what the devices could do in the same time. The model needs 6 for each parameter and token, however well they are used.",
            "flops",
        ),
        _slip(
            "every device at its peak",
            lambda parameters, tokens, devices, peak, mfu: _bill(
                parameters, tokens, devices, peak, mfu, rate=devices * peak
            ),
            "No run keeps its devices busy all the time. Only the share `mfu` of the peak is used, so it takes 1/mfu times as long.",
            "days",
        ),
        _slip(
            "times the utilisation, not divided by it",
            lambda parameters, tokens, devices, peak, mfu: _bill(
                parameters, tokens, devices, peak, mfu, rate=devices * peak / mfu
            ),
            "The less of a device is used, the longer it takes. Multiply the FLOP/s by the utilisation, and divide by the product.",
            "days",
        ),
        _slip(
            "one device",
            lambda parameters, tokens, devices, peak, mfu: _bill(
                parameters, tokens, devices, peak, mfu, rate=peak * mfu
            ),
            "All devices compute side by side: their FLOP/s add up.",
            "days",
        ),
        _slip("hours", lambda *run: _bill(*run, seconds=HOUR), "Your number is in hours: divide by 24.", "days"),
        _slip(
            "seconds",
            lambda *run: _bill(*run, seconds=1),
            "FLOPs divided by FLOP/s are seconds. A day has 86,400 of them.",
            "days",
        ),
        _slip(
            "minutes",
            lambda *run: _bill(*run, seconds=60),
            "Your number is in minutes: a day has 1,440 of them.",
            "days",
        ),
        _slip("whole days", _rounded, "Don't round: a run may take half a day.", "days"),
        _slip(
            "the bytes of one device",
            _of_each_device,
            "The bytes of all devices together are asked for. Each parameter's five numbers are kept once, however many devices share them.",
            "bytes",
        ),
        _slip(
            "a copy on every device",
            _copied_to_each_device,
            "Each parameter's five numbers are counted once for the whole run, not once on every device.",
            "bytes",
        ),
        _slip(
            "only the weights, in 16 bits",
            lambda *run: _bill(*run, state=2),
            "Each weight also has a gradient, a copy in float32, and Adam's two averages: 2 + 2 + 4 + 4 + 4 bytes.",
            "bytes",
        ),
        _slip(
            "only weights and gradients",
            lambda *run: _bill(*run, state=4),
            "Adam keeps two averages for each parameter, and a copy of the weight in float32.",
            "bytes",
        ),
        _slip(
            "one average instead of two",
            lambda *run: _bill(*run, state=12),
            "Adam keeps two averages, of the gradient and of its square: 4 bytes each. (Without the float32 copy of the weights it would also be 12.)",
            "bytes",
        ),
        _slip(
            "no gradients",
            lambda *run: _bill(*run, state=14),
            "The gradient is stored too, with 2 bytes a parameter.",
            "bytes",
        ),
        _slip(
            "numbers instead of bytes",
            lambda *run: _bill(*run, state=5),
            "Five numbers are kept for each parameter: two of them with 2 bytes, three with 4.",
            "bytes",
        ),
        _slip(
            "all five numbers in float32",
            lambda *run: _bill(*run, state=20),
            "Weight and gradient take 2 bytes each here, the other three numbers 4.",
            "bytes",
        ),
        _slip(
            "bits instead of bytes",
            lambda *run: _bill(*run, state=128),
            "Your number is in bits: divide by 8.",
            "bytes",
        ),
        _slip(
            "20 parameters for each token",
            _swapped,
            "It is 20 tokens for each parameter: more text than weights.",
            "chinchilla_tokens",
        ),
        _slip(
            "the tokens that this run sees",
            _this_run,
            "That is what this run happens to use. The question is what would suit a model of this size: 20 tokens for each parameter.",
            "chinchilla_tokens",
        ),
        _slip(
            "20 times the tokens that it sees",
            _of_tokens,
            "How much text suits a model depends on its size, not on the text of this run: 20 tokens for each parameter.",
            "chinchilla_tokens",
        ),
        _slip(
            "the tokens for this budget",
            _from_flops,
            "That is how many tokens the best model *for these FLOPs* would see. Here the size is given: 20 tokens for each of these parameters.",
            "chinchilla_tokens",
        ),
        _slip(
            "as many tokens as parameters",
            lambda *run: _bill(*run, text=1),
            "The rule is 20 tokens for each parameter, not 1.",
            "chinchilla_tokens",
        ),
    ],
)
