"""Asks IMDS for the Scheduled Events document, decides whether to believe it, and has what was sent kept.

Knows requests, time limits and what IMDS sent before. Must not know what a document changes: ``polling.poller`` takes
it in.
"""

from collections.abc import Callable

from azure_scheduled_events_exporter.core.document import Document, parse_document
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.errors import ImdsError, InvalidDocumentError, Outcome
from azure_scheduled_events_exporter.imds.client import ImdsClient
from azure_scheduled_events_exporter.recording.file import RecordedDocument

from .clock import Clock
from .empty_bodies import EmptyBodies

FIRST_TIMEOUT_SECONDS = 130.0
"""Time limit of the first request: it enables Scheduled Events, which takes IMDS up to two minutes."""

ENABLED_SECONDS = 86400.0
"""Azure disables Scheduled Events after so long without a request."""

_KEPT_HEADERS = ("Date", "Content-Type", "Server")
"""Headers of an answer that are kept with a document."""


class DocumentReader:
    """Reads one document after the other.

    Args:
        client: sends requests to IMDS.
        timeout: seconds of a request to an IMDS that has enabled Scheduled Events.
        clock: this machine's clock.
        keep: stores a document, read or refused.
    """

    def __init__(
        self, client: ImdsClient, timeout: float, clock: Clock, keep: Callable[[RecordedDocument], None]
    ) -> None:
        self._client = client
        self._timeout = timeout
        self._clock = clock
        self._keep = keep
        self._kept: bytes | None = None
        self._body: bytes | None = None  # of the last document that was taken in
        self._document: Document | None = None
        self._empty_bodies = EmptyBodies()
        self._answered: Timestamp | None = None  # when IMDS last sent a 200 or 304

    @property
    def patience(self) -> float:
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
        body = self._client.scheduled_events(self.patience)
        self._answered = self._clock.now()
        return body

    def parsed(self, body: bytes | None, vm_name: str) -> Document:
        """Return the document in ``body``: the same object as before if it is that of the document taken in last.

        Raises:
            ImdsError: it is no Scheduled Events document. It is kept, with the VM's name.
        """
        if self._document is not None and (body is None or body == self._body):
            return self._document
        if body is None:
            raise ImdsError(Outcome.HTTP_ERROR, "IMDS answered 304 (unchanged) before it ever sent a document")
        try:
            return parse_document(body)
        except InvalidDocumentError as error:
            self.keep(body, vm_name, str(error))
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
    def is_first_doubt(self) -> bool:
        """Whether the last document is the first of a row that is not believed."""
        return self._empty_bodies.count == 1

    def taken_in(self, body: bytes | None, document: Document) -> None:
        """Take note that the changes of ``document`` are in the journal."""
        self._document = document
        self._body = self._body if body is None else body

    def keep(self, body: bytes | None, vm_name: str, refused: str) -> None:
        """Have a body kept that differs from the one before, with why it, or a part of it, was refused."""
        if body is None or body == self._kept:
            return
        self._kept = body
        headers = {name: self._client.headers[name] for name in _KEPT_HEADERS if name in self._client.headers}
        self._keep(RecordedDocument(self._clock.now().wall, body, headers, refused, vm_name))

    def keep_again(self) -> None:
        """Keep the next body also if it does not differ: the journal is another one."""
        self._kept = None
