"""The journal's tables: whatever is written comes back, is counted once, and is forgotten without being uncounted."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import fields, replace
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from azure_scheduled_events_exporter.core.document import Document, ScheduledEvent, Scope
from azure_scheduled_events_exporter.core.lifecycle import (
    REMEMBERED_ENDS,
    Change,
    Lifecycle,
    Lifecycles,
    Move,
    State,
    Transition,
)
from azure_scheduled_events_exporter.core.observation import ObservationContext, observe
from azure_scheduled_events_exporter.core.pause import ClockSample
from azure_scheduled_events_exporter.core.records import Record, change_record
from azure_scheduled_events_exporter.core.spans import SpanFacts
from azure_scheduled_events_exporter.core.statistics import Statistics, measure
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.journal.approval_requests import ApprovalRequest
from azure_scheduled_events_exporter.journal.files import read_only
from azure_scheduled_events_exporter.journal.schema import MIGRATIONS, SCHEMA_VERSION
from azure_scheduled_events_exporter.journal.store import APPLICATION_ID, Entry, QueuedSpan, Restored, Store
from support.paths import DATA

PATIENCE = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # the machine may be busy
FINITE = st.floats(min_value=-4e9, max_value=4e9)


def of_every_field(kind: type[Any]) -> st.SearchStrategy[Any]:
    """Values of a dataclass with every field drawn by its type: a field that is added later is tried too."""
    hints = get_type_hints(kind)
    return st.builds(kind, **{field.name: of(hints[field.name]) for field in fields(kind)})


def of(hint: Any) -> st.SearchStrategy[Any]:  # noqa: ANN401 - a type hint is no type
    """Values of one type; numbers are finite, as those of every document and clock are."""
    if isinstance(hint, UnionType):
        return st.one_of([of(each) for each in get_args(hint)])
    if hint is int:
        return st.integers(0, 1_000_000)
    if hint is float:
        return FINITE
    if get_origin(hint) is tuple:
        return st.lists(of(get_args(hint)[0]), max_size=3).map(tuple)
    if hint in {Timestamp, ScheduledEvent, Move}:
        return of_every_field(hint)
    return st.from_type(hint)


LIVES = st.lists(of_every_field(Lifecycle), max_size=5, unique_by=lambda life: life.event_id)
SPANS = st.builds(
    SpanFacts,
    trace_id=st.just("f" * 32),
    span_id=st.text("0123456789abcdef", min_size=16, max_size=16),
    parent_id=st.sampled_from(["", "0123456789abcdef"]),
    name=st.text(),
    start=FINITE,
    end=FINITE,
    attributes=st.dictionaries(st.text(), st.text() | FINITE | st.lists(st.text()).map(tuple), max_size=3),
)
EVENTS = st.builds(
    ScheduledEvent,
    event_id=st.sampled_from(["A", "B", "C", "Ü\n'\"", "C7061BAC-AFDC-4513-B24B-AA5F13A16123"]),
    event_type=st.sampled_from(["Freeze", "Reboot", "New\n"]),
    source=st.sampled_from(["Platform", ""]),
)
CHANGES = st.lists(
    st.builds(
        Change,
        transition=of(Transition),
        lifecycle=st.builds(replace, of_every_field(Lifecycle), event=EVENTS),
        at=st.builds(Timestamp, wall=st.integers(0, 1000).map(float)),
    ),
    max_size=12,
)


def in_order(changes: list[Change]) -> list[Change]:
    """Return ``changes`` by their time, as a clock that goes forward writes them."""
    return sorted(changes, key=lambda change: change.at.wall)


def kept(store: Store) -> list[Record]:
    """Return every transition as it was recorded."""
    return [record for _, record in store.transitions(0, -1)]


def spans_of(store: Store) -> list[SpanFacts]:
    """Return every span that waits, the newest first."""
    return [queued.span for queued in store.queued_spans(-1)]


def fresh() -> Store:
    """Return empty tables in memory."""
    return Store(sqlite3.connect(":memory:"))


def life(event_id: str, *, first_seen: float = 0.0, ended: float | None = None) -> Lifecycle:
    """Return a life, completed if it has ended."""
    return Lifecycle(
        event=ScheduledEvent(event_id),
        state=State.STARTED,
        scope=Scope.SELF,
        first_seen=Timestamp(first_seen),
        outcome=None if ended is None else Transition.COMPLETED,
        ended_at=None if ended is None else Timestamp(ended),
    )


def span(name: str, start: float = 0.0) -> SpanFacts:
    """Return a span; two of one name are the same span."""
    return SpanFacts("f" * 32, f"{name:0>16}", "", name, start, start + 1)


@pytest.fixture
def store() -> Iterator[Store]:
    """Empty tables."""
    with closing(fresh()) as made:
        yield made


class TestRoundTrip:
    """Written values are read back unchanged."""

    @PATIENCE
    @given(LIVES)
    def test_every_life(self, lives: list[Lifecycle]) -> None:
        """A life read back is equal in every field, the oldest first."""
        with closing(fresh()) as store:
            store.record(Entry(lives=lives))
            assert sorted(store.history(), key=lambda each: each.event_id) == sorted(lives, key=lambda e: e.event_id)
            walls = [each.first_seen.wall for each in store.history()]
            assert walls == sorted(walls)

    @PATIENCE
    @given(st.lists(SPANS, max_size=5, unique_by=lambda each: each.span_id))
    def test_every_span(self, spans: list[SpanFacts]) -> None:
        """A span read back is equal, with texts, numbers and lists among its attributes."""
        with closing(fresh()) as store:
            store.record(Entry(spans=spans))
            assert spans_of(store) == spans[::-1]

    @PATIENCE
    @given(CHANGES)
    def test_every_transition(self, changes: list[Change]) -> None:
        """Transitions come back in their order, and add up to the same counters and histograms."""
        with closing(fresh()) as store:
            for change in changes:
                store.record(Entry(changes=[change]))
            assert kept(store) == [change_record(change) for change in changes]
            assert store.restore().statistics == Statistics().plus(map(measure, changes))

    @PATIENCE
    @given(CHANGES, LIVES)
    def test_every_tally(self, changes: list[Change], lives: list[Lifecycle]) -> None:
        """The sum that a fresh file begins with comes back, series that are 0 included, and so do all lives."""
        with closing(fresh()) as store:
            assert store.is_empty()
            whole = Restored(
                Lifecycles({life.event_id: life for life in lives}), Statistics().plus(map(measure, changes))
            )
            store.begin_with(whole, Entry())
            assert not store.is_empty()
            assert store.restore().statistics == whole.statistics
            assert list(store.history()) == sorted(lives, key=lambda each: (each.first_seen.wall, each.event_id))

    def test_open_and_ended_lives(self, store: Store) -> None:
        """Open lives are current again; ended ones are remembered whole, in case they return."""
        store.record(Entry(lives=[life("OPEN"), life("ENDED", ended=5.0)]))
        lifecycles = store.restore().lifecycles
        assert list(lifecycles.current.values()) == [life("OPEN")]
        assert lifecycles.ended == {"ENDED": life("ENDED", ended=5.0)}

    def test_a_life_is_replaced_by_its_next_form(self, store: Store) -> None:
        """The history has each event once, in its last state."""
        store.record(Entry(lives=[life("A")]))
        store.record(Entry(lives=[life("A", ended=5.0)]))
        assert list(store.history()) == [life("A", ended=5.0)]
        assert store.restore().lifecycles.current == {}

    def test_the_oldest_ends_are_forgotten_first(self, store: Store) -> None:
        """Of very many ended events the newest are remembered, in their order."""
        store.record(Entry(lives=[life(f"E{n}", ended=float(n)) for n in range(1500)]))
        assert list(store.restore().lifecycles.ended) == [f"E{n}" for n in range(1500 - REMEMBERED_ENDS, 1500)]

    def test_a_failed_entry_leaves_nothing(self, store: Store) -> None:
        """An entry is written whole or not at all."""
        seen = Change(Transition.DETECTED, life("A"), Timestamp(0.0))
        nameless = life(None)  # type: ignore[arg-type]
        with pytest.raises(sqlite3.IntegrityError):
            store.record(Entry([seen], [life("A"), nameless], [span("a")]))
        assert store.is_empty()
        assert store.spans_queued() == 0


class TestSpans:
    """The spans that wait for delivery."""

    def test_the_newest_first_and_no_more_than_asked_for(self, store: Store) -> None:
        """A backlog does not delay the newest spans."""
        for name in "abcde":
            store.record(Entry(spans=[span(name)]))
        assert [each.span.name for each in store.queued_spans(2)] == ["e", "d"]
        assert store.spans_queued() == 5

    def test_struck_off(self, store: Store) -> None:
        """A delivered span waits no longer; one that is gone already is no error."""
        store.record(Entry(spans=[span("a"), span("b")]))
        waiting = store.queued_spans(-1)
        store.remove_spans([waiting[-1], QueuedSpan(99, span("never there"))])
        assert [each.name for each in spans_of(store)] == ["b"]
        assert store.spans_queued() == 1

    def test_told_again(self, store: Store) -> None:
        """A span that is added again replaces the earlier one and gets a new number."""
        store.record(Entry(spans=[span("a"), span("b")]))
        store.record(Entry(spans=[span("a", 7.0)]))
        assert spans_of(store) == [span("a", 7.0), span("b")]

    def test_replaced_in_flight(self, store: Store) -> None:
        """A span that is replaced while its older form is being sent still waits."""
        store.record(Entry(spans=[span("a")]))
        in_flight = store.queued_spans(-1)
        store.record(Entry(spans=[span("a", 7.0)]))
        store.remove_spans(in_flight)
        assert spans_of(store) == [span("a", 7.0)]

    def test_set_aside(self, store: Store) -> None:
        """A refused span leaves the queue until it is queued again, and a newer version of it waits."""
        store.record(Entry(spans=[span("a"), span("b")]))
        in_flight = store.queued_spans(-1)
        store.record(Entry(spans=[span("b", 7.0)]))
        store.set_spans_aside(in_flight, 5.0)
        assert spans_of(store) == [span("b", 7.0)]
        assert store.spans_queued() == 1
        store.requeue_spans()
        assert spans_of(store) == [span("b", 7.0), span("a")]


class TestPrune:
    """Retention."""

    @PATIENCE
    @given(CHANGES.map(in_order), st.lists(st.integers(0, 1100), max_size=3))
    def test_lets_no_counter_fall(self, changes: list[Change], cuts: list[int]) -> None:
        """Pruning at any point does not change counters and histograms."""
        with closing(fresh()) as store:
            for change in changes:
                store.record(Entry(changes=[change]))
            statistics = store.restore().statistics
            for cut in cuts:
                store.prune(float(cut))
                assert store.restore().statistics == statistics
            left = [change for change in changes if change.at.wall >= max([0, *cuts])]
            assert kept(store) == [change_record(change) for change in left]

    def test_forgets_what_has_ended_long_ago(self, store: Store) -> None:
        """Old ends leave the history; an open life stays however old it is, and so do undelivered spans."""
        store.record(Entry(lives=[life("OLD", ended=5.0), life("NEW", ended=50.0), life("OPEN")], spans=[span("a")]))
        store.prune(10.0)
        assert {each.event_id for each in store.history()} == {"NEW", "OPEN"}
        assert store.spans_queued() == 1

    def test_forgets_what_was_refused_long_ago(self, store: Store) -> None:
        """A refused span stays for the retention after its first refusal, however often it is sent again."""
        for name, wall in (("old", 5.0), ("new", 50.0)):
            store.record(Entry(spans=[span(name)]))
            store.set_spans_aside(store.queued_spans(-1), wall)
        store.requeue_spans()
        store.set_spans_aside(store.queued_spans(-1), 60.0)
        store.prune(10.0)
        store.requeue_spans()
        assert [each.name for each in spans_of(store)] == ["new"]


class TestSign:
    """The last sign of life of a run."""

    def test_the_last_one_stands(self, store: Store) -> None:
        """A sign replaces the one before, comes back as it was, and is gone when it is taken away."""
        assert store.last_heartbeat() is None
        for wall in (1.0, 2.0):
            store.record_heartbeat(ClockSample(wall, 3.0, 4.0, "boot-1"))
        assert store.last_heartbeat() == ClockSample(2.0, 3.0, 4.0, "boot-1")
        assert store.is_empty()
        store.record_heartbeat(None)
        assert store.last_heartbeat() is None


class TestTakeOver:
    """A disk that works again gets the entries from memory."""

    def test_lives_and_spans_come_along(self, store: Store) -> None:
        """Lives are as memory has them last, and spans wait behind those that waited already."""
        store.record(Entry(lives=[life("A"), life("B")], spans=[span("old")]))
        with closing(fresh()) as memory:
            memory.record(Entry(lives=[life("A", ended=9.0), life("C")], spans=[span("x")]))
            memory.record(Entry(spans=[span("y")]))
            store.merge(memory)
        assert list(store.history()) == [life("A", ended=9.0), life("B"), life("C")]
        assert [each.name for each in spans_of(store)] == ["y", "x", "old"]

    def test_refused_spans_come_along(self, store: Store) -> None:
        """A span that was refused while the disk did not work is not lost."""
        with closing(fresh()) as memory:
            memory.record(Entry(spans=[span("x")]))
            memory.set_spans_aside(memory.queued_spans(-1), 5.0)
            store.merge(memory)
        assert [each.name for each in spans_of(store)] == ["x"]


class TestSchema:
    """A file brings its version along."""

    def test_an_empty_file_becomes_a_journal(self, tmp_path: Path) -> None:
        """A file of 0 bytes, version 0, is brought up to date and marked as ours."""
        path = tmp_path / "j"
        path.touch()
        with closing(Store(sqlite3.connect(path))) as store:
            store.record(Entry(lives=[life("A")]))
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
            assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
        with closing(Store(sqlite3.connect(path))) as store:
            assert list(store.history()) == [life("A")]

    def test_a_migration_that_was_cut_off_begins_again(self, tmp_path: Path) -> None:
        """A file in which making the tables failed half-way is no half journal afterwards."""
        path = tmp_path / "j"
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA max_page_count = 3")
            with pytest.raises(sqlite3.OperationalError, match="full"):
                Store(connection)
        with closing(Store(sqlite3.connect(path))) as store:
            store.record(Entry(lives=[life("A")]))
            assert list(store.history()) == [life("A")]

    def test_a_request_of_an_older_version(self, tmp_path: Path) -> None:
        """A request to approve from before requests had VMs and types can be read, and is valid for all of them."""
        path = tmp_path / "j"
        with closing(sqlite3.connect(path)) as connection:
            for step in range(1, 7):
                connection.executescript(MIGRATIONS[step])
            connection.execute(
                "INSERT INTO approval_requests (event_id, operator, created, not_before, expires) "
                "VALUES ('A', 'me', 1, 2, 3)"
            )
            connection.execute("PRAGMA user_version = 6")
            connection.commit()
        with closing(Store(sqlite3.connect(path))) as store:
            store.requests.add([life("B")], "me", 4, 5)
            assert store.requests.open() == [
                ApprovalRequest(1, "A", "me", 1, 2, 3, None),
                ApprovalRequest(2, "B", "me", 4, None, 5, (), life("B").event.event_type, None),
            ]

    @pytest.fixture
    def first_schema(self, tmp_path: Path) -> Path:
        """A journal that the first schema's own code wrote."""
        path = tmp_path / "journal.sqlite"
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript((DATA / "journals" / "schema-1.sql").read_text())
        return path

    def test_histograms_of_an_old_journal_leave_out_other_vms(self, first_schema: Path) -> None:
        """Rows about an event of another VM are counted as transitions, but no longer in the histograms."""

        def counted() -> tuple[int, int]:
            with closing(Store(sqlite3.connect(first_schema))) as store:
                statistics = store.restore().statistics
            notices = sum(sum(histogram.counts) for histogram in statistics.notice.values())
            return sum(statistics.transitions.values()), notices

        with closing(sqlite3.connect(first_schema)) as connection, connection:
            (detected,) = connection.execute(
                "SELECT count(*) FROM transitions WHERE event_id = 'DONE' AND notice IS NOT NULL"
            ).fetchone()
            connection.execute("UPDATE transitions SET scope = 'peer' WHERE event_id = 'DONE'")
        assert detected == 1
        transitions, notices = counted()
        with closing(sqlite3.connect(first_schema)) as connection, connection:
            connection.execute("UPDATE transitions SET scope = 'self' WHERE event_id = 'DONE'")
        assert counted() == (transitions, notices + 1)

    def test_a_journal_of_the_first_schema(self, first_schema: Path) -> None:
        """Brought up to date, it has lost nothing: lives, counters, histograms, spans; and takes a pause."""
        with closing(Store(sqlite3.connect(first_schema))) as store:
            before = store.restore()
            assert [one.event_id for one in before.recent] == ["DONE"]
            (started,) = before.lifecycles.current.values()
            assert (started.event_id, started.state, started.observed_pause) == ("OPEN", State.STARTED, None)
            assert store.last_heartbeat() is None
            assert [seq for seq, _ in store.transitions(0, -1)] == [4, 5, 6, 7, 8]
            assert {one.name for one in spans_of(store)} == {"detected", "scheduled", "approval"}
            counted = {key[0::3]: count for key, count in before.statistics.transitions.items() if count}
            assert counted == {
                ("Freeze", "detected"): 2,
                ("Freeze", "started"): 2,
                ("Freeze", "completed"): 2,
                ("Reboot", "detected"): 1,
                ("Reboot", "started"): 1,
            }
            assert before.statistics.phases["Freeze", "started"].total == 660
            assert before.statistics.approval_latency["Freeze", "deadline"].counts == (0, 0, 0, 2, 0, 0)
            assert not before.statistics.pauses
            done = replace(started, outcome=Transition.COMPLETED, ended_at=Timestamp(1.8e9), observed_pause=42.0)
            change = Change(Transition.COMPLETED, done, Timestamp(1.8e9))
            store.record(Entry([change], [done]))
            assert store.restore().statistics == before.statistics.plus([measure(change)])
        with closing(Store(sqlite3.connect(first_schema))) as store:
            assert store.restore().statistics.pauses["Reboot",].total == 42.0

    def test_the_first_schema_is_read_as_it_is(self, first_schema: Path) -> None:
        """A reader beside an exporter of the version before sees its journal, and leaves it alone."""
        before = first_schema.read_bytes()
        with closing(read_only(first_schema)) as store:
            assert [one.event_id for one in store.history()] == ["DONE", "OPEN"]
            assert set(store.current()) == {"OPEN"}
            assert len(store.transitions(0, -1)) == 5
            assert store.last_number() == 8
            assert {one.name for one in spans_of(store)} == {"detected", "scheduled", "approval"}
        assert first_schema.read_bytes() == before


def test_what_is_kept_in_memory_is_bounded_and_counts_on() -> None:
    """A journal without a file forgets old transitions and ended lives, and no counter falls."""
    with closing(fresh()) as store:
        known = Lifecycles()
        for number in range(60):
            for events in ((ScheduledEvent(f"E{number}", "Reboot", "Started", resources=("vm",)),), ()):
                known, changes = observe(known, Document(number, events), ObservationContext(Timestamp(number), "vm"))
                store.record(Entry(changes, [change.lifecycle for change in changes]))
        before = store.restore().statistics
        store.keep_newest(30)
        assert len(store.transitions(0, -1)) == 30
        assert len(list(store.history())) == 10
        assert store.restore().statistics == before
