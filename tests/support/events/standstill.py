"""Stops a process as a Freeze stops its VM: by a signal, or in a frozen cgroup."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from support.programs import PATIENCE, eventually

Stop = Callable[[int], AbstractContextManager[None]]


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Stop a process by SIGSTOP, and let it continue at the end."""
    os.kill(pid, signal.SIGSTOP)
    try:
        status = Path(f"/proc/{pid}/stat")
        # The letter for its state follows the program's name, which is in parentheses.
        eventually(lambda: status.read_text().rpartition(")")[2].split()[0] == "T", "the stop")
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    """Freeze a process in a cgroup of its own, and thaw it at the end; version 2 of cgroups.

    Skips the test where the kernel does not let us make a cgroup.
    """
    root = _cgroups()
    group = root / f"azure-scheduled-events-exporter-test-{pid}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup can be made: {error}")
    try:
        (group / "cgroup.procs").write_text(str(pid))
        (group / "cgroup.freeze").write_text("1")
        events = group / "cgroup.events"
        eventually(lambda: "frozen 1" in events.read_text(), "the freezing")
        yield
    finally:
        with suppress(OSError):
            (group / "cgroup.freeze").write_text("0")
            (root / "cgroup.procs").write_text(str(pid))
        group.rmdir()


def _cgroups() -> Path:
    """Return where version 2 of cgroups is mounted."""
    mounts = Path("/proc/self/mounts")
    if sys.platform != "linux" or not mounts.exists():
        pytest.skip("no Linux")
    for line in mounts.read_text().splitlines():
        _, place, kind, *_ = line.split()
        if kind == "cgroup2":
            return Path(place)
    pytest.skip("version 2 of cgroups is not mounted")


def stand_still(stop: Stop, seconds: Mapping[int, float]) -> None:
    """Stop processes together, each (by its pid) for so many seconds at least."""
    with ExitStack() as stack:
        ends: list[tuple[float, ExitStack]] = []
        for pid, least in seconds.items():
            one = stack.enter_context(ExitStack())
            one.enter_context(stop(pid))
            ends.append((time.monotonic() + least, one))
        for end, one in sorted(ends, key=lambda each: each[0]):
            _wait_until(end)
            one.close()


def _wait_until(moment: float) -> None:
    eventually(lambda: time.monotonic() >= moment, "the time to pass", PATIENCE)
