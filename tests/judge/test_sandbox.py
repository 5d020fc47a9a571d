"""The walls, tried from inside by small programs of ours. What hostile notebooks try is in test_hostile.py."""

import json
import os
import shutil
import signal
import socket
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from autograder.course.visibility import judge_config
from autograder.judge import kernel_manager
from autograder.judge.sandbox import bubblewrap
from autograder.judge.sandbox.keeper import below
from autograder.judge.sandbox.libc import LIBC
from autograder.judge.sandbox.namespaces import confine
from autograder.judge.sandbox.seccomp import NUMBERS
from autograder.judge.sandbox.walls import MB, Walls

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the sandbox is made of Linux namespaces")
FEW = Walls(memory=600 * MB, scratch=8 * MB, files=200, processes=24)


def inside(act, walls=FEW) -> tuple[object, list[dict]]:
    """What `act()` returns behind walls, as JSON, and what the keeper reported."""
    (answer, theirs), (leash, keeper) = socket.socketpair(), socket.socketpair()
    child = os.fork()
    if child == 0:
        try:
            confine(lambda: theirs.sendall(json.dumps(act()).encode()), walls, keeper)
        finally:
            os._exit(1)
    theirs.close(), keeper.close()
    said = b"".join(iter(lambda: answer.recv(65536), b""))
    reports = b"".join(iter(lambda: leash.recv(65536), b""))
    answer.close(), leash.close()
    os.waitpid(child, 0)
    reports = [json.loads(line) for line in reports.decode().splitlines()]
    assert said or "killed" in str(reports) or "signal" in str(reports) or "exit 1" in str(reports), reports
    return (json.loads(said) if said else None), reports


def attempt(act) -> str:
    try:
        act()
    except (OSError, MemoryError) as error:
        return type(error).__name__
    return "done"


def test_there_is_little_to_see():
    seen, reports = inside(lambda: [sorted(os.listdir("/")), os.listdir("/tmp"), os.path.exists(__file__), os.getcwd()])
    assert set(seen[0]) <= {
        "bin",
        "dev",
        "etc",
        "lib",
        "lib32",
        "lib64",
        "proc",
        "root",
        "sbin",
        "tmp",
        "usr",
        "work",
        "opt",
        "home",
        "srv",
        *sys.prefix.split("/")[1:2],
        *sys.base_prefix.split("/")[1:2],
    }
    assert {"work", "home"} <= set(seen[1]) and not seen[2]
    assert reports == [{"ended": "exit 0"}]


def test_readable_folders_are_shown_and_hidden_ones_in_them_are_empty(tmp_path):
    (tmp_path / "open").mkdir()
    for path in ("open/read.txt", "open/secret/key.txt", "open/hidden.txt"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("text")
    shown = str(tmp_path / "open")
    walls = replace(FEW, readable=(shown,), hidden=(f"{shown}/secret", f"{shown}/hidden.txt", f"{shown}/absent"))
    act = lambda: [
        open(f"{shown}/read.txt").read(),
        os.listdir(f"{shown}/secret"),
        open(f"{shown}/hidden.txt").read(),  # noqa: E731
        attempt(lambda: open(f"{shown}/read.txt", "w")),
    ]
    assert inside(act, walls)[0] == ["text", [], "", "OSError"] or inside(act, walls)[0][:3] == ["text", [], ""]
    assert (tmp_path / "open" / "read.txt").read_text() == "text"


def test_no_privileges_are_left():
    def act():
        status = dict(line.split(":", 1) for line in open("/proc/self/status"))
        return [
            os.getuid(),
            *(int(status[name], 16) for name in ("CapPrm", "CapEff", "CapBnd")),
            int(status["NoNewPrivs"]),
            int(status["Seccomp"]),
        ]

    user, *capabilities, no_new, seccomp = inside(act)[0]
    assert user != 0 and capabilities == [0, 0, 0] and (no_new, seccomp) == (1, 2)


def test_the_memory_of_the_first_process_is_closed():
    assert inside(lambda: attempt(lambda: open("/proc/1/mem", "rb")))[0] == "PermissionError"


def test_there_is_no_network_and_no_other_process():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        address = server.getsockname()
        act = lambda: [
            attempt(lambda: socket.create_connection(address, 1)),
            [p for p in os.listdir("/proc") if p.isdigit()],
        ]  # noqa: E731
        refused, processes = inside(act)[0]
    assert refused == "OSError" and set(processes) <= {"1", "2", "3"}


@pytest.mark.parametrize(
    "call",
    [("unshare", 0x10000000), ("ptrace", 0), ("memfd_create", 0), ("mount", 0), ("setns", 0)],
    ids=lambda c: c[0],
)
def test_calls_that_no_course_needs_are_refused(call):
    def act():
        import ctypes

        result = LIBC.syscall(NUMBERS[call[0]], call[1], 0, 0, 0, 0)
        return [result, ctypes.get_errno()]

    assert inside(act)[0] == [-1, 1]


def test_the_scratch_is_small_in_bytes_and_in_files():
    def fill():
        with open("/tmp/big", "wb") as file:
            file.write(bytes(9 * MB))

    def scatter():
        for number in range(300):
            open(f"/tmp/{number}", "w").close()

    assert inside(lambda: [attempt(fill), attempt(scatter)])[0] == ["OSError", "OSError"]


def test_processes_are_limited():
    def act():
        for count in range(200):
            try:
                if os.fork() == 0:
                    os.execvp("sleep", ["sleep", "1000"])
            except OSError:
                return count

    assert inside(act)[0] < 30  # those that it leaves behind end with it


def test_the_process_that_takes_too_much_memory_in_all_is_killed():
    def act():
        import time

        for _ in range(3):  # none of them alone is above the limit
            if os.fork() == 0:
                hoard = bytearray(b"x") * (250 * MB)
                time.sleep(1000 + len(hoard))
        time.sleep(0.1)
        return os.wait()[1]

    killed, reports = inside(act)
    assert killed == 9 and {"killed": "memory"} in reports


def test_a_kernel_ends_with_its_leash():
    (leash, keeper), (pipe, theirs) = socket.socketpair(), socket.socketpair()
    if (child := os.fork()) == 0:
        leash.close(), pipe.close()

        def hang():
            import signal

            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            theirs.send(b"up")
            while True:
                pass

        confine(hang, FEW, keeper)
    keeper.close(), theirs.close()
    assert pipe.recv(2) == b"up"
    leash.close()
    assert pipe.recv(2) == b""  # nobody holds the other end any more
    os.waitpid(child, 0)
    pipe.close()


@pytest.mark.skipif(not shutil.which("bwrap"), reason="bubblewrap is not installed")
@pytest.mark.parametrize("end", ["leash", "keeper"])
def test_a_hanging_kernel_in_bubblewrap_ends_with_its_leash_and_with_its_keeper(end):
    from autograder.judge.judge import Limits

    found = kernel_manager.KernelManager(kernel_manager.BUBBLEWRAP)
    kernel = found.ready(found.start(kernel_manager.STUDENT, judge_config("02_small"), Limits()))
    kernel.tell(
        {
            "ask": "run",
            "count": 1,
            "source": "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('up')\nwhile True: pass",
        }
    )
    processes = [*below(kernel.keeper.pid)]
    assert len(processes) >= 3
    if end == "leash":
        kernel.leash.close()
    else:
        kernel.keeper.kill()
    assert kernel.keeper.wait() == (0 if end == "leash" else -signal.SIGKILL)
    while any(_runs(pid) for pid in processes):  # they are being taken down
        pass


def _runs(pid: int) -> bool:
    """Whether it is there and no zombie that only waits to be counted."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_every_sandbox_has_a_user_of_its_own_as_root():
    if os.geteuid():
        pytest.skip("an ordinary user has only one")
    users = [inside(os.getuid)[0] for _ in range(3)]
    assert len(set(users)) == 3 and min(users) > 1000


def test_bubblewraps_command_shows_and_hides_the_same():
    if not shutil.which("bwrap"):
        pytest.skip("bubblewrap is not installed")
    walls = kernel_manager.walls_of(kernel_manager.STUDENT, judge_config("02_small"))
    words = bubblewrap.wrapped(walls, "/own")
    assert {"--unshare-net", "--unshare-pid", "--die-with-parent"} <= set(words)
    assert words[words.index("--cap-drop") + 1] == "ALL"
    assert all(path in words for path in walls.hidden if os.path.exists(path) and '/helpers/' in path)


def test_the_rooms_of_this_unit_and_later_ones_are_hidden_and_all_checks():
    hidden = kernel_manager.walls_of(kernel_manager.STUDENT, judge_config("02_small")).hidden
    closed = {path.split("/helpers/")[1] for path in hidden if "/helpers/" in path}
    assert {"qkv_attention", "multi_head", "beyond_quadratic", "parallelization/checks"} <= closed
    assert not {"parallelization", "start_here", "engine"} & closed  # a unit may lean on what earlier ones taught


def test_where_no_sandbox_works_the_grader_refuses_in_one_line(monkeypatch):
    monkeypatch.setattr(bubblewrap.shutil, "which", lambda name: None)
    from autograder.judge.judge import Limits
    from autograder.judge.sandbox.walls import SandboxError

    with pytest.raises(SandboxError, match="bubblewrap is not installed") as caught:
        kernel_manager.KernelManager(kernel_manager.BUBBLEWRAP).start(
            kernel_manager.STUDENT, judge_config("02_small"), Limits()
        )
    assert "\n" not in str(caught.value)
    with pytest.raises(SandboxError, match="There is no sandbox"):
        kernel_manager.kernel_manager("castle")
