"""Packaging: students install `helpers` alone; the lists of dependencies say the same everywhere."""

import tomllib
import zipfile
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution

import pytest
import yaml
from conftest import ROOT
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version


def _project(path: str) -> dict:
    return tomllib.loads((ROOT / path).read_text())["project"]


def _constraints() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


STUDENT, GRADER = _project("pyproject.toml"), _project("autograder/pyproject.toml")
GRADER_OWN = [line for line in GRADER["dependencies"] if line != STUDENT["name"]]
EVERYTHING = STUDENT["dependencies"] + GRADER_OWN + GRADER["optional-dependencies"]["dev"]


def test_environment_yml_lists_the_dependencies_of_both_projects():
    listed = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"][-1]["pip"]
    assert [line for line in listed if not line.startswith("--")] == EVERYTHING
    assert {"--constraint constraints.txt", "--editable .", "--editable ./autograder"} <= set(listed)


def test_every_dependency_is_pinned_in_constraints_within_its_range():
    pins = _constraints()
    for line in EVERYTHING:
        requirement = Requirement(line)
        assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)]), line


def test_constraints_name_no_host_and_no_path():
    text = (ROOT / "constraints.txt").read_text()
    assert not any(sign in text for sign in ("://", "@", "--", "/"))


def test_what_is_installed_here_is_what_constraints_say():
    for name in ("nbgrader", "jupytext", "nbclient", "torch", "dask"):
        assert Version(distribution(name).version).public == _constraints()[name]


def test_no_pin_needs_a_newer_python_than_the_course():
    """Of those that are installed here: what a package needs stands in it."""
    lowest = next(part.version for part in SpecifierSet(STUDENT["requires-python"]))
    for name, pin in _constraints().items():
        with suppress(PackageNotFoundError):
            found = distribution(name)
            needs = SpecifierSet(found.metadata.get("Requires-Python") or "")
            assert found.version != pin or needs.contains(f"{lowest}.0"), f"{name} {pin} needs Python {needs}"


@pytest.mark.parametrize(("name", "colab"), [("torch", "2.11.0"), ("numpy", "2.1.3"), ("matplotlib", "3.10.0")])
def test_students_dependencies_accept_what_colab_has(name, colab):
    requirement = next(r for r in map(Requirement, STUDENT["dependencies"]) if r.name == name)
    assert requirement.specifier.contains(colab)
    assert not any(part.operator in ("==", "<", "<=", "~=") for part in requirement.specifier)


def test_students_need_nothing_of_the_grader():
    names = {Requirement(line).name for line in STUDENT["dependencies"]}
    assert names == {"torch", "numpy", "matplotlib", "jaxtyping", "tqdm"}
    assert "scripts" not in STUDENT


def test_triton_is_an_extra_that_leaves_colabs_alone_and_other_systems_without():
    (kernels,) = map(Requirement, STUDENT["optional-dependencies"]["kernels"])
    assert kernels.name == "triton" and kernels.specifier.contains("3.6.0")
    assert kernels.marker.evaluate({"sys_platform": "linux"}) and not kernels.marker.evaluate(
        {"sys_platform": "darwin"}
    )
    assert str(kernels) in {str(Requirement(line)) for line in GRADER_OWN}


def _wheel(folder, project):
    builder = pytest.importorskip("hatchling.builders.wheel").WheelBuilder(str(ROOT / project))
    with zipfile.ZipFile(next(builder.build(directory=str(folder), versions=["standard"]))) as wheel:
        return wheel.namelist()


def test_the_students_wheel_holds_helpers_and_a_setting_of_jupyterlab(tmp_path):
    names = _wheel(tmp_path, ".")
    settings = [name for name in names if ".data/" in name]
    assert [name.split("/", 1)[1] for name in settings] == [
        "data/share/jupyter/lab/settings/overrides.d/attention-course.json"
    ]
    names = set(names) - set(settings)
    assert {name.split("/")[0] for name in names} == {"helpers", f"attention_course-{STUDENT['version']}.dist-info"}
    assert "helpers/engine/score.py" in names


def test_the_instructors_wheel_holds_the_grader_alone(tmp_path):
    names = _wheel(tmp_path, "autograder")
    assert {name.split("/")[0].split("-")[0] for name in names} == {"autograder", "attention_course_autograder"}
    assert "autograder/cli/__init__.py" in names and "autograder/hidden/qkv_attention.py" in names
    assert not any("class/" in name for name in names)


def test_helpers_import_without_the_grader():
    """Nothing of what students install reaches for the grader."""
    for path in (ROOT / "helpers").rglob("*.py"):
        assert "autograder" not in path.read_text(), path


def test_the_setup_says_what_is_too_old_and_what_to_do(monkeypatch, capsys):
    from helpers import environment, setup

    monkeypatch.setattr(
        environment.importlib.metadata,
        "requires",
        lambda name: ["torch>=2.6", "nowhere>=1", 'triton>=99; extra == "kernels"'],
    )
    monkeypatch.setattr("importlib.metadata.version", _versions({"torch": "2.4.1+cu121"}))
    setup()
    first, *more = capsys.readouterr().out.splitlines()
    assert first.endswith("Ready.") and [line.split(":")[0] for line in more] == [
        "torch 2.4.1+cu121 is older than the course supports",
        "nowhere is missing",
    ]
    monkeypatch.setattr("importlib.metadata.version", _versions({"torch": "2.11.0+cu128", "nowhere": "1.0"}))
    assert environment.too_old() == []


def _versions(known: dict[str, str]):
    from importlib.metadata import PackageNotFoundError

    def version(name):
        if name not in known:
            raise PackageNotFoundError(name)
        return known[name]

    return version


def test_where_the_course_was_not_installed_nothing_is_said():
    from helpers.environment import too_old

    assert too_old("no-such-course") == [] and too_old() == []
