"""What the tests of commands beside an exporter share."""

from pathlib import Path

import pytest


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Return the folder of the journal."""
    return tmp_path / "state"
