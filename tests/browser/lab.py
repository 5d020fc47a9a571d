"""JupyterLab in a folder and a home of its own, without a token, for this machine alone."""

import itertools
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbformat.sign import NotebookNotary

ROOT = Path(__file__).parents[2]
THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}
EVERY_CELL = {"windowingMode": "none"}  # otherwise only the cells in sight are there
PYTHON = {"name": "python3", "display_name": "Python 3", "language": "python"}
PATIENCE = 120  # seconds: a machine that runs a whole suite beside it is slow
NO_NEWS = {"fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True}


class Lab:
    """A running JupyterLab; its notebooks import the `helpers` of this repository.

    folder: empty; what is opened is written there.
    browser: Playwright's, in which pages are opened.
    work: the folder that it shows; default: one that is empty.
    """

    def __init__(self, folder: Path, browser: Any, work: Path | None = None) -> None:
        self.work, self.home, self.browser = work or folder / "work", folder / "home", browser
        self.work.mkdir(parents=True, exist_ok=True), self.home.mkdir()
        self.numbers, self.contexts = itertools.count(1), []

    def __enter__(self) -> "Lab":
        port = _free_port()
        self.address = f"http://127.0.0.1:{port}"
        self.log = (self.home / "log").open("w")
        self.server = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "jupyterlab",
                "--no-browser",
                "--allow-root",
                "--ip=127.0.0.1",
                f"--port={port}",
                "--IdentityProvider.token=",
                "--ServerApp.port_retries=0",
                "--expose-app-in-browser",
            ],
            cwd=self.work,
            env=self._environment(),
            stdout=self.log,
            stderr=self.log,
        )
        _wait_for(port, self.server, self.home / "log")
        return self

    def __exit__(self, *_: Any) -> None:
        for context in self.contexts:
            context.close()
        self.server.terminate()  # with its kernels
        self.server.wait(PATIENCE)
        self.log.close()

    def open(self, notebook: NotebookNode, theme: str = "light", *, trusted: bool = True, **settings: Any) -> Any:
        """The notebook in a page of its own, with all its outputs in sight. settings: of Playwright's `new_context`.

        trusted: as in the session that ran it; otherwise as when somebody else's is opened: JupyterLab cleans its
        outputs.
        """
        path = self.work / f"notebook{next(self.numbers)}.ipynb"
        notebook.metadata.setdefault("kernelspec", PYTHON)  # otherwise JupyterLab asks which
        nbformat.write(notebook, path)
        if trusted:
            NotebookNotary(data_dir=str(self.home / "data")).sign(nbformat.read(path, 4))
        self._set("apputils-extension/themes", {"theme": THEMES[theme]})
        self._set("apputils-extension/notification", NO_NEWS)
        self._set("notebook-extension/tracker", EVERY_CELL)
        page = self.new_page(**settings)
        page.goto(f"{self.address}/lab/workspaces/w{path.stem}/tree/{path.name}?reset")
        page.locator(f".jp-Cell >> nth={len(notebook.cells) - 1}").wait_for()
        page.locator(f"body[data-jp-theme-name='{THEMES[theme]}']").wait_for(state="attached")
        page.evaluate("window.jupyterapp.commands.execute('filebrowser:hide-main').catch(() => null)")
        return page

    def new_page(self, **settings: Any) -> Any:
        """An empty page with nothing of other pages' in it. settings: of Playwright's `new_context`."""
        context = self.browser.new_context(**{"viewport": {"width": 1200, "height": 3000}} | settings)
        self.contexts.append(context)
        context.set_default_timeout(1000 * PATIENCE)
        return context.new_page()

    def run_all(self, page: Any, timeout: float = PATIENCE) -> None:
        """Run all cells, and wait until they have run (seconds)."""
        page.evaluate(
            "() => window.jupyterapp.shell.currentWidget.sessionContext.ready"
        )  # before that it would do nothing
        page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-all-cells') }")
        page.wait_for_function(
            "() => [...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')].every(e => "
            "/\\d|^$/.test(e.textContent))",  # a folded cell has no number
            timeout=1000 * timeout,
        )

    def _environment(self) -> dict[str, str]:
        """Nothing of who runs the tests: no settings, no notebooks that they trust."""
        own = {
            "HOME": "",
            "JUPYTER_DATA_DIR": "data",
            "JUPYTER_CONFIG_DIR": "config",
            "JUPYTER_RUNTIME_DIR": "runtime",
            "IPYTHONDIR": "ipython",
            "JUPYTERLAB_SETTINGS_DIR": "settings",
            "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
        }
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "IPYTHON"))}
        search = {"PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))}
        return kept | search | {name: str(self.home / place) for name, place in own.items()}

    def _set(self, plugin: str, settings: dict) -> None:
        path = self.home / "settings" / "@jupyterlab" / f"{plugin}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(settings))


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def _wait_for(port: int, server: subprocess.Popen, log: Path) -> None:
    for _ in range(5 * PATIENCE):
        with socket.socket() as door:
            if door.connect_ex(("127.0.0.1", port)) == 0:
                return
        if server.poll() is not None:
            raise RuntimeError(f"JupyterLab ended: {log.read_text()[-2000:]}")
        time.sleep(0.2)
    raise TimeoutError("JupyterLab didn't start in two minutes")
