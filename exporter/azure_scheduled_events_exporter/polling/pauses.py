"""Measures pauses of this VM for the poller, also across a restart of this process.

While an event of this VM is current, a thread reads the clock since boot at each tick, and each
poll reads the wall clock. ``core.pause`` computes the length of a pause, and ``core.measurement``
adds it to events.
"""

import select
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from azure_scheduled_events_exporter.core.document import Scope
from azure_scheduled_events_exporter.core.lifecycle import Lifecycles, State
from azure_scheduled_events_exporter.core.pause import NOISE_SECONDS, Pause, between_runs, gap
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.journal.journal import Journal

from .clock import Clock
from .cpu_quota import CpuQuota, own_quota

TICK_SECONDS = 0.1
"""Time between two ticks: a pause may be up to so much longer than measured.

10 ticks a second take half a millisecond of CPU time. Most of it is the waking of the thread.
"""

HEARTBEAT_SECONDS = 5.0
"""Time between two heartbeats.

A heartbeat is the current time in the journal: the next run measures a pause from the last one. So
the pause may be shorter than measured by so much. Each heartbeat is a write to the disk, and takes
half a millisecond of CPU time.
"""

QUOTA_SECONDS = 1.0
"""A longer delay is a pause of the VM, whatever the CPU quota did in that time.

A quota stops a process for less than its period at a time, which is at most a second.
"""


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
    boot, whichever is longer.

    The poller calls all methods. A thread of its own ticks, and shares what is measured under a
    lock.

    Attributes:
        clock: this machine's clock.
        since_boot: the clock since boot, which each tick reads.
        journal: where heartbeats are written.
        sleep: waits so many seconds. The wait cannot be ended: a ``threading.Event`` that could end
            it would cost twice as much CPU time.
        quota: how long the CPU quota of this process stopped it, which is no pause of the VM.
    """

    clock: Clock
    since_boot: Callable[[], float]
    journal: Journal
    sleep: Callable[[float], object] = _sleep
    quota: CpuQuota = field(default_factory=own_quota)

    def __post_init__(self) -> None:
        # Kept until the first document, which shows the events that it belongs to. Until then the
        # last heartbeat stays in the journal too: if this run ends before, the next one needs it.
        self._before_this_run: Pause | None = None
        self._lock = threading.Lock()  # held by whoever uses the attributes below
        # When the measurement began or was last taken; None while nobody measures.
        self._measured_since: Timestamp | None = None
        # In seconds, times by the clock since boot:
        self._ticked = 0.0  # when the last tick was
        self._largest = 0.0  # the largest delay of a tick since `_measured_since`
        self._largest_at = 0.0  # when the tick was that had this delay

    def restore(self, heartbeat: Timestamp | None) -> None:
        """Begin with the last heartbeat of the previous run; None if it left none."""
        self._before_this_run = None
        if heartbeat is not None:
            self._before_this_run = between_runs(heartbeat, self.clock())

    def take(self) -> Pause | None:
        """Return the longest pause since the last call; None if nobody measured.

        The first call returns the pause between the previous run and this one, if it is known.
        """
        if self._before_this_run is not None:
            pause = self._before_this_run
            self._before_this_run = None
            return pause
        with self._lock:
            if self._measured_since is None:
                return None
            self._tick()
            self.quota.stopped_since_last_call()  # the next tick asks only for what follows
            now = self.clock()
            pause = self._longest(self._measured_since, now)
            self._measured_since = now
            self._largest = 0.0
        return pause

    def _longest(self, since: Timestamp, now: Timestamp) -> Pause:
        """Return the longest pause from ``since`` to ``now``. The lock is held."""
        # The ticks have watched the clock since boot. This is what the wall clock advanced more.
        by_wall = gap(since, now, planned=now.monotonic - since.monotonic)
        seconds = round(max(self._largest, by_wall), 3)
        if seconds == 0:
            return Pause(0.0)
        if by_wall > self._largest:
            return Pause(seconds, ended=now)
        wall = now.wall - (now.monotonic - self._largest_at)
        return Pause(seconds, ended=Timestamp(wall, self._largest_at, now.boot_id))

    def attend(self, known: Lifecycles, *, is_last: bool = False) -> None:
        """Measure while this VM has an event, and write a heartbeat while one is Started.

        Call it at the end of each poll, and before a change of events is shown, because a pause may
        follow at once. ``is_last``: the process ends. Then the measurement ends, and a heartbeat is
        written for an event of this VM in any state, because it may start before the exporter runs
        again.
        """
        states = {life.state for life in known.current.values() if life.scope is Scope.SELF}
        has_event = bool(states)
        self._measure(is_wanted=has_event and not is_last)
        if self._before_this_run is None:  # else the last heartbeat stays as it is
            is_wanted = State.STARTED in states or (is_last and has_event)
            self._beat(is_wanted=is_wanted, is_last=is_last)

    def _beat(self, *, is_wanted: bool, is_last: bool) -> None:
        """With ``is_wanted``, write a heartbeat if one is due; else remove the one in the journal.

        A heartbeat is due :data:`HEARTBEAT_SECONDS` after the one before, and always at the end of
        the process (``is_last``).
        """
        before = self.journal.remembered.heartbeat
        if not is_wanted:
            if before is not None:
                self.journal.record_heartbeat(None)
            return
        now = self.clock()
        is_recent = False
        if before is not None and before.boot_id == now.boot_id:
            is_recent = now.since(before) < HEARTBEAT_SECONDS
        if is_last or not is_recent:
            self.journal.record_heartbeat(now)

    def _measure(self, *, is_wanted: bool) -> None:
        """Begin or end the measurement, if it is not as ``is_wanted``.

        Its thread ends at the next tick. Polls are further apart than ticks, so that is before
        another thread begins.
        """
        with self._lock:
            is_measuring = self._measured_since is not None
            if is_wanted is is_measuring:
                return
            self._largest = 0.0
            self._measured_since = None
            if not is_wanted:
                return
            self.quota.stopped_since_last_call()  # the first tick asks only for what follows
            self._measured_since = self.clock()
            self._ticked = self._measured_since.monotonic
            try:
                threading.Thread(target=self._run, name="pauses", daemon=True).start()
            except RuntimeError:  # no thread could be started: nothing is measured
                self._measured_since = None

    def _run(self) -> None:
        """Tick until the measurement ends; runs in a thread of its own."""
        while True:
            self.sleep(TICK_SECONDS)
            with self._lock:
                if self._measured_since is None:
                    return
                self._tick()

    def _tick(self) -> None:
        """Note by how much this tick is later than planned. The lock is held."""
        now = self.since_boot()
        late = now - self._ticked - TICK_SECONDS
        # A shorter delay is noise, and a longer one does not come from the quota.
        if NOISE_SECONDS <= late < QUOTA_SECONDS:
            late -= self.quota.stopped_since_last_call()
        if late > self._largest:
            self._largest = late
            self._largest_at = now
        self._ticked = now
