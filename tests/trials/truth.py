"""Compares what really happened, by the simulator's record, with what the exporter reports."""

import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from azure_scheduled_events_exporter.journal.access import read_only
from azure_scheduled_events_exporter.journal.disk.location import file_path
from azure_scheduled_events_exporter.simulator import Simulator, What
from support.programs import Scrape

Transition = tuple[str, str]
"""An EventId, and the name of a transition of this event."""

ENDS = {"completed", "cancelled", "lost"}
RETURNED = "returned"
MARGIN = 0.25  # seconds that an answer may be older or younger than the arrival of its request
_ORDER = ["detected", "rescheduled", "approved", "started", "completed", "cancelled", "lost"]


@dataclass
class Truth:
    """The simulator's record of one event; IMPACT and REBOOTED are not states, so no transition
    belongs to them.
    """

    moments: dict[What, float] = field(default_factory=dict)

    @property
    def shown(self) -> tuple[float, float]:
        """From when to when it was in the document."""
        end = self.moments.get(What.COMPLETED, self.moments.get(What.CANCELLED, float("inf")))
        return self.moments[What.ANNOUNCED], end

    @property
    def started(self) -> tuple[float, float]:
        """From when to when it was Started in the document; never, if it was not."""
        begin = self.moments.get(What.STARTED, float("inf"))
        return begin, self.moments.get(What.COMPLETED, begin)


@dataclass
class Record:
    """A complete copy of the simulator's record, which keeps only the newest entries; ``requests``
    of every kind.
    """

    simulator: Simulator
    truth: dict[str, Truth] = field(default_factory=dict)
    polls: list[float] = field(default_factory=list)
    requests: list[float] = field(default_factory=list)

    def takes_note(self) -> None:
        """Copy new entries."""
        for happening in self.simulator.record:
            self.truth.setdefault(happening.event_id, Truth()).moments.setdefault(
                happening.what, happening.at
            )
        last = self.requests[-1] if self.requests else 0.0
        new = [request for request in self.simulator.requests if request.at > last]
        self.requests += [request.at for request in new]
        self.polls += [request.at for request in new if request.path.endswith("scheduledevents")]


@dataclass
class Polls:
    """When the exporter polled, on the simulator's clock: ``all`` of it, and what it has surely
    taken in.
    """

    all: Sequence[float]
    taken_in: Sequence[float]


def transitions_in(journal: Path) -> list[Transition]:
    """Return the transitions that the journal holds, the oldest first."""
    store = read_only(journal)
    try:
        return [
            (str(record["event_id"]), str(record["transition"]))
            for _, record in store.transitions(0, -1)
        ]
    finally:
        store.close()


def polled(polls: Sequence[float], begin: float, end: float, margin: float) -> bool:
    """Return whether any poll fell between ``begin`` and ``end``, each ``margin`` further in."""
    return any(begin + margin < at < end - margin for at in polls)


def check_file(journal: Path, set_aside: int = 0) -> None:
    """The file is sound, and so many were set aside."""
    folder = file_path(journal).parent
    names = sorted(
        path.name
        for path in folder.iterdir()
        if "set-aside" in path.name and path.suffix != ".documents"
    )
    assert len({name.removesuffix("-wal").removesuffix("-shm") for name in names}) == set_aside, (
        names
    )
    with closing(sqlite3.connect(file_path(journal))) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def check_counters(rows: Sequence[Transition], scrape: Scrape) -> None:
    """What Prometheus sees is what the journal holds."""
    assert scrape.transitions() == Counter(transition for _, transition in rows)
    assert scrape.value("journal_up") == 1
    assert scrape.value("journal_errors_total") == 0


def by_event(rows: Sequence[Transition]) -> dict[str, list[str]]:
    """Return the transitions of each event, in their order."""
    found: dict[str, list[str]] = {}
    for event_id, transition in rows:
        found.setdefault(event_id, []).append(transition)
    return found


def check_rows(rows: Sequence[Transition]) -> None:
    """Each event has one beginning, one end more than it returned, nothing else twice, and nothing
    out of order.
    """
    again = [
        row for row, count in Counter(rows).items() if count > 1 and row[1] not in {*ENDS, RETURNED}
    ]
    assert again == [], "transitions reported more than once"
    for event_id, transitions in by_event(rows).items():
        assert transitions[0] == "detected", (event_id, transitions)
        parts: list[list[str]] = [[]]
        for transition in transitions:
            if transition == RETURNED:
                parts.append([])
            else:
                parts[-1].append(transition)
        for part in parts:  # from a beginning or a return to an end
            assert part == sorted(part, key=_ORDER.index), (event_id, transitions)
            assert len(ENDS.intersection(part)) == 1, (event_id, transitions)


def check_truth(rows: Sequence[Transition], truths: Mapping[str, Truth], polls: Polls) -> None:
    """Check that every report happened, and that everything that can have been seen is reported."""
    known = by_event(rows)
    assert known.keys() <= truths.keys()
    for event_id, truth in truths.items():
        check_event(event_id, set(known.get(event_id, ())), truth, polls)


def check_event(event_id: str, known: set[str], truth: Truth, polls: Polls) -> None:
    """Check one event."""
    begin, end = truth.shown
    near = {name: [at for at in each if begin < at < end] for name, each in vars(polls).items()}
    what = (
        f"{event_id} is reported as {known}; it happened at {truth.moments}; polls while it was"
        f" shown: {near}"
    )
    if polled(polls.taken_in, *truth.shown, MARGIN):
        assert "detected" in known, what
    elif not polled(polls.all, *truth.shown, -MARGIN):
        assert known == set(), what
    if polled(polls.taken_in, *truth.started, MARGIN):
        assert {"started", "completed"} <= known, what
    if "started" in known:
        assert What.STARTED in truth.moments, what
    if "completed" in known:
        assert "started" in known, what
        assert What.COMPLETED in truth.moments, what
    if "cancelled" in known:
        assert What.CANCELLED in truth.moments, what
    if "rescheduled" in known:
        assert What.RESCHEDULED in truth.moments, what
