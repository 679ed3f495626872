"""On which disk a journal is, whether that survives, and what a user sees who may not look there."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.config import resolve
from azure_scheduled_events_exporter.doctor.local.journal import Mount, examine, judge_disk, mount_of, mounts
from azure_scheduled_events_exporter.doctor.subject import Subject

MOUNTINFO = r"""
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,discard
23 22 0:21 / /run rw,nosuid shared:2 - tmpfs tmpfs rw,size=1m
24 22 8:17 / /mnt ro,relatime shared:3 - ext4 /dev/sdb1 rw
25 22 8:33 / /data\040disk rw shared:4 - xfs /dev/sdc1 rw
26 25 0:30 / /data\040disk rw - tmpfs tmpfs rw
27 22 8:49 / /failed rw,relatime shared:5 - ext4 /dev/sdd1 ro,errors=remount-ro
28 22 0:31 / /short rw - proc
broken line
"""


@pytest.mark.parametrize(
    ("folder", "kind", "read_only"),
    [
        ("/var/lib/exporter", "ext4", False),
        ("/run/exporter", "tmpfs", False),
        ("/mnt/exporter", "ext4", True),
        ("/mntx", "ext4", False),
        ("/failed/exporter", "ext4", True),
        ("/short", "proc", False),
        ("/data disk/exporter", "tmpfs", False),
    ],
)
def test_mount_of_a_folder(folder: str, kind: str, *, read_only: bool) -> None:
    """A folder is on the deepest mount above it, and of several at one place on the last."""
    found = mount_of(Path(folder), mounts(MOUNTINFO))
    assert found
    assert (found.kind, found.read_only) == (kind, read_only)


@pytest.mark.parametrize(
    ("kind", "read_only", "temporary", "mark", "words"),
    [
        ("ext4", False, False, "ok", "survives a reboot"),
        ("ext4", False, True, "wrong", "temporary disk (/mnt), which a redeploy"),
        ("ext4", True, False, "wrong", "read-only"),
        ("tmpfs", False, False, "wrong", "tmpfs (/mnt), which a reboot erases"),
        ("overlay", False, False, "wrong", "goes away with the container"),
    ],
)
def test_what_survives(kind: str, mark: str, words: str, *, read_only: bool, temporary: bool) -> None:
    """A journal is safe on an ordinary writable disk, and on nothing else."""
    finding = judge_disk(Path("/mnt/journal.sqlite"), Mount(Path("/mnt"), kind, read_only), temporary=temporary)
    assert finding.mark == mark
    assert words in finding.sentence


@pytest.fixture
def closed_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder that this process may not search."""
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o000)
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65534)
    yield folder
    if is_root:
        os.seteuid(0)
    folder.chmod(0o700)


@pytest.mark.parametrize("below", ["journal.sqlite", "deeper/journal.sqlite"])
def test_folder_that_cannot_be_searched(closed_folder: Path, below: str) -> None:
    """Without the right to search the folder, doctor says to run it as root."""
    config = resolve({"journal.path": str(closed_folder / below)}, {})
    first, *_ = examine(Subject(config, {}, (), ""))
    assert (first.check, first.mark) == ("journal-readable", "wrong")
    assert "as root" in first.hint
