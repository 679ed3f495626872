"""Compares what a pager was told with the events that there were, and explains every difference."""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from azure_scheduled_events_exporter.simulator import Happening
from support.monitoring.paging import Receiver
from support.monitoring.plays import ENDED

_PROMPT_SECONDS = 2.0
"""An exporter pushes an event so soon after its start, if Alertmanager answers."""

_RETRY_SECONDS = 4.0
"""It tries again so soon after an Alertmanager that was down for less than 3 s: its pauses double from 1 s."""


@dataclass
class Run:
    """One process, from when it listened until it was ended (seconds since the epoch), and its log."""

    log: Path
    began: float = field(default_factory=time.time)
    ended: float = float("inf")

    def lines(self, text: str) -> Iterator[str]:
        """Yield the lines of the log that contain ``text``."""
        return (line for line in self.log.read_text(errors="replace").splitlines() if text in line)


class Event:
    """One event that is over: what the simulator did with it, and the runs of its VM's exporter."""

    def __init__(self, event_id: str, record: Sequence[Happening], runs: Sequence[Run]) -> None:
        self.event_id = event_id
        self.happenings = [each for each in record if each.event_id.upper() == event_id]
        self.runs = runs
        self.begin = self.happenings[0].at
        self.end = next(each.at for each in self.happenings if each.what in ENDED)
        self.was_pushed = any('msg="alert pushed"' in line for run in runs for line in run.lines(event_id))


class Account:
    """The account of ``events`` whose alerts the runs of one Alertmanager passed to a pager."""

    def __init__(self, events: Sequence[Event], alertmanager: Sequence[Run], receiver: Receiver) -> None:
        self.events = events
        self._alertmanager = alertmanager
        self._receiver = receiver

    @property
    def is_settled(self) -> bool:
        """Whether every event that Alertmanager was told of has ended for the pager."""
        resolved = told(self._receiver, "resolved")
        return all(each.event_id in resolved or not each.was_pushed for each in self.events)

    def check(self, say: Callable[[str], None]) -> int:
        """Return how many events nobody could tell the pager of; fail if another was not told and resolved once."""
        firing, resolved = told(self._receiver, "firing"), told(self._receiver, "resolved")
        counts = {each: (firing.get(each.event_id, 0), resolved.get(each.event_id, 0)) for each in self.events}
        odd = [each for each, count in counts.items() if count != (1, 1)]
        wrong = [each for each in odd if counts[each] != (0, 0) or self._had_time(each)]
        for each in odd:
            verdict = "WRONG" if each in wrong else "could not be told"
            say("\n  ".join([f"{each.event_id}, told and resolved {counts[each]}: {verdict}", *self._story(each)]))
        assert not wrong, f"not one page and one resolve: {', '.join(each.event_id for each in wrong)}"
        return len(odd)

    def _had_time(self, event: Event) -> bool:
        """Return whether exporter and Alertmanager were up together for long enough while the event lasted."""
        for exporter in event.runs:
            for alertmanager in self._alertmanager:
                ready = max(exporter.began, event.begin)
                together = min(exporter.ended, alertmanager.ended, event.end) - max(ready, alertmanager.began)
                if together > (_PROMPT_SECONDS if alertmanager.began <= ready else _RETRY_SECONDS):
                    return True
        return False

    def _story(self, event: Event) -> list[str]:
        """Return all that is known about the event, in order."""
        moments = [(each.at, f"simulator: {each.what}") for each in event.happenings]
        for name, runs in (("the exporter", event.runs), ("Alertmanager", self._alertmanager)):
            for run in runs:
                moments += [(run.began, f"{name} listens"), (run.ended, f"{name} is ended")]
                moments += [(_time(line), line) for line in run.lines(event.event_id)]
        moments += [(_time(line), line) for run in event.runs for line in run.lines("Alertmanager")]
        offset = time.time() - time.monotonic()
        for each in self._receiver.webhooks():
            if each.body["groupLabels"].get("event_id") == event.event_id:
                moments.append((each.at + offset, f"the pager is told: {each.alerts()}"))
        return [
            f"{datetime.fromtimestamp(at, UTC):%H:%M:%S.%f} {what}"
            for at, what in sorted(set(moments))
            if event.begin - 5 < at < event.end + 30
        ]


def told(receiver: Receiver, status: str) -> dict[str, int]:
    """Return how many notifications of ``status`` there were, by event."""
    found: dict[str, int] = {}
    for each in receiver.webhooks():
        if each.body["status"] == status:
            event_id = each.body["groupLabels"]["event_id"]
            found[event_id] = found.get(event_id, 0) + 1
    return found


def _time(line: str) -> float:
    """Return the time of a line of log, in seconds since the epoch."""
    found = re.search(r"\bts=(\S+)", line)
    assert found, line
    return datetime.fromisoformat(found[1]).timestamp()
