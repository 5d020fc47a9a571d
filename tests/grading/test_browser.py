"""What students wrote, in a real browser: feedback pages and formgrader's page of a submission. No script of theirs
runs, and no request leaves for where they point to. Needs Chromium on the PATH; skipped where there is none."""

import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from html import escape
from html.parser import HTMLParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

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
from autograder.grading import formgrader_pages, grade
from autograder.site.browser import CHROMIUM

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on the PATH")
RAN = "document.title='RAN'"
MARKUP = f"<img src=x onerror={RAN}>"
"""The name of a student, or a part of an address."""


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

    hand_in(course, MARKUP, right_answers(course))
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
    """As formgrader renders it: its template over the autograded notebook; the cleaning alone, without a policy."""
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


@pytest.fixture(scope="module")
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


def _submission(course: Course, student: str) -> str:
    with Gradebook(course.gradebook) as gradebook:
        return gradebook.find_submission_notebook(UNIT, UNIT, student).id


def _places(course: Course) -> list[str]:
    """Formgrader's addresses, with markup of a student's in each place that takes a name, and those that show one."""
    name = quote(MARKUP)
    return [
        *("", "manage_assignments", "manage_students", "gradebook", f"gradebook/{UNIT}", f"gradebook/{UNIT}/{UNIT}"),
        *(f"manage_submissions/{UNIT}", f"manage_submissions/{name}", f"gradebook/{name}", f"gradebook/{UNIT}/{name}"),
        *(f"manage_students/{name}", f"manage_students/{name}/{UNIT}", f"manage_students/eve/{name}"),
        *(f"submissions/{_submission(course, student)}/" for student in ("eve", MARKUP)),
        *(f"api/{place}" for place in ("students", f"submissions/{UNIT}", f"student_submissions/{name}")),
        *(f"submissions/{name}/", f"submissions/{name}/next"),
    ]


def _all_opened(addresses: list[str], proxy: str) -> list[tuple[str, str]]:
    """Titles and texts of pages in one browser, when all of them have come to rest."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    with sync_api.sync_playwright() as driver:
        options = {
            "args": ["--no-sandbox", "--disable-gpu"],
            "proxy": {"server": f"http://{proxy}", "bypass": "127.0.0.1"},
        }
        browser = driver.chromium.launch(executable_path=CHROMIUM, **options)
        pages = [browser.new_page() for _ in addresses]
        for page, address in zip(pages, addresses, strict=True):
            page.goto(address)
        for page in pages:
            page.wait_for_load_state("networkidle")
        return [(page.title(), page.content()) for page in pages]


def test_no_page_of_the_living_formgrader_runs_anything_or_asks_for_anything(graded, formgrader, proxy):
    (address, token), (proxy_address, asked), places = formgrader, proxy, _places(graded)
    shown = dict(zip(places, _all_opened([f"{address}/{one}?{token}" for one in places], proxy_address), strict=True))
    assert [one for one in asked if "evil" in one] == []
    assert [place for place, (title, _) in shown.items() if "RAN" in title] == []
    _, submission = shown[f"submissions/{_submission(graded, 'eve')}/"]
    assert f"row {len(HANDLERS + MARKDOWN) - 1}" in submission and "Submission #" in submission
    assert escape(MARKUP, quote=False) in shown["manage_students"][1]  # its scripts did run


def test_a_file_beside_a_notebook_runs_nothing_in_formgraders_name(graded, formgrader, proxy):
    """Its address climbs out of the folder of the autograded notebook."""
    address, token = formgrader
    climb = quote(f"../../../submitted/eve/{UNIT}/evil.html", safe="")
    dom, _ = _opened(f"{address}/submissions/{_submission(graded, 'eve')}/{climb}?{token}", proxy)
    assert RAN in dom and _title(dom) != "RAN"  # it was served


def test_formgrader_runs_no_configuration_of_another_folder(graded, formgrader, proxy):
    address, token = formgrader
    planted = graded.submission("eve", UNIT).parent
    (planted / "nbgrader_config.py").write_text("open('RAN', 'w')")
    dom, _ = _opened(f"{address}?path={quote(str(planted))}&{token}", proxy)
    assert "one course" in dom and not (graded.root / "RAN").exists() and not (planted / "RAN").exists()
    (planted / "nbgrader_config.py").unlink()
    dom, _ = _opened(f"{address}?path={quote(str(graded.root))}&{token}", proxy)
    assert UNIT in dom  # the list of this course's units


def test_a_link_to_the_server_itself_is_text():
    page = '<a class="x" href="HTTPS://Hub.uni.org:8000/a">b</a> <a href="https://hub.uni.org.evil.org/">c</a>'
    assert formgrader_pages.without_links_to({"hub.uni.org"}, page) == page.replace(
        ' href="HTTPS://Hub.uni.org:8000/a"', ""
    )


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
