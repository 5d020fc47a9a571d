"""Notebooks that use up what there is, or take down what they run in. What does not depend on them keeps its points."""

from .edits import Hostile, answer, early, late

LOST = {"softmax": 0.0}


def cell(name: str, tries: str, source: str, says: str = "") -> Hostile:
    """A cell of its own does it, after the answers."""
    return Hostile(name, tries, (early(source),), {}, says)


def call(name: str, tries: str, source: str, says: str = "") -> Hostile:
    """The answer does it when it is called."""
    body = "\n".join(f"    {line}" for line in source.strip("\n").splitlines())
    return Hostile(name, tries, (answer("softmax", f"import os, sys, time\ndef softmax(x, dim):\n{body}"),), LOST, says)


NOTEBOOKS = [
    cell("endless_python", "an endless loop", "while True: pass", "KeyboardInterrupt"),
    cell(
        "endless_c",
        "an endless loop in C, which no signal reaches",
        "import itertools, collections\ncollections.deque(itertools.repeat(1), maxlen=0)",
        "could not be stopped",
    ),
    cell(
        "ignores_interrupt",
        "an endless loop that ignores the stop button",
        """
import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
while True: pass""",
        "could not be stopped",
    ),
    cell(
        "catches_everything",
        "an endless loop that catches whatever stops it",
        """
import time
while True:
    try: time.sleep(0.01)
    except BaseException: pass""",
        "could not be stopped",
    ),
    cell("sleeps", "sleeps for a year", "import time\ntime.sleep(3e7)", "KeyboardInterrupt"),
    cell(
        "fork_bomb",
        "a fork bomb",
        """
import os
while True:
    try: os.fork()
    except OSError: pass""",
    ),
    cell("shell_fork_bomb", "a fork bomb in the shell", "!:(){ :|:& };:"),
    cell(
        "leaves_threads",
        "threads until the limit of processes is reached, and goes on",
        """
import resource, threading, time
threading.stack_size(1 << 16)
try:
    while True: threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
except RuntimeError: pass""",
    ),
    cell(
        "thread_bomb",
        "threads without end",
        """
import threading, time
while True: threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()""",
    ),
    cell("memory_bomb", "all memory, in one process", "hoard = []\nwhile True: hoard.append(bytearray(64 << 20))"),
    cell(
        "memory_bomb_shared",
        "all memory, in many processes",
        """
import os, time
for _ in range(12):
    if os.fork() == 0:
        hoard = []
        try:
            while True: hoard.append(bytearray(32 << 20))
        finally: time.sleep(60)
time.sleep(60)""",
    ),
    cell(
        "memory_without_owner",
        "memory that belongs to no process: memfd and shared memory",
        """
import os
hoard = [os.memfd_create(str(i)) for i in range(400)]
for one in hoard: os.write(one, bytes(64 << 20))""",
        "Operation not permitted",
    ),
    cell(
        "disk_flood",
        "a disk full of data",
        """
for number in range(10**6):
    with open(f"/tmp/flood{number}", "wb") as file: file.write(bytes(16 << 20))""",
        "Error",
    ),
    cell(
        "inode_flood", "millions of empty files", "for number in range(10**7): open(f'/tmp/empty{number}', 'w').close()"
    ),
    cell("prints_gigabyte", "a gigabyte of output", "for _ in range(1024): print('x' * (1 << 20))", "cut off"),
    Hostile(
        "floods_cell_by_cell",
        "output in many cells, of which each stays below its limit",
        tuple(late("print('x' * 900_000)") for _ in range(30)),
        {},
        "left out: this notebook has shown",
    ),
    cell(
        "writes_gigabyte",
        "a gigabyte of output past Python",
        "import os\nfor _ in range(1024): os.write(1, b'x' * (1 << 20))",
    ),
    cell("yes", "a program that never stops printing", "!yes"),
    cell("many_displays", "a million displays", "for number in range(10**6): display(number)"),
    cell(
        "floods_wire",
        "a gigabyte into the socket to the grader",
        """
import os
for descriptor in range(3, 32):
    try:
        for _ in range(1024): os.write(descriptor, b"\\0" * (1 << 20))
    except OSError: pass""",
        "given up",
    ),
    cell(
        "deep_recursion",
        "a recursion without end, and without Python's limit",
        """
import sys
sys.setrecursionlimit(10**9)
def down(n): return [down(n + 1)] and sorted([n], key=lambda _: down(n + 1))
down(0)""",
        "",
    ),
    cell("leaves", "os._exit in a cell", "import os\nos._exit(0)", "ended the Python process"),
    cell(
        "kills_itself",
        "SIGKILL to itself",
        "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
        "ended the Python process",
    ),
    Hostile(
        "kills_waiting",
        "SIGKILL to every process it can see, after the tests",
        (late("import os, signal\nos.kill(-1, signal.SIGKILL)"),),
    ),
    cell("segfault", "reads address 0", "import ctypes\nctypes.string_at(0)", "ended the Python process"),
    cell("says_exit", "exit() and sys.exit()", "import sys\nexit()\nsys.exit(3)"),
    cell("closes_everything", "closes every descriptor it has", "import os\nos.closerange(0, 256)"),
    cell(
        "endless_repr",
        "a value whose repr never ends",
        """
class Long:
    def __repr__(self):
        while True: pass
Long()""",
        "KeyboardInterrupt",
    ),
    cell("long_error", "an error with a message of 200 MB", "raise ValueError('x' * (200 << 20))"),
    cell(
        "json_bomb",
        "a frame of millions of empty lists into the socket to the grader",
        """
import os, struct
bomb = b"[" + b"[]," * 2_700_000 + b"1]"
for descriptor in range(3, 32):
    try:
        os.set_blocking(descriptor, True)
        os.write(descriptor, struct.pack(">II", len(bomb), 0))
        for at in range(0, len(bomb), 1 << 16): os.write(descriptor, bomb[at : at + (1 << 16)])
    except OSError: pass""",
        "too many parts",
    ),
    cell(
        "large_frame",
        "a frame of 60 MB of text",
        """
import os, struct
for descriptor in range(3, 32):
    try: os.write(descriptor, struct.pack(">II", 60 << 20, 0) + b'"')
    except OSError: pass""",
        "larger than",
    ),
    cell(
        "load",
        "a load of eighty processes, so that others' limits are stretched",
        """
import os, time
for _ in range(40):
    try:
        if os.fork() == 0:
            while True: pass
    except OSError: break
while True: pass""",
    ),
    cell(
        "burns_in_threads",
        "processor time in many threads",
        """
import threading
def burn():
    while True: pass
for _ in range(8): threading.Thread(target=burn, daemon=True).start()
while True: pass""",
        "the cell ran",
    ),
    cell(
        "raises_cpu_limit",
        "lifts the limit of processor time and goes on",
        """
import resource, signal
signal.signal(signal.SIGXCPU, signal.SIG_IGN)
signal.signal(signal.SIGINT, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_CPU, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
while True: pass""",
        "could not be stopped",
    ),
    call(
        "call_catches_limit",
        "a call that catches what stops it",
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
        "than it may",
    ),
    call(
        "call_bombs_json",
        "a call that answers with a bomb of JSON",
        "import struct\nbomb = b'[' + b'[],' * 4_000_000 + b'1]'\nfor fd in range(3, 64):\n"
        "    try: os.write(fd, struct.pack('>II', len(bomb), 0) + bomb)\n    except OSError: pass\nreturn x",
    ),
    call("returns_gigabytes", "a call that returns gigabytes", "return torch.zeros(1 << 26)", "larger than"),
    call("returns_many", "a call that returns a million things", "return [[0] * 1000] * 1000"),
    call(
        "returns_deep",
        "a call that returns a list in a list in a list …",
        "deep = []\nfor _ in range(5000): deep = [deep]\nreturn deep",
        "RecursionError",
    ),
    call("call_hangs", "a call that never returns", "while True: pass", "than it may"),
    call("call_sleeps", "a call that sleeps", "time.sleep(1000)", "longer than it may"),
    call("call_leaves", "os._exit in a call", "os._exit(0)", "ended the process"),
    call("call_kills_siblings", "a call that kills everything it can see", "os.kill(-1, 9)"),
    call("call_kills_parent", "a call that kills what it was forked from", "os.kill(os.getppid(), 9)\nreturn x"),
    call(
        "call_bombs_memory", "a call that takes all memory", "hoard = []\nwhile True: hoard.append(bytearray(64 << 20))"
    ),
    call("call_forks", "a call that forks without end", "while True:\n    try: os.fork()\n    except OSError: pass"),
    call("call_recurses", "a call that calls itself", "return softmax(x, dim)", "RecursionError"),
    call(
        "call_floods",
        "a call that never stops answering",
        "while True:\n    for fd in range(3, 64):\n        try: os.write(fd, bytes(1 << 20))\n"
        "        except OSError: pass",
    ),
]
