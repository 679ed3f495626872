"""A small disk for journals that fail."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.events.journal_recorder import recorders
from support.hosts.small_disk import SmallDisk


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """A small disk, and :attr:`SmallDisk.begin`, which opens journals that are closed before it is
    removed.
    """
    made = SmallDisk(tmp_path / "disk")
    try:
        with recorders() as made.begin:
            yield made
    finally:
        made.remove()
