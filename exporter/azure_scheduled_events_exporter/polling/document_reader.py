"""Asks IMDS for the Scheduled Events document, and decides whether to believe it.

Knows requests, time limits and how often a body was empty: some nodes answer with an empty body if there are no events,
but an empty body while events are current is more likely a fault than their end. Must not know what a document
changes: ``polling.state`` derives that.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from azure_scheduled_events_exporter.core.document import Document, parse_document
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.errors import ImdsError, InvalidDocumentError, Outcome
from azure_scheduled_events_exporter.imds.client import ImdsClient
from azure_scheduled_events_exporter.recording.file import RecordedDocument

from .clock import Clock

FIRST_TIMEOUT_SECONDS = 130.0
"""Time limit of the first request: it enables Scheduled Events, which takes IMDS up to two minutes."""

ENABLED_SECONDS = 86400.0
"""Azure disables Scheduled Events after so long without a request."""

MOST_STORED = 65_536
"""Bytes of a body that is stored. One event of a hundred VMs has 4 kB."""

_STORED_HEADERS = ("Date", "Content-Type", "Server")
"""Response headers that are stored with a document."""

EMPTY_POLLS = 3
EMPTY_SECONDS = 5.0
"""So many empty bodies over so many seconds are believed while events are current."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What IMDS answered.

    Attributes:
        body: as it came; None if IMDS answered that nothing has changed.
        document: in it; the same object as in the reading before if it has not changed.
        empty_polls: how many bodies up to this one were empty while events were current, without failed polls.
        empty_since: when the first of these came; None if this one is not empty.
        is_believed: whether the events that it does not show are gone.
    """

    body: bytes | None
    document: Document
    empty_polls: int
    empty_since: Timestamp | None
    is_believed: bool


@dataclass(eq=False)
class DocumentReader:
    """Reads one document after the other.

    Attributes:
        client: sends requests to IMDS.
        timeout: seconds of a request to an IMDS that has enabled Scheduled Events.
        clock: this machine's clock.
        keep: writes a document to the journal, also one that was refused.
    """

    client: ImdsClient
    timeout: float
    clock: Clock
    keep: Callable[[RecordedDocument], None]

    def __post_init__(self) -> None:
        self._body: bytes | None = None  # of the last document
        self._stored: bytes | None = None  # because a document is offered at every poll
        self._document: Document | None = None
        self._empty_polls = 0
        self._empty_since: Timestamp | None = None
        self._answered: Timestamp | None = None  # when IMDS last sent a 200 or 304

    @property
    def next_timeout(self) -> float:
        """The time limit of the next request, seconds: IMDS may have to enable Scheduled Events before it answers."""
        if self._answered and self.clock().since(self._answered) < ENABLED_SECONDS:
            return self.timeout
        return max(FIRST_TIMEOUT_SECONDS, self.timeout)

    def read(self, vm_name: str, *, has_events: bool) -> Reading:
        """Ask IMDS once; ``has_events``: whether events are current.

        Raises:
            ImdsError: it sends no Scheduled Events document. What it sends instead is stored with ``vm_name``.
        """
        body = self.client.scheduled_events(self.next_timeout)
        now = self._answered = self.clock()
        document = self._parsed(body, vm_name)
        if document.is_empty_body and has_events:
            self._empty_polls, self._empty_since = self._empty_polls + 1, self._empty_since or now
        else:
            self._empty_polls, self._empty_since = 0, None
        waited = EMPTY_SECONDS if self._empty_since is None else now.since(self._empty_since)
        is_believed = not self._empty_polls or (self._empty_polls >= EMPTY_POLLS and waited >= EMPTY_SECONDS)
        return Reading(body, document, self._empty_polls, self._empty_since, is_believed)

    def _parsed(self, body: bytes | None, vm_name: str) -> Document:
        if self._document is None or (body is not None and body != self._body):
            if body is None:
                raise ImdsError(Outcome.HTTP_ERROR, "IMDS answered 304 (unchanged) before it ever sent a document")
            try:
                self._document, self._body = parse_document(body), body
            except InvalidDocumentError as error:
                self.store(body, vm_name, str(error))
                message = "IMDS sent no Scheduled Events document"
                raise ImdsError(Outcome.INVALID_DOCUMENT, message, str(error)) from None
        return self._document

    def store(self, body: bytes | None, vm_name: str, refused: str) -> None:
        """Store a body that differs from the previous one; ``refused`` is what could not be read, or ``""``.

        A body larger than :data:`MOST_STORED` is not stored: it may differ at every poll.
        """
        if body is None or body == self._stored or len(body) > MOST_STORED:
            return
        self._stored = body
        headers = {name: self.client.headers[name] for name in _STORED_HEADERS if name in self.client.headers}
        self.keep(RecordedDocument(self.clock().wall, body, headers, refused, vm_name))

    def begin_anew(self) -> None:
        """Store the next body, and give its document as a new one, even if it has not changed: the journal is new."""
        self._stored = None
        self._document = self._document and replace(self._document)
