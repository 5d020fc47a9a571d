"""The walls, tried from inside by small programs of ours. What hostile notebooks try is in test_hostile.py."""

import json
import mmap
import os
import shutil
import signal
import socket
import sys
import time
from dataclasses import replace
from glob import glob
from pathlib import Path

import pytest

from autograder.course.visibility import judge_config
from autograder.judge import kernel_manager
from autograder.judge.sandbox import bubblewrap, walls
from autograder.judge.sandbox.libc import LIBC
from autograder.judge.sandbox.mounts import PTYS
from autograder.judge.sandbox.namespaces import confine
from autograder.judge.sandbox.processes import below
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
        open(f"{shown}/hidden.txt").read(),
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
        ]
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


def test_only_unix_sockets_are_to_be_had():
    def act():
        families = (
            socket.AF_INET,
            socket.AF_INET6,
            socket.AF_NETLINK,
            socket.AF_PACKET,
            socket.AF_VSOCK,
            38,
        )  # 38: ALG
        return [attempt(lambda family=family: socket.socket(family, socket.SOCK_DGRAM)) for family in families], [
            attempt(lambda: socket.socketpair(socket.AF_UNIX)),
            attempt(lambda: socket.socketpair(socket.AF_TIPC, socket.SOCK_STREAM)),
        ]

    assert inside(act)[0] == [["OSError"] * 6, ["done", "OSError"]]


def test_memory_is_shared_by_files_alone_and_the_file_of_zeros_holds_none():
    def act():
        with open("/dev/shm/shared", "w+b") as file:
            file.truncate(4096)
            shared = attempt(lambda: mmap.mmap(file.fileno(), 4096))
        zeros = open("/dev/zero", "rb").read(5)
        return [
            attempt(lambda: mmap.mmap(-1, 4096)),
            attempt(lambda: mmap.mmap(-1, 4096, mmap.MAP_PRIVATE)),
            shared,
        ] + [
            zeros == bytes(5),
            attempt(lambda: os.open("/dev/zero", os.O_RDWR)) == "done",
            attempt(lambda: os.mkdir("/dev/folder")) == "done",
        ]

    assert inside(act)[0] == ["PermissionError", "done", "done", True, False, False]


def test_socket_buffers_stay_as_large_as_they_are_and_who_asks_is_told_yes():
    def act():
        one, _ = socket.socketpair()
        before = one.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * before)
        return one.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == before

    assert inside(act)[0] is True


def test_what_lies_in_sockets_counts_as_memory():
    def act():
        held = [socket.socketpair() for _ in range(100)]
        os.fork() or [held.append(socket.socketpair()) for _ in range(20)]
        time.sleep(1000)

    walls = replace(FEW, memory=200 * 2 * int(Path("/proc/sys/net/core/wmem_default").read_text()))
    assert {"killed": "memory"} in inside(act, walls)[1]


def test_a_sandbox_has_few_terminals_of_its_own():
    def act():
        held = []
        try:
            while True:
                held.append(os.openpty())
        except OSError:
            return len(held)

    assert inside(act)[0] == PTYS


def test_sessions_share_one_turn_of_the_processor():
    def act():
        for _ in range(6):
            if os.fork() == 0:
                os.setsid()
                time.sleep(1000)
        for _ in range(500):
            nice = [open(path).read().split()[2:] for path in glob("/proc/[0-9]*/autogroup")]
            if [["9"]] * 6 == [one for one in nice if one == ["9"]][:6]:
                return "shared"
            time.sleep(0.02)
        return nice

    if not Path("/proc/self/autogroup").is_file() or not Path("/proc/self/autogroup").read_text():
        pytest.skip("this kernel gives sessions no share of their own")
    assert inside(act)[0] == "shared"  # seven sessions: a step of nice is a factor of 1.25, and 1.25**9 > 7


def test_a_wheel_and_a_clone_of_the_course_are_not_there(monkeypatch, tmp_path):
    prefix, packages = tmp_path / "python", tmp_path / "python/lib/python3.11/site-packages"
    secrets = [prefix / "src/app/.git/objects", prefix / "share/course/backups/class.zip"]
    secrets += [packages / "helpers/engine/answers/softmax.pyc", packages / "autograder/hidden/masking.py"]
    secrets += [prefix / "lib/python3.12/site-packages/pandas/other.py"]  # of a Python that is not this one
    for path in (*secrets, packages / "numpy/core.py", prefix / "bin/tool"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("text")
    monkeypatch.setattr(sys, "base_prefix", str(prefix))
    monkeypatch.setattr(sys, "path", [*sys.path, str(packages)])
    act = lambda: [[str(path) for path in secrets if path.exists()], (packages / "numpy/core.py").exists()]
    assert inside(act)[0] == [[], True]
    words = bubblewrap.wrapped(Walls(), "/own")
    assert words[words.index(str(packages / "helpers")) - 1] == "--tmpfs" and str(prefix / "lib") in words
    assert not any(word.startswith((str(prefix / "src"), str(prefix / "share"))) for word in words)


def test_a_course_among_the_libraries_is_not_shown_but_for_what_a_kernel_needs(monkeypatch, tmp_path):
    course = tmp_path / "python/lib/attention"
    for path in ("helpers/check.py", ".git/config", "backups/class.zip", "../libthing.so", "../../bin/tool"):
        (course / path).parent.mkdir(parents=True, exist_ok=True)
        (course / path).write_text("text")
    (course.parent / "libthing.so.1").symlink_to("libthing.so")
    (course.parent / "alias").symlink_to(course)
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path / "python"))
    monkeypatch.setattr(walls, "PACKAGES", course)
    seen, _ = inside(
        lambda: [os.listdir(course), sorted(os.listdir(course.parent)), (course.parent / "libthing.so.1").read_text()],
        replace(FEW, readable=(str(course / "helpers"),)),
    )
    assert seen == [["helpers"], ["attention", "libthing.so", "libthing.so.1"], "text"]


def test_where_the_wheel_is_the_course_its_helpers_stay(monkeypatch, tmp_path):
    packages = tmp_path / "lib/python3.11/site-packages"
    for folder in ("helpers", "autograder/hidden", "torch"):
        (packages / folder).mkdir(parents=True)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(sys, "path", [*sys.path, str(packages)])
    monkeypatch.setattr(walls, "PACKAGES", packages)
    student = replace(FEW, readable=(str(packages / "helpers"),), hidden=(str(packages / "autograder"),))
    judge = replace(FEW, readable=(str(packages / "helpers"), str(packages / "autograder/hidden")))
    act = lambda: [sorted(os.listdir(packages)), os.listdir(packages / "autograder")]
    assert inside(act, student)[0] == [["autograder", "helpers", "torch"], []]
    assert inside(act, judge)[0][1] == ["hidden"]


def test_a_virtual_environment_behind_links_is_found(monkeypatch, tmp_path):
    (tmp_path / "real/venv/lib").mkdir(parents=True)
    (tmp_path / "real/venv/lib/thing").write_text("text")
    (tmp_path / "real/venv/lib64").symlink_to("lib")
    (tmp_path / "absolute").symlink_to(tmp_path / "real")
    (tmp_path / "course").mkdir()
    (tmp_path / "course/.venv").symlink_to("../absolute/venv")
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "course/.venv"))
    act = lambda: [open(f"{tmp_path}/course/.venv/{lib}/thing").read() for lib in ("lib", "lib64")]
    assert inside(act)[0] == ["text", "text"]


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
    assert all(path in words for path in walls.hidden if os.path.exists(path) and "/helpers/" in path)


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
