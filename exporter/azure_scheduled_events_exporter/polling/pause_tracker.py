"""Measures pauses of this VM for the poller, also across a restart of this process.

Chooses the sampling mode and keeps the heartbeat in the journal. ``core.pause`` interprets a delay, and
``core.observation`` to which events a pause belongs. Only the poller's thread calls, except for
:meth:`PauseTracker.record_heartbeat` at the end.
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

_HEARTBEAT_SECONDS = 0.5  # minimum between two heartbeats, because each one waits for the disk


class PauseTracker:
    """Returns the longest pause since the last document to the poller.

    Args:
        clock: this machine's clocks.
        wait: waits so many seconds, or until the process is to end; returns whether it is.
        journal: where the previous run left its last heartbeat.
    """

    def __init__(self, clock: Clock, wait: Callable[[float], bool], journal: Journal) -> None:
        self._clock = clock
        self._journal = journal
        self._detector = PauseDetector(clock, wait)
        last = journal.last_heartbeat()
        # Kept until a document shows which events it belongs to; until then the heartbeat stays too, for the next run.
        self._before_this_run = between_runs(last, clock.reading()) if last else None
        self._heartbeat_at = None if last is None else -math.inf
        self._known: Lifecycles | None = None
        self._started: list[Lifecycle] = []

    @property
    def concern_us(self) -> bool:
        """Whether an event of this VM is Started, so that a pause would belong to it."""
        return bool(self._started)

    def wait(self, seconds: float) -> bool:
        """Wait ``seconds``, or until the process is to end; a late wake-up may be a pause."""
        return self._detector.wait(seconds)

    def pause(self, now: Timestamp, watched: Timestamp | None, watched_within: float) -> Pause:
        """Return the longest pause of this VM since the last call.

        Args:
            now: the moment of a document.
            watched: the moment of the previous document; None in a new run.
            watched_within: if two documents are at most so many seconds apart, no event is missed in between.
        """
        seconds = self._detector.take()
        if self._before_this_run is not None:
            before_this_run, self._before_this_run = self._before_this_run, None
            return before_this_run
        unwatched = math.inf if watched is None else now.since(watched) - seconds
        is_whole = self._detector.ticks or unwatched <= watched_within
        return Pause(seconds, Evidence.WHOLE if is_whole else Evidence.PART)

    def attend(self, known: Lifecycles) -> None:
        """Choose the sampling mode by this VM's events, and write heartbeats while one is Started.

        Call at the end of each poll, and before a change of events is shown. Without an event of this VM, it
        only samples the clocks twice.
        """
        if known is not self._known:
            self._known = known
            own = _own(known)
            self._started = [life for life in own if life.state is State.STARTED]
            if any(life.observed_pause is not None for life in self._started):
                self._detector.set_mode(SamplingMode.CLOSE)
            else:
                self._detector.set_mode(SamplingMode.ALERT if len(self._started) < len(own) else SamplingMode.REST)
        if self._before_this_run is not None or (not self._started and self._heartbeat_at is None):
            return
        reading = self._clock.reading() if self._started else None
        if (
            reading is None
            or self._heartbeat_at is None
            or reading.monotonic - self._heartbeat_at >= _HEARTBEAT_SECONDS
        ):
            self._journal.record_heartbeat(reading)
            self._heartbeat_at = None if reading is None else reading.monotonic

    def end(self) -> None:
        """Stop sampling the clocks."""
        self._detector.set_mode(SamplingMode.REST)

    def record_heartbeat(self, known: Lifecycles) -> None:
        """Write a last heartbeat, because a shutdown may stop the exporter before it sees that the event starts."""
        if self._before_this_run is None and _own(known):
            self._journal.record_heartbeat(self._clock.reading())


def _own(known: Lifecycles) -> list[Lifecycle]:
    return [life for life in known.current.values() if life.scope is Scope.SELF]
