"""Where the course is published: badges and setup cells follow one setting, and a setup cell finds `helpers` wherever
it is."""

import shutil
import subprocess
import sys

import pytest
from conftest import ROOT

from autograder import notebooks
from autograder.course import repository_url, sections
from autograder.course.build import build

URL = "https://github.com/someone/attention"
UNIT = "02_small"


def publish(course, url: str, pages: str = "https://OWNER.github.io/attention-course") -> None:
    urls = f'Repository = "{url}"\nHomepage = "{pages}"\n'
    (course.root / "pyproject.toml").write_text(f'[project]\nname = "x"\n[project.urls]\n{urls}')


def with_setup(course):
    """The small course with a setup cell that looks for `helpers`."""
    source = course.source(UNIT)
    text = source.read_text()
    place = text.index('"grade_id": "setup"')
    end = text.index("\n", place) + 1
    source.write_text(text[:end] + repository_url.MARK + text[end:])
    return course


@pytest.mark.parametrize("url", [URL, f"{URL}/", f"{URL}.git"])
def test_badge_and_setup_cell_follow_the_setting(fresh_course, url):
    publish(with_setup(fresh_course), url)
    build(fresh_course, [UNIT])
    for path in (fresh_course.released(UNIT), fresh_course.solved(UNIT)):
        first, *rest = notebooks.read(path).cells
        assert f"github/someone/attention/blob/main/notebooks/{UNIT}/{UNIT}.ipynb)" in first.source.splitlines()[2]
        setup = next(cell.source for cell in rest if notebooks.grade_id(cell) == "setup")
        assert f"git+{URL}" in setup and setup.count("import helpers\n") == 1


def test_the_setup_cell_is_folded_under_a_line_that_says_what_to_do(fresh_course):
    build(with_setup(fresh_course), [UNIT])
    setup = notebooks.by_id(notebooks.read(fresh_course.released(UNIT)))["setup"]
    assert setup.source.startswith("# @title Run this cell first") and "import" not in setup.source.split("\n")[0]
    assert setup.metadata.jupyter.source_hidden and setup.metadata.cellView == "form"


def test_notebooks_and_readme_link_to_the_pages_while_they_have_an_address(fresh_course):
    readme, row = fresh_course.root / "README.md", f"| [02](notebooks/{UNIT}/{UNIT}.ipynb){{}} | A small unit |\n"
    readme.write_text(row.format(""))
    publish(fresh_course, URL, "https://someone.github.io/attention/")
    build(fresh_course, [UNIT])
    read = f" [Read](https://someone.github.io/attention/{UNIT}/)"
    assert notebooks.read(fresh_course.released(UNIT)).cells[0].source.split("\n")[2].endswith(f"){read}")
    assert readme.read_text().endswith(f"){read} | A small unit |\n") and build(fresh_course, [UNIT]) == []
    publish(fresh_course, "https://git.example.org/attention", "https://example.org")
    build(fresh_course, [UNIT])
    assert readme.read_text() == row.format(f" [Read](https://example.org/{UNIT}/)")


def test_the_readmes_rows_have_badges_while_there_is_an_address(fresh_course):
    row = f"| [02](notebooks/{UNIT}/{UNIT}.ipynb){{}} | A small unit | 00 | 1 | 9 |\n"
    readme = fresh_course.root / "README.md"
    readme.write_text("# A course\n\n" + row.format(""))
    publish(fresh_course, URL)
    build(fresh_course, [UNIT])
    assert readme.read_text().endswith(row.format(f" {repository_url.links(fresh_course, UNIT)}"))
    assert build(fresh_course, [UNIT]) == [] and sections.readme_row(UNIT).search(readme.read_text())[2] == "9"
    publish(fresh_course, "https://github.com/OWNER/attention-course")
    build(fresh_course, [UNIT])
    assert readme.read_text() == "# A course\n\n" + row.format("")


def test_while_it_is_unset_there_is_no_link_to_nowhere(fresh_course, attn):
    publish(with_setup(fresh_course), "https://github.com/OWNER/attention-course")
    build(fresh_course, [UNIT])
    for path in (fresh_course.released(UNIT), fresh_course.solved(UNIT)):
        assert "OWNER" not in path.read_text() and "colab" not in path.read_text()
    assert "[project.urls] Repository" in attn(fresh_course, "lint").output
    assert "[project.urls]" in attn(fresh_course, "doctor").output


@pytest.mark.parametrize(("text", "told"), [("[project\n", "can't be read"), ('project = "x"\n', "nothing to mend")])
def test_a_setting_that_is_no_address_is_one_line(fresh_course, attn, text, told):
    build(fresh_course, [UNIT])
    (fresh_course.root / "pyproject.toml").write_text(text)
    result = attn(fresh_course, "lint")
    assert told in result.output and (result.exception is None or isinstance(result.exception, SystemExit))


def test_no_source_names_an_owner():
    texts = [*ROOT.glob("solutions/*/*"), *ROOT.glob("notebooks/*/*.ipynb"), *ROOT.glob("*.md")]
    assert [
        path.name for path in texts if path.is_file() and "OWNER" in path.read_text() and path.name != "README.md"
    ] == []


NOT_INSTALLED = """
import os, sys
os.chdir({folder!r})
sys.path[:] = [path for path in sys.path if path and not os.path.isfile(path + "/helpers/check.py")]
asked = []
class get_ipython:
    run_line_magic = staticmethod(lambda *words: asked.append(words))
{code}
print(asked, sys.modules["helpers"].__file__ if "helpers" in sys.modules else "", sys.path[0])
"""


def found(folder, url: str = "") -> subprocess.CompletedProcess:
    """What the code does in a folder where `helpers` is not installed."""
    code = NOT_INSTALLED.format(folder=str(folder), code=repository_url.setup_code(url))
    return subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, env={})


@pytest.mark.parametrize("place", [".", "notebooks", "notebooks/02_x"])
def test_helpers_are_found_in_an_unpacked_course(tmp_path, place):
    (tmp_path / "helpers").mkdir()
    (tmp_path / place).mkdir(parents=True, exist_ok=True)
    for name in ("__init__.py", "check.py"):
        (tmp_path / "helpers" / name).touch()
    for url in ("", URL):
        done = found(tmp_path / place, url)
        assert done.stdout.split() == ["[]", str(tmp_path)], done


def test_helpers_that_are_nowhere_are_fetched_or_one_line_says_what_to_do(tmp_path):
    assert f"git+{URL}" in found(tmp_path, URL).stdout
    done = found(tmp_path)
    assert done.returncode == 1 and done.stderr.splitlines()[-1].startswith(
        "ModuleNotFoundError: Open this notebook in the folder"
    )
    shutil.rmtree(tmp_path)
