"""Notebooks that want points for nothing: `softmax` is never right in them."""

from .edits import ZEROS, Hostile, answer, early, late, on_cell
from .outwitting import cheat

NOTHING = {"softmax": 0.0}


def forge(name: str, tries: str, source: str, *more, scores=None, says="") -> Hostile:
    """A cell of forgery, and a `softmax` that returns zeros unless the forgery defines another one."""
    wrong = () if "def softmax" in source or "softmax =" in source else (answer("softmax", ZEROS),)
    put = answer("softmax", source) if not wrong else early(source)
    return Hostile(name, tries, (*wrong, put, *more), NOTHING if scores is None else scores, says)


def metadata(**changes):
    return lambda cell: cell.metadata.nbgrader.update(changes)


def frame(name: str, message: str) -> Hostile:
    """A cell that sends the grader something that no cell sends; only what depends on it is lost."""
    send = f"""
import sys
Packer = sys.modules["autograder.judge.protocol"].Packer
get_ipython().outbox.wire.send(Packer().frame({message}))"""
    return forge(f"sends_{name}", f"a frame home with {name.replace('_', ' ')} in it", send)


NOTEBOOKS = [
    frame("a_huge_status", "{'done': 16 ** 3990}"),
    frame(
        "a_huge_count", "{'outputs': [{'output_type': 'execute_result', 'data': {}, 'execution_count': 16 ** 3990}]}"
    ),
    frame("a_negative_count", "{'outputs': [{'output_type': 'execute_result', 'data': {}, 'execution_count': -5}]}"),
    frame("a_tensor", "{'outputs': torch.ones(3)}"),
    frame("an_array", "{'outputs': [{'output_type': torch.ones(2).numpy()}]}"),
    forge(
        "drops_asserts",
        "an ast_transformers hook that turns asserts and calls of check into full marks",
        """
import ast
class Drop(ast.NodeTransformer):
    def visit_Assert(self, node): return ast.Pass()
    def visit_Call(self, node):
        return ast.Constant(2.0) if "check" in ast.dump(node.func) else self.generic_visit(node)
get_ipython().ast_transformers.append(Drop())""",
    ),
    forge(
        "patches_torch",
        "torch's own comparisons always say yes",
        """
for name in ("allclose", "equal", "isclose", "eq"):
    setattr(torch, name, lambda *a, **k: True)
torch.testing.assert_close = lambda *a, **k: None
torch.Tensor.__eq__ = torch.Tensor.allclose = torch.Tensor.equal = lambda *a, **k: True""",
    ),
    forge(
        "patches_numpy",
        "numpy's comparisons always say yes",
        """
import numpy as np
np.allclose = np.array_equal = np.isclose = lambda *a, **k: True
np.testing.assert_allclose = lambda *a, **k: None""",
    ),
    forge(
        "patches_helpers",
        "helpers' checks replaced by ones that give full marks",
        """
import sys, helpers
helpers.check.softmax = lambda *a, points, **k: float(points)
for name, module in list(sys.modules.items()):
    if name.startswith("helpers"):
        for part in ("agree", "observe", "softmax", "Check", "Score"):
            setattr(module, part, lambda *a, points=2.0, **k: float(points))""",
    ),
    forge(
        "replaces_check",
        "a `check` of the student's own",
        """
class Generous:
    def __getattr__(self, name): return lambda *a, points, **k: float(points)
check = Generous()""",
    ),
    forge(
        "patches_builtins",
        "builtins that make every number full marks and every comparison true",
        """
import builtins
builtins.float = builtins.abs = builtins.sum = lambda *a, **k: 2.0
builtins.isinstance = builtins.all = lambda *a, **k: True""",
    ),
    forge(
        "patches_formatters",
        "IPython's formatters show full marks for every value",
        """
plain = get_ipython().display_formatter.formatters["text/plain"]
plain.for_type(float, lambda value, printer, cycle: printer.text("2.0"))
plain.__class__.__call__ = lambda self, value: "2.0" """,
    ),
    forge(
        "replaces_displayhook",
        "a displayhook that shows full marks",
        """
import sys
hook = sys.displayhook
sys.displayhook = lambda value: hook(2.0)
full = {"text/plain": "2.0"}
get_ipython().displayhook.__class__.__call__ = lambda self, value=None: self.shell.emit("execute_result", full, {})""",
    ),
    forge(
        "silences_tracebacks",
        "showtraceback switched off, so that no error shows",
        """
get_ipython().showtraceback = get_ipython()._showtraceback = lambda *a, **k: None""",
    ),
    forge(
        "prints_results",
        "prints and displays full marks and a forged card",
        """
print("2.0")
card = {"exercise": "softmax", "score": 2.0, "points": 2.0, "diagnosis": None, "message": "", "passed": [],
        "failed": []}
display({"text/plain": "2.0", "application/vnd.attention-course.score+json": card}, raw=True)""",
    ),
    forge(
        "prints_when_called",
        "prints full marks while the check calls it",
        """
def softmax(x, dim):
    print("2.0")
    display({"text/plain": "2.0", "application/vnd.attention-course.score+json": {"score": 2.0}}, raw=True)
    return x""",
    ),
    forge(
        "always_equal_tensor",
        "a tensor subclass that is equal to everything",
        """
class Always(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func.__name__ in ("allclose", "equal", "eq", "__eq__", "isclose", "all"):
            return True
        return super().__torch_function__(func, types, args, kwargs or {})
    def __eq__(self, other): return True
def softmax(x, dim):
    return torch.zeros_like(x).as_subclass(Always)""",
    ),
    forge(
        "hostile_reduce",
        "an object whose __reduce__ runs code where it is unpickled",
        """
class Bomb:
    def __reduce__(self): return (exec, ("import builtins; builtins.FORGED = 1",))
def softmax(x, dim): return Bomb()""",
    ),
    forge(
        "hostile_eq",
        "an object that is equal to, and less than, everything",
        """
class Equal:
    shape, dtype, ndim = (3, 5), torch.float32, 2
    def __eq__(self, other): return True
    __ne__ = __lt__ = __gt__ = lambda self, other: True
    def __getattr__(self, name): return lambda *a, **k: self
    def __float__(self): return 0.0
    def __bool__(self): return True
def softmax(x, dim): return Equal()""",
    ),
    forge(
        "hostile_array",
        "an object whose __array__ copies the expected values out of the caller's frame",
        """
import sys
class Mirror:
    def __array__(self, *a, **k):
        frame = sys._getframe()
        while frame:
            if "expected" in frame.f_locals: return frame.f_locals["expected"].numpy()
            frame = frame.f_back
        return torch.zeros(3, 5).numpy()
    def __torch_function__(self, func, types, args=(), kwargs=None): return True
def softmax(x, dim): return Mirror()""",
    ),
    Hostile(
        "hostile_float",
        "a float subclass that equals every number",
        (
            answer(
                "two_word_example",
                """
class Any(float):
    def __eq__(self, other): return True
    def __sub__(self, other): return 0.0
    __rsub__ = __sub__
    def __float__(self): return 0.88
def two_word_example(): return Any(0.5), Any(0.5)""",
            ),
        ),
        {"two_word_example": 0.0},
    ),
    forge(
        "hostile_dict",
        "a dict and a generator that never end",
        """
class Endless(dict):
    def keys(self):
        while True: yield 1
def softmax(x, dim): return Endless()""",
    ),
    forge(
        "reads_frames",
        "looks for the judge's expected values in the frames above it",
        """
import sys
def softmax(x, dim):
    frame = sys._getframe()
    while frame:
        for value in frame.f_locals.values():
            if hasattr(value, "reference"): return value.reference(x, dim)
        if "expected" in frame.f_locals: return frame.f_locals["expected"]
        frame = frame.f_back
    return torch.zeros_like(x)""",
    ),
    forge(
        "searches_memory",
        "looks for the reference in everything that is in memory",
        """
import gc, types
def softmax(x, dim):
    for thing in gc.get_objects():
        if isinstance(thing, types.FunctionType) and thing.__module__ and "softmax" in thing.__name__:
            if thing is not softmax and thing.__module__.startswith(("helpers", "autograder")):
                return thing(x, dim)
    return torch.zeros_like(x)""",
    ),
    forge(
        "searches_files",
        "looks for a solution in every file it can read, compiled ones too",
        """
import os, re, marshal
def candidates():
    for folder in ("/work", "/root", "/home", "/tmp", "/srv", os.path.dirname(os.path.dirname(check.__name__)), ROOT):
        for where, _, names in os.walk(folder):
            for name in names:
                ours = "site-packages" not in where and "softmax" in name + where
                if ours and name.endswith((".py", ".pyc", ".ipynb")):
                    yield os.path.join(where, name)
ROOT = os.path.dirname(os.path.dirname(__import__("helpers").__file__))
def softmax(x, dim):
    for path in candidates():
        space = {}
        try:
            data = open(path, "rb").read()
            exec(marshal.loads(data[16:]) if path.endswith("c") else data, space)
            return space["softmax"](x, dim)
        except Exception:
            pass
    return torch.zeros_like(x)""",
    ),
    forge(
        "calls_reference",
        "the unit's own reference by import",
        """
from helpers.qkv_attention.softmax import softmax as reference
def softmax(x, dim): return reference(x, dim)""",
        says="helpers.qkv_attention.softmax",
    ),
    forge(
        "calls_reference_by_check",
        "the reference inside the check",
        """
def softmax(x, dim): return check.softmax.reference(x, dim)""",
    ),
    forge(
        "loads_compiled_reference",
        "the compiled reference beside the hidden source",
        """
import glob, importlib.util, os, helpers
found = glob.glob(os.path.join(os.path.dirname(helpers.__file__), "**", "softmax*.pyc"), recursive=True)
spec = importlib.util.spec_from_file_location("stolen", found[0])
stolen = importlib.util.module_from_spec(spec); spec.loader.exec_module(stolen)
softmax = stolen.softmax""",
        says="isn't defined",
    ),
    forge(
        "forbidden_by_getattr",
        "the forbidden operator by a name made of pieces",
        """
def softmax(x, dim): return getattr(torch, "soft" + "max")(x, dim)""",
        says="forbidden",
    ),
    forge(
        "forbidden_by_aten",
        "the forbidden operator below PyTorch's Python names",
        """
def softmax(x, dim): return torch.ops.aten._softmax(x, dim, False)""",
        says="forbidden",
    ),
    forge(
        "forbidden_by_module",
        "the forbidden operator inside a module",
        """
layer = torch.nn.Softmax
def softmax(x, dim): return layer(dim)(x)""",
        says="forbidden",
    ),
    forge(
        "forbidden_in_other_dtype",
        "the forbidden operator's logarithm, undone",
        """
from torch.nn import functional as innocent
def softmax(x, dim): return innocent.log_softmax(x.double(), dim).exp().to(x.dtype)""",
        says="forbidden",
    ),
    forge(
        "behaves_when_watched",
        "calls the forbidden operator only when no torch mode is watching",
        """
from torch.overrides import _get_current_function_mode as watching
def softmax(x, dim): return torch.zeros_like(x) if watching() else torch.softmax(x, dim)""",
    ),
    forge(
        "hides_from_modes",
        "switches torch's modes off around the forbidden operator, and returns half of it",
        """
def softmax(x, dim):
    with torch._C.DisableTorchFunction():
        return torch.softmax(x, dim) / 2""",
    ),
    forge(
        "patches_observe",
        "replaces what watches the calls",
        """
import sys
from types import SimpleNamespace as Seen
def nothing(function, args, kwargs, **k):
    return Seen(output=None, error=None, operations={}, flops=0, largest=0, modified=(), gradients=None, forbidden=())
sys.modules["helpers.engine.observe"].observe = nothing""",
    ),
    forge(
        "forges_answers",
        "replaces what answers the judge",
        """
import sys
student = sys.modules["autograder.judge.student_kernel"]
for ask in list(student._QUESTIONS):
    student._QUESTIONS[ask] = lambda endpoint, question, names: {"score": 2.0, "ok": True, "passed": True}
student._answer = lambda *a: {"ok": 2.0, "score": 2.0}""",
        scores={"softmax": 0.0, "attend": 0.0, "two_word_example": 0.0},
    ),
    forge(
        "acts_later_thread",
        "a thread that goes on patching while tests run",
        """
import threading, sys, time
def later():
    while True:
        for module in list(sys.modules.values()):
            if getattr(module, "__name__", "").startswith("helpers"):
                module.softmax = module.agree = lambda *a, **k: 2.0
        time.sleep(0.01)
threading.Thread(target=later, daemon=True).start()""",
    ),
    forge(
        "acts_at_exit",
        "handlers that print full marks at exit and after a fork",
        """
import atexit, os
atexit.register(lambda: print("2.0"))
os.register_at_fork(after_in_child=lambda: setattr(torch, "equal", lambda *a: True))""",
    ),
    forge(
        "writes_to_sockets",
        "writes a forged score into every descriptor it finds open",
        """
import json, os, struct
forged = json.dumps(["dict", ["done", "score"], ["ok", 2.0]]).encode()
for descriptor in range(3, 64):
    try: os.write(descriptor, struct.pack(">II", len(forged), 0) + forged)
    except OSError: pass""",
    ),
    forge(
        "answers_garbage",
        "answers the judge with bytes that are no frame",
        """
def softmax(x, dim):
    import os
    for descriptor in range(3, 64):
        try: os.write(descriptor, b"\\xff" * 4096)
        except OSError: pass
    return x""",
    ),
    forge(
        "answers_bad_tensors",
        "answers with a frame that lies about its tensors",
        """
def softmax(x, dim):
    import json, os, struct
    text = json.dumps(["dict", ["ok"], [["dict", ["output"], [["tensor", 0, False, False]]]]]).encode()
    blob = struct.pack("<Q", 60) + b'{"0":{"dtype":"F32","shape":[9999999],"data_offsets":[0,4]}}' + b"1234"
    for descriptor in range(3, 64):
        try: os.write(descriptor, struct.pack(">II", len(text), len(blob)) + text + blob)
        except OSError: pass
    return x""",
    ),
    Hostile(
        "edits_test",
        "the test cell says `2.0`",
        (answer("softmax", ZEROS), on_cell("softmax_test", lambda cell: cell.update(source="2.0"))),
        NOTHING,
    ),
    Hostile(
        "edits_points",
        "the test cell is worth 100 points",
        (answer("softmax", ZEROS), on_cell("softmax_test", metadata(points=100))),
        NOTHING,
    ),
    Hostile(
        "unlocks_test",
        "the test cell is made an answer cell, its source `2.0`",
        (
            answer("softmax", ZEROS),
            on_cell("softmax_test", metadata(locked=False, solution=True, grade=True)),
            on_cell("softmax_test", lambda cell: cell.update(source="2.0")),
        ),
        NOTHING,
    ),
    Hostile(
        "own_test_cell",
        "an extra graded cell of the student's own",
        (
            answer("softmax", ZEROS),
            late("100.0"),
            lambda notebook: notebook.cells[-1].metadata.update(
                nbgrader={
                    "grade": True,
                    "grade_id": "bonus_test",
                    "locked": True,
                    "points": 100,
                    "schema_version": 3,
                    "solution": False,
                }
            ),
        ),
        NOTHING,
    ),
    Hostile(
        "own_setup_cell",
        "the setup cell brings a check of its own",
        (
            answer("softmax", ZEROS),
            on_cell(
                "setup",
                lambda cell: cell.update(
                    source="import torch, math\nclass check:\n"
                    "    softmax = attend = two_word_example = staticmethod(lambda *a, points, **k: points)"
                ),
            ),
        ),
        NOTHING,
    ),
    Hostile(
        "answer_is_test",
        "the answer cell takes the test cell's id",
        (answer("softmax", "2.0"), on_cell("softmax", metadata(grade_id="softmax_test", grade=True, points=2))),
        NOTHING,
    ),
    Hostile(
        "leaks_inputs",
        "keeps the hidden inputs and prints them in a later cell",
        (
            answer(
                "softmax",
                """
kept = []
def softmax(x, dim):
    kept.append(x)
    open("/tmp/kept", "a").write(f"INPUT {x}\\n")
    e = (x - x.amax(dim=dim, keepdim=True)).exp()
    return e / e.sum(dim=dim, keepdim=True)""",
            ),
            late("""
import os
print("INPUT" if kept or os.path.exists("/tmp/kept") else "nothing kept")"""),
        ),
        {},
        says="nothing kept",
    ),
    # ------------------------------------------------------------------------------------- references under other names
    cheat(
        "reference_twin",
        "the same function in a later unit's room",
        "from helpers.masking.masked_attention import masked_softmax\n"
        "def softmax(x, dim): return masked_softmax(x, torch.ones_like(x) == 1)",
        "out of reach",
    ),
    Hostile(
        "reference_of_an_earlier_unit",
        "attention as an earlier unit's room has it",
        (
            answer(
                "attend",
                "from helpers.parallelization.parallel import attention_all_tokens as real\n"
                "def attend(query, keys, values): return real(query[None] * len(query) ** 0.5, keys, values)[0]",
            ),
        ),
        {"attend": 0.0},
        "out of reach",
    ),
    cheat(
        "reference_layer",
        "a layer of a later unit",
        "import helpers.multi_head.heads as heads\ndef softmax(x, dim): return heads.split_heads(x, 1)",
        "out of reach",
    ),
    cheat(
        "reference_in_steps",
        "the softmax of which wrong answers are made",
        "from helpers.engine.answers.steps import softmax as real\ndef softmax(x, dim): return real(x, None, x)",
        "out of reach",
    ),
    cheat(
        "reference_by_sys_modules",
        "a reference among the modules in memory",
        "import sys\ndef softmax(x, dim): return next(vars(m)['softmax'] for n, m in sys.modules.items() if "
        "n.startswith('helpers.qkv'))(x, dim)",
    ),
    cheat(
        "reference_by_loader",
        "the room's file, read without an import",
        "import helpers, pathlib\nexec(next(pathlib.Path(helpers.__file__).parent.glob('*/softmax.py')).read_text())\n"
        "real = softmax\ndef softmax(x, dim): return real(x, dim)",
        "isn't defined",
    ),
]
