"""Pauses measured between two documents; clocks and waits are arguments."""

import logging
from contextlib import closing

import pytest

from azure_scheduled_events_exporter.core.pause import ClockSample, Evidence, Pause
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.journal.journal import Journal
from azure_scheduled_events_exporter.polling.pause_tracker import PauseTracker

WITHIN = 60.0


class Machine:
    """Clocks that advance by the length of a wait and of a pause within it."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.stands_still = 0.0

    def now(self) -> Timestamp:
        """Return this moment."""
        return Timestamp(1_700_000_000.0 + self.seconds, 500.0 + self.seconds, "boot-1")

    def booted_at(self) -> Timestamp | None:
        """Nobody asks."""
        return None

    def reading(self) -> ClockSample:
        """Return what each clock says."""
        return ClockSample(1_700_000_000.0 + self.seconds, 500.0 + self.seconds, 800.0 + self.seconds, "boot-1")

    def wait(self, seconds: float) -> bool:
        """Let the time pass."""
        self.seconds += seconds + self.stands_still
        self.stands_still = 0.0
        return False


@pytest.mark.parametrize(
    ("waits", "stands_still", "unnoticed", "pause"),
    [
        pytest.param(1, 0.0, 0.0, Pause(0.0, Evidence.WHOLE), id="a second"),
        pytest.param(59, 0.0, 0.0, Pause(0.0, Evidence.WHOLE), id="some failed polls"),
        pytest.param(61, 0.0, 0.0, Pause(0.0, Evidence.PART), id="IMDS was away for long"),
        pytest.param(1, 2.5, 0.0, Pause(2.5, Evidence.WHOLE), id="a pause"),
        pytest.param(1, 600.0, 0.0, Pause(600.0, Evidence.WHOLE), id="a pause that leaves no time unwatched"),
        pytest.param(1, 2.5, 70.0, Pause(2.5, Evidence.PART), id="a pause, and a poll that took for ever"),
    ],
)
def test_since_the_last_document(waits: int, stands_still: float, unnoticed: float, pause: Pause) -> None:
    """A pause is known for sure when the rest of the time between two documents was watched."""
    machine = Machine()
    with closing(Journal(None, 90 * 86400.0, logging.getLogger("tests.pause_watch"))) as journal:
        watch = PauseTracker(machine, machine.wait, journal)
        watch.wait(0.0)
        assert watch.pause(machine.now(), None, WITHIN).evidence is Evidence.PART, "nobody knows what was before"
        before = machine.now()
        machine.stands_still = stands_still
        for _ in range(waits):
            watch.wait(1.0)
        machine.seconds += unnoticed
        found = watch.pause(machine.now(), before, WITHIN)
        assert found.seconds == pytest.approx(pause.seconds)
        assert found.evidence is pause.evidence
