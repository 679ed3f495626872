"""Draws a Grafana dashboard in Chromium, with the program in ``tools/draw-board``.

Grafana itself does not run: a bundle of Grafana's published components draws the panels. This
module bundles it, opens it, and answers its questions from a Prometheus.
"""

import fcntl
import filecmp
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Page, Route

from support.paths import ROOT

PROGRAM = ROOT / "tools" / "draw-board"
SCRAPE_INTERVAL = "30s"
_ORIGIN = "http://board.localhost"
_WORKSHOP = ROOT / ".tools" / "draw-board"
"""A copy of the program, with its packages."""
_MODULES = _WORKSHOP / "node_modules"
_FOLDERS = {
    "/public/build/img/icons/": _MODULES / "@grafana" / "ui" / "dist" / "public" / "img" / "icons",
    "/fonts/": _MODULES / "inter-ui" / "web",
}
_BUNDLE = (
    "src/page.jsx",
    "--bundle",
    "--minify",
    "--log-level=error",
    '--define:process.env.NODE_ENV="production"',
    "--define:global=window",
    "--loader:.svg=dataurl",
    "--loader:.ttf=dataurl",
    "--alias:react-custom-scrollbars-2=./shims/scrollbars.js",
    "--alias:react-highlight-words=./shims/highlighter.js",
)


@dataclass(frozen=True, slots=True)
class Look:
    """How a dashboard is looked at.

    Attributes:
        at: the end of its time range, and what the browser believes is now (seconds).
        width: of the browser's window, in pixels.
        theme: dark or light.
        span: the length of the time range, in seconds.
        values: the values of variables, by name.
    """

    at: float
    width: int
    theme: str
    span: float = 86_400.0
    values: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DrawnPanel:
    """What became of a panel.

    Attributes:
        title: its title.
        type: Grafana's name of its type.
        status: ok, no data, or the message of an error.
        too_wide: whether one has to scroll sideways in it.
    """

    title: str
    type: str
    status: str
    too_wide: bool


def bundle(folder: Path) -> None:
    """Install the pinned packages where they are missing, and write the bundle into ``folder``.

    All processes that draw in this checkout share one folder of packages, and take turns in it.
    """
    _WORKSHOP.mkdir(parents=True, exist_ok=True)
    with (_WORKSHOP / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _bundle(folder)


def _bundle(folder: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path}
    is_installed = (_MODULES / ".package-lock.json").exists() and filecmp.cmp(
        PROGRAM / "package-lock.json", _WORKSHOP / "package-lock.json", shallow=False
    )
    shutil.copytree(PROGRAM, _WORKSHOP, dirs_exist_ok=True)
    if not is_installed:
        sys.stderr.write("Installing Grafana's components from npm (650 MB, 1 to 2 minutes).\n")
        install = ["npm", "ci", "--ignore-scripts", "--silent"]
        subprocess.run(install, cwd=_WORKSHOP, env=environment, check=True)
    esbuild = str(_MODULES / ".bin" / "esbuild")
    made = [esbuild, *_BUNDLE, f"--outdir={folder}"]
    subprocess.run(made, cwd=_WORKSHOP, env=environment, check=True)


class BoardPainter:
    """Opens dashboards over the Prometheus at ``url``; ``folder`` has the bundle."""

    def __init__(self, browser: Browser, folder: Path, url: str) -> None:
        self._browser = browser
        self._folder = folder
        self._url = url

    def open(self, board: Mapping[str, Any], look: Look) -> tuple[Page, list[DrawnPanel]]:
        """Return the page of a dashboard, as high as it is, and what became of its panels."""
        size = {"width": look.width, "height": 1000}
        page = self._browser.new_page(viewport=size, timezone_id="UTC")  # type: ignore[arg-type]
        page.clock.set_fixed_time(datetime.fromtimestamp(look.at, UTC))
        page.route(f"{_ORIGIN}/**", self._answer)
        page.add_init_script(f"window.task = {json.dumps(_task(board, look))}")
        page.goto(f"{_ORIGIN}/")
        drawn = page.evaluate("window.drawn")
        page.set_viewport_size({"width": look.width, "height": drawn["height"]})
        page.wait_for_load_state("networkidle")
        panels = [
            DrawnPanel(each["title"], each["type"], each["status"], each["tooWide"])
            for each in drawn["panels"]
        ]
        return page, panels

    def _answer(self, route: Route) -> None:
        """Serve the bundle, Grafana's icons and fonts, and the API of Prometheus."""
        asked = urlsplit(route.request.url)
        if asked.path.startswith("/api/"):
            route.fulfill(response=route.fetch(url=f"{self._url}{asked.path}?{asked.query}"))
            return
        path = self._file(asked.path)
        if path.is_file():
            route.fulfill(path=path)
        else:
            route.fulfill(status=404)

    def _file(self, path: str) -> Path:
        for start, folder in _FOLDERS.items():
            if path.startswith(start):
                return folder / path.removeprefix(start)
        if path == "/":
            return PROGRAM / "page.html"
        return self._folder / path.removeprefix("/")


def _task(board: Mapping[str, Any], look: Look) -> dict[str, Any]:
    return {
        "dashboard": board,
        "values": dict(look.values),
        "from": (look.at - look.span) * 1000,
        "to": look.at * 1000,
        "width": look.width,
        "theme": look.theme,
        "scrapeInterval": SCRAPE_INTERVAL,
    }
