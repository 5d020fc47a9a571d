"""Formgrader's pages: nbgrader's, with every value escaped and a Content-Security-Policy in every answer, so that what
a student wrote, named or linked to runs nothing, however it came there. nbgrader_config.py hangs it in.

nbgrader has no setting for this: methods of the class that all its pages and its API inherit from are replaced."""

import base64
import hashlib
import os
import re
import secrets
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from jinja2 import Environment, FileSystemLoader
from jupyter_server.base.handlers import JupyterHandler
from markupsafe import escape
from nbgrader.server_extensions.formgrader.base import BaseHandler
from nbgrader.server_extensions.formgrader.handlers import FormgraderHandler, template_path

from autograder.grading.page_exporter import MATHJAX, ChangedTemplates, PageExporter

NOTHING = "default-src 'none'; style-src 'self' 'unsafe-inline'; img-src 'self'; font-src 'self'; sandbox"
"""What an answer may do that no template made: of the API, a file beside a notebook, an error of Jupyter's."""
ONE_COURSE = "This server shows one course. Start another server in the folder of the other course."
_nonce: ContextVar[str] = ContextVar("nonce", default="")
"""What the scripts of the page that is being made say, and none of a student's can."""
_STRING = re.compile(r'"{{ ([\w.]+) }}([\w/]*)";')
_HANDLER = re.compile(r'\bon[a-z]+="([^"]*)"', re.IGNORECASE)


def install() -> None:
    """Puts the functions below in the place of nbgrader's."""
    BaseHandler.render = _render
    BaseHandler.exporter = property(_Exporter)
    BaseHandler.content_security_policy = property(lambda handler: _with_jupyters(handler, NOTHING))
    FormgraderHandler.prepare = _only_this_course


def _render(handler: Any, name: str, **values: Any) -> str:
    """A page of formgrader's own, as BaseHandler.render makes it."""
    _allow_scripts(handler)
    return _environment().get_template(name).render(**values)


class _Exporter:
    """Stands where a handler looks for an nbconvert exporter."""

    def __init__(self, handler: Any) -> None:
        self.handler = handler

    def from_filename(self, filename: str, resources: dict) -> tuple[str, dict]:
        settings = self.handler.settings
        if not isinstance(settings["nbgrader_exporter"], SubmissionExporter):
            settings["nbgrader_exporter"] = SubmissionExporter(config=settings["nbgrader_exporter"].config)
        _allow_scripts(self.handler)
        page, more = settings["nbgrader_exporter"].from_filename(filename, resources=resources)
        return without_links_to(_hosts(self.handler.request), page), more


class SubmissionExporter(PageExporter):
    """nbconvert's HTML of a submission; what formgrader says around it is escaped."""

    def from_notebook_node(self, nb: Any, resources: dict | None = None, **more: Any) -> tuple[str, dict]:
        escaped = {key: escape(one) if isinstance(one, str) else one for key, one in (resources or {}).items()}
        return super().from_notebook_node(nb, escaped, **more)

    def _create_environment(self) -> Environment:
        environment = super()._create_environment()
        environment.globals["nonce"] = _nonce.get
        return environment

    def changed(self, template: str) -> str:
        return with_nonces(super().changed(template))


@cache
def _environment() -> Environment:
    """As formgrader makes it, but values are escaped: as HTML, and within scripts as JSON."""
    templates = ChangedTemplates(FileSystemLoader(template_path), with_nonces)
    environment = Environment(loader=templates, autoescape=True)
    environment.globals["nonce"] = _nonce.get
    return environment


def with_nonces(template: str) -> str:
    """A template whose scripts are allowed to run, and whose strings within them can't be ended by what is in them."""
    strings = _STRING.sub(r'{{ ((\1 | string) ~ "\2") | tojson }};', template)
    return strings.replace("<script", '<script nonce="{{ nonce() }}"')


# ---------------------------------------------------------------- the policy


def _allow_scripts(handler: Any) -> None:
    """The page that is made next may run the scripts of its templates."""
    _nonce.set(secrets.token_urlsafe())
    handler.set_header("Content-Security-Policy", _with_jupyters(handler, policy(_nonce.get())))


def _with_jupyters(handler: Any, ours: str) -> str:
    """Two policies, which both hold; Jupyter's says who may frame a page."""
    return f"{JupyterHandler.content_security_policy.fget(handler)}, {ours}"


def policy(nonce: str) -> str:
    """Scripts with the nonce, what templates say of clicks, and MathJax, which needs `eval`; pictures within the
    page."""
    return (
        f"default-src 'none'; script-src 'nonce-{nonce}' 'unsafe-hashes' {_handlers()} {MATHJAX} 'unsafe-eval'; "
        f"style-src 'self' 'unsafe-inline' {MATHJAX}; img-src 'self' data:; font-src 'self' data: {MATHJAX}; "
        "connect-src 'self'; base-uri 'none'; form-action 'self'"
    )


@cache
def _handlers() -> str:
    """The hashes of all `onclick="…"` in formgrader's templates."""
    sources = [path.read_text(encoding="utf-8") for path in Path(template_path).rglob("*") if path.is_file()]
    found = sorted({code for source in sources for code in _HANDLER.findall(source)})
    return " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()}'" for code in found)


# ---------------------------------------------------------------- addresses


def _hosts(request: Any) -> set[str]:
    """The names by which this server was asked: its own, and that of a proxy before it."""
    asked = {request.host, *request.headers.get("X-Forwarded-Host", "").split(",")}
    return {name.lower() for host in asked if (name := urlsplit(f"//{host.strip()}").hostname)}


def without_links_to(hosts: set[str], page: str) -> str:
    """The page with links to these hosts as text. Links that are left in a notebook write hosts as they are (see
    sanitize_html.py)."""
    for host in hosts:
        page = re.sub(rf'\shref="https?://{re.escape(host)}\.?(?=[:/?#"])[^"]*"', "", page, flags=re.IGNORECASE)
    return page


async def _only_this_course(handler: Any) -> None:
    """`formgrader?path=…` would run that folder's nbgrader_config.py, and any page of the web can lead there."""
    await JupyterHandler.prepare(handler)
    path = handler.get_argument("path", "")
    if path and os.path.realpath(path) != os.path.realpath(handler.coursedir.root):
        handler.set_status(403)
        handler.finish(ONE_COURSE)
