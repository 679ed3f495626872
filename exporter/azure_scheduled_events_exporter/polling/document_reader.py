"""Asks IMDS for the Scheduled Events document, and decides whether to believe it.

Some nodes answer with an empty body if there are no events. But an empty body while events are
current is more likely a fault than their end, so it is believed only after some polls. Must not
decide what a document changes: ``polling.state`` does.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from azure_scheduled_events_exporter.core.document import Document
from azure_scheduled_events_exporter.core.document_parser import parse_document
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.errors import ImdsError, InvalidDocumentError, Outcome
from azure_scheduled_events_exporter.imds.client import ImdsClient
from azure_scheduled_events_exporter.recording.file import RecordedDocument

FIRST_TIMEOUT_SECONDS = 130.0
"""Time limit of the first request, in seconds.

The first request enables Scheduled Events for the VM, which takes IMDS up to two minutes.
"""

DISABLED_AFTER_SECONDS = 86400.0
"""After so long without a request, Azure disables Scheduled Events for the VM."""

MOST_STORED = 65_536
"""The largest body that is stored, in bytes. One event of a hundred VMs has 4 kB."""

_STORED_HEADERS = ("Date", "Content-Type", "Server")
"""Response headers that are stored with a document."""

EMPTY_POLLS = 3
"""While events are current, an empty body is not believed before so many have come in a row."""

EMPTY_SECONDS = 5.0
"""Nor is it believed sooner than so many seconds after the first of them."""


@dataclass(eq=False)
class DocumentReader:
    """Reads one document after the other.

    Attributes:
        client: sends the requests.
        timeout: limit of a request after Scheduled Events were enabled, in seconds.
        clock: the current time.
        keep: writes a body, readable or not, to the journal; :meth:`store` calls it.
        log: where it is logged that an empty body is not believed.
        asked_at: when the last request for a document began.
    """

    client: ImdsClient
    timeout: float
    clock: Callable[[], Timestamp]
    keep: Callable[[RecordedDocument], None]
    log: logging.Logger

    def __post_init__(self) -> None:
        self.asked_at = self.clock()
        self._body: bytes | None = None  # the last one
        self._document: Document | None = None  # what is in `_body`; None if it cannot be read
        # Why there is no document, or what of it cannot be read. The first body replaces this text,
        # so an error only has it if a 304 (unchanged) came before any body.
        self._fault = "a 304 (unchanged) before it ever sent one"
        self._is_stored = False  # whether store() has handled `_body`
        # How many empty bodies came while events were current, with no other document between.
        self._empty_polls = 0
        self._empty_since = self.clock()  # when the first of these came
        self._answered: Timestamp | None = None  # when IMDS last sent a 200 or 304

    @property
    def next_timeout(self) -> float:
        """The time limit of the next request, in seconds.

        It is at least :data:`FIRST_TIMEOUT_SECONDS` if IMDS may have to enable Scheduled Events
        before it answers: if it has never answered, or not for :data:`DISABLED_AFTER_SECONDS`.
        """
        if self._answered is not None:
            unanswered_for = self.clock().since(self._answered)
            if unanswered_for < DISABLED_AFTER_SECONDS:
                return self.timeout
        return max(FIRST_TIMEOUT_SECONDS, self.timeout)

    def read(self, *, has_events: bool) -> Document | None:
        """Ask IMDS once; return the document, or None for an empty body that is not believed yet.

        A document that has not changed is the same object as before. ``has_events``: whether events
        are current.

        Raises:
            ImdsError: IMDS sends no answer, a refusal, or something else than a document.
            Stopped: the client was stopped.
        """
        self.asked_at = self.clock()
        body = self.client.scheduled_events(self.next_timeout)
        now = self.clock()
        self._answered = now
        document = self._parsed(body)
        is_doubtful = document.is_empty_body and has_events
        if not is_doubtful:
            self._empty_polls = 0
            return document
        self._empty_polls += 1
        if self._empty_polls == 1:
            self._empty_since = now
            self.log.warning("empty body while events are current: not believed yet")
        if self._empty_polls < EMPTY_POLLS or now.since(self._empty_since) < EMPTY_SECONDS:
            return None
        return document

    def _parsed(self, body: bytes | None) -> Document:
        """Return the document in ``body``, or the last one if ``body`` is None (unchanged).

        Raises:
            ImdsError: it is no document, or there is no last one.
        """
        if body is not None and body != self._body:
            self._body = body
            self._document = None
            self._is_stored = False
            try:
                self._document = parse_document(body)
                self._fault = "; ".join(self._document.unreadable)
            except InvalidDocumentError as error:
                self._fault = str(error)
        if self._document is None:
            what = f"{self.client.endpoint} answered no Scheduled Events document"
            raise ImdsError(Outcome.INVALID_DOCUMENT, what, self._fault)
        return self._document

    def store(self, vm_name: str) -> None:
        """Write the last body to the journal, unless an earlier call has done so.

        It is stored with this VM's name and, if it is unreadable, with the reason. A body larger
        than :data:`MOST_STORED` is not stored: it may differ at every poll, and fill the disk.

        Call it after each :meth:`read`, also after one that raised an error, while the client still
        has the headers of that answer.
        """
        if self._is_stored or self._body is None or len(self._body) > MOST_STORED:
            return
        self._is_stored = True
        headers = {
            name: self.client.headers[name]
            for name in _STORED_HEADERS
            if name in self.client.headers
        }
        self.keep(RecordedDocument(self.clock().wall, self._body, headers, self._fault, vm_name))
