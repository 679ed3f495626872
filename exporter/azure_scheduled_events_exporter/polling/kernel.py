"""Reads what the kernel counts about TCP, and keeps the readings of the last minute.

``core.impact`` computes from them what an event did to connections. Only Linux shows the counters:
on another system the readings have no values.
"""

from collections import deque
from dataclasses import dataclass
from pathlib import Path

from azure_scheduled_events_exporter.core.impact import MINUTE, Counted, Readings
from azure_scheduled_events_exporter.core.timestamp import Timestamp

from .clock import Clock

NETWORK = Path("/proc/self/net")
"""The counters of this process' network namespace."""

LOOK_SECONDS = 5.0
"""How often the counters are read, also while there is no event: one may start without notice."""


def tcp_counter(text: bytes, group: bytes, name: bytes) -> int | None:
    """Return a counter from ``/proc/net/snmp`` or ``/proc/net/netstat``; None if it is not there.

    ``text`` has two lines for each group of counters: ``Tcp: RtoAlgorithm RtoMin …`` with their
    names, and ``Tcp: 1 200 …`` with their values.
    """
    lines = [line.split() for line in text.splitlines() if line.startswith(group + b":")]
    try:
        names, values = lines
        return int(values[names.index(name)])
    except (ValueError, IndexError):  # a line, the name or the value is missing, or is no number
        return None


@dataclass(eq=False)
class Kernel:
    """Reads the counters, and keeps the readings of the last minute. One thread uses it.

    Attributes:
        clock: the current time.
        folder: where the files ``snmp`` and ``netstat`` are.
    """

    clock: Clock
    folder: Path = NETWORK

    def __post_init__(self) -> None:
        self._readings: deque[Readings] = deque()  # the oldest first

    def look(self, *, is_changed: bool) -> Counted | None:
        """Read the counters; return them with the earlier readings that they are compared with.

        Call it for each document. The counters are read if the document ``is_changed``, and every
        :data:`LOOK_SECONDS`. Otherwise nothing is read, and the result is None.
        """
        now = self.clock()
        last = None
        if self._readings:
            last = self._readings[-1]
        if not is_changed and last is not None and now.since(last.at) < LOOK_SECONDS:
            return None
        readings = self._read(now)
        # The minute to compare with ends at `last`, not at `now`: what an event has done since
        # `last`, when it may have begun, must not count as the time before it.
        minute_ago = self._minute_before(last)
        self._readings.append(readings)
        return Counted(readings, last, minute_ago)

    def _minute_before(self, last: Readings | None) -> Readings | None:
        """Return the newest readings a minute or more before ``last``, and forget older ones.

        If none is that old, return the oldest; None if there are none before ``last``.
        """
        if last is None:
            return None
        while len(self._readings) > 1 and last.at.since(self._readings[1].at) >= MINUTE:
            self._readings.popleft()
        oldest = self._readings[0]
        if oldest is last:
            return None
        return oldest

    def _read(self, now: Timestamp) -> Readings:
        """Return the counters at ``now``; without values if they cannot be read."""
        try:
            snmp = (self.folder / "snmp").read_bytes()
            netstat = (self.folder / "netstat").read_bytes()
        except OSError:
            return Readings(now)
        retransmitted = tcp_counter(snmp, b"Tcp", b"RetransSegs")
        timeouts = tcp_counter(netstat, b"TcpExt", b"TCPTimeouts")
        return Readings(now, retransmitted, timeouts)
