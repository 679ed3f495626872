"""What waits to be written to the journal: one class for each kind of change of the tables.

Data only. An entry has its JSON already: so its size is known, and an object that cannot be encoded
is found where the entry is made, not later in the thread that writes it. Must not know SQL:
``journal.tables.store`` writes entries.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from azure_scheduled_events_exporter.core.lifecycle import Change, Lifecycle
from azure_scheduled_events_exporter.core.records import change_record
from azure_scheduled_events_exporter.core.spans import SpanFacts

from .codec import encode

_FIXED_BYTES = 200
"""What an entry takes besides its text."""


@dataclass(frozen=True, slots=True)
class NewTransition:
    """A transition: its number in the journal, its time (Unix seconds), and its JSON record."""

    number: int
    wall: float
    record: str


@dataclass(frozen=True, slots=True)
class NewLife:
    """An event that is new or has changed: its times (Unix seconds), and its JSON.

    ``ended`` is None while it is current.
    """

    event_id: str
    first_seen: float
    ended: float | None
    life: str


@dataclass(frozen=True, slots=True)
class NewSpan:
    """A span to be delivered, in place of an older version of it."""

    span_id: str
    span: str


@dataclass(frozen=True, slots=True)
class EndedSpan:
    """A span that needs no delivery any more.

    If ``span`` is None, that holds for every version of the span, else only for the version with
    this JSON.
    """

    span_id: str
    span: str | None


BEING_SENT = ""
"""The result of a request while it is being sent: it counts as open until it has another one."""


@dataclass(frozen=True, slots=True)
class RequestResult:
    """The result of a request to approve an event.

    Attributes:
        number: of the request, which has no result yet.
        result: a text, ``BEING_SENT``, or None if it is to be sent again.
        if_unsent: whether to write the result only if the request is not being sent.
    """

    number: int
    result: str | None
    if_unsent: bool


@dataclass(frozen=True, slots=True)
class Expiry:
    """Removes transitions, requests and ended events from before ``before`` (Unix seconds).

    The journal's statistics still count them.
    """

    before: float


Entry = NewTransition | NewLife | NewSpan | EndedSpan | RequestResult | Expiry


def size(entry: Entry) -> int:
    """Return about how many bytes ``entry`` takes in memory."""
    match entry:
        case NewTransition():
            text = entry.record
        case NewLife():
            text = entry.life
        case NewSpan() | EndedSpan():
            text = entry.span or ""
        case RequestResult():
            text = entry.result or ""
        case Expiry():
            text = ""
    return _FIXED_BYTES + len(text)


def entries_of(
    last_number: int,
    changes: Iterable[Change],
    lives: Iterable[Lifecycle],
    spans: Iterable[SpanFacts],
) -> Iterator[Entry]:
    """Yield what an observation adds; its transitions are numbered on from ``last_number``.

    Raises:
        CodecError: one of them cannot be encoded, which is a bug.
    """
    for number, change in enumerate(changes, last_number + 1):
        yield NewTransition(number, change.at.wall, encode(change_record(change)))
    for life in lives:
        yield life_entry(life)
    for span in spans:
        yield NewSpan(span.span_id, encode(span))


def life_entry(life: Lifecycle) -> NewLife:
    """Return the entry of an event."""
    ended = None
    if life.ended_at is not None:
        ended = life.ended_at.wall
    return NewLife(life.event_id, life.first_seen.wall, ended, encode(life))
