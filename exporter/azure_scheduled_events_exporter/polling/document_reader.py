"""Asks IMDS for the Scheduled Events document, decides whether to believe it, and has it stored.

Knows requests, time limits and what IMDS sent before: when documents came (:class:`DocumentGaps`), and how often a body
was empty (:class:`EmptyBodies`). Some nodes answer with an empty body if there are no events, but an empty body while
events are current is more likely a fault than their end. Must not know what a document changes: ``polling.poller``
derives that.
"""

from collections.abc import Callable
from dataclasses import dataclass

from azure_scheduled_events_exporter.core.document import Document, parse_document
from azure_scheduled_events_exporter.core.observation import WATCHED_WITHIN_SECONDS
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
class EmptyBodies:
    """Counts consecutive empty bodies while events are current; failed polls in between are ignored."""

    count: int = 0
    since: Timestamp | None = None

    def plus(self, now: Timestamp) -> "EmptyBodies":
        """Return the count with one more empty body, at ``now``."""
        return EmptyBodies(self.count + 1, self.since or now)

    def are_believed(self, now: Timestamp) -> bool:
        """Return whether these empty bodies prove that the events are gone."""
        return self.count >= EMPTY_POLLS and self.since is not None and now.since(self.since) >= EMPTY_SECONDS


class DocumentGaps:
    """When documents arrived, believed or not, and whether there was a gap. Before the first one, there is a gap."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.last: Timestamp | None = None
        """When the last document arrived."""
        self._last_since_boot = 0.0  # the same by the clock that counts suspended time, in seconds
        self._has_gap = True

    def has_gap(self, now: Timestamp) -> bool:
        """Return whether an event can have started unseen since the last document that was observed."""
        if self._has_gap or self.last is None:
            return True
        # The clock since boot too, because the monotonic clock stands still while the VM is suspended.
        since_boot = self._clock.reading().since_boot - self._last_since_boot
        return max(now.since(self.last), since_boot) > WATCHED_WITHIN_SECONDS

    def document_came(self, now: Timestamp, *, has_gap: bool) -> None:
        """Take note of a document; ``has_gap``: a gap before it still counts, since it was not observed as a whole."""
        self.last, self._last_since_boot, self._has_gap = now, self._clock.reading().since_boot, has_gap


class DocumentReader:
    """Reads one document after the other.

    Args:
        client: sends requests to IMDS.
        timeout: seconds of a request to an IMDS that has enabled Scheduled Events.
        clock: this machine's clock.
        store: writes a document to the journal, also one that was refused.
    """

    def __init__(
        self, client: ImdsClient, timeout: float, clock: Clock, store: Callable[[RecordedDocument], None]
    ) -> None:
        self._client = client
        self._timeout = timeout
        self._clock = clock
        self._store = store
        self._stored: bytes | None = None
        self._body: bytes | None = None  # of the last document that was processed
        self._document: Document | None = None
        self._empty_bodies = EmptyBodies()
        self._answered: Timestamp | None = None  # when IMDS last sent a 200 or 304

    @property
    def next_timeout(self) -> float:
        """The time limit of the next request, seconds: IMDS may have to enable Scheduled Events before it answers."""
        now, answered = self._clock.now(), self._answered
        # Check the wall clock too, because the monotonic clock stops while the VM is suspended.
        if answered and max(now.since(answered), now.wall - answered.wall) < ENABLED_SECONDS:
            return self._timeout
        return max(FIRST_TIMEOUT_SECONDS, self._timeout)

    @property
    def empty_since(self) -> Timestamp | None:
        """Since when bodies are empty while events are current; None if the last one was not."""
        return self._empty_bodies.since

    def ask(self) -> bytes | None:
        """Return the body that IMDS sends; None if it answers that nothing has changed.

        Raises:
            ImdsError: it does not answer with either.
        """
        body = self._client.scheduled_events(self.next_timeout)
        self._answered = self._clock.now()
        return body

    def parsed(self, body: bytes | None, vm_name: str) -> Document:
        """Return the document in ``body``: the same object as before if the body has not changed.

        Raises:
            ImdsError: it is no Scheduled Events document. It is stored with ``vm_name``.
        """
        if self._document is not None and (body is None or body == self._body):
            return self._document
        if body is None:
            raise ImdsError(Outcome.HTTP_ERROR, "IMDS answered 304 (unchanged) before it ever sent a document")
        try:
            return parse_document(body)
        except InvalidDocumentError as error:
            self.store(body, vm_name, str(error))
            raise ImdsError(Outcome.INVALID_DOCUMENT, "IMDS sent no Scheduled Events document", str(error)) from None

    def believes(self, document: Document, *, has_events: bool) -> bool:
        """Return whether to believe ``document``: an empty body while events are current may be a fault."""
        if not document.is_empty_body or not has_events:
            self._empty_bodies = EmptyBodies()
            return True
        now = self._clock.now()
        self._empty_bodies = self._empty_bodies.plus(now)
        return self._empty_bodies.are_believed(now)

    @property
    def is_first_empty_body(self) -> bool:
        """Whether the last document is the first of several empty bodies while events are current."""
        return self._empty_bodies.count == 1

    def mark_processed(self, body: bytes | None, document: Document) -> None:
        """Take note that the changes of ``document`` are in the journal."""
        self._document = document
        self._body = self._body if body is None else body

    def store(self, body: bytes | None, vm_name: str, refused: str) -> None:
        """Store a body that differs from the previous one; ``refused`` is what could not be read, or ``""``.

        A body larger than :data:`MOST_STORED` is not stored: it may differ at every poll.
        """
        if body is None or body == self._stored or len(body) > MOST_STORED:
            return
        self._stored = body
        headers = {name: self._client.headers[name] for name in _STORED_HEADERS if name in self._client.headers}
        self._store(RecordedDocument(self._clock.now().wall, body, headers, refused, vm_name))

    def store_next(self) -> None:
        """Store the next body even if it has not changed, because the journal is another one."""
        self._stored = None
