"""The status line about releases in the README."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from support.paths import ROOT

PAGE = "README.md"


def status(folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """Run the script of a copy."""
    return subprocess.run(
        [sys.executable, folder / "scripts/status", *flags], capture_output=True, text=True, check=False
    )


def test_a_release_changes_the_line(tmp_path: Path) -> None:
    """The heading of a release in the changelog changes the line, and --check notices."""
    for name in (PAGE, "scripts/status", "CHANGELOG.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    assert status(tmp_path, "--check").returncode == 0
    changes = tmp_path / "CHANGELOG.md"
    changes.write_text(re.sub("(?m)^## Unreleased$", "## 1.2.3 - 2027-01-31", changes.read_text()))
    told = status(tmp_path, "--check")
    assert (told.returncode, told.stderr) == (
        1,
        f"status: {PAGE} differs from CHANGELOG.md: run scripts/status\n",
    )
    assert status(tmp_path).returncode == 0
    assert "**Status:** version 1.2.3 of 2027-01-31 is released" in (tmp_path / PAGE).read_text()
    assert status(tmp_path, "--check").returncode == 0
