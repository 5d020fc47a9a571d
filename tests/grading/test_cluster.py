"""A scheduler and workers started by hand, as on other machines: with the two wheels, folders of their own and no file
of the course; and SLURM, with an `sbatch` that runs the job here."""

import json
import os
import re
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from socket import socket

import pytest
import yaml

from tests.conftest import ROOT, UNIT, hand_in, install_wheels, right_answers

BIN = Path(sys.executable).parent
CLUSTER = ROOT / "autograder" / "cluster"
ANSWERS = {"ada": {}, "ben": {"softmax": "softmax = lambda x, dim: x * 0"}, "cy": {"attend": "attend = None"}}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """The folder into which the two wheels are installed, and nothing else."""
    folder = tmp_path_factory.mktemp("wheels")
    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]
    packages = [str(ROOT), str(ROOT / "autograder")]
    subprocess.run([*pip, "wheel", "--no-build-isolation", "--no-deps", "-w", folder, *packages], check=True)
    install_wheels(folder.glob("*.whl"), folder / "site")
    return folder / "site"


@pytest.fixture
def handed_in(course):
    for student, wrong in ANSWERS.items():
        hand_in(course, student, right_answers(course) | wrong)
    return course


@contextmanager
def running(*command: str, wheels: Path, folder: Path):
    """A program that finds the wheels and nothing else of ours; ended afterwards, with all that it started."""
    folder.mkdir()
    environment = os.environ | {"PYTHONPATH": str(wheels), "HOME": str(folder)}
    with open(folder / "log", "w") as log:
        process = subprocess.Popen(
            [str(BIN / "dask"), *command], cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60)


def free_port() -> int:
    with socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def points(done) -> dict[str, float]:
    """What each student has, as `attn grade --json` prints it."""
    return {student: row["score"] for student, row in json.loads(done)["units"][UNIT]["students"].items()}


def graded(course, *options: str, **environment: str) -> subprocess.CompletedProcess:
    more = {"ATTN_COURSE": str(course.root), "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run(
        [sys.executable, "-c", "from autograder.cli import app; app()", "grade", "--json", *options],
        env=os.environ | more,
        capture_output=True,
        text=True,
        timeout=240,
    )


def expected(course) -> dict[str, float]:
    return points(graded(course, "--workers", "1").stdout)


def test_workers_elsewhere_need_the_wheels_and_nothing_else(handed_in, wheels, tmp_path):
    address = f"tcp://127.0.0.1:{free_port()}"
    with ExitStack() as stack:
        at = ["scheduler", "--host", address, "--no-dashboard"]
        stack.enter_context(running(*at, wheels=wheels, folder=tmp_path / "scheduler"))
        for name in ("one", "two"):
            worker = ["worker", address, "--nthreads", "1", "--no-dashboard", "--name", name]
            stack.enter_context(running(*worker, wheels=wheels, folder=tmp_path / name))
        done = graded(handed_in, "--scheduler", address)
        logs = [(tmp_path / name / "log").read_text() for name in ("one", "two")]
    assert done.returncode == 0, (done.stderr, logs)
    assert points(done.stdout) == {"ada": 6, "ben": 1 + 3, "cy": 2 + 1} == expected(handed_in)
    assert {path.name for name in ("one", "two") for path in (tmp_path / name).iterdir()} <= {
        "log",
        "dask-worker-space",
        ".config",
        ".cache",
    }


def test_slurm_jobs_are_written_as_the_settings_say_and_grade(handed_in, tmp_path):
    (tmp_path / "bin").mkdir()
    sbatch = tmp_path / "bin" / "sbatch"
    sbatch.write_text(
        f"#!/bin/sh\ncp $1 {tmp_path}/job.sh; setsid sh {tmp_path}/job.sh > {tmp_path}/log 2>&1 & echo Submitted batch "
        f"job 7\n"
    )
    (tmp_path / "bin" / "scancel").write_text("#!/bin/sh\nexit 0\n")
    for program in (tmp_path / "bin").iterdir():
        program.chmod(0o755)
    settings = yaml.safe_load((CLUSTER / "slurm.yaml").read_text())
    settings["jobqueue"]["slurm"] |= {
        "interface": "lo",
        "local-directory": str(tmp_path),
        "python": sys.executable,
        "job-script-prologue": [],
    }
    (tmp_path / "jobqueue.yaml").write_text(yaml.safe_dump(settings))
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    done = graded(handed_in, "--scheduler", "slurm", "--workers", "1", DASK_CONFIG=str(tmp_path), PATH=path)
    assert done.returncode == 0, done.stderr
    assert points(done.stdout) == expected(handed_in)
    job = (tmp_path / "job.sh").read_text()
    for line in (r"#SBATCH --mem=6G", r"#SBATCH --cpus-per-task=1", r"#SBATCH -t 04:00:00", r"--nthreads 1\b"):
        assert re.search(line, job), (line, job)


@pytest.mark.parametrize(
    "has_sbatch, settings, told",
    [(False, {}, "`sbatch` is not found"), (True, {"cores": 0}, "SLURM jobs can't be made")],
)
def test_without_slurm_or_its_settings_one_line_says_so(course, tmp_path, has_sbatch, settings, told):
    hand_in(course, "ada", {})
    (tmp_path / "bin").mkdir()
    if has_sbatch:
        (tmp_path / "bin" / "sbatch").write_text("#!/bin/sh\n")
        (tmp_path / "bin" / "sbatch").chmod(0o755)
    (tmp_path / "jobqueue.yaml").write_text(yaml.safe_dump({"jobqueue": {"slurm": settings}}))
    done = graded(
        course, "--scheduler", "slurm", DASK_CONFIG=str(tmp_path), PATH=f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    )
    assert done.returncode == 1 and told in done.stderr and "Traceback" not in done.stderr, done.stderr


def test_the_manifest_for_kubernetes_is_whole():
    parts = {
        (part["kind"], part["metadata"]["name"]): part
        for part in yaml.safe_load_all((CLUSTER / "kubernetes.yaml").read_text())
    }
    assert set(parts) == {
        ("Deployment", "attn-scheduler"),
        ("Service", "attn-scheduler"),
        ("Deployment", "attn-workers"),
        ("NetworkPolicy", "attn-only"),
    }
    service = parts["Service", "attn-scheduler"]["spec"]
    scheduler, workers = (parts["Deployment", f"attn-{name}"]["spec"] for name in ("scheduler", "workers"))
    for one in (scheduler, workers):
        assert one["selector"]["matchLabels"].items() <= one["template"]["metadata"]["labels"].items()
        (container,) = one["template"]["spec"]["containers"]
        assert container["resources"]["limits"] and container["image"] == "REGISTRY/attn-worker:0.1.0"
    assert service["selector"].items() <= scheduler["template"]["metadata"]["labels"].items()
    (port,) = service["ports"]
    command = workers["template"]["spec"]["containers"][0]["command"]
    assert f"tcp://attn-scheduler:{port['port']}" in command and "--nthreads" in command
    policy = parts["NetworkPolicy", "attn-only"]["spec"]
    assert policy["podSelector"]["matchLabels"].items() <= workers["template"]["metadata"]["labels"].items()


@pytest.mark.parametrize("program", ["ours", "a worker's"])
def test_a_wheel_has_what_a_worker_asks_for(wheels, program):
    where = {"ours": str(ROOT), "a worker's": str(wheels)}[program]
    code = (
        "from autograder.course import visibility; from autograder.grading.result_cache import grader_version; import "
        "autograder;"
        "print(grader_version(), *(visibility.room(f'{n:02}_x') for n in range(11)), autograder.__file__)"
    )
    found = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": where},
        cwd="/",
        capture_output=True,
        text=True,
        check=True,
    )
    version, *rooms, file = found.stdout.split()
    from autograder.course import visibility
    from autograder.grading.result_cache import grader_version

    assert (
        version == grader_version()
        and rooms == [visibility.room(f"{n:02}_x") for n in range(11)]
        and file.startswith(where)
    )
