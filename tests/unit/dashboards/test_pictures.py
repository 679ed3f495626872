"""The pictures of the documentation: which there are, and the reminder that one is too old."""

import re
import subprocess
import sys
from pathlib import Path

from support.paths import ROOT
from support.pictures.catalog import IMAGES, README_PICTURE, outdated, sources, write_record


def test_a_picture_is_named_once_what_it_shows_has_changed(tmp_path: Path) -> None:
    """A picture that was just drawn is not named; one that was drawn from something else is.

    The record has a line for each picture: its name, and a hash of what it was drawn from.
    """
    record = tmp_path / "drawn-from.txt"
    write_record(record)
    assert outdated(record) == []
    drawn = record.read_text()
    record.write_text(drawn.replace("status-events ", "status-events 0"))
    assert outdated(record) == ["status-events"]


def test_the_reminder_fails_nothing() -> None:
    """``make check`` goes on whatever the pictures are: the reminder that it runs may name some of
    them, and ends with status 0.
    """
    check = [sys.executable, "-m", "support.pictures.reminder"]
    environment = {"PYTHONPATH": f"{ROOT}/tests:{ROOT}"}
    done = subprocess.run(check, check=False, cwd=ROOT, env=environment)
    assert done.returncode == 0


def test_every_picture_is_shown_and_loads_quickly() -> None:
    """The pages show the pictures that there are, and no others. None is larger than 400 kB."""
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    on_pages = {
        name
        for each in pages
        for name in re.findall(r"\((?:docs/)?images/(.+?)\.png\)", each.read_text("utf-8"))
    }
    files = {path.stem: path.stat().st_size for path in IMAGES.glob("*.png")}
    assert files.keys() == on_pages == {*sources(), README_PICTURE}
    largest = 400_000  # bytes
    assert {name for name, size in files.items() if size > largest} == set()
