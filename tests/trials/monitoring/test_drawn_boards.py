"""The dashboards as Grafana's own components draw them, in Chromium, from a story's samples."""

from collections.abc import Iterator
from itertools import product

import pytest

from support.browser import chromium, poor_contrast
from support.events.status_scene import NOW
from support.monitoring.board_reader import BOARDS, load
from support.monitoring.board_story import StoryPrometheus, story
from support.pictures.board_painter import BoardPainter, Look, bundle


@pytest.fixture(scope="module")
def painter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BoardPainter]:
    """A browser and a Prometheus at a moment with five current events."""
    folder = tmp_path_factory.mktemp("drawn")
    bundle(folder)
    with StoryPrometheus(folder, story(NOW)) as prometheus, chromium() as browser:
        yield BoardPainter(browser, folder, prometheus.url)


@pytest.mark.parametrize(
    ("board", "width", "theme"), list(product(BOARDS, (1366, 1600), ("dark", "light")))
)
def test_every_panel_can_be_read(painter: BoardPainter, board: str, width: int, theme: str) -> None:
    """No panel has an error, none scrolls sideways, and every text has enough contrast."""
    values = {"vm": "web_1"} if board == "vm" else {}  # the board of one VM has that VM chosen
    page, panels = painter.open(load(board), Look(NOW, width, theme, values=values))
    assert [panel for panel in panels if panel.status != "ok" or panel.too_wide] == []
    assert poor_contrast(page) == []
    page.close()
