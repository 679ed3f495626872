"""The pictures of the documentation show the words that dashboards and status page have now."""

import re

import pytest

from azure_scheduled_events_exporter.web.status_page import page
from support.events.status_scene import NOW, PICTURED, SCENES
from support.monitoring.board_reader import load
from support.monitoring.pictures import PICTURES, Picture, words
from support.paths import ROOT
from support.picture_texts import IMAGES, text_of, words_of_page


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_a_picture_of_a_dashboard_is_as_new_as_its_dashboard(picture: Picture) -> None:
    """A dashboard whose words or colors were changed has to be drawn anew:
    scripts/render-dashboards.
    """
    drawn = IMAGES / f"{picture.name}.png"
    assert drawn.with_suffix(".txt").read_text("utf-8") == text_of(
        drawn, words(load(picture.board))
    )


@pytest.mark.parametrize(
    ("scene", "name"), [(scene, name) for (scene, *_), name in PICTURED.items()]
)
def test_a_picture_of_the_status_page_is_as_new_as_the_page(scene: str, name: str) -> None:
    """A page whose words or colors were changed has to be drawn anew: scripts/render-dashboards."""
    drawn = IMAGES / name
    written = words_of_page(page(SCENES[scene], NOW, "/metrics"))
    assert drawn.with_suffix(".txt").read_text("utf-8") == text_of(drawn, written)


def test_every_picture_is_shown_and_loads_quickly() -> None:
    """The pages show the pictures that there are, and no others."""
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    shown = {
        name
        for each in pages
        for name in re.findall(r"\((?:docs/)?images/(.+?\.png)\)", each.read_text("utf-8"))
    }
    files = {path.name: path.stat().st_size for path in IMAGES.glob("*.png")}
    assert files.keys() == shown
    assert {name for name, size in files.items() if size > 400_000} == set()
