"""The player of films: pictures and sentences in a page that needs nothing else, and a still where scripts don't
run."""

import subprocess
from pathlib import Path
from urllib.parse import quote

import pytest

from autograder import sanitize_html, size_limits
from autograder.site.browser import CHROMIUM
from helpers.board import Board
from helpers.film import LIMIT, film

HOSTILE = "a < b </script> & \"c\" 'd'"


def drawn(board: Board, step: int) -> str:
    board.wipe()
    board.text(1, 1, HOSTILE)
    board.line((0, 3), (7, 3 - step))
    return f"step {step}: {HOSTILE}"


@pytest.fixture(scope="module")
def html():
    board = Board(7, 3)
    return film(board, lambda step: drawn(board, step), range(3), "lines that rise", still=1)


def test_the_same_film_is_the_same_bytes(html):
    board = Board(7, 3)
    assert film(board, lambda step: drawn(board, step), range(3), "lines that rise", still=1) == html


def test_a_film_asks_for_nothing_and_no_sentence_ends_its_script(html):
    assert "http" not in html.replace("http://www.w3.org/2000/svg", "")
    assert html.count("</script>") == 1 and html.count("<script>") == 1
    assert len(html) < LIMIT <= size_limits.HTML


def test_what_all_frames_share_is_there_once(html):
    assert html.count("font-size") == 1


def test_where_scripts_are_taken_out_a_picture_and_its_sentence_stay(html):
    left = sanitize_html.sanitize_or_explain(html)
    assert left.count("<img") == 1 and 'alt="lines that rise"' in left
    assert "data:image/svg+xml;base64," in left
    assert "<p>step 1: a &lt; b &lt;/script&gt;" in left and "addEventListener" not in left
    assert "run this cell again for its buttons" in left


needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on the PATH")


def opened(html: str, script: str, tmp_path: Path) -> str:
    """The page as it is after the script."""
    page = tmp_path / "film.html"
    page.write_text(f"<!doctype html><meta charset='utf-8'><title></title><body>{html}<script>{script}</script>")
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=60).stdout


@needs_chromium
def test_in_a_browser_it_opens_with_its_still_and_keys_and_buttons_move_it(html, tmp_path):
    press = """
        const film = document.querySelector('[data-film]');
        const key = name => film.dispatchEvent(new KeyboardEvent('keydown', {key: name}));
        const said = () => film.querySelector('span').textContent, seen = [said()];
        for (const name of ['ArrowRight', 'ArrowRight', 'ArrowRight', 'ArrowLeft', 'Home']) {
          key(name); seen.push(said()); }
        film.querySelectorAll('button')[2].click(); seen.push(said());
        Object.assign(film.querySelector('input'), {value: 2}).dispatchEvent(new Event('input')); seen.push(said());
        const picture = film.querySelector('img'), box = picture.getBoundingClientRect();
        picture.setPointerCapture = () => null;
        picture.dispatchEvent(new PointerEvent('pointerdown', {clientX: box.left + 1, clientY: box.top}));
        seen.push(said());
        document.title = seen.join(', ');
    """
    done = opened(html + html, press, tmp_path)
    steps = [f"{step} of 3" for step in (2, 3, 3, 3, 2, 1, 2, 3, 1)]
    assert f"<title>{', '.join(steps)}</title>" in done
    board = Board(7, 3)
    drawn(board, 0)
    assert "data:image/svg+xml," + quote(board.svg(), safe="!~*'()") in done, "put together again"
    assert "run this cell again" not in done.split("<script>")[0]
    assert done.count("<button") == 6, "the same film twice on a page: each has its own buttons"


@needs_chromium
def test_what_is_dragged_comes_to_the_pointer_also_where_the_picture_is_wider_than_its_page(tmp_path):
    along = [0.1, 0.2, 0.9]
    html = film(Board(20, 2), lambda step: f"step {step}", range(3), "a dot", along=along)
    drag = """
        const picture = document.querySelector('img'), view = picture.parentNode, box = view.getBoundingClientRect();
        picture.setPointerCapture = () => null;
        const place = share => ({clientX: box.left + share * box.width, clientY: box.top});
        document.title = [0.6, 0.14, 0.16].map(share => {
          picture.dispatchEvent(new PointerEvent('pointerdown', {pointerType: 'touch', ...place(share)}));
          return document.querySelector('p').textContent + ' ' + (view.scrollLeft > 0); }).join(', ');
    """
    done = opened(f'<div style="width:300px">{html}</div>', drag, tmp_path)
    assert "<title>step 2 true, step 0 true, step 1 true</title>" in done
