"""One submission, two kernels: scores, values and calls over the border, and what is said when something is missing."""

import time
from copy import deepcopy

import pytest
import torch
from nbformat.v4 import new_code_cell

from autograder import notebooks
from autograder.grading.judge_notebook import judge_notebook, static_rules
from autograder.grading.static_checks import find_forbidden
from autograder.judge import outputs, proxies, submission
from autograder.judge.cell_source import unknown_names
from autograder.judge.judge import Limits
from autograder.judge.kernel import Kernel
from autograder.judge.pip_blocker import LEFT_OUT
from autograder.judge.protocol import ReplyTimeout
from autograder.judge.proxies import RemoteError, observation
from autograder.judge.sanitize_outputs import clean_html, sanitize_display
from autograder.judge.submission import listen
from autograder.sanitize_html import NO_PICTURE
from helpers.engine.mime import MIME

UNIT = "02_small"
LIMITS = Limits(cell_seconds=10, notebook_seconds=200)


def cell(notebook, name):
    return next(cell for cell in notebook.cells if notebooks.grade_id(cell) == name)


def results(notebook) -> dict:
    return {result.exercise: result for result in map(outputs.read_result, notebooks.tests(notebook))}


def scores(notebook) -> list[float]:
    return [result.score for result in results(notebook).values()]


def asked(kernels, notebook, answer: str, question: str) -> str:
    """What a test cell that says `question` shows when the student's cell says `answer`."""
    cell(notebook, "softmax").source, test = answer, cell(notebook, "softmax_test")
    test.source = question
    notebook.cells = notebook.cells[: notebook.cells.index(test) + 1]
    judge_notebook(notebook, UNIT, LIMITS, kernels)
    return next((output.data["text/plain"] for output in test.outputs if "data" in output), str(test.outputs))


def test_kernels_that_are_slow_to_start_cost_a_submission_none_of_its_time(monkeypatch, kernels, notebook):
    ready = kernels.ready
    monkeypatch.setattr(kernels, "ready", lambda kernel: time.sleep(8) or ready(kernel))
    judge_notebook(notebook, UNIT, Limits(cell_seconds=10, notebook_seconds=8), kernels)
    assert scores(notebook) == [2, 3, 1]


def test_right_answers_get_full_marks_and_the_outputs_of_a_normal_run(kernels, notebook):
    judge_notebook(notebook, UNIT, LIMITS, kernels)
    assert scores(notebook) == [2, 3, 1]
    shown = cell(notebook, "softmax_test").outputs[0]
    assert shown.output_type == "execute_result" and set(shown.data) == {"text/plain", "text/html", MIME}


def test_the_released_notebook_gets_nothing(kernels, course):
    released = notebooks.read(course.released(UNIT))
    judge_notebook(released, UNIT, LIMITS, kernels)
    assert scores(released) == [0, 0, 0]
    assert all(result.diagnosis == "not attempted" for result in results(released).values())


def test_a_misconception_is_still_named(kernels, notebook):
    cell(notebook, "softmax").source = "def softmax(x, dim):\n    return x.exp() / x.exp().sum(dim, keepdim=True)"
    judge_notebook(notebook, UNIT, LIMITS, kernels)
    assert results(notebook)["softmax"].diagnosis not in (None, "not attempted")


@pytest.mark.parametrize(("source", "said"), [
    ("def softmax(x, dim)\n    return x", "its cell failed with SyntaxError"),
    ("1 / 0\ndef softmax(x, dim): return x", "its cell failed with ZeroDivisionError"),
    ("def softmaxx(x, dim): return x", "`softmax` isn't defined"),
    ("import os\nos._exit(1)\ndef softmax(x, dim): return x", "its cell failed with KernelDied"),
], ids=["syntax", "error", "name", "dead"])  # fmt: skip # a drawn table
def test_a_missing_name_costs_its_item_and_says_why(kernels, notebook, source, said):
    cell(notebook, "softmax").source = source
    judge_notebook(notebook, UNIT, LIMITS, kernels)
    assert scores(notebook) == [0, 3, 1] and said in results(notebook)["softmax"].message


def test_test_cells_see_the_state_at_their_place(kernels, notebook):
    notebook.cells.append(new_code_cell("def softmax(x, dim): return None\ndef attend(*a): return None"))
    judge_notebook(notebook, UNIT, LIMITS, kernels)
    assert scores(notebook) == [2, 3, 1]


def test_what_a_test_call_does_is_seen_by_no_cell(kernels, notebook):
    cell(notebook, "softmax").source = "calls = []\n" + cell(notebook, "softmax").source.replace(
        "    e =", "    calls.append(open('/tmp/seen', 'a'))\n    e ="
    )
    notebook.cells.append(new_code_cell("import os\nprint(len(calls), os.path.exists('/tmp/seen'))"))
    judge_notebook(notebook, UNIT, LIMITS, kernels)
    assert scores(notebook) == [2, 3, 1] and notebook.cells[-1].outputs[0].text == "0 False\n"


CLASS = """
class Layer(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = torch.nn.Linear(width, 2)
        self.width = width
    def forward(self, x):
        return self.linear(x)
    def twice(self, x, by=2):
        return by * self(x)
"""


@pytest.mark.parametrize(("answer", "question", "shown"), [
    ("softmax = {'a': [1, (2.5, None)], 'b': torch.tensor([True])}", "softmax",
     "{'a': [1, (2.5, None)], 'b': tensor([True])}"),
    ("def softmax(*a, **k): return a, k", "softmax(1, x=[2])", "((1,), {'x': [2]})"),
    ("def softmax(x): return x.sum()",
     "type(softmax(__import__('torch').ones(3))).__name__, softmax(__import__('torch').ones(3)).item()",
     "('Tensor', 3.0)"),
    ("def softmax(f): return f(2) + f(3)", "softmax(lambda x: x * 10)", "50"),
    ("def softmax(f): return f(lambda x: x + 1)", "softmax(lambda g: g(41))", "42"),
    ("def softmax(f): return next(f) + sum(f)",
     "from helpers.engine.drivers import Stream\nf = Stream([1, 2, 3])\nsoftmax(f), softmax(Stream([5])), f.taken",
     "(6, 5, 3)"),
    ("def softmax(): return lambda x: x + 1", "softmax()(1)", "2"),
    (CLASS + "softmax = Layer",
     "layer = softmax(3)\nlayer.width, sorted(layer.state_dict()), len(list(layer.parameters()))",
     "(3, ['linear.bias', 'linear.weight'], 2)"),
    (CLASS + "softmax = Layer",
     "layer, state = softmax(3), {'linear.weight': torch.ones(2, 3), 'linear.bias': torch.zeros(2)}\n"
     "layer.load_state_dict(state)\nlayer(torch.ones(3)).tolist(), layer.twice(torch.ones(3), by=3).tolist()",
     "([3.0, 3.0], [9.0, 9.0])"),
    (CLASS + "softmax = Layer", "layer, wants = softmax(3), []\n"
     "softmax.register_forward_hook(layer.get_submodule('linear'), lambda _, x, y: wants.append(y.requires_grad) or "
     "y.detach())\n"
     "layer.register_forward_hook(lambda _, x, y: wants.append(y.requires_grad))\nlen(layer(torch.ones(3))), wants",
     "(2, [True, False])"),
    (CLASS + "softmax = Layer", "softmax", "<class Layer>"),
    ("import types\nsoftmax = types.ModuleType('mine')\nsoftmax.f = lambda x: -x", "softmax.f(3)", "-3"),
], ids=["value", "arguments", "tensor", "call back", "call back and forth", "iterator", "function", "class",
        "load_state_dict", "hooks", "repr", "module"])  # fmt: skip # a drawn table
def test_values_functions_classes_and_modules_come_over(kernels, notebook, answer, question, shown):
    assert asked(kernels, notebook, answer, question) == shown


@pytest.mark.parametrize(("answer", "said"), [
    ("def softmax(x): raise KeyError('mine')",
     "KeyError('mine') at line 1, in `softmax`: def softmax(x): raise KeyError('mine')"),
    ("def softmax(x): x += 1", "changed [0]"),
    ("def softmax(x): return (x @ x).softmax(0)", "forbidden ['softmax'"),
    ("def softmax(x): return x @ x", "flops 16 largest 4 living 4 gradients [(2, 2)]"),
    ("def softmax(x): return x.exp()", "kept 4 on the way back ['detach', 'mul'"),
    ("def softmax(x): y = x.exp(); y += 1; return y * y.detach().exp_()", "RuntimeError(one of the variables"),
    ("class softmax:\n    def __call__(self): pass", "TypeError"),
    ("softmax = 5", "TypeError"),
], ids=["error", "modified", "forbidden", "counts", "way back", "error on the way back", "class",
        "no function"])  # fmt: skip # a drawn table
def test_calls_are_watched_where_they_run(kernels, notebook, answer, said):
    question = """
from helpers.engine.observe import observe
seen = observe(softmax, (torch.eye(2),), forbids=("softmax",), gradient=True)
error = seen.error or seen.backward_error
words = f"{error.kind}({error.message}) at {error.where}" if error else ""
words += f" changed {list(seen.modified)}" if seen.modified else ""
words += f" forbidden {list(seen.forbidden)}" if seen.forbidden else ""
words += f" operations {sorted(seen.operations)} flops {seen.flops} largest {seen.largest} living {seen.living}"
words += f" gradients {[tuple(g.shape) for g in seen.gradients if g is not None]}" if seen.gradients else ""
words += f" kept {seen.saved} on the way back {[*seen.backward_operations]} {seen.backward_flops}"
words += f" {seen.backward_largest}"
words"""
    assert said in asked(kernels, notebook, answer, question).replace("\\'", "'")


@pytest.mark.parametrize(("field", "value"), [
    ("saved", -1), ("saved", "many"), ("living", -1), ("living", None), ("elementwise", None), ("keeps", "all"),
    ("backward_operations", {"mm": 1.5}), ("backward_operations", [3]), ("backward_flops", None),
    ("backward_largest", True), ("gradients", (torch.ones(2), torch.ones(2))), ("gradients", ("no tensor",)),
    ("gradients", 5),
])  # fmt: skip # a drawn table
def test_what_a_students_kernel_says_of_the_way_back_is_not_believed_in_any_form(field, value):
    said = {"output": 1, "error": None, "operations": {}, "flops": 0, "largest": 0, "living": 0, "keeps": 0,
            "elementwise": 0, "modified": (), "gradients": (torch.ones(2),),
            "forbidden": (), "saved": 0, "backward_operations": {}, "backward_flops": 0, "backward_largest": 0,
            "backward_error": None}  # fmt: skip # a drawn table
    assert observation((torch.ones(2),), {}, said).error is None
    assert observation((torch.ones(2),), {}, said | {field: value}).error.kind == "BorderError"


@pytest.mark.parametrize(("kept", "shown"), [("x", "[-0.5, -0.5]"), ("x.clone()", "[1.0, 1.0]")])
def test_a_caller_can_use_its_tensors_again_where_the_call_ran(kernels, notebook, kept, shown):
    answer = f"kept = []\ndef softmax(x):\n    kept.append({kept})\n    return kept[0]"
    question = """
from helpers.engine.observe import observe
observe(softmax, (torch.ones(2),), reuses=True)
observe(softmax, (torch.ones(2),)).output.tolist()"""
    assert asked(kernels, notebook, answer, question) == shown


def test_calls_inside_an_observation_of_the_judges_are_counted_there(kernels, notebook):
    question = """
from helpers.engine.observe import observe
seen = observe(lambda f: f(torch.eye(2)), (softmax,))
sorted(seen.operations), seen.flops"""
    assert asked(kernels, notebook, "def softmax(x): return x @ x", question) == "(['eye', 'mm'], 16)"


def test_lines_of_python_are_counted_where_they_run(kernels, notebook):
    question = """
from helpers.engine.observe import observe
every = [observe(softmax, (n,), steps=2_000) for n in (100, 10_000)]
every += [observe(lambda f, n: [f(n) for _ in range(9)][0], (softmax, n), steps=2_000) for n in (100, 10_000)]
[seen.error.kind if seen.error else seen.output for seen in every]"""
    answer = "def softmax(x):\n    for _ in range(x):\n        x -= 1\n    return x"
    assert asked(kernels, notebook, answer, question) == "[0, 'TooManySteps', 0, 'TooManySteps']"


READ_ONLY = """
import dataclasses
@dataclasses.dataclass(frozen=True)
class Frozen:
    width: int = 3
    twice = property(lambda self: 2 * self.width)
    def odd(self): raise type("Odd", (KeyError,), {})()
softmax = Frozen"""


@pytest.mark.parametrize(("does", "caught"), [
    ("made.width = 4", "AttributeError"), ("made.twice = 4", "AttributeError"), ("made.height", "AttributeError"),
    ("made.odd()", "LookupError"), ("made.width()", "TypeError"), ("made(1)", "TypeError"),
])  # fmt: skip # a drawn table
def test_an_error_can_be_caught_as_where_it_was_raised(kernels, notebook, does, caught):
    question = f"made = softmax()\ntry: {does}\nexcept {caught}: caught = True\ncaught, getattr(made, 'height', 5)"
    assert asked(kernels, notebook, READ_ONLY, question) == "(True, 5)"


@pytest.mark.parametrize("bases", [
    ["AttributeError"], ["UnicodeDecodeError"], ["ExceptionGroup"], ["SystemExit"], ["print"], ["no such"], 7, [[]],
])  # fmt: skip # a drawn table
def test_whatever_a_students_kernel_says_an_error_is_it_is_one(bases):
    error = proxies._raised(proxies._student_error({"kind": "Odd", "message": "m", "bases": bases}))
    assert isinstance(error, RemoteError) and error.student_error.kind == "Odd" and not isinstance(error, SystemExit)


SOFTMAX = (
    "def softmax(x, dim):\n    e = (x - x.amax(dim=dim, keepdim=True)).exp()\n    {}\n"
    "    return e / e.sum(dim=dim, keepdim=True)"
)
IN_A_THREAD = """
def softmax(x, dim):
    found = []
    thread = threading.Thread(target=lambda: found.append({}))
    thread.start()
    thread.join()
    return found[0]"""


def note(notebook) -> str:
    return "".join(output.get("text", "") for output in cell(notebook, "softmax_test").outputs)


def test_a_forbidden_name_that_was_not_seen_running_makes_a_note_and_costs_nothing(kernels, notebook):
    cell(notebook, "softmax").source = SOFTMAX.format("if len(x) > 1000: return vars(torch)['soft' + 'max'](x, dim)")
    judge_notebook(notebook, UNIT, LIMITS, kernels)
    assert scores(notebook) == [2, 3, 1] and "names `softmax`" in note(notebook)


@pytest.mark.parametrize("source", [
    IN_A_THREAD.format("torch.softmax(x, dim)"), IN_A_THREAD.format("vars(torch)['softmax'](x, dim)"),
    "import _thread\nstart = _thread.start_new_thread\ndef softmax(x, dim):\n    found = []\n"
    "    start(lambda: found.append(torch.softmax(x, dim)), ())\n    while not found: pass\n    return found[0]",
    "import os\ndef softmax(x, dim):\n    if os.fork() == 0: os._exit(0)\n"
    "    with torch._C.DisableTorchFunction(): return torch.exp(torch.ops.aten.log_softmax(x, dim))",
    "get_ipython().input_transformers_cleanup.append(lambda lines: [line.replace('§', 'torch.softmax') for line in "
    "lines])\n",
], ids=["thread", "thread and subscript", "raw thread", "fork", "own syntax"])  # fmt: skip # a drawn table
def test_a_forbidden_name_costs_the_points_where_it_ran_or_nobody_could_watch(kernels, notebook, source):
    if "§" in source:
        notebook.cells.insert(notebook.cells.index(cell(notebook, "softmax")), new_code_cell(source))
        source = "def softmax(x, dim): return §(x, dim)"
    cell(notebook, "softmax").source = "import threading\n" + source
    judge_notebook(notebook, UNIT, LIMITS, kernels)
    assert scores(notebook) == [0, 3, 1] and results(notebook)["softmax"].diagnosis == "forbidden function"


def test_an_honest_thread_costs_nothing(kernels, notebook):
    cell(notebook, "softmax").source = "import threading\n" + IN_A_THREAD.format(
        "(x - x.amax(dim, True)).exp() / (x - x.amax(dim, True)).exp().sum(dim, True)"
    )
    judge_notebook(notebook, UNIT, LIMITS, kernels)
    assert scores(notebook) == [2, 3, 1] and note(notebook) == ""


@pytest.mark.parametrize(("source", "found"), [
    ("def softmax(x, dim): return torch.softmax(x, dim)", ["softmax"]),
    ("from torch.nn.functional import softmax as innocent\ndef softmax(x, dim): return innocent(x, dim)",
     ["torch.nn.functional.softmax"]),
    ("import torch as t\ndef softmax(x, dim): return t.softmax(x, dim)", ["softmax"]),
    ("helper = torch.log_softmax\ndef softmax(x, dim): return helper(x, dim).exp()", ["log_softmax"]),
    ("def helper(x): return getattr(x, f'soft{\"max\"}')(0)\ndef softmax(x, dim): return helper(x)", ["softmax"]),
    ("def softmax(x, dim): return vars(torch)['softmax'](x, dim)", ["softmax"]),
    ("def softmax(x, dim): return torch.__dict__['soft' + 'max'](x, dim)", ["softmax"]),
    ("def softmax(x, dim): return eval('torch.softmax(x, dim)')", ["torch.softmax"]),
    ("from operator import attrgetter\ndef softmax(x, dim): return attrgetter('softmax')(torch)(x, dim)", ["softmax"]),
    ("%matplotlib inline\nx = !ls\ndef softmax(x, dim): return torch.softmax(x, dim)", ["softmax"]),
    ("%%time\ndef softmax(x, dim): return torch.softmax(x, dim)", ["softmax"]),
    ("from helpers.qkv_attention.softmax import softmax as theirs\ndef softmax(x, dim): return theirs(x, dim)",
     ["helpers.qkv_attention.softmax.softmax"]),
    ("class M(torch.nn.Module):\n    def forward(self, x): return self.softmax(x)\ndef softmax(x, dim): return M()(x)",
     []),
    ("def softmax(x, dim): return x.exp()\nprint(torch.allclose(softmax(x, 0), torch.softmax(x, 0)))", []),
    ("def softmax(x, dim): return softmax(x, dim)  # not torch.softmax", []),
    ("m = torch.nn.Linear(1, 1)\ndef softmax(x, dim): return m.last_softmax + ns.softmax_max", []),
    ("DEBUG = False\ndef softmax(x, dim):\n    if DEBUG: print(torch.softmax(x, dim))\n    return x.exp()", []),
    ("def softmax(x, dim): return x[dim]['softmax']", []),
    ("def softmax(x, dim): return x / getattr(cfg, 'softmax_scale')", []),
    ("def softmax(x, dim): raise ValueError('softmax wants a dim')", []),
    ("def softmax(x, dim)", ["source that can't be read"]),
], ids=["attribute", "import", "other name", "name", "getattr", "subscript", "dict", "string", "attrgetter", "magic",
        "cell magic", "reference",
        "own method", "beside", "comment", "own names", "debug", "own dict", "own getattr", "message",
        "syntax"])  # fmt: skip # a drawn table
def test_the_look_at_the_source(notebook, kernels, source, found):
    cell(notebook, "softmax").source = source
    assert [one.name for one in find_forbidden(notebook, UNIT, static_rules(UNIT, LIMITS, kernels))] == found


def test_names_that_a_test_cell_needs():
    source = "import a.b as c\nfrom d import e\nx = c(y)\ndef f(z): return z + print(w)\n[g for g in h]\nknown"
    assert unknown_names(source, {"known": 1}) == ["h", "w", "y"]


@pytest.mark.parametrize("script", [
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "<a href='javascript:alert(1)'>x</a>",
    "<iframe src=x></iframe>",
    "<svg onload=alert(1)>", "<style>@import 'x'</style>", "<b style='background:url(x)'>b</b>",
    "<form action=x><input name=y></form>",
])  # fmt: skip # a drawn table
def test_no_script_is_left_in_what_a_student_shows(script):
    kept = clean_html(script).lower()
    assert not any(
        word in kept
        for word in ("<script", "onerror", "javascript:", "<iframe", "onload", "<style", "style=", "<form", "<input")
    )
    assert "application/javascript" not in sanitize_display({"application/javascript": "alert(1)", "text/plain": "x"})
    assert sanitize_display({"application/javascript": "alert(1)"}) == {
        "text/plain": "(not shown: application/javascript)"
    }
    assert sanitize_display({"image/png": f'"> {script}', "text/plain": "x"}) == {"text/plain": "x"}
    assert "<" not in sanitize_display({"text/latex": script}).get("text/latex", "").replace(
        '<a rel="noopener noreferrer">', ""
    ).replace("</a>", "").replace("<b>", "").replace("</b>", "").replace(f"<em>{NO_PICTURE}</em>", "")
    assert "text/markdown" not in sanitize_display({"text/markdown": "[x](javascript:alert(1))"})


HONEST = {
    "scipy": "import scipy.special as sp, not_there\nfrom not_there.inner import things as t\n",
    "tqdm": "from tqdm.auto import tqdm\nfor _ in tqdm(range(3)): pass\n",
    "einops": "from einops import rearrange\nassert rearrange(torch.ones(2, 3), 'a b -> b a').shape == (3, 2)\n",
    "fallback": "try:\n    import not_there\nexcept ImportError:\n    not_there = None\nassert not_there is None\n",
}


@pytest.mark.parametrize("before", HONEST.values(), ids=HONEST)
def test_an_import_that_the_grader_lacks_leaves_the_rest_of_the_cell_running(kernels, notebook, before):
    cell(notebook, "softmax").source = before + cell(notebook, "softmax").source
    judge_notebook(notebook, UNIT, LIMITS, kernels)
    assert scores(notebook) == [2, 3, 1]


INSTALLING = ["!pip install einops", "!python -m pip install -q einops",
              "said = !pip3 install einops\nassert said == []",
              "!apt-get update && apt-get -qq install graphviz", "%pip install einops", "%conda install -y einops",
              "!uv pip install einops", "%%capture\n!pip install einops"]  # fmt: skip # a drawn table


@pytest.mark.parametrize("line", INSTALLING)
def test_nothing_is_installed_and_the_cell_goes_on(kernels, notebook, line):
    answer = cell(notebook, "softmax")
    answer.source = f"{line}\n{answer.source}"
    judge_notebook(notebook, UNIT, LIMITS, kernels)
    said = "".join(output.get("text", "") for output in answer.outputs)
    assert scores(notebook) == [2, 3, 1] and said == ("" if "capture" in line else f"{LEFT_OUT}\n")


def test_other_commands_run(kernels, notebook):
    answer = cell(notebook, "softmax")
    answer.source = f"!echo pip\nlines = !echo two words\nassert lines == ['two words']\n{answer.source}"
    judge_notebook(notebook, UNIT, LIMITS, kernels)
    assert scores(notebook) == [2, 3, 1] and answer.outputs[0].text.strip() == "pip"


def test_a_missing_module_complains_when_it_is_used(kernels, notebook):
    cell(notebook, "softmax").source = "import not_there as n\ndef softmax(x, dim): return n.softmax(x, dim)"
    judge_notebook(notebook, UNIT, LIMITS, kernels)
    assert scores(notebook) == [0, 3, 1] and "No module named 'not_there'" in results(notebook)["softmax"].message


def test_a_file_that_a_cell_writes_can_be_imported(kernels, notebook):
    answer = cell(notebook, "softmax")
    notebook.cells.insert(notebook.cells.index(answer), new_code_cell(f"%%writefile my_utils.py\n{answer.source}"))
    answer.source = "from my_utils import softmax"
    judge_notebook(notebook, UNIT, LIMITS, kernels)
    assert scores(notebook) == [2, 3, 1]


LIAR = """
class Liar:
    def __init__(self, x): self.x = x
    def numel(self): return 0
    def __getattr__(self, name): return getattr(self.x, name)
"""


@pytest.mark.parametrize(("answer", "question", "shown"), [
    (LIAR + "def softmax(x): return Liar(x), 1", "output = softmax(torch.ones(3))\nhasattr(output[0], 'numel')",
     "False"),
    (LIAR + "def softmax(x): return Liar(x)", "hasattr(softmax(torch.ones(3)), 'shape')", "False"),
    (LIAR + "class softmax:\n    def __init__(self): self.keys, self.n = Liar(torch.ones(3)), 0\n"
        "    def step(self): self.n += 1",
     "made = softmax()\nmade.step(), made.step()\nmade.n, hasattr(made.keys, 'numel')", "(2, False)"),
    (LIAR + "def softmax(x): return [Liar(x)]",
     "from helpers.engine.observe import observe\nseen = observe(lambda f: f(torch.ones(3)), (softmax,)).output[0]\n"
     "callable(seen), hasattr(seen, 'shape')", "(False, False)"),
], ids=["in a tuple", "alone", "an attribute", "through a drive"])  # fmt: skip # a drawn table
def test_an_object_in_an_output_has_nothing_to_read(kernels, notebook, answer, question, shown):
    assert asked(kernels, notebook, answer, question) == shown


def test_the_judges_functions_have_no_names_in_the_students_kernel(kernels, notebook):
    answer = "def softmax(f):\n    try: f()\n    except Exception as error: return repr(f), f.__name__, str(error)"
    shown = asked(kernels, notebook, answer, "def secret_model(x): return x\nsoftmax(secret_model)")
    assert "secret" not in shown and "can't be called like this" in shown


COUNTER = """
calls = []
def softmax(model, x):
    calls.append(1)
    return {}"""


@pytest.mark.parametrize("guess", [
    "True", "len(calls) % 3 != 0",
    "len(calls) <= 36 if len(calls) % 3 == 1 else len(calls) % 3 == 2", "'sound' not in getattr(model, '__name__', '')",
])  # fmt: skip # a drawn table
def test_a_leak_detector_that_counts_its_calls_earns_next_to_nothing(kernels, notebook, guess):
    question = (
        "from autograder.hidden import masking as hidden\nfloat(check.leaks_future(softmax, points=4, "
        "cases=hidden.leaks_future))"
    )
    assert float(asked(kernels, notebook, COUNTER.format(guess), question)) <= 1.0


@pytest.fixture
def told(monkeypatch):
    """What the judge's kernel is told of test cells, in order."""
    tell, found = Kernel.tell, []

    def note(kernel, message, *descriptors):
        found.extend([message] if message.get("ask") == "test" else [])
        tell(kernel, message, *descriptors)

    monkeypatch.setattr(Kernel, "tell", note)
    return found


def test_hidden_cases_of_all_exercises_come_after_the_last_shown_one_of_any(told, kernels, notebook):
    judge_notebook(notebook, UNIT, LIMITS, kernels)
    places = [message["place"] for message in told]
    assert [message["hidden"] for message in told] == [False] * 3 + [True] * 3 and places[:3] == places[3:]


def test_a_test_cell_that_comes_to_no_end_is_not_run_in_the_second_round(monkeypatch, told, kernels, notebook):
    """In neither attempt: the first breaks off there, for nothing was used up."""

    def late(*arguments, serve=None, **more):
        if serve and "check.softmax" in told[-1]["source"]:
            raise ReplyTimeout
        return listen(*arguments, serve=serve, **more)

    monkeypatch.setattr(submission, "listen", late)
    judge_notebook(notebook, UNIT, LIMITS, kernels)
    assert [message["hidden"] for message in told] == [False] * 4 + [True] * 2 and scores(notebook) == [0, 3, 1]
    assert cell(notebook, "softmax_test").outputs[0].ename == "CellTimeout"


CHANGES_THE_PROCESS = """
import random
import numpy as np
def softmax(x, dim):
    found = torch.rand(1), np.random.rand(1), random.random(), torch.ones(1).dtype, torch.is_grad_enabled()
    torch.set_default_dtype(torch.float64)
    torch.set_grad_enabled(False)
    return found"""


def test_of_one_test_cell_nothing_is_left_in_the_process_for_the_next(kernels, notebook):
    """Random numbers, the default dtype and whether gradients are taken are those that the cells left behind."""
    answer, test = cell(notebook, "softmax"), cell(notebook, "softmax_test")
    answer.source = CHANGES_THE_PROCESS
    test.source = "repr(softmax(torch.ones(1), 0))"
    again = deepcopy(test)
    again.metadata.nbgrader.grade_id = "attend_test"
    notebook.cells = [*notebook.cells[: notebook.cells.index(test) + 1], again]
    judge_notebook(notebook, UNIT, LIMITS, kernels)
    first, second = (one.outputs[-1].data["text/plain"] for one in (test, again))
    assert first == second and "float32, True" in first.replace("torch.", "")


def test_a_fork_that_was_lost_is_replaced_for_the_next_test_cell(kernels, notebook):
    cell(notebook, "softmax").source = "import os\ndef softmax(x, dim): os._exit(1)"
    judge_notebook(notebook, UNIT, LIMITS, kernels)
    assert scores(notebook) == [0, 3, 1]


def test_a_card_says_what_stands_in_the_source_as_in_a_students_own_notebook(kernels, notebook):
    answer = "import torch\n\ndef softmax(x, dim=-1):\n    for row in x:\n        return 2 * row.exp()"
    shown = asked(kernels, notebook, answer, "check.softmax(softmax, points=2).message")
    assert "The `return` in line 5 stands inside the loop" in shown
