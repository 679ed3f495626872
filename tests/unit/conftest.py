"""What the tests of the journal share: where it is, and what opens it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.events.journal_recorder import Open, recorders


@pytest.fixture
def start() -> Iterator[Open]:
    """Open journals that are closed with the test."""
    with recorders() as opened:
        yield opened


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the journal is to be; not made yet."""
    return tmp_path / "state"
