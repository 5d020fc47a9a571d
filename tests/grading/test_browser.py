"""What students wrote, in a real browser: feedback pages and formgrader's page of a submission. No script of theirs
runs, and no request leaves for where they point to. Needs Chromium on the PATH; skipped where there is none."""

import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from html.parser import HTMLParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from conftest import UNIT, hand_in, right_answers
from nbconvert.exporters import HTMLExporter
from nbformat.v4 import new_code_cell, new_markdown_cell, new_raw_cell
from nbgrader.api import Gradebook
from rich.progress import Progress
from test_sanitize import HANDLERS, MARKDOWN

from autograder import notebooks
from autograder.course import nbgrader_steps
from autograder.course.paths import Course
from autograder.grading import grade
from autograder.site.browser import CHROMIUM

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on the PATH")
RAN = "document.title='RAN'"


def armed(text: str) -> str:
    """The text, with a script that leaves a trace in the place of an alert."""
    return text.replace("alert(1)", RAN)


@pytest.fixture(scope="module")
def graded(built, tmp_path_factory):
    """A course in which one student handed in every attack as text and as output."""
    folder = tmp_path_factory.mktemp("browser") / "course"
    shutil.copytree(built.root, folder, ignore=shutil.ignore_patterns("class"))
    course = Course(folder.resolve())

    def attack(notebook):
        texts = [armed(text) for text in HANDLERS + MARKDOWN]
        notebook.cells += [new_markdown_cell(f"row {number} {text}\n\n{text}") for number, text in enumerate(texts)]
        notebook.cells += [new_raw_cell(text) for text in texts]
        notebook.cells.append(
            new_code_cell(f"from IPython.display import HTML, display\nfor text in {texts!r}: display(HTML(text))")
        )

    hand_in(
        course, "eve", right_answers(course) | {"why_same_size": armed("\n\n".join(MARKDOWN + HANDLERS))}, edit=attack
    )
    (course.submission("eve", UNIT).parent / "evil.html").write_text(f"<script>{RAN}</script>")
    outcome = grade.grade(course, [UNIT], grade.Settings(workers=1), Progress(disable=True))
    assert not outcome.rejected and not outcome.failed
    return course


@pytest.fixture
def proxy():
    """A proxy that notes every request and answers none."""
    asked = []

    class Note(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_error(404)

        do_CONNECT = do_POST = do_HEAD = do_GET

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Note)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}", asked
    server.shutdown()


def _opened(page: Path | str, proxy) -> tuple[str, list[str]]:
    """The page's DOM after its scripts ran, and the addresses of strangers that were asked for."""
    address, asked = proxy
    target = page if isinstance(page, str) else page.as_uri()
    done = subprocess.run(
        [
            CHROMIUM,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--proxy-server={address}",
            "--disable-background-networking",
            "--virtual-time-budget=5000",
            "--dump-dom",
            target,
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.stdout, [one for one in asked if not re.search(r"cdnjs\.cloudflare\.com|google|gstatic|gvt1", one)]


class _Title(HTMLParser):
    title, inside = "", False

    def handle_starttag(self, tag, _):
        self.inside = tag == "title"

    def handle_data(self, data):
        if self.inside:
            self.title += data

    def handle_endtag(self, _):
        self.inside = False


def _title(dom: str) -> str:
    parser = _Title()
    parser.feed(dom)
    return parser.title


def test_a_feedback_page_runs_nothing_and_asks_for_nothing(graded, proxy):
    dom, asked = _opened(graded.feedback / "eve" / UNIT / f"{UNIT}.html", proxy)
    assert asked == [] and _title(dom) == UNIT and f"row {len(HANDLERS + MARKDOWN) - 1}" in dom


def test_the_policy_alone_stops_what_cleaning_would_have_missed(graded, proxy, tmp_path):
    page = (graded.feedback / "eve" / UNIT / f"{UNIT}.html").read_text()
    stopped = [text for text in HANDLERS if "refresh" not in text]  # no policy forbids a page to go elsewhere
    spoilt = tmp_path / "spoilt.html"
    spoilt.write_text(page.replace("</body>", armed("\n".join(stopped)) + "</body>"))
    dom, asked = _opened(spoilt, proxy)
    assert asked == [] and _title(dom) == UNIT
    spoilt.write_text(spoilt.read_text().replace("Content-Security-Policy", "X-Nothing"))
    dom, asked = _opened(spoilt, proxy)
    assert _title(dom) == "RAN" and any("evil" in one for one in asked)  # the trap works


def test_formgraders_page_runs_nothing_and_asks_for_nothing(graded, proxy, tmp_path):
    """As formgrader renders it: its template over the autograded notebook."""
    from nbgrader.server_extensions.formgrader import handlers

    config = nbgrader_steps.settings(graded)
    config.HTMLExporter.template_name = "formgrade"
    config.HTMLExporter.extra_template_basedirs = [handlers.template_path]
    resources = {
        "index": 0,
        "total": 1,
        "base_url": "",
        "notebook_id": UNIT,
        "student": "eve",
        "assignment_id": UNIT,
        "submission_id": "x",
        "notebook_path": "x",
        "first_name": None,
        "last_name": None,
    }
    body, _ = HTMLExporter(config=config).from_filename(str(graded.graded("eve", UNIT)), resources=resources)
    page = tmp_path / "formgrader.html"
    page.write_text(body)
    dom, asked = _opened(page, proxy)
    assert asked == [] and "RAN" not in _title(dom) and f"row {len(HANDLERS + MARKDOWN) - 1}" in dom


@pytest.fixture
def formgrader(graded):
    """The address of formgrader in a Jupyter server that runs in the course's folder, and its token."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "jupyter_server",
            "--no-browser",
            "--allow-root",
            f"--port={port}",
            "--IdentityProvider.token=tell",
            "--ServerApp.jpserver_extensions={'nbgrader.server_extensions.formgrader': True}",
        ],
        cwd=graded.root,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for(port)
        yield f"http://127.0.0.1:{port}/formgrader", "token=tell"
    finally:
        server.terminate()
        server.wait(30)


def _wait_for(port: int) -> None:
    for _ in range(300):
        with socket.socket() as door:
            if door.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise TimeoutError("the Jupyter server didn't start in a minute")


def test_the_living_formgrader_runs_nothing_and_asks_for_nothing(graded, formgrader, proxy):
    address, token = formgrader
    with Gradebook(graded.gradebook) as gradebook:
        submission = gradebook.find_submission_notebook(UNIT, UNIT, "eve").id
    dom, asked = _opened(f"{address}/submissions/{submission}/?{token}", proxy)
    assert asked == [] and "RAN" not in _title(dom) and f"row {len(HANDLERS + MARKDOWN) - 1}" in dom
    assert "Submission #1" in dom  # the page itself, and no page about an error


def test_nothing_but_the_notebook_reaches_the_folders_that_formgrader_serves(graded):
    for folder in (graded.autograded, graded.feedback):
        assert {path.suffix for path in (folder / "eve" / UNIT).iterdir()} <= {".ipynb", ".html"}
        assert not list(folder.rglob("evil.html"))


def test_a_card_of_ours_keeps_its_looks(graded):
    page = (graded.feedback / "eve" / UNIT / f"{UNIT}.html").read_text()
    card = next(
        output.data["text/html"]
        for cell in notebooks.tests(notebooks.read(graded.graded("eve", UNIT)))
        for output in cell.outputs
        if "text/html" in output.get("data", {})
    )
    assert "style=" in card and re.search(r"style=\"[^\"]+\"", card).group() in page
