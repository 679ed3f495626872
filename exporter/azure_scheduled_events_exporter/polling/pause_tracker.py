"""Watches for pauses of this VM, beside the poller: how closely, and across the end of this process.

Owns the rhythm and the signs of life in the journal; what a gap means is ``core.pause``'s, whose pause it was
``core.lifecycle``'s. Only the poller's thread calls, but for :meth:`PauseTracker.record_heartbeat` at the end.
"""

import math
from collections.abc import Callable

from azure_scheduled_events_exporter.core.document import Scope
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle, Lifecycles, State
from azure_scheduled_events_exporter.core.pause import Evidence, Pause, between_runs
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.journal.journal import Journal

from .clock import Clock
from .pause_detector import PauseDetector, SamplingMode

_SIGN_SECONDS = 0.5  # at least between two signs of life: each waits for the disk


class PauseTracker:
    """What the poller asks for the pause since the last document.

    Args:
        clock: this machine's clocks.
        wait: waits so many seconds, or until the process is to end; returns whether it is.
        journal: where the run before has left its last sign of life.
    """

    def __init__(self, clock: Clock, wait: Callable[[float], bool], journal: Journal) -> None:
        self._clock = clock
        self._journal = journal
        self._detector = PauseDetector(clock, wait)
        last = journal.last_heartbeat()
        # Until a document shows which events it belongs to. Till then its sign stays, for a run after this one.
        self._before_this_run = between_runs(last, clock.reading()) if last else None
        self._signed = None if last is None else -math.inf
        self._known: Lifecycles | None = None
        self._started: list[Lifecycle] = []

    @property
    def concern_us(self) -> bool:
        """Whether an event of this VM is Started, so that a pause would be its own."""
        return bool(self._started)

    def wait(self, seconds: float) -> bool:
        """Wait as the one handed in does; who comes back late may have stood still."""
        return self._detector.wait(seconds)

    def pause(self, now: Timestamp, watched: Timestamp | None, watched_within: float) -> Pause:
        """Return the longest pause of this VM since the last call.

        Args:
            now: the moment of a document.
            watched: that of the document before; None in a new run.
            watched_within: seconds between two documents in which nothing goes unseen.
        """
        seconds = self._detector.take()
        if self._before_this_run is not None:
            before_this_run, self._before_this_run = self._before_this_run, None
            return before_this_run
        unwatched = math.inf if watched is None else now.since(watched) - seconds
        is_whole = self._detector.ticks or unwatched <= watched_within
        return Pause(seconds, Evidence.WHOLE if is_whole else Evidence.PART)

    def attend(self, known: Lifecycles) -> None:
        """Look as closely as this VM's events make it worth, and leave signs of life while one is Started.

        Call once a poll. With no event of this VM it costs nothing but two readings of the clocks.
        """
        if known is not self._known:
            self._known = known
            own = _own(known)
            self._started = [life for life in own if life.state is State.STARTED]
            if any(life.observed_pause is not None for life in self._started):
                self._detector.attend(SamplingMode.CLOSE)
            else:
                self._detector.attend(SamplingMode.ALERT if len(self._started) < len(own) else SamplingMode.REST)
        if self._before_this_run is not None or (not self._started and self._signed is None):
            return
        reading = self._clock.reading() if self._started else None
        if reading is None or self._signed is None or reading.monotonic - self._signed >= _SIGN_SECONDS:
            self._journal.record_heartbeat(reading)
            self._signed = None if reading is None else reading.monotonic

    def record_heartbeat(self, known: Lifecycles) -> None:
        """Leave a last sign of life: a VM that goes down in order may end the exporter before it sees the start."""
        if self._before_this_run is None and _own(known):
            self._journal.record_heartbeat(self._clock.reading())


def _own(known: Lifecycles) -> list[Lifecycle]:
    return [life for life in known.current.values() if life.scope is Scope.SELF]
