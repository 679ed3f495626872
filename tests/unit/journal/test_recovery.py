"""Two records of one event are joined into what one exporter with a disk would have written."""

import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field, replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from azure_scheduled_events_exporter.core.approvals import mark_approved
from azure_scheduled_events_exporter.core.document import Document, EventStatus, ScheduledEvent
from azure_scheduled_events_exporter.core.lifecycle import Approver, Change, Lifecycles
from azure_scheduled_events_exporter.core.observation import ObservationContext, observe
from azure_scheduled_events_exporter.core.statistics import Statistics, measure
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.journal.store import Entry, Store
from azure_scheduled_events_exporter.times import iso_time

VM = "vmss_0"
START = 1_700_000_000.0
ENDS = {"completed", "cancelled", "lost"}
STATUSES = {"s": EventStatus.SCHEDULED, "S": EventStatus.STARTED}
DOCUMENTS = st.lists(st.dictionaries(st.sampled_from("AB"), st.sampled_from("sS")), min_size=1, max_size=10)


@dataclass
class Observer:
    """What an exporter does with the documents it sees: it observes and records."""

    stores: list[Store]
    known: Lifecycles = field(default_factory=Lifecycles)
    detected: list[Change] = field(default_factory=list)
    ahead: int = 0
    """Seconds by which the wall clock has been set forward."""

    def sees(self, second: int, document: dict[str, str]) -> None:
        """Observe ``document``, a status by EventId, and write what is new to every store."""
        now = Timestamp(START + second + self.ahead, 1000.0 + second, "boot")
        events = tuple(
            ScheduledEvent(name, "Reboot", STATUSES[status], "Platform", (VM,), START + 900)
            for name, status in sorted(document.items())
        )
        before = self.known.current
        self.known, changes = observe(self.known, Document(second, events), ObservationContext(now, VM))
        new = [life for name, life in self.known.current.items() if life != before.get(name)]
        ended = [change.lifecycle for change in changes if change.lifecycle.outcome]
        for store in self.stores:
            store.record(Entry(changes, [*new, *ended]))
        self.detected += [change for change in changes if change.transition == "detected"]


def fresh() -> Store:
    """Return empty tables in memory."""
    return Store(sqlite3.connect(":memory:"))


def transitions(store: Store) -> list[tuple[str, str]]:
    """Return EventId and transition of every row."""
    return [(str(record["event_id"]), str(record["transition"])) for _, record in store.transitions(0, -1)]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(DOCUMENTS, st.integers(0, 10), st.integers(0, 2))
def test_memory_that_went_on(documents: list[dict[str, str]], cut: int, both: int) -> None:
    """Entries kept while the disk failed are on it afterwards, without duplicates."""
    with closing(fresh()) as whole, closing(fresh()) as disk, closing(fresh()) as memory:
        observer = Observer([whole, disk])
        for second, document in enumerate(documents):
            if second == cut:
                observer.stores = [whole, disk, memory]  # a commit that failed after it was written
            if second >= cut + both:
                observer.stores = [whole, memory]
            observer.sees(second, document)
        disk.merge(memory)
        assert disk.transitions(0, -1) == whole.transitions(0, -1)
        assert list(disk.history()) == list(whole.history())
        assert disk.restore().statistics == whole.restore().statistics


def test_memory_that_went_on_while_the_clock_was_set() -> None:
    """Durations stay as the monotonic clock measured them."""
    with closing(fresh()) as whole, closing(fresh()) as disk, closing(fresh()) as memory:
        observer = Observer([whole, disk])
        observer.sees(0, {"A": "s"})
        observer.stores, observer.ahead = [whole, memory], 3600
        observer.sees(905, {"A": "S"})
        observer.sees(965, {})
        disk.merge(memory)
        assert disk.restore().statistics == whole.restore().statistics


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(DOCUMENTS, st.integers(0, 10))
def test_memory_that_began_without_the_disk(documents: list[dict[str, str]], cut: int) -> None:
    """An event is detected once, ends once more than it returned, is over if the last document says so, and counts."""
    with closing(fresh()) as disk, closing(fresh()) as memory:
        observer = Observer([disk])
        for second, document in enumerate(documents):
            if second == cut:
                observer = Observer([memory])
            observer.sees(second, document)
        disk.merge(memory)
        rows = transitions(disk)
        current = set(documents[-1])
        if cut < len(documents):
            seen = {name for document in documents[cut:] for name in document}
            current |= {name for name in disk.current() if name not in seen}  # memory never knew of it
        for name in {event_id for event_id, _ in rows}:
            counts = Counter(transition for event_id, transition in rows if event_id == name)
            ends = sum(counts[end] for end in ENDS)
            assert counts["detected"] == 1
            assert counts["approved"] <= 1
            assert counts["started"] <= 1
            assert ends == counts["returned"] + (name not in current), (rows, current)
        assert set(disk.current()) == current
        assert sum(disk.restore().statistics.transitions.values()) == len(rows)


def test_an_event_that_returned_while_the_disk_was_away() -> None:
    """An event that the disk knows as over, and that an exporter without the disk detects again, has returned."""
    with closing(fresh()) as disk, closing(fresh()) as memory:
        first = Observer([disk])
        first.sees(0, {"A": "s"})
        first.sees(10, {})
        second = Observer([memory])
        second.sees(20, {"A": "s"})
        disk.merge(memory)
        assert transitions(disk) == [("A", "detected"), ("A", "cancelled"), ("A", "returned")]
        life = disk.current()["A"]
        assert (life.first_seen.wall, str(life.wrong_end)) == (START, "cancelled")
        (record,) = [record for _, record in disk.transitions(2, -1)]
        assert record["first_seen"] == iso_time(START)
        assert disk.restore().statistics.notice == Statistics().plus(map(measure, first.detected)).notice


def test_a_phase_is_counted_once() -> None:
    """An event that returned, and ends while the disk is away, adds no phase that its first end has counted."""
    with closing(fresh()) as disk, closing(fresh()) as memory:
        first = Observer([disk])
        for second, document in ((0, {"A": "s"}), (10, {"A": "S"}), (20, {}), (30, {"A": "S"})):
            first.sees(second, document)
        assert [each[1] for each in transitions(disk)] == ["detected", "approved", "started", "completed", "returned"]
        later = Observer([memory])
        later.sees(40, {"A": "S"})
        later.sees(50, {})
        disk.merge(memory)
        assert [each[1] for each in transitions(disk)][-1:] == ["completed"]
        phases = disk.restore().statistics.phases
        assert {key[1]: sum(histogram.counts) for key, histogram in phases.items()} == {"scheduled": 1, "started": 1}


def test_an_approval_that_is_only_on_disk() -> None:
    """An event whose approval was accepted before the disk went away can be approved again once it is postponed."""
    with closing(fresh()) as disk, closing(fresh()) as memory:
        first = Observer([disk])
        first.sees(0, {"A": "s"})
        known, changes = mark_approved(first.known, ["A"], Approver.EXPORTER, Timestamp(START + 5, 1005.0, "boot"))
        disk.record(Entry(changes, list(known.current.values())))
        second = Observer([memory])
        second.sees(20, {"A": "s"})
        disk.merge(memory)
        life = disk.current()["A"]
        assert (life.approved_by, life.approved_not_before) == (Approver.EXPORTER, START + 900)
        assert replace(life, not_before=START + 5000).is_open_to_approval
