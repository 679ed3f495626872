"""Compares what a pager was told with the events that there were, and explains every difference.

Two differences are no exporter's fault. An event that begins and ends while Alertmanager or the exporter is down is not
told. And an Alertmanager that is stopped while it notifies does not record that it did: it notifies again, or, if the
event ends before the next post, never resolves.
"""

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from azure_scheduled_events_exporter.simulator import Happening
from support.monitoring.paging import Notification, Receiver
from support.monitoring.plays import ENDED

_RETRY_SECONDS = 2.0
"""An exporter pauses so long at most after an Alertmanager that was down for less than 3 s: pauses double from 1 s."""


@dataclass
class Run:
    """One process: when it listened, was told to end, and had ended (seconds since the epoch), and its log."""

    log: Path
    began: float = field(default_factory=time.time)
    ended: float = float("inf")
    gone: float = float("inf")

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
    """The account of ``events`` whose alerts the runs of one Alertmanager passed to a pager.

    An exporter pushes an event within ``prompt`` seconds after its start, if Alertmanager answers. Alertmanager records
    a notification within ``recording`` seconds after the pager got it.
    """

    def __init__(
        self,
        events: Sequence[Event],
        alertmanager: Sequence[Run],
        receiver: Receiver,
        *,
        prompt: float,
        recording: float,
    ) -> None:
        self.events = events
        self._prompt, self._recording = prompt, recording
        self._alertmanager = alertmanager
        self._receiver = receiver

    @property
    def is_settled(self) -> bool:
        """Whether every event that Alertmanager was told of has ended for the pager.

        An exporter that is killed directly after a post has not logged it.
        """
        counts = [(each, *self._counts(each)) for each in self.events]
        told = [(event, firing, resolved) for event, firing, resolved in counts if event.was_pushed or firing]
        return all(resolved or self._explains(event, firing, resolved) for event, firing, resolved in told)

    def check(self, say: Callable[[str], None]) -> str:
        """Return what nobody could tell the pager, as text; fail if another event was not told and resolved once."""
        verdicts: Counter[str] = Counter()
        wrong = []
        for event in self.events:
            counts = self._counts(event)
            if counts == (1, 1):
                continue
            verdict = self._explains(event, *counts)
            verdicts[verdict] += 1
            wrong += [] if verdict else [event.event_id]
            head = f"{event.event_id}, told and resolved {counts}: {verdict or 'WRONG'}"
            say("\n  ".join([head, *self._story(event)]))
        assert not wrong, f"not one page and one resolve: {', '.join(wrong)}"
        return "".join(f"; {count} {verdict}" for verdict, count in verdicts.items())

    def _explains(self, event: Event, firing: int, resolved: int) -> str:
        """Return why the pager was not told once and resolved once; "" if there is no reason."""
        if (firing, resolved) == (0, 0):
            return "" if self._had_time(event) else "came and went while Alertmanager or the exporter was down"
        again, ended_again = (self._notified_while_stopping(event, status) for status in ("firing", "resolved"))
        may_lack_end = again and not resolved
        if 1 <= firing <= 1 + again and (1 <= resolved <= 1 + ended_again or may_lack_end):
            return "notified by an Alertmanager that was stopped before it had recorded it"
        return ""

    def _counts(self, event: Event) -> tuple[int, int]:
        return len(self._notified(event, "firing")), len(self._notified(event, "resolved"))

    def _notified(self, event: Event, status: str) -> list[float]:
        """Return when the pager was notified of the event, in seconds since the epoch."""
        offset = time.time() - time.monotonic()
        return [each.at + offset for each in notifications(self._receiver, status) if group(each) == event.event_id]

    def _notified_while_stopping(self, event: Event, status: str) -> int:
        """Return how many notifications Alertmanager was not able to record."""
        return sum(
            run.ended - self._recording < at <= run.gone
            for at in self._notified(event, status)
            for run in self._alertmanager
        )

    def _had_time(self, event: Event) -> bool:
        """Return whether exporter and Alertmanager were up together for long enough while the event lasted."""
        for exporter in event.runs:
            for alertmanager in self._alertmanager:
                ready = max(exporter.began, event.begin)
                together = min(exporter.ended, alertmanager.ended, event.end) - max(ready, alertmanager.began)
                if together > self._prompt + (_RETRY_SECONDS if alertmanager.began > ready else 0.0):
                    return True
        return False

    def _story(self, event: Event) -> list[str]:
        """Return all that is known about the event, in order."""
        moments = [(each.at, f"simulator: {each.what}") for each in event.happenings]
        for name, runs in (("the exporter", event.runs), ("Alertmanager", self._alertmanager)):
            for run in runs:
                moments += [(run.began, f"{name} listens"), (run.ended, f"{name} is told to end")]
                moments += [(_time(line), line) for line in run.lines(event.event_id)]
        moments += [(_time(line), line) for run in event.runs for line in run.lines("Alertmanager")]
        for status in ("firing", "resolved"):
            moments += [(at, f"the pager is notified: {status}") for at in self._notified(event, status)]
        return [
            f"{datetime.fromtimestamp(at, UTC):%H:%M:%S.%f} {what}"
            for at, what in sorted(set(moments))
            if event.begin - 5 < at < event.end + 30
        ]


def notifications(receiver: Receiver, status: str) -> list[Notification]:
    """Return the notifications of events that are ``firing`` or ``resolved``."""
    return [each for each in receiver.webhooks() if each.body["status"] == status and group(each)]


def group(notification: Notification) -> str:
    """Return the id of the event that it is about; "" if it is about something else."""
    return str(notification.body["groupLabels"].get("event_id", ""))


def _time(line: str) -> float:
    """Return the time of a line of log, in seconds since the epoch."""
    found = re.search(r"\bts=(\S+)", line)
    assert found, line
    return datetime.fromisoformat(found[1]).timestamp()
