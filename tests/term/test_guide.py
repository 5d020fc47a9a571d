"""The instructors' guide: every command in it exists, with the options and the number of arguments that it shows."""

import re
import shlex

import pytest
import yaml
from conftest import ROOT
from nbgrader.apps.nbgraderapp import NbGraderApp
from typer.main import get_command

from autograder.cli import app

PAGES = ["docs/TEACHING.md", "autograder/README.md"]
GROUP = get_command(app)


def _lines(page: str) -> list[str]:
    """The commands in blocks and in backticks."""
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = [line for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]
    return [line.split(" #")[0].strip() for line in blocks] + re.findall(r"`((?:attn|nbgrader) [^`]+)`", text)


@pytest.mark.parametrize("page", PAGES)
def test_every_command_exists_as_it_is_written(page):
    lines = [line for line in _lines(page) if line.startswith(("attn ", "nbgrader "))]
    assert len(lines) > 10
    assert [f"{line}: {problem}" for line in lines if (problem := _problem(line))] == []


def _problem(line: str) -> str:
    program, *words = shlex.split(line)
    if program == "nbgrader":
        return "" if words[0] in NbGraderApp().subcommands else f"nbgrader has no {words[0]}"
    command = GROUP
    while words and hasattr(command, "commands"):
        name = words.pop(0)
        if name == "COMMAND":
            return ""
        if name not in command.commands:
            return f"there is no {name}"
        command = command.commands[name]
    return _misused(command, words)


def _misused(command, words: list[str]) -> str:
    options = {flag: option for option in command.params if option.param_type_name == "option" for flag in option.opts}
    places = [one for one in command.params if one.param_type_name == "argument"]
    given, rest = 0, list(words)
    while rest:
        word = rest.pop(0)
        if word.startswith("-"):
            if word not in options and word != "--help":
                return f"it has no option {word}"
            if word != "--help" and not options[word].is_flag and not rest:
                return f"{word} wants a value"
            rest = rest if word == "--help" or options[word].is_flag else rest[1:]
        else:
            given += 1
    most = 99 if any(one.nargs == -1 for one in places) else len(places)
    return f"it takes {most} arguments" if given > most else ""


@pytest.mark.parametrize("name", ["github-workflow.yml", "gitlab-ci.yml"])
def test_a_sample_for_continuous_integration_parses_and_its_commands_exist(name):
    text = (ROOT / "autograder" / "cluster" / name).read_text(encoding="utf-8")
    job = (yaml.safe_load(text).get("jobs") or yaml.safe_load(text))["mark"]
    script = "\n".join(job.get("script") or [step["run"] for step in job["steps"] if "run" in step])
    commands = re.findall(r"attn (?!-)[^>\n|]+", script)
    assert commands and [_problem(command) for command in commands if _problem(command)] == []


def test_what_is_no_command_is_found():
    assert (
        _problem("attn collekt x.zip") and _problem("attn grade --previeww") and _problem("attn override 1 2 3 4 5 6")
    )
    assert _problem("nbgrader harvest 02") and not _problem("attn grade 02 --preview")


def test_every_day_has_its_command():
    named = {line.split()[1] for line in _lines("autograder/README.md") if line.startswith("attn ")}
    assert {
        "doctor",
        "release",
        "collect",
        "grade",
        "backup",
        "report",
        "export",
        "return",
        "override",
        "restore",
        "gradescope-zip",
    } <= named
