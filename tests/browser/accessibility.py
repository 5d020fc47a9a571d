"""What keeps a page from some readers: axe-core's rules for WCAG 2.1, levels A and AA."""

from typing import Any

import pytest

RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}


def violations(page: Any) -> list[tuple[str, str]]:
    """(rule, the first element that breaks it), of an open page of Playwright's."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-core is not installed").Axe()
    page.evaluate("document.fonts.ready.then(() => new Promise(requestAnimationFrame))")
    found = axe.run(page, options=RULES).response["violations"]
    return [(one["id"], one["nodes"][0]["html"][:200]) for one in found]
