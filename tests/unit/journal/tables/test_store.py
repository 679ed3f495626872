"""The journal's tables: whatever is written comes back, is counted once, and is forgotten without
being uncounted.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import fields, replace
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from azure_scheduled_events_exporter.core.bounds import MOST_OWN
from azure_scheduled_events_exporter.core.document import ScheduledEvent, Scope
from azure_scheduled_events_exporter.core.impact import Impact, Readings, Tcp
from azure_scheduled_events_exporter.core.lifecycle import (
    REMEMBERED_ENDS,
    Approval,
    Change,
    Lifecycle,
    Move,
    State,
    Transition,
)
from azure_scheduled_events_exporter.core.records import Record, change_record
from azure_scheduled_events_exporter.core.spans import SpanFacts
from azure_scheduled_events_exporter.core.statistics import Statistics
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.journal.access import writable
from azure_scheduled_events_exporter.journal.content.codec import decode
from azure_scheduled_events_exporter.journal.content.entries import EndedSpan, Expiry, entries_of
from azure_scheduled_events_exporter.journal.content.inbox import ApprovalRequest
from azure_scheduled_events_exporter.journal.tables.store import Store
from support.events.lives import SCHEDULED, Watch, at

# The machine may be busy.
PATIENCE = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
FINITE = st.floats(min_value=-4e9, max_value=4e9)
EVERYTHING = -1  # as SQLite's LIMIT: all rows


def of_every_field(kind: type[Any]) -> st.SearchStrategy[Any]:
    """Values of a dataclass with every field drawn by its type: a field that is added later is
    tried too.
    """
    hints = get_type_hints(kind)
    return st.builds(kind, **{field.name: values_of(hints[field.name]) for field in fields(kind)})


def values_of(hint: Any) -> st.SearchStrategy[Any]:
    """Values of one type; numbers are finite, as those of every document and clock are."""
    if isinstance(hint, UnionType):
        return st.one_of([values_of(each) for each in get_args(hint)])
    if hint is int:
        return st.integers(0, 1_000_000)
    if hint is float:
        return FINITE
    if get_origin(hint) is tuple:
        return st.lists(values_of(get_args(hint)[0]), max_size=3).map(tuple)
    if hint in {Approval, Timestamp, ScheduledEvent, Move, Impact, Readings, Tcp}:
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
    attributes=st.dictionaries(
        st.text(), st.text() | FINITE | st.lists(st.text()).map(tuple), max_size=3
    ),
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
        transition=values_of(Transition),
        lifecycle=st.builds(replace, of_every_field(Lifecycle), event=EVENTS),
        at=st.builds(Timestamp, wall=st.integers(0, 1000).map(float)),
    ),
    max_size=12,
)


def in_order(changes: list[Change]) -> list[Change]:
    """Return ``changes`` by their time, as a clock that goes forward writes them."""
    return sorted(changes, key=lambda change: change.at.wall)


def records_of(store: Store) -> list[Record]:
    """Return every transition as it was recorded."""
    return [record for _, record in store.transitions(0, EVERYTHING)]


def spans_of(store: Store) -> list[SpanFacts]:
    """Return every span that waits, the newest first."""
    return [decode(SpanFacts, text) for _, text in store.queued_spans(EVERYTHING)]


def empty_store() -> Store:
    """Return empty tables in memory."""
    return Store(sqlite3.connect(":memory:"), writes=True)


def write(
    store: Store,
    changes: Sequence[Change] = (),
    lives: Sequence[Lifecycle] = (),
    spans: Sequence[SpanFacts] = (),
) -> None:
    """Write one entry as the journal's thread does."""
    before = store.restore()
    rows = list(entries_of(before.last_number, changes, lives, spans))
    number = before.last_number + len(changes)
    store.write(
        rows, replace(before, statistics=before.statistics.plus(changes), last_number=number)
    )


def remove_spans(store: Store, spans: list[tuple[str, str]]) -> None:
    """Remove delivered spans, given by id and text; one whose text has changed meanwhile stays."""
    store.write([EndedSpan(*span) for span in spans], store.restore())


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
    with closing(empty_store()) as made:
        yield made


class TestRoundTrip:
    """Written values are read back unchanged."""

    @PATIENCE
    @given(LIVES)
    def test_every_life(self, lives: list[Lifecycle]) -> None:
        """A life read back is equal in every field, the oldest first."""
        with closing(empty_store()) as store:
            write(store, lives=lives)
            found = list(store.history())
            assert len(found) == len(lives)
            assert {each.event_id: each for each in found} == {
                each.event_id: each for each in lives
            }
            first_seen = [each.first_seen.wall for each in found]
            assert first_seen == sorted(first_seen)

    @PATIENCE
    @given(st.lists(SPANS, max_size=5, unique_by=lambda each: each.span_id))
    def test_every_span(self, spans: list[SpanFacts]) -> None:
        """A span read back is equal, with texts, numbers and lists among its attributes; once
        delivered, it is gone.
        """
        with closing(empty_store()) as store:
            write(store, spans=spans)
            assert spans_of(store) == spans[::-1]
            remove_spans(store, store.queued_spans(EVERYTHING))
            assert spans_of(store) == []

    @PATIENCE
    @given(CHANGES)
    def test_every_transition(self, changes: list[Change]) -> None:
        """Transitions come back in their order, and add up to the same counters and histograms."""
        with closing(empty_store()) as store:
            for change in changes:
                write(store, changes=[change])
            assert records_of(store) == [change_record(change) for change in changes]
            assert store.restore().statistics == Statistics().plus(changes)

    def test_the_oldest_ends_are_forgotten_first(self, store: Store) -> None:
        """Of very many ended events the newest are remembered, in their order."""
        too_many = REMEMBERED_ENDS + 500
        ids = [f"E{n}" for n in range(too_many)]
        write(store, lives=[life(each, ended=float(n)) for n, each in enumerate(ids)])
        assert list(store.restore().lifecycles.ended) == ids[-REMEMBERED_ENDS:]

    def test_no_more_current_events_are_read_than_can_be_known(self, store: Store) -> None:
        """Of very many current events, the newest are read, as many as the exporter can know.

        A journal has so many if the ends of earlier events could not be written.
        """
        too_many = MOST_OWN + 500
        ids = [f"E{n}" for n in range(too_many)]
        write(store, lives=[life(each, first_seen=float(n)) for n, each in enumerate(ids)])
        assert list(store.restore().lifecycles.current) == ids[-MOST_OWN:]

    def test_a_failed_entry_leaves_nothing(self, store: Store) -> None:
        """An entry is written whole or not at all."""
        seen = Change(Transition.DETECTED, life("A"), Timestamp(0.0))
        nameless = life(None)  # type: ignore[arg-type] # the table refuses a life without an id
        with pytest.raises(sqlite3.IntegrityError):
            write(store, [seen], [life("A"), nameless], [span("a")])
        assert records_of(store) == []
        assert list(store.history()) == []
        assert spans_of(store) == []


class TestSpans:
    """The spans that wait for delivery."""

    def test_the_newest_first_and_no_more_than_asked_for(self, store: Store) -> None:
        """A backlog does not delay the newest spans."""
        for name in "abcde":
            write(store, spans=[span(name)])
        newest = [span_id.lstrip("0") for span_id, _ in store.queued_spans(2)]
        assert newest == ["e", "d"]
        assert store.look().spans.count == 5

    def test_replaced_in_flight(self, store: Store) -> None:
        """A span that is replaced while its older form is being sent still waits."""
        write(store, spans=[span("a")])
        in_flight = store.queued_spans(EVERYTHING)
        write(store, spans=[span("a", 7.0)])
        remove_spans(store, in_flight)
        assert spans_of(store) == [span("a", 7.0)]


class TestPrune:
    """Transitions that are older than the retention are removed."""

    @PATIENCE
    @given(CHANGES.map(in_order), st.lists(st.integers(0, 1100), max_size=3))
    def test_lets_no_counter_fall(self, changes: list[Change], cuts: list[int]) -> None:
        """Removing what is older than any moments changes no counter and no histogram; the rest
        stays.
        """
        with closing(empty_store()) as store:
            for change in changes:
                write(store, changes=[change])
            statistics = store.restore().statistics
            for cut in cuts:
                store.write([Expiry(float(cut))], store.restore())
                assert store.restore().statistics == statistics
            latest_cut = max([0, *cuts])
            left = [change for change in changes if change.at.wall >= latest_cut]
            assert records_of(store) == [change_record(change) for change in left]


def test_a_check_ends_when_the_exporter_does(store: Store) -> None:
    """The check of a long journal at the start does not hold up a stop.

    SQLite asks only now and then whether to go on: 20 000 rows take long enough.
    """
    store.connection.execute(
        "CREATE TABLE long AS WITH RECURSIVE n(i) AS"
        " (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) SELECT i FROM n"
    )
    store.check()  # nobody stops this one
    with pytest.raises(sqlite3.OperationalError, match="interrupted"):
        store.check(lambda: True)  # asked whether to stop, this one says yes


def test_a_check_between_two_looks_hides_no_request(tmp_path: Path) -> None:
    """The exporter finds what ``approve`` has written since the exporter's last look, although the
    check of the file has read the same tables meanwhile.
    """
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    (life,) = watch.known.current.values()
    file = tmp_path / "journal.sqlite"
    file.touch()
    with closing(writable(file)) as store, closing(writable(file)) as of_approve:
        assert not store.look().inbox.requests
        of_approve.requests.add([ApprovalRequest(life, "ada", created=0.0, expires=60.0)])
        store.check()
        (found,) = store.look().inbox.requests
    assert found.operator == "ada"
