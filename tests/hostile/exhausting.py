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
        "memory_in_shared_maps",
        "memory that is in nobody's RSS: pages of a shared map, taken out of it again",
        """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
for taken in range(32):
    place = libc.mmap(None, ctypes.c_size_t(64 << 20), 3, 0x21, -1, ctypes.c_long(0))
    if place == ctypes.c_void_p(-1).value: raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    ctypes.memset(ctypes.c_void_p(place), 1, 64 << 20)
    libc.madvise(ctypes.c_void_p(place), ctypes.c_size_t(64 << 20), 4)
print("LEAK took", taken)""",
        "Operation not permitted",
    ),
    cell(
        "memory_in_dev_zero",
        "the same through the device of zeros, which gives shared memory to who maps it",
        """
import mmap, os
device = os.open("/dev/zero", os.O_RDONLY)
for taken in range(8):
    shared = mmap.mmap(device, 64 << 20, mmap.MAP_SHARED, mmap.PROT_READ)
    for page in range(0, 64 << 20, 4096): shared[page]
    shared.madvise(mmap.MADV_DONTNEED)
print("LEAK took", taken)""",
        "ended the Python process",
    ),
    cell(
        "memory_in_sockets",
        "memory that belongs to no process: what lies in sockets, their buffers enlarged",
        """
import os, socket, time
def fill():
    held = []
    try:
        while True:
            held.extend(pair := socket.socketpair())
            for end in pair:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
                end.setblocking(False)
                try:
                    while True: end.send(bytes(1 << 16))
                except BlockingIOError: pass
    finally: time.sleep(60)
for _ in range(30):
    if os.fork() == 0: fill()
time.sleep(60)""",
        "more memory than it may",
    ),
    cell(
        "all_terminals",
        "all terminals of the machine, so that nobody's `!echo` works any longer",
        """
import os
held = []
try:
    while True: held.append(os.openpty())
except OSError as error: print(error)
print("LEAK" if len(held) > 40 else "only", len(held))""",
    ),
    cell(
        "many_sessions",
        "sessions of its own, of which the scheduler gives each the same share as to everybody else",
        """
import os, time
children = []
for _ in range(12):
    children.append(os.fork())
    if children[-1] == 0:
        os.setsid()
        time.sleep(60)
def groups(): return [open(f"/proc/{child}/autogroup").read().split() for child in children]
try:
    for _ in range(60):
        time.sleep(0.02)
        if any(int(group[2]) > 5 for group in groups()): break
    else: print("LEAK", groups())
except (OSError, IndexError) as error: print("no autogroups here", error)""",
    ),
    cell(
        "honest_sharing",
        "honest: memory shared by processes in three ways, sockets, terminals and a session of its own",
        """
import asyncio, mmap, multiprocessing, subprocess
import numpy as np
from torch.utils.data import DataLoader
shared, value = mmap.mmap(-1, 4096), multiprocessing.Value("i", 0)
copied = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_WRITE)
closed = mmap.mmap(-1, 4096, prot=mmap.PROT_READ), mmap.mmap(-1, 4096, access=mmap.ACCESS_WRITE)
tensor = torch.zeros(3).share_memory_()
def work():
    shared[0], value.value, tensor[1] = 7, 8, 9
process = multiprocessing.get_context("fork").Process(target=work)
process.start()
process.join()
batches = [batch.tolist() for batch in DataLoader(range(4), batch_size=2, num_workers=2)]
said = !echo terminal
apart = subprocess.run(["sh", "-c", "head -c 5 /dev/zero | wc -c"], start_new_session=True, capture_output=True).stdout
print("shared", shared[0], value.value, tensor.tolist(), batches, said, int(apart))""",
        "shared 7 8 [0.0, 9.0, 0.0] [[0, 1], [2, 3]] ['terminal'] 5",
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
