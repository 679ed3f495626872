"""What the tests of the examples share."""

from pathlib import Path

import pytest

from support.events.hook_stage import Stage


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """Return a stage on which nothing was called."""
    return Stage(tmp_path)
