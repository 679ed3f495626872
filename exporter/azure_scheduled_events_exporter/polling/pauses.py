"""Measures pauses of this VM for the poller, also across a restart of this process.

While an event of this VM is current, a thread reads the clocks at each tick. ``core.pause``
interprets what they say, and ``core.observation`` to which events a pause belongs.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass

from azure_scheduled_events_exporter.core.document import Scope
from azure_scheduled_events_exporter.core.lifecycle import Lifecycles, State
from azure_scheduled_events_exporter.core.pause import Pause, between_runs, gap
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.journal.journal import Journal

from .clock import Clock

TICK_SECONDS = 0.05
"""Time between two samples.

A pause is measured with this error; 20 samples a second cost a thousandth of a CPU.
"""


@dataclass(eq=False)
class Pauses:
    """Remembers the largest delay of a tick since :meth:`take` was last called.

    Attributes:
        wait: waits so many seconds, or until the process is to end; returns whether it is.
        journal: where the previous run left its last heartbeat.
    """

    clock: Clock
    wait: Callable[[float], bool]
    journal: Journal

    def __post_init__(self) -> None:
        last = self.journal.restore().heartbeat
        # Kept until a document shows which events it belongs to; until then the heartbeat stays
        # too, for the next run.
        self._before_this_run = between_runs(last, self.clock()) if last else None
        self._lock = threading.Lock()
        self._ticked: Timestamp | None = None  # None while nothing is measured
        self._largest = 0.0

    def take(self) -> Pause | None:
        """Return the longest pause since the last call; None if nobody measured."""
        if self._before_this_run is not None:
            pause, self._before_this_run = self._before_this_run, None
            return pause
        with self._lock:
            if self._ticked is None:
                return None
            self._ticked = self._look(self._ticked)
            largest, self._largest = self._largest, 0.0
        return Pause(round(largest, 3))

    def attend(self, known: Lifecycles, *, is_last: bool = False) -> None:
        """Sample while this VM has an event, and write a heartbeat while one is Started.

        Call at the end of each poll, and before a change of events is shown. ``is_last``: the
        process ends; its VM's event may start before the exporter runs again.
        """
        states = {life.state for life in known.current.values() if life.scope is Scope.SELF}
        self._sample(is_wanted=bool(states))
        lives = State.STARTED in states or (is_last and bool(states))
        if self._before_this_run is None and (lives or self.journal.restore().heartbeat):
            self.journal.record_heartbeat(self.clock() if lives else None)

    def _sample(self, *, is_wanted: bool) -> None:
        with self._lock:
            if is_wanted is (self._ticked is not None):
                return
            self._ticked, self._largest = self.clock() if is_wanted else None, 0.0
            if is_wanted:
                try:
                    threading.Thread(target=self._run, name="pauses", daemon=True).start()
                except RuntimeError:  # no thread could be started: nothing is measured
                    self._ticked = None

    def _run(self) -> None:
        while not self.wait(TICK_SECONDS):
            with self._lock:
                if self._ticked is None:
                    return
                self._ticked = self._look(self._ticked)

    def _look(self, before: Timestamp) -> Timestamp:
        """Compare the clocks with when the tick after ``before`` is due; return this moment.

        The lock is held.
        """
        now = self.clock()
        self._largest = max(self._largest, gap(before, now, TICK_SECONDS))
        return now
