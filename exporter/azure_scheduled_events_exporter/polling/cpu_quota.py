"""Tells for how long a CPU quota has stopped this process, which is no pause of the VM.

A container or a service can have a CPU quota. When it is used up, the kernel stops the processes of
that cgroup until the next period begins. Only version 2 of Linux' cgroups is read: elsewhere no
quota is known.
"""

import contextlib
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
"""Where Linux shows the cgroups."""

MEMBERSHIP = Path("/proc/self/cgroup")
"""Where Linux names the cgroup of this process, in a line ``0::/path``."""


class CpuQuota:
    """How long the CPU quota of a cgroup stopped its processes.

    Attributes:
        file: the ``cpu.stat`` of the cgroup; None if it is not known or cannot be read.
    """

    def __init__(self, file: Path | None) -> None:
        self.file = file
        self._stopped = self._read()  # at the last call of stopped_since_last_call()

    def stopped_since_last_call(self) -> float:
        """Return for how many seconds the quota stopped the processes since the last call.

        The seconds of all CPUs are added up. The result is 0 if they are not known.
        """
        before = self._stopped
        self._stopped = self._read()
        return max(0.0, self._stopped - before)

    def _read(self) -> float:
        """Return for how many seconds the quota has stopped the cgroup since it was made."""
        if self.file is None:
            return 0.0
        try:
            for line in self.file.read_text(encoding="ascii").splitlines():
                name, _, value = line.partition(" ")
                if name == "throttled_usec":
                    return int(value) / 1e6
        except (OSError, ValueError):
            self.file = None
        return 0.0


def own_quota(cgroups: Path = CGROUPS, membership: Path = MEMBERSHIP) -> CpuQuota:
    """Return the quota of this process' cgroup."""
    with contextlib.suppress(OSError, ValueError):
        for line in membership.read_text(encoding="utf-8").splitlines():
            if line.startswith("0::/"):
                return CpuQuota(cgroups / line.removeprefix("0::/") / "cpu.stat")
    return CpuQuota(None)
