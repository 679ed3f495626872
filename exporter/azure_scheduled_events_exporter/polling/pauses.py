"""Measures pauses of this VM for the poller, also across a restart of this process.

While an event of this VM is current, a thread reads the clocks at each tick. ``core.pause`` interprets what they say,
and ``core.observation`` to which events a pause belongs.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from azure_scheduled_events_exporter.core.document import Scope
from azure_scheduled_events_exporter.core.lifecycle import Lifecycles, State
from azure_scheduled_events_exporter.core.pause import Pause, between_runs, gap
from azure_scheduled_events_exporter.journal.journal import Journal

from .clock import Clock

if TYPE_CHECKING:
    from azure_scheduled_events_exporter.core.timestamp import Timestamp

TICK_SECONDS = 0.05
"""Time between two samples. A pause is measured with this error; 20 samples a second cost a thousandth of a CPU."""


@dataclass(eq=False)
class Pauses:
    """Remembers the largest delay of a tick since :meth:`take` was last called.

    Only the poller's thread calls, except for :meth:`end`.

    Attributes:
        clock: this machine's clocks.
        wait: waits so many seconds, or until the process is to end; returns whether it is.
        journal: where the previous run left its last heartbeat.
    """

    clock: Clock
    wait: Callable[[float], bool]
    journal: Journal

    def __post_init__(self) -> None:
        last = self.journal.last_heartbeat()
        # Kept until a document shows which events it belongs to; until then the heartbeat stays too, for the next run.
        self._before_this_run = between_runs(last, self.clock()) if last else None
        self._has_heartbeat = last is not None
        self._known: Lifecycles | None = None
        self._states: set[State] = set()  # of this VM's events
        self._lock = threading.Lock()
        self._ticker: threading.Thread | None = None
        self._ticked: Timestamp | None = None
        self._largest = 0.0

    def take(self) -> Pause | None:
        """Return the longest pause since the last call; None if nobody measured."""
        if self._before_this_run is not None:
            pause, self._before_this_run = self._before_this_run, None
            return pause
        with self._lock:
            if self._ticked is None:
                return None
            self._look()
            largest, self._largest = self._largest, 0.0
        return Pause(round(largest, 3))

    def attend(self, known: Lifecycles) -> None:
        """Sample while this VM has an event, and write a heartbeat while one is Started.

        Call at the end of each poll, and before a change of events is shown.
        """
        if known is not self._known:
            self._known = known
            self._states = {life.state for life in known.current.values() if life.scope is Scope.SELF}
            self._sample(is_wanted=bool(self._states))
        is_started = State.STARTED in self._states
        if self._before_this_run is None and (is_started or self._has_heartbeat):
            self.journal.record_heartbeat(self.clock() if is_started else None)
            self._has_heartbeat = is_started

    def end(self) -> None:
        """Write a last heartbeat: a shutdown may stop the exporter before it sees that its VM's event starts."""
        if self._before_this_run is None and self._states:
            self.journal.record_heartbeat(self.clock())

    def stop(self) -> None:
        """Stop sampling the clocks."""
        self._sample(is_wanted=False)

    def _sample(self, *, is_wanted: bool) -> None:
        if is_wanted is (self._ticked is not None):
            return
        with self._lock:
            self._ticker, self._ticked, self._largest = None, self.clock() if is_wanted else None, 0.0
        if not is_wanted:
            return
        self._ticker = threading.Thread(target=self._run, name="pauses", daemon=True)
        try:
            self._ticker.start()
        except RuntimeError:  # no thread could be started: nothing is measured
            self._ticked = None

    def _run(self) -> None:
        while not self.wait(TICK_SECONDS) and self._ticker is threading.current_thread():
            with self._lock:
                self._look()

    def _look(self) -> None:
        """Compare the clocks with when the next tick is due. The lock is held."""
        if self._ticked is not None:
            before, self._ticked = self._ticked, self.clock()
            self._largest = max(self._largest, gap(before, self._ticked, TICK_SECONDS))
