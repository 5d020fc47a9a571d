"""Kernels forked from the warm process: as a notebook's kernel should be, and strangers to each other."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_notebook

from autograder.bench.many_kernels import MARKS, leaked, many
from autograder.course.visibility import judge_config
from autograder.grading.judge_notebook import judge_notebook
from autograder.judge import kernel_manager as judge_kernels
from autograder.judge.fork_server_client import PACKAGES, ForkServer
from autograder.judge.judge import Limits
from autograder.judge.kernel_manager import NONE, KernelManager
from autograder.judge.protocol import Packer, Wire
from autograder.judge.sandbox.walls import SandboxError, environment

UNIT = "02_small"
LIMITS = Limits(cell_seconds=30, notebook_seconds=200)


@pytest.fixture
def run(kernels):
    """Runs cells in a fresh kernel; returns the outputs of each."""

    def run(*sources, in_kernels=kernels):
        notebook = new_notebook(cells=[new_code_cell(source) for source in sources])
        judge_notebook(notebook, UNIT, LIMITS, in_kernels)
        return [cell.outputs for cell in notebook.cells]

    return run


def text(outputs) -> str:
    return "".join(output.get("text", "") or output.get("data", {}).get("text/plain", "") for output in outputs)


def test_outputs_are_those_of_a_notebook(run):
    value, printed, shown, error, silent = run(
        "1 + 1",
        "import sys\nprint('a'); print('b', file=sys.stderr)",
        "from IPython.display import HTML\ndisplay(HTML('<b>x</b>'), 5)",
        "1 / 0",
        "3;",
    )
    assert (
        value[0].output_type == "execute_result"
        and value[0].data["text/plain"] == "2"
        and value[0].execution_count == 1
    )
    assert [(output.name, output.text) for output in printed] == [("stdout", "a\n"), ("stderr", "b\n")]
    assert [output.output_type for output in shown] == ["display_data"] * 2 and shown[0].data["text/html"] == "<b>x</b>"
    assert (
        error[0].output_type == "error"
        and error[0].ename == "ZeroDivisionError"
        and "1 / 0" in "\n".join(error[0].traceback)
    )
    assert silent == []


def test_magics_programs_and_await_work(run):
    magic, shell, written, awaited = run(
        "%%timeit -n1 -r1\npass",
        "!echo from the shell",
        "import os, subprocess\nsubprocess.run(['echo', 'past Python'])\nos.write(1, b'raw');",
        "import asyncio\nawait asyncio.sleep(0, 'awake')",
    )
    assert "loop" in text(magic) and "from the shell" in text(shell)
    assert "past Python" in text(written) and "raw" in text(written) and text(awaited) == "'awake'"


def test_plots_are_pictures(run):
    _, plot, again = run(
        "import matplotlib.pyplot as plt", "plt.plot([1, 2]);", "figure, axes = plt.subplots()\naxes.plot([2, 1]);"
    )
    for outputs in (plot, again):
        assert [output.data["image/png"][:5] for output in outputs if "image/png" in output.get("data", {})] == [
            "iVBOR"
        ]


def test_a_kernel_starts_like_a_fresh_process(run):
    seen = text(
        run("import os, threading\nprint(threading.active_count(), sorted(os.environ), os.getcwd(), os.listdir())")[0]
    )
    assert seen.startswith("1 ") and seen.endswith("/tmp/work []\n")
    assert not any(word in seen for word in ("TOKEN", "SSH", "USER", "ATTN", "ATTENTION"))


def test_the_same_notebook_draws_the_same_numbers_every_time(run):
    draw = (
        "import random, numpy, torch\nprint(random.random(), numpy.random.rand(), torch.rand(1), {'some', 'words', "
        "'in', 'a', 'set'})"
    )
    assert text(run(draw)[0]) == text(run(draw)[0])


def test_a_students_kernel_has_nothing_of_the_judges_in_memory(run):
    loaded = text(run("import sys\nprint('\\n'.join(sys.modules))")[0]).split()
    ours = {name for name in loaded if name.startswith(("autograder", "helpers", "nbgrader"))}
    assert {name for name in ours if name.startswith(("autograder", "nbgrader"))} <= {
        *("autograder", "autograder.errors", "autograder.judge"),
        "autograder.judge.sandbox",
        *(f"autograder.judge.sandbox.{name}" for name in ("cgroup", "keeper", "libc", "mounts", "namespaces")),
        *(f"autograder.judge.sandbox.{name}" for name in ("processes", "seccomp", "walls")),
        *(f"autograder.judge.{name}" for name in ("fork_server", "fork_server_client", "huge_pages", "import_stubs")),
        *(f"autograder.judge.{name}" for name in ("kernel", "pip_blocker", "protocol", "shared_maps", "shell")),
        *(f"autograder.judge.{name}" for name in ("student_kernel", "torch_warmup", "wall_time", "wire")),
    }
    assert {name for name in ours if name.startswith("helpers.")} == {
        "helpers.check",
        "helpers.plots",
        "helpers.environment",
        "helpers.engine",
        *(f"helpers.engine.{name}" for name in ("autograd_memory", "buffer_reuse", "isolated_call")),
        *(f"helpers.engine.{name}" for name in ("autotuned_kernels", "hints", "kernel_bounds", "observe")),
        *(f"helpers.engine.{name}" for name in ("plain_errors", "thread_tracing")),
    }
    files = text(
        run("import sys\nprint('\\n'.join(str(getattr(m, '__file__', '')) for m in list(sys.modules.values())))")[0]
    )
    assert "/hidden/" not in files and "/softmax.py" not in files


def test_kernels_do_not_see_each_other(run):
    run("import builtins, torch\nbuiltins.mark = torch.mark = 1\nopen('/tmp/mark', 'w').close()")
    assert (
        text(
            run(
                "import os, torch\nprint(hasattr(torch, 'mark'), 'mark' in dir(__builtins__), "
                "os.path.exists('/tmp/mark'))"
            )[0]
        )
        == "False False False\n"
    )


def test_a_torch_that_is_told_to_use_threads_does_not_hang_the_forks(kernels, course):
    from autograder import notebooks
    from autograder.judge import outputs
    from autograder.proofs.hostile import solved_by_a_student

    notebook = solved_by_a_student(course)
    notebook.cells.insert(
        1,
        new_code_cell("import torch\ntorch.set_num_threads(4)\n(torch.randn(500, 500) @ torch.randn(500, 500)).sum()"),
    )
    judge_notebook(notebook, UNIT, LIMITS, kernels)
    assert [outputs.read_result(cell).score for cell in notebooks.tests(notebook)] == [2, 3, 1]


def test_without_a_sandbox_the_same_kernels_run(run):
    loose = KernelManager(NONE)
    try:
        answer, folder = text(
            run("import os\nopen('left', 'w').close()\nprint(6 * 7, os.getcwd())", in_kernels=loose)[0]
        ).split()
        assert answer == "42"
    finally:
        loose.close()
    for _ in range(100):  # the keeper says that the kernel has ended, and then tidies up
        if not Path(folder).exists():
            return
        time.sleep(0.1)
    pytest.fail("the folder is still there")


def test_a_warm_process_ends_with_its_owner(kernels):
    own = KernelManager()
    own.start("judge", judge_config(UNIT), LIMITS).close()
    process = own.root.process
    own.close()
    assert process.returncode == 0


def test_a_branch_that_was_killed_is_replaced(kernels, run):
    for process in _branches(kernels):
        os.kill(process, signal.SIGKILL)
    assert text(run("6 * 7")[0]) == "42"
    assert len(_branches(kernels)) == 2


def test_a_root_that_was_killed_is_replaced(kernels, run):
    os.kill(kernels.root.process.pid, signal.SIGKILL)
    kernels.root.process.wait()
    assert text(run("6 * 7")[0]) == "42"


@pytest.fixture
def preloading(monkeypatch):
    """Kernels whose warm processes import one module more."""
    found, before = KernelManager(), judge_kernels.imports_of

    def with_one_more(module):
        def imports(role, config):
            wanted = before(role, config)
            return wanted | {"preload": (*wanted.get("preload", ()), module)}

        monkeypatch.setattr(judge_kernels, "imports_of", imports)
        return found

    yield with_one_more
    found.close()


def test_the_thread_that_cuda_starts_where_there_is_a_gpu_stops_no_kernel(preloading, run):
    shown = run(
        "import torch\ntorch.cuda.is_available(), torch.ones(3).sum().item()",
        in_kernels=preloading("tests.judge.cuda_driver_stub"),
    )
    assert text(shown[0]) == "(False, 3.0)"


def test_warm_processes_that_always_end_are_one_line_and_no_endless_trying(preloading, run, capfd):
    with pytest.raises(SandboxError, match="warm process ended 4 times"):
        run("1", in_kernels=preloading("tests.judge.pool_stub"))
    assert "threads that it may not have (" in capfd.readouterr().err


def test_who_is_ended_in_the_middle_of_a_request_leaves_no_traceback(capfd):
    root = ForkServer()
    Wire(root.sock).send(Packer().frame({"role": "student", "imports": {}}), 60)  # and no socket after it
    root.close()
    assert capfd.readouterr().err == ""


def _branches(kernels) -> list[int]:
    pid = kernels.root.process.pid
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_worker_that_is_deaf_to_ctrl_c_has_kernels_that_are_not(run):
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # as Dask's workers are born (see grading/worker_pool.py)
    deaf = KernelManager()
    try:
        blocked, stopped = run(
            "import signal\nsignal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])",
            "import os\nos.kill(os.getpid(), signal.SIGINT)",
            in_kernels=deaf,
        )
    finally:
        deaf.close()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    assert text(blocked) == "False" and stopped[0].ename == "KeyboardInterrupt"


def test_many_kernels_leave_nothing_and_see_nothing_of_each_other(kernels, run):
    before, after, seen = many(kernels, 6)
    assert seen == 0 and not leaked(before, after, megabytes=20)
    first, second = run(MARKS, MARKS)
    assert text(first) == "0" and int(text(second)) >= 4  # in one kernel the marks are seen


REHEARSES = """
import os
import torch
from autograder.course.paths import find_course
from autograder.course.visibility import judge_config
from autograder.judge.judge_kernel import preload
torch.set_num_threads(1)
for unit in find_course().units():
    steps = sum(1 for _ in preload(judge_config(unit).checks, seed=20_617))
    print(unit, steps > 10, len(os.listdir("/proc/self/task")))
"""


def test_what_is_found_out_beforehand_leaves_no_thread_in_the_warm_process():
    """Of any unit: a fork of a process with threads would hang."""
    done = subprocess.run(
        [sys.executable, "-c", REHEARSES], env=environment(PACKAGES), cwd=PACKAGES, capture_output=True, text=True
    )
    told = [line.split()[1:] for line in done.stdout.splitlines() if line[:2].isdigit()]
    assert len(told) == 11 and all(line == ["True", "1"] for line in told), done.stdout + done.stderr[-2000:]
