"""On which disk a journal is, and whether that survives."""

from pathlib import Path

import pytest

from azure_scheduled_events_exporter.doctor.local.journal import Mount, judge_disk, mount_of, mounts

MOUNTINFO = r"""
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,discard
23 22 0:21 / /run rw,nosuid shared:2 - tmpfs tmpfs rw,size=1m
24 22 8:17 / /mnt ro,relatime shared:3 - ext4 /dev/sdb1 rw
25 22 8:33 / /data\040disk rw shared:4 - xfs /dev/sdc1 rw
26 25 0:30 / /data\040disk rw - tmpfs tmpfs rw
broken line
"""


@pytest.mark.parametrize(
    ("folder", "kind", "read_only"),
    [
        ("/var/lib/exporter", "ext4", False),
        ("/run/exporter", "tmpfs", False),
        ("/mnt/exporter", "ext4", True),
        ("/mntx", "ext4", False),
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
