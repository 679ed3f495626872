"""Measures pauses of this VM for the poller, also across a restart of this process.

While an event of this VM is current, a thread reads the clock since boot at each tick, and each
poll reads the wall clock. ``core.pause`` interprets what they say, and ``core.observation`` to
which events a pause belongs.
"""

import contextlib
import select
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from azure_scheduled_events_exporter.core.document import Scope
from azure_scheduled_events_exporter.core.lifecycle import Lifecycles, State
from azure_scheduled_events_exporter.core.pause import NOISE_SECONDS, Pause, between_runs, gap
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.journal.journal import Journal

from .clock import Clock

TICK_SECONDS = 0.1
"""Time between two samples: a pause may be up to so much longer than measured.

10 samples a second take half a millisecond of CPU time. Most of it is the waking of the thread.
"""

HEARTBEAT_SECONDS = 5.0
"""Time between two heartbeats, the moments in the journal from which the next run measures a pause.

The pause may be shorter than measured by so much. Each heartbeat is a write to the disk, and takes
half a millisecond of CPU time.
"""

QUOTA_SECONDS = 1.0
"""A CPU quota stops a process for less than its period at a time, which is at most a second.

What takes longer is a pause of the VM, whatever the quota did in that time.
"""

CGROUPS = Path("/sys/fs/cgroup")
"""Where Linux shows the control groups, which can have a CPU quota."""


class Quota:
    """How long the CPU quota of a cgroup stopped its processes.

    Only version 2 of cgroups: without it, or without a quota, it is 0.

    Attributes:
        file: the ``cpu.stat`` of the cgroup; None if it is not known.
    """

    def __init__(self, file: Path | None) -> None:
        self.file = file
        self._stopped = self._read()

    def stopped(self) -> float:
        """Return for how many seconds it stopped them since the last call, summed over the CPUs."""
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


def own_quota(cgroups: Path = CGROUPS, membership: Path = Path("/proc/self/cgroup")) -> Quota:
    """Return the quota of this process, as its line ``0::/path`` in ``/proc/self/cgroup`` says."""
    with contextlib.suppress(OSError, ValueError):
        for line in membership.read_text(encoding="utf-8").splitlines():
            if line.startswith("0::/"):
                return Quota(cgroups / line.removeprefix("0::/") / "cpu.stat")
    return Quota(None)


def _sleep(seconds: float) -> None:
    """Wait so many seconds.

    Python's own function sleeps until a moment of the monotonic clock. libfaketime, with which the
    trials set the clock, refuses that now and then.
    """
    if sys.platform == "win32":
        time.sleep(seconds)
    else:
        select.select((), (), (), seconds)


@dataclass(eq=False)
class Pauses:
    """Measures the longest pause between two calls of :meth:`take`.

    It is the largest delay of a tick, or what the wall clock has advanced more than the clock since
    boot.

    Attributes:
        clock: this machine's clock.
        since_boot: the clock since boot, which each tick reads.
        journal: where heartbeats are written.
        quota: how long the CPU quota of this process stopped it, which is no pause of the VM.
        sleep: waits so many seconds. The wait cannot be ended: an event that could end it would
            cost twice as much CPU time.
    """

    clock: Clock
    since_boot: Callable[[], float]
    journal: Journal
    sleep: Callable[[float], object] = _sleep
    quota: Quota = field(default_factory=own_quota)

    def __post_init__(self) -> None:
        # Kept until a document shows which events it belongs to; until then the heartbeat stays
        # too, for the next run.
        self._before_this_run: Pause | None = None
        self._lock = threading.Lock()
        self._taken: Timestamp | None = None  # when it was last taken; None while nobody measures
        self._ticked = 0.0  # when the last tick was
        self._largest = 0.0
        self._largest_at = 0.0  # when the tick was that was late by so much

    def restore(self, heartbeat: Timestamp | None) -> None:
        """Begin with the last heartbeat of the previous run; None if it left none."""
        self._before_this_run = between_runs(heartbeat, self.clock()) if heartbeat else None

    def take(self) -> Pause | None:
        """Return the longest pause since the last call; None if nobody measured.

        The first call returns the pause between the previous run and this one, if it is known.
        """
        if self._before_this_run is not None:
            pause = self._before_this_run
            self._before_this_run = None
            return pause
        with self._lock:
            if self._taken is None:
                return None
            self._tick()
            self.quota.stopped()  # what stopped this process before is of no interest from now on
            now = self.clock()
            # The ticks watch the clock since boot: what the wall clock advanced more counts too.
            planned = now.monotonic - self._taken.monotonic
            by_wall = gap(self._taken, now, planned)
            largest = max(self._largest, by_wall)
            ended = now
            if self._largest >= by_wall:
                since = now.monotonic - self._largest_at
                ended = Timestamp(now.wall - since, self._largest_at, now.boot_id)
            self._taken = now
            self._largest = 0.0
        seconds = round(largest, 3)
        return Pause(seconds, ended=ended if seconds > 0 else None)

    def attend(self, known: Lifecycles, *, is_last: bool = False) -> None:
        """Sample while this VM has an event, and write a heartbeat while one is Started.

        Call at the end of each poll, and before a change of events is shown. ``is_last``: the
        process ends, so nothing is sampled any more. Any event of this VM gets a heartbeat then,
        because it may start before the exporter runs again.
        """
        states = {life.state for life in known.current.values() if life.scope is Scope.SELF}
        has_event = bool(states)
        self._sample(is_wanted=has_event and not is_last)
        if self._before_this_run is None:
            is_wanted = State.STARTED in states or (is_last and has_event)
            self._beat(is_wanted=is_wanted, is_last=is_last)

    def _beat(self, *, is_wanted: bool, is_last: bool) -> None:
        """Write a heartbeat if one is due; remove the last one if none ``is_wanted``."""
        last = self.journal.remembered.heartbeat
        if not is_wanted:
            if last is not None:
                self.journal.record_heartbeat(None)
            return
        now = self.clock()
        is_recent = (
            last is not None and last.boot_id == now.boot_id and now.since(last) < HEARTBEAT_SECONDS
        )
        if is_last or not is_recent:
            self.journal.record_heartbeat(now)

    def _sample(self, *, is_wanted: bool) -> None:
        """Begin to sample, or end it, unless that is so already.

        Polls are further apart than ticks, so an earlier thread has ended before another begins.
        """
        with self._lock:
            is_sampling = self._taken is not None
            if is_wanted is is_sampling:
                return
            self._largest = 0.0
            self._taken = None
            if not is_wanted:
                return
            self.quota.stopped()
            self._taken = self.clock()
            self._ticked = self._taken.monotonic
            try:
                threading.Thread(target=self._run, name="pauses", daemon=True).start()
            except RuntimeError:  # no thread could be started: nothing is measured
                self._taken = None

    def _run(self) -> None:
        """Sample until nobody wants it any more; runs in a thread of its own."""
        while True:
            self.sleep(TICK_SECONDS)
            with self._lock:
                if self._taken is None:
                    return
                self._tick()

    def _tick(self) -> None:
        """Compare the clock with when the tick after the last one is due. The lock is held."""
        now = self.since_boot()
        late = now - self._ticked - TICK_SECONDS
        if NOISE_SECONDS <= late < QUOTA_SECONDS:
            late -= self.quota.stopped()
        if late > self._largest:
            self._largest = late
            self._largest_at = now
        self._ticked = now
