"""Where the tests of configuration write their file."""

from pathlib import Path

import pytest


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where a test writes its configuration file."""
    return tmp_path / "exporter.yaml"
