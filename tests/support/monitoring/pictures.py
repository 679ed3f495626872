"""Draws the pictures of the dashboards from one story, and keeps their words beside them.

Run by ``scripts/render-dashboards``. The words of a picture are those that its dashboard can show;
a test compares them with the dashboard, so that a picture that is older than its dashboard is
noticed.
"""

import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from PIL import Image

from support.monitoring.board_reader import JSON, Json, load
from support.monitoring.board_story import DAY, StoryPrometheus, moments
from support.picture_texts import IMAGES, keep


@dataclass(frozen=True, slots=True)
class Picture:
    """One dashboard at one moment of the story."""

    board: str
    moment: str
    vm: str = ""
    width: int = 1366
    theme: str = "dark"

    @property
    def name(self) -> str:
        """The name of its files, without the ending."""
        return f"dashboard-{self.board}-{self.moment}"


PICTURES = (
    Picture("fleet", "event"),
    Picture("fleet", "quiet", theme="light"),
    Picture("vm", "event", "web_2"),
    Picture("exporter", "quiet"),
    Picture("exporter", "blind", theme="light"),
)

FIRST_SCREEN = "readme-fleet.png"
_DRAWING = 20
"""Seconds that the first picture takes: the browser tells times from its own clock, such as "in a
few seconds".
"""


def words(board: Json) -> Iterator[str]:
    """Yield what a dashboard can show: titles, columns, texts of values, and of panels without
    data.
    """
    yield board["title"]
    for panel in board["panels"]:
        field = panel["fieldConfig"]
        yield f"{panel['title']}: {panel['description']}"
        yield from filter(None, [field["defaults"].get("noValue", "").strip()])
        for transformation in panel.get("transformations", []):
            yield from transformation["options"].get("renameByName", {}).values()
        overridden = [
            each["value"]
            for rule in field["overrides"]
            for each in rule["properties"]
            if each["id"] == "mappings"
        ]
        for mapping in [
            *field["defaults"]["mappings"],
            *(one for mappings in overridden for one in mappings),
        ]:
            results = (
                mapping["options"].values()
                if mapping["type"] == "value"
                else [mapping["options"]["result"]]
            )
            yield from (f"{each['text']} {each.get('color', '')}".strip() for each in results)


def main(command: str, folder: Path, pictures: tuple[Picture, ...] = PICTURES) -> None:
    """Have the pictures drawn into ``folder``."""
    now = float(int(time.time())) + _DRAWING
    for moment, samples in moments(now):
        with (
            tempfile.TemporaryDirectory() as work,
            StoryPrometheus(Path(work), samples) as prometheus,
        ):
            for picture in pictures:
                if picture.moment == moment:
                    _draw(command, prometheus.url, now, picture, folder)
    first_screen(folder).save(folder / FIRST_SCREEN, optimize=True)


def first_screen(folder: Path) -> Image.Image:
    """Return the upper rows of the fleet's picture for the README, 900 pixels wide."""
    with Image.open(folder / "dashboard-fleet-event.png") as whole:
        return (
            whole.convert("RGB")
            .crop((0, 0, whole.width, 620))
            .resize((900, 620 * 900 // whole.width))
        )


def _draw(command: str, url: str, now: float, picture: Picture, folder: Path) -> None:
    sys.stderr.write(f"== {picture.name}\n")
    out, board = (
        folder / f"{picture.name}.png",
        JSON / f"azure-scheduled-events-{picture.board}.json",
    )
    span = ("--from", _iso(now - DAY), "--to", _iso(now), "--scrape-interval", "30s")
    more = (
        "--width",
        str(picture.width),
        "--theme",
        picture.theme,
        *(("--var", f"vm={picture.vm}") if picture.vm else ()),
    )
    drawing = [
        *shlex.split(command),
        str(board),
        "--prometheus",
        url,
        "--out",
        str(out),
        *span,
        *more,
    ]
    subprocess.run(drawing, check=True)
    keep(out, words(load(picture.board)))


def _iso(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]) if len(sys.argv) > 2 else IMAGES)
