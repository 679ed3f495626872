"""The pictures in ``docs/images``: what each shows, and which are older than what they show.

A picture is a reminder, not a gate: ``make check`` names those whose dashboard or page has changed
since they were drawn, and does not fail.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from azure_scheduled_events_exporter import __version__
from azure_scheduled_events_exporter.web.status_page import page
from support.events import status_scene
from support.monitoring.board_reader import load
from support.monitoring.latency import BOARD as LATENCY_BOARD
from support.paths import ROOT

IMAGES = ROOT / "docs" / "images"
RECORD = IMAGES / "drawn-from.txt"
README_PICTURE = "readme-fleet"
README_SOURCE = "dashboard-fleet-event"
LATENCY = "latency"


@dataclass(frozen=True, slots=True)
class BoardPicture:
    """A dashboard at one moment of the story.

    Attributes:
        name: of the file, without its ending.
        board: the name of a dashboard of the project, or :data:`LATENCY`.
        moment: the moment of the story.
        width: of the browser's window.
        theme: dark or light.
        values: the values of variables, by name.
    """

    name: str
    board: str
    moment: str
    width: int
    theme: str
    values: Mapping[str, str] = field(default_factory=dict)

    def dashboard(self) -> dict[str, Any]:
        """Return the dashboard's JSON."""
        return LATENCY_BOARD if self.board == LATENCY else load(self.board)

    def source(self) -> str:
        """Return what the picture shows, as a text."""
        return json.dumps(self.dashboard(), sort_keys=True)


@dataclass(frozen=True, slots=True)
class PagePicture:
    """A part of the status page in one of its scenes.

    Attributes:
        name: of the file, without its ending.
        scene: the name of the scene.
        theme: dark or light.
        part: the CSS selector of the part.
        height: how much of the part is shown, in pixels.
    """

    name: str
    scene: str
    theme: Literal["light", "dark"]
    part: str
    height: int

    def html(self) -> bytes:
        """Return the page."""
        return page(status_scene.SCENES[self.scene], status_scene.NOW, "/metrics")

    def source(self) -> str:
        """Return what the picture shows, as a text: the page without the version in its head."""
        return self.html().decode().replace(__version__, "")


BOARDS = (
    BoardPicture(README_SOURCE, "fleet", "event", 1366, "dark"),
    BoardPicture("dashboard-fleet-quiet", "fleet", "quiet", 1600, "light"),
    BoardPicture("dashboard-vm-event", "vm", "event", 1366, "dark", {"vm": "web_1"}),
    BoardPicture("dashboard-exporter-quiet", "exporter", "quiet", 1600, "dark"),
    BoardPicture("dashboard-exporter-blind", "exporter", "blind", 1366, "light"),
    BoardPicture("latency-freeze", LATENCY, "slow", 900, "dark"),
)
PAGES = (
    PagePicture("status-events", "busy", "light", "#main", 885),
    PagePicture("status-history", "busy", "dark", "#history", 1200),
)


def sources() -> dict[str, str]:
    """Return the checksum of what each picture shows, by its name."""
    pictures: Iterable[BoardPicture | PagePicture] = (*BOARDS, *PAGES)
    return {each.name: hashlib.sha256(each.source().encode()).hexdigest() for each in pictures}


def write_record(record: Path = RECORD) -> None:
    """Keep from what the pictures were drawn."""
    record.write_text("".join(f"{name} {checksum}\n" for name, checksum in sources().items()))


def outdated(record: Path = RECORD) -> list[str]:
    """Return the names of the pictures that are older than what they show."""
    drawn_from = dict(line.split() for line in record.read_text().splitlines())
    return [name for name, checksum in sources().items() if drawn_from.get(name) != checksum]
