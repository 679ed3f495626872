"""Files that are written beside their place and renamed."""

import os
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.file_replacement import replace


def test_a_link_is_replaced(tmp_path: Path) -> None:
    """What is written takes the place of a symbolic link, and leaves the file that the link names as it was."""
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    replace(link, b"new", 0o600)
    assert (link.is_symlink(), link.read_text(), target.read_text()) == (False, "new", "old")
    assert link.stat().st_mode & 0o777 == 0o600


def test_permissions_of_a_new_file(tmp_path: Path) -> None:
    """Without permissions of its own, a file has those that the process gives a new one."""
    before = os.umask(0o027)
    try:
        replace(tmp_path / "file", b"")
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640


def test_a_failure_leaves_nothing_behind(tmp_path: Path) -> None:
    """What cannot be put into its place is removed."""
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="directory"):
        replace(tmp_path / "folder", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
