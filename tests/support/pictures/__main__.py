"""``python -m support.pictures`` draws every picture of the documentation.

``make pictures`` runs it. It takes a minute or two, and needs Chromium,
Prometheus and, the first time, npm's registry. The moment of the story is fixed, so a picture
changes only if what it shows does.
"""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from playwright.sync_api import Browser, FloatRect, ViewportSize

from support.browser import chromium
from support.events import status_scene
from support.monitoring.board_story import StoryPrometheus, moments
from support.monitoring.latency import SPAN
from support.pictures.board_painter import BoardPainter, Look, bundle
from support.pictures.catalog import (
    BOARDS,
    IMAGES,
    LATENCY,
    PAGES,
    README_PICTURE,
    README_SOURCE,
    BoardPicture,
    PagePicture,
    write_record,
)

_PAGE_WIDTH = 900
_MARGIN = 12
_README_WIDTH = 900
_FIRST_SCREEN = 620
DAY = 86_400


def main() -> int:
    """Draw the pictures; return the exit status."""
    with ExitStack() as stack:
        browser = stack.enter_context(chromium())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for page in PAGES:
            draw_page(browser, page)
        wrong = draw_boards(browser, folder)
    crop_for_readme()
    write_record()
    for message in wrong:
        sys.stderr.write(f"{message}\n")
    return 1 if wrong else 0


def draw_page(browser: Browser, picture: PagePicture) -> None:
    """Draw a part of the status page."""
    sys.stderr.write(f"{picture.name}\n")
    size = ViewportSize(width=_PAGE_WIDTH, height=4000)
    with browser.new_context(viewport=size) as context:
        page = context.new_page()
        page.emulate_media(color_scheme=picture.theme)
        page.set_content(picture.html().decode())
        box = page.locator(picture.part).bounding_box()
        assert box is not None, f"{picture.name}: the page has no {picture.part}"
        top = max(0.0, box["y"] - _MARGIN)
        height = min(box["height"] + 2 * _MARGIN, picture.height)
        clip = FloatRect(x=0, y=top, width=_PAGE_WIDTH, height=height)
        page.screenshot(path=IMAGES / f"{picture.name}.png", clip=clip)


def draw_boards(browser: Browser, folder: Path) -> list[str]:
    """Draw the dashboards; return what is wrong with their panels."""
    bundle(folder)
    wrong = []
    for moment, painter in painters(browser, folder):
        for picture in BOARDS:
            if picture.moment != moment:
                continue
            sys.stderr.write(f"{picture.name}\n")
            page, panels = painter.open(picture.dashboard(), look(picture))
            page.screenshot(path=IMAGES / f"{picture.name}.png")
            page.close()
            wrong += [
                f"{picture.name}: {panel.title}: {panel.status}"
                for panel in panels
                if panel.status not in {"ok", "no data"}
            ]
    return wrong


def painters(browser: Browser, folder: Path) -> Iterator[tuple[str, BoardPainter]]:
    """Yield a painter for each moment of the story; ``folder`` has the bundle."""
    for moment, samples in moments(status_scene.NOW):
        with prometheus(samples) as url:
            yield moment, BoardPainter(browser, folder, url)


@contextmanager
def prometheus(samples: str) -> Iterator[str]:
    """Serve samples; yield the address."""
    with tempfile.TemporaryDirectory() as folder, StoryPrometheus(Path(folder), samples) as server:
        yield server.url


def look(picture: BoardPicture) -> Look:
    """Return how a picture's dashboard is looked at."""
    span = SPAN if picture.board == LATENCY else DAY
    return Look(status_scene.NOW, picture.width, picture.theme, span, picture.values)


def crop_for_readme() -> None:
    """Make the README's picture: the upper rows of the fleet's."""
    from PIL import Image  # noqa: PLC0415 - only drawing needs it, and not every environment has it

    with Image.open(IMAGES / f"{README_SOURCE}.png") as whole:
        rows = whole.convert("RGB").crop((0, 0, whole.width, _FIRST_SCREEN))
        height = _FIRST_SCREEN * _README_WIDTH // whole.width
        rows.resize((_README_WIDTH, height)).save(IMAGES / f"{README_PICTURE}.png", optimize=True)


if __name__ == "__main__":
    sys.exit(main())
