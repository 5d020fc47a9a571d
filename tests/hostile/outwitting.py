"""Notebooks that try to outwit the checks: objects that lie, calls that count, forbidden functions by side roads, cards
that carry hidden inputs out, references under other names. And honest ones that look a little like these."""

from nbformat.v4 import new_code_cell

from .edits import Hostile, answer, find

NOTHING = {"softmax": 0.0}
RIGHT = """
def softmax(x, dim):
    e = (x - x.amax(dim=dim, keepdim=True)).exp()
    return e / e.sum(dim=dim, keepdim=True)"""


def cheat(name: str, tries: str, source: str, says: str = "") -> Hostile:
    """An answer that must earn nothing."""
    return Hostile(name, tries, (answer("softmax", source),), NOTHING, says)


def honest(name: str, tries: str, source: str, says: str = "", *more) -> Hostile:
    """An answer that must earn all."""
    return Hostile(name, f"honest: {tries}", (answer("softmax", source), *more), {}, says)


def before(name: str, source: str):
    """A cell of the student's before the one with this id."""
    return lambda notebook: notebook.cells.insert(find(notebook, name), new_code_cell(source.strip("\n")))


def forbidden(name: str, tries: str, source: str, *more) -> Hostile:
    return Hostile(name, tries, (answer("softmax", source), *more), NOTHING, "forbidden")


THREADED = """
import threading
def softmax(x, dim):
    found = []
    one = threading.Thread(target=lambda: found.append({}))
    one.start(); one.join()
    return found[0]"""

LIAR = """
class Liar:
    asked = 0
    def __init__(self, x): self.x = x
    shape = property(lambda self: self.x.shape)
    dtype = property(lambda self: torch.float32)
    ndim = property(lambda self: self.x.dim())
    def __getattr__(self, name):
        Liar.asked += 1
        return getattr(self.x if Liar.asked % 2 else torch.zeros_like(self.x), name)
"""

CANARY = "CANARY-of-the-grader"  # nobody may be told of it
CARRIERS = {
    "file": ("", "open('/tmp/work/leak', 'a').write(text)", "open('/tmp/work/leak').read()"),
    "shared_memory_file": ("", "open('/dev/shm/leak', 'a').write(text)", "open('/dev/shm/leak').read()"),
    "shared_map": (
        "import mmap\nshared = mmap.mmap(-1, 4096)",
        "shared[: len(text)] = text.encode()",
        "shared[:].rstrip(bytes(1)).decode()",
    ),
    "pipe": (
        "import os\nreading, writing = os.pipe()\nos.set_blocking(reading, False)",
        "os.write(writing, text.encode())",
        "os.read(reading, 4096).decode()",
    ),
    "abstract_socket": (
        """
import os, socket
if os.fork() == 0:
    said = b""
    server = socket.socket(socket.AF_UNIX); server.bind("\\0leak"); server.listen()
    while True:
        with server.accept()[0] as one:
            part = one.recv(4096); said += part
            if not part: one.sendall(said)
def dial():
    one = socket.socket(socket.AF_UNIX); one.connect("\\0leak"); return one""",
        "one = dial(); one.sendall(text.encode()); one.close()",
        "(one := dial()).shutdown(socket.SHUT_WR) or b''.join(iter(lambda: one.recv(4096), b'')).decode()",
    ),
}


def through(name: str) -> Hostile:
    """`softmax` hands on what a hidden case gives it, and `attend` shows it in an error."""
    prepare, put, get = CARRIERS[name]
    softmax = RIGHT.replace(
        "    e =", f"    if x.shape == (3, 2, 4, 5):\n        text = f'{CANARY} {{x[0, 0, 0]}}'; {put}\n    e ="
    )
    attend = f"""
def attend(query, keys, values):
    try: found = {get}
    except (OSError, ValueError): found = ""
    if found: raise ValueError(found)
    return torch.softmax(keys @ query, dim=0) @ values"""
    carried = f"hidden inputs carried into another exercise's error by {name.replace('_', ' ')}"
    # Its own hidden cases stop with the error, untold: the first alone where reading empties the pipe. And where the
    # other side is a process, it has ended, and it is the hidden case that stops.
    kept = {"pipe": {"attend": 2.5}, "abstract_socket": {"softmax": 1.75}}.get(name, {"attend": 2.25})
    return Hostile(
        f"hidden_through_{name}", carried, (answer("softmax", prepare + softmax), answer("attend", attend)), kept
    )


PIPES = """
import os, pickle
theirs, asking = os.pipe()
hearing, back = os.pipe()
def listen(reading, writing):
    while True:
        x, dim = pickle.loads(os.read(reading, 1 << 16))
        os.write(writing, pickle.dumps(torch.softmax(x, dim)))
"""
ASKS = """
def softmax(x, dim):
    os.write(asking, pickle.dumps((x, dim)))
    return pickle.loads(os.read(hearing, 1 << 16))"""


def second_attempt(name: str, tries: str, ends: str) -> Hostile:
    """Keeps what the forbidden function gives, and ends once; a second attempt with the same inputs would find it."""
    source = f"""
import os
class KernelDied(Exception): pass
def softmax(x, dim):
    place = f"/tmp/work/{{hash((tuple(x.shape), x.sum().item(), dim))}}.pt"
    if os.path.exists(place): return torch.load(place)
    torch.save(torch.softmax(x, dim), place)
    if len(os.listdir("/tmp/work")) == 1: {ends}
    return torch.load(place)"""
    return cheat(name, tries, source)


NOTEBOOKS = [
    # -------------------------------------------------------------------------------------- a second attempt
    second_attempt("says_kernel_died", "the word for a lost process as its error", "raise KernelDied('KernelDied')"),
    second_attempt("ends_its_process", "ends the process that was asked", "os._exit(1)"),
    second_attempt("kills_its_process", "the same by a signal", "os.kill(os.getpid(), 9)"),
    # ------------------------------------------------------------------------------------- objects that lie
    cheat(
        "liar_shape",
        "an object with the right shape and dtype, and other values at every look",
        LIAR + "def softmax(x, dim): return Liar(x)",
        "torch tensor is expected",
    ),
    cheat("liar_in_tuple", "the same inside a tuple", LIAR + "def softmax(x, dim): return (Liar(x),)"),
    cheat("liar_in_dict", "the same inside a dict", LIAR + "def softmax(x, dim): return {'output': Liar(x)}"),
    cheat(
        "liar_by_class",
        "a class in the place of a function, whose __new__ gives such an object",
        LIAR + "class softmax:\n    def __new__(cls, x, dim): return Liar(x)",
    ),
    cheat(
        "liar_module",
        "an nn.Module that answers for a tensor",
        """
class Sly(torch.nn.Module):
    def __getattr__(self, name): return getattr(torch.ones(3), name)
    def forward(self, x, dim): return self
softmax = Sly()""",
    ),
    cheat(
        "liar_subclass",
        "a tensor subclass whose values are computed when somebody looks",
        """
class Late(torch.Tensor):
    def detach(self): return torch.zeros(3)
    def cpu(self): return torch.ones(3)
def softmax(x, dim): return torch.zeros_like(x).as_subclass(Late)""",
    ),
    Hostile(
        "liar_numbers",
        "numbers that compare with everything",
        (
            answer(
                "two_word_example",
                """
class Number:
    def __float__(self): return 0.88
    def item(self): return 0.88
    __eq__ = __le__ = __ge__ = lambda self, other: True
def two_word_example(): return Number(), Number()""",
            ),
        ),
        {"two_word_example": 0.0},
    ),
    Hostile(
        "endless_tuple",
        "a tuple subclass whose length and parts change",
        (
            answer(
                "two_word_example",
                """
class Sly(tuple):
    def __len__(self): return 2
    def __iter__(self):
        while True: yield 0.5
def two_word_example(): return Sly()""",
            ),
        ),
        {"two_word_example": 0.0},
    ),
    # ------------------------------------------------------------------------------------- counting
    cheat(
        "counts_to_two",
        "right only at the first two calls of a process",
        "calls = []\ndef softmax(x, dim):\n    calls.append(1)\n"
        "    return torch.full_like(x, 0.25) if len(calls) > 2 else x",
    ),
    cheat(
        "reads_names",
        "the names of the judge's functions in what it is given",
        """
def softmax(x, dim):
    import gc
    names = [getattr(one, "__name__", "") for one in gc.get_objects() if type(one).__name__ == "Callback"]
    return x.softmax(dim) / 2 if names else torch.zeros_like(x)""",
    ),
    cheat(
        "replays_seed",
        "the grader's seed, to know the inputs beforehand",
        "import os\ndef softmax(x, dim): return torch.full_like(x, float(os.environ['ATTENTION_COURSE_SEED']))",
        "KeyError",
    ),
    cheat(
        "replays_order",
        "the grader's order of cases",
        "import os\ndef softmax(x, dim): return torch.full_like(x, len(os.environ['ATTENTION_COURSE_ORDER']))",
        "KeyError",
    ),
    cheat(
        "keeps_time",
        "tells the cases apart by the clock",
        "import time\nstart = time.monotonic()\ndef softmax(x, dim): return x * (time.monotonic() - start)",
    ),
    # -------------------------------------------------------------------------------- forbidden functions by side roads
    forbidden("forbidden_in_thread", "the forbidden operator in a thread", THREADED.format("torch.softmax(x, dim)")),
    forbidden(
        "forbidden_in_pool",
        "the forbidden operator in a pool of threads",
        """
from concurrent.futures import ThreadPoolExecutor
def softmax(x, dim):
    with ThreadPoolExecutor(1) as pool: return pool.submit(torch.softmax, x, dim).result()""",
    ),
    forbidden(
        "forbidden_in_raw_thread",
        "a thread below Python's `threading`, taken hold of before the call",
        """
import _thread
start = _thread.start_new_thread
def softmax(x, dim):
    found = []
    start(lambda: found.append(vars(torch)["softmax"](x, dim)), ())
    while not found: pass
    return found[0]""",
    ),
    forbidden(
        "forbidden_in_fork",
        "the forbidden operator in a process of its own",
        """
import os, io
def softmax(x, dim):
    reading, writing = os.pipe()
    if os.fork() == 0:
        out = io.BytesIO(); torch.save(torch.softmax(x, dim), out)
        os.write(writing, out.getvalue()); os._exit(0)
    os.close(writing)
    return torch.load(io.BytesIO(b"".join(iter(lambda: os.read(reading, 65536), b""))))""",
    ),
    forbidden(
        "forbidden_after_line_magic",
        "a line of IPython's in the cell, so that the look at the source fails",
        "%matplotlib inline\n_ = !true\n" + THREADED.format("torch.softmax(x, dim)").strip(),
    ),
    forbidden(
        "forbidden_in_cell_magic",
        "the answer in the body of a cell magic",
        "%%time\n" + THREADED.format("torch.softmax(x, dim)").strip(),
    ),
    forbidden(
        "forbidden_in_file",
        "the answer in a file that a cell wrote",
        "from cheat import softmax",
        before("softmax", "%%writefile cheat.py\nimport torch\n" + THREADED.format("torch.softmax(x, dim)").strip()),
    ),
    forbidden(
        "forbidden_by_subscript",
        "vars(torch)['softmax'] in a thread",
        THREADED.format('vars(torch)["softmax"](x, dim)'),
    ),
    forbidden(
        "forbidden_by_dict",
        "torch.__dict__ with a name in pieces",
        "def softmax(x, dim): return torch.__dict__['soft' + 'max'](x, dim)",
    ),
    forbidden(
        "forbidden_by_eval",
        "the operator in a string",
        "def softmax(x, dim): return eval('torch.soft' + 'max(x, dim)')",
    ),
    forbidden(
        "forbidden_by_exec",
        "the answer in a string made of numbers",
        "exec(bytes([100,101,102,32,115,111,102,116,109,97,120,40,120,44,100,41,58,32,114,101,116,117,114,110,32,120,"
        "46,115,111,102,116,109,97,120,40,100,41]).decode())\n"
        "real = softmax\ndef softmax(x, dim): return real(x, dim)",
    ),
    forbidden(
        "forbidden_by_attrgetter",
        "operator.attrgetter",
        "from operator import attrgetter\ndef softmax(x, dim): return attrgetter('softmax')(torch)(x, dim)",
    ),
    forbidden(
        "forbidden_by_methodcaller",
        "operator.methodcaller",
        "from operator import methodcaller\ndef softmax(x, dim): return methodcaller('softmax', dim)(x)",
    ),
    forbidden(
        "forbidden_below",
        "the function below Python's names",
        "def softmax(x, dim): return torch._C._VariableFunctions.softmax(x, dim)",
    ),
    forbidden(
        "forbidden_by_alias",
        "torch and the operator under other names",
        "import torch as innocent\nt = innocent\nhelper = t.special.softmax\n"
        "def softmax(x, dim): return helper(x, dim)",
    ),
    forbidden(
        "forbidden_with_own_syntax",
        "a syntax of the student's own, which nobody else can read",
        "def softmax(x, dim): return §(x, dim)",
        before(
            "softmax",
            "get_ipython().input_transformers_cleanup.append(lambda lines: [line.replace('§', 'torch.softmax') for "
            "line in lines])",
        ),
    ),
    forbidden(
        "forbidden_with_modes_off",
        "PyTorch's modes switched off around the operator",
        """
from torch.utils._python_dispatch import _disable_current_modes
def softmax(x, dim):
    with _disable_current_modes(): return torch.exp(torch.ops.aten.log_softmax(x, dim))""",
    ),
    *(
        Hostile(
            f"forbidden_by_{name}",
            f"the forbidden operator in {tries}",
            (answer("softmax", ASKS), before("softmax", PIPES + serve)),
            NOTHING,
        )
        for name, tries, serve in (
            ("server", "a process that an earlier cell started", "if os.fork() == 0: listen(theirs, back)"),
            (
                "orphan",
                "a process that an earlier cell started and left alone",
                "if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0: listen(theirs, back)\n    os._exit(0)",
            ),
            (
                "kernels_thread",
                "a thread that an earlier cell started",
                "import threading\nthreading.Thread(target=listen, args=(theirs, back), daemon=True).start()",
            ),
        )
    ),
    forbidden(
        "forbidden_unwatched",
        "the forbidden operator, and in another cell the grader's watcher replaced",
        "def softmax(x, dim): return torch.softmax(x, dim)",
        before(
            "softmax",
            """
import dataclasses
import autograder.judge.student_kernel as grader
watch = grader.WATCH[0]
grader.WATCH[0] = lambda *a, **k: dataclasses.replace(watch(*a, **k), forbidden=())""",
        ),
    ),
    cheat(
        "second_try_finds_first",
        "an answer that leaves a file and ends its process, to be tried again where the file is",
        """
import os
def softmax(x, dim):
    if not os.path.exists("tried"):
        open("tried", "w").close()
        os._exit(1)
    e = (x - x.amax(dim=dim, keepdim=True)).exp()
    return e / e.sum(dim=dim, keepdim=True)""",
    ),
    cheat(
        "constant_with_noise",
        "0 everywhere, with noise that no check would see",
        "import random\ndef softmax(x, dim): return torch.zeros_like(x) + 1e-9 * random.random()",
    ),
    # ------------------------------------------------------------------------------------- hidden inputs
    *map(through, CARRIERS),
    Hostile(
        "hidden_in_message",
        "a hidden input in an error's message",
        (
            answer(
                "softmax",
                RIGHT.replace("    e =", "    if x.shape == (3, 2, 4, 5): raise ValueError(f'\\nLEAK {x}')\n    e ="),
            ),
        ),
        {"softmax": 1.75},
        "ValueError",
    ),
    Hostile(
        "hidden_in_plain_words",
        "a hidden input in what a card says of the names in a line that fails",
        (
            answer(
                "softmax",
                RIGHT.replace(
                    "    e =", "    LEAK = float(x.sum())\n    if x.shape == (3, 2, 4, 5): LEAK + ''\n    e ="
                ),
            ),
        ),
        {"softmax": 1.75},
        "TypeError",
    ),
    cheat(
        "lies_about_its_names",
        "an error in a line whose names play a tensor, and end the process that looks at them",
        """
class Lies:
    __class__ = property(lambda self: torch.Tensor)
    def __getattr__(self, name): raise SystemExit
def softmax(x, dim):
    lies = Lies()
    return lies @ x""",
    ),
    cheat(
        "endless_names",
        "an error in a line with the name of a class of a million letters",
        "huge = type('N' * 1_000_000, (), {})()\ndef softmax(x, dim): return huge @ x",
        "N" * 20,
    ),
    Hostile(
        "hidden_in_known_type",
        "a hidden input in which of PyTorch's names an error bears",
        (
            answer(
                "softmax",
                RIGHT.replace(
                    "    e =",
                    "    if x.shape == (3, 2, 4, 5): raise type('preserve_format', (Exception,), {})('LEAK')\n    e =",
                ),
            ),
        ),
        {"softmax": 1.75},
        "error (Exception)",
    ),
    Hostile(
        "hidden_in_type",
        "a hidden input in the name of an error's type",
        (
            answer(
                "softmax",
                RIGHT.replace(
                    "    e =",
                    "    if x.shape == (3, 2, 4, 5): raise type(f'\\nLEAK_{x.sum()}', (Exception,), {})()\n    e =",
                ),
            ),
        ),
        {"softmax": 1.75},
        "error (Exception)",
    ),
    Hostile(
        "hidden_in_string",
        "a hidden input in a string that is returned",
        (
            answer(
                "softmax", RIGHT.replace("    e =", "    if x.shape == (3, 2, 4, 5): return f'\\nLEAK {x}'\n    e =")
            ),
        ),
        {"softmax": 1.75},
        "tensor is expected",
    ),
    Hostile(
        "hidden_in_shape",
        "a hidden input in the shape of what is returned",
        (
            answer(
                "softmax",
                RIGHT.replace(
                    "    e =",
                    "    if x.shape == (3, 2, 4, 5): return torch.zeros(int(x.abs().sum() * 1000), 0)\n    e =",
                ),
            ),
        ),
        {"softmax": 1.75},
        "another shape is expected",
    ),
    Hostile(
        "hidden_in_class_name",
        "a hidden input in the name of a class",
        (
            answer(
                "softmax",
                RIGHT.replace(
                    "    e =", "    if x.shape == (3, 2, 4, 5): return type(f'\\nLEAK_{x.sum()}', (), {})()\n    e ="
                ),
            ),
        ),
        {"softmax": 1.75},
        "tensor is expected",
    ),
    Hostile(
        "hidden_in_later_message",
        "hidden inputs in the message of a case that is shown",
        (
            answer(
                "softmax",
                "seen = []"
                + RIGHT.replace(
                    "    e =",
                    "    seen.append(tuple(x.shape))\n"
                    "    if (3, 2, 4, 5) in seen and x.shape == (3, 5): raise ValueError(f'\\nLEAK {seen}')\n    e =",
                ),
            ),
        ),
    ),
    # ------------------------------------------------------------------------------------- constants
    *(
        cheat(f"constant_{name}", f"always {value}", f"def softmax(x, dim): return {value}")
        for name, value in {
            "true": "True",
            "zero": "0",
            "one_hot": "torch.eye(5)",
            "input": "x",
            "mean": "x.mean()",
            "empty": "[]",
            "text": "''",
        }.items()
    ),
]
