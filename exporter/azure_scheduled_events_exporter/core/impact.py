"""What an event did to this VM, beside its pause: TCP segments sent again, and a step of the clock.

Pure: computes from readings of the kernel's counters. ``polling.kernel`` reads them, and
``core.presence`` decides when an event begins, and ``core.absence`` when it ends.

Theory of operation. Azure announces some seconds, and TCP connections may stall for minutes. A
kernel sends a segment again when no acknowledgement comes, and counts that. So what it counts while
an event is Started, compared with the minute before, shows what the peers of the connections
noticed. The counters are those of the exporter's network namespace: on a VM those of the VM; in a
pod without host network only those of the pod. A step of the wall clock is what that clock has
advanced more, or less, than the clock since boot.
"""

from dataclasses import dataclass, replace

from .timestamp import Timestamp

MINUTE = 60.0  # seconds

SHORTEST_SECONDS = 10.0
"""What was counted over a shorter time is not converted to a minute: it says too little."""

RENEWED_AFTER_SECONDS = 10.0
"""While an event is Started, its impact is renewed when it is this old.

Each renewal is written to the journal.
"""


@dataclass(frozen=True, slots=True)
class Readings:
    """What the kernel had counted at a moment.

    Attributes:
        at: the moment, by this machine's clock.
        retransmitted: TCP segments sent again since the boot; None if the kernel does not say.
        timeouts: how often a TCP connection sent again because its timer expired, since the boot;
            None likewise.
    """

    at: Timestamp
    retransmitted: int | None = None
    timeouts: int | None = None


@dataclass(frozen=True, slots=True)
class Tcp:
    """What TCP counted in a period, as the counters of :class:`Readings`."""

    retransmitted: int
    timeouts: int


@dataclass(frozen=True, slots=True)
class Counted:
    """The kernel's readings that the observation of one document compares.

    Attributes:
        now: the readings of this moment.
        last: the readings before ``now``. What the document shows as new happened after them. None
            if there are none.
        minute_ago: those from about a minute before ``last``, or the oldest of a shorter time; None
            if there are none before ``last``.
    """

    now: Readings
    last: Readings | None = None
    minute_ago: Readings | None = None


@dataclass(frozen=True, slots=True)
class Impact:
    """What was measured while an event was Started, so far.

    Attributes:
        begins: the readings just before it started.
        ends: the readings at the last change of ``during`` or ``clock_step``.
        before: what TCP counted in the minute before the start; None if that is not known.
        during: what TCP counted since the start; None if that is not known.
        clock_step: seconds by which the wall clock was set forward, negative if backward.
    """

    begins: Readings
    ends: Readings
    before: Tcp | None = None
    during: Tcp | None = None
    clock_step: float = 0.0

    def until(self, now: Readings, *, even_if_recent: bool = False) -> "Impact":
        """Return the impact up to ``now``.

        It is this object itself if nothing has changed, if the VM has booted since the start, or if
        :attr:`ends` is younger than :data:`RENEWED_AFTER_SECONDS`. ``even_if_recent``: whether that
        age does not matter.
        """
        if now.at.boot_id != self.begins.at.boot_id:
            return self  # a boot begins all counters anew: what was measured before it stays
        if not even_if_recent and now.at.since(self.ends.at) < RENEWED_AFTER_SECONDS:
            return self
        during = between(self.begins, now) or self.during  # what was known stays
        step = round(_lead(now.at) - _lead(self.begins.at), 2) + 0.0  # + 0.0 makes 0.0 of -0.0
        if (during, step) == (self.during, self.clock_step):
            return self
        return replace(self, ends=now, during=during, clock_step=step)


def beginning(counted: Counted) -> Impact:
    """Return the impact of an event that has just been seen Started."""
    begins = counted.last or counted.now
    before = None
    if counted.minute_ago is not None:
        before = _in_a_minute(counted.minute_ago, begins)
    impact = Impact(begins=begins, ends=begins, before=before)
    return impact.until(counted.now, even_if_recent=True)


def between(earlier: Readings, later: Readings) -> Tcp | None:
    """Return what TCP counted between two readings of one boot; None if that is not known.

    It is not known if a counter has fallen: the later readings are of another network namespace,
    such as that of a new pod.
    """
    if earlier.retransmitted is None or later.retransmitted is None:
        return None
    if earlier.timeouts is None or later.timeouts is None:
        return None
    retransmitted = later.retransmitted - earlier.retransmitted
    timeouts = later.timeouts - earlier.timeouts
    if retransmitted < 0 or timeouts < 0:
        return None
    return Tcp(retransmitted, timeouts)


def _in_a_minute(earlier: Readings, later: Readings) -> Tcp | None:
    """Return what TCP counted between two readings, converted to a minute.

    None if that is not known, or if they are less than :data:`SHORTEST_SECONDS` apart.
    """
    seconds = later.at.since(earlier.at)
    tcp = between(earlier, later)
    if tcp is None or seconds < SHORTEST_SECONDS:
        return None
    scale = MINUTE / seconds
    return Tcp(round(tcp.retransmitted * scale), round(tcp.timeouts * scale))


def _lead(moment: Timestamp) -> float:
    """Return by how much the wall clock is ahead of the clock since boot."""
    return moment.wall - moment.monotonic
