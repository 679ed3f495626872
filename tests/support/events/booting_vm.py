"""A VM that boots on command: its exporter is a process that sees the boot id and the wall clock of that VM.

Needs root, for a mount namespace of the process's own.
"""

import time
import uuid
from contextlib import ExitStack
from pathlib import Path

from support.programs import COMMAND, Exporter
from trials.clock import WallClock

_ENTER = 'mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"'


class BootingVm:
    """One VM. ``folder`` has its journal, its clock and the output of its exporters, which end with ``stack``."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        folder.mkdir(parents=True)
        self.journal = folder / "state"
        self.clock = WallClock(folder / "clock")
        self._folder = folder
        self._stack = stack
        self._boot_id = folder / "boot_id"
        self._boot_id.write_text(f"{uuid.uuid4()}\n")
        self._runs = 0

    @property
    def boot(self) -> float:
        """When it boots, in Unix seconds."""
        return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)

    def goes_back(self, seconds: float) -> None:
        """Set the clock to so many seconds before :attr:`boot`."""
        self.clock.set(round(self.boot - seconds - time.time()))

    def boots(self) -> None:
        """Boot: the next exporter sees another boot id, and the true time."""
        self._boot_id.write_text(f"{uuid.uuid4()}\n")
        self.clock.set(0)

    def hides_its_boot(self) -> None:
        """Let the next exporter see no boot id, so that it measures by the wall clock."""
        self._boot_id.write_text("")

    def starts(self, endpoint: str, *flags: str, answered: bool = True) -> Exporter:
        """Start an exporter, and return it once IMDS has ``answered`` it."""
        self._runs += 1
        exporter = Exporter(
            endpoint,
            self._folder / f"exporter-{self._runs}.log",
            *("--poll.interval", "250ms", "--journal.path", str(self.journal), *flags),
            command=("unshare", "--mount", "sh", "-c", _ENTER, str(self._boot_id), COMMAND),
            **self.clock.environment,
        )
        self._stack.enter_context(exporter)
        if answered:
            exporter.shows("an answer", lambda scrape: scrape.value("up") == 1)
        return exporter
