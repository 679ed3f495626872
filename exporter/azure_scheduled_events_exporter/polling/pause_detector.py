"""Detects pauses of this VM from late wake-ups of this process.

Reads clocks and waits; both are arguments. ``core.pause`` interprets a clock sample, and ``polling.pause_tracker``
decides how often to sample.
"""

import threading
from collections.abc import Callable
from enum import Enum, auto

from azure_scheduled_events_exporter.core.pause import ClockSample, gap

from .clock import Clock

TICK_SECONDS = 0.05
"""Time between two samples. A pause is measured with this error; 20 samples a second cost a thousandth of a CPU."""
STEP_SECONDS = 0.25
"""While a pause is likely, waits are split into such steps, because the rest of a wait masks a pause within it."""


class SamplingMode(Enum):
    """How often to sample the clocks."""

    REST = auto()  # at each wait between polls: only two samples
    ALERT = auto()  # at each step of it
    CLOSE = auto()  # at each tick of a thread, also while a poll waits for an answer


class PauseDetector:
    """Remembers the largest delay of a wake-up since :meth:`take` was last called.

    Args:
        clock: this machine's clocks.
        wait: waits so many seconds, or until the process is to end; returns whether it is.
    """

    def __init__(self, clock: Clock, wait: Callable[[float], bool]) -> None:
        self._clock = clock
        self._wait = wait
        self._lock = threading.Lock()
        self._mode = SamplingMode.REST
        self._ticker: threading.Thread | None = None
        self._next_tick: ClockSample | None = None
        self._taken: ClockSample | None = None
        self._largest = 0.0

    @property
    def ticks(self) -> bool:
        """Whether a thread samples the clocks at every tick, so that no pause is missed."""
        return self._ticker is not None

    def wait(self, seconds: float) -> bool:
        """Wait ``seconds``, or until the process is to end, and record by how much the wait was late."""
        left = max(0.0, seconds)
        while True:
            part = min(left, STEP_SECONDS) if self._mode is SamplingMode.ALERT else left
            due = self._clock.reading().after(part)
            if self._wait(part):
                return True
            late = gap(due, self._clock.reading())
            if late:
                with self._lock:
                    self._largest = max(self._largest, late)
            left -= part + late
            if left <= 0.0:
                return False

    def set_mode(self, mode: SamplingMode) -> None:
        """Sample in ``mode`` from now on. Call from one thread at a time."""
        if mode is self._mode:
            return
        if self._mode is SamplingMode.REST:
            self._taken = self._clock.reading()
        self._mode, self._ticker = mode, None
        with self._lock:
            self._next_tick = self._clock.reading().after(TICK_SECONDS) if mode is SamplingMode.CLOSE else None
        if mode is SamplingMode.CLOSE:
            self._ticker = threading.Thread(target=self._run, name="pause-detector", daemon=True)
            try:
                self._ticker.start()
            except RuntimeError:  # no thread could be started: only the waits between polls are sampled
                self._mode, self._ticker = SamplingMode.ALERT, None
                with self._lock:
                    self._next_tick = None

    def take(self) -> float:
        """Return the largest gap since the last call, up to this moment, in seconds; its milliseconds are exact."""
        with self._lock:
            self._look()
            largest, self._largest = self._largest, 0.0
        if self._mode is not SamplingMode.REST and self._taken is not None:
            # If one clock stopped and another did not, a later comparison still shows it, even if another thread
            # sampled in between.
            before, self._taken = self._taken, self._clock.reading()
            largest = max(largest, gap(before.after(self._taken.monotonic - before.monotonic), self._taken))
        return round(largest, 3)

    def _run(self) -> None:
        while not self._wait(TICK_SECONDS) and self._ticker is threading.current_thread():
            with self._lock:
                self._look()

    def _look(self) -> None:
        """Compare the clocks with when the next tick was due. The lock is held."""
        if self._next_tick is None:
            return
        now = self._clock.reading()
        late = gap(self._next_tick, now)
        if late or now.monotonic >= self._next_tick.monotonic:
            self._largest = max(self._largest, late)
            self._next_tick = now.after(TICK_SECONDS)
