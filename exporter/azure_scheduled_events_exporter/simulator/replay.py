"""Plays a recording: selects the document to serve, and moves the times in it to the playback.

Every document is served at least once, however fast it is played, so that a client misses none.
Uses no clock: the time is an argument.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import formatdate
from math import floor
from typing import Final

from azure_scheduled_events_exporter.core.document_parser import parse_document
from azure_scheduled_events_exporter.core.not_before import parse_not_before
from azure_scheduled_events_exporter.errors import InvalidDocumentError
from azure_scheduled_events_exporter.recording.file import RecordedDocument

_NOT_BEFORE: Final = re.compile(rb'("NotBefore"\s*:\s*")([^"\\]*)(")')
"""NotBefore in a body: what is before the time, the time, and the quote after it."""
_ISO_DATE: Final = re.compile(r"\d{4}-")
"""How a time in ISO 8601 begins, and one in RFC 1123 does not."""


class Replay:
    """Plays ``recording`` from the moment ``at`` on, ``speed`` times as fast as recorded.

    ``ended_at`` is when the last document was served for the first time; None until then.
    """

    def __init__(self, recording: Sequence[RecordedDocument], *, at: float, speed: float) -> None:
        self._recording = recording
        self._began = at
        self._speed = speed
        self._current = 0  # the place in the recording of the document that is served now
        self._is_served = False  # whether the first document was ever served
        self.ended_at: float | None = None

    def body(self, now: float) -> bytes:
        """Return the document to serve at ``now``, with its times moved to the playback.

        It is the document of the last call, or the next one if that is due. Each call advances by
        one document at most, so that every document is served.
        """
        if self._is_served and self._is_next_due(now):
            self._current += 1
        self._is_served = True
        is_last = self._current == len(self._recording) - 1
        if is_last and self.ended_at is None:
            self.ended_at = now
        return _NOT_BEFORE.sub(self._moved, self._recording[self._current].body)

    def knows(self, event_id: str) -> bool:
        """Return whether the current document has ``event_id``, in upper or lower case."""
        try:
            events = parse_document(self._recording[self._current].body).events
        except InvalidDocumentError:
            return False
        return event_id.upper() in {event.sent_id.upper() for event in events if event.sent_id}

    def _is_next_due(self, now: float) -> bool:
        """Return whether there is a document after the current one, and its time has come."""
        following = self._recording[self._current + 1 :]
        return bool(following) and self._played_at(following[0].time) <= now

    def _played_at(self, recorded: float) -> float:
        """Return the moment of the playback for a moment of the recording; both Unix seconds."""
        since_first = recorded - self._recording[0].time
        return self._began + since_first / self._speed

    def _moved(self, found: re.Match[bytes]) -> bytes:
        """Return what :data:`_NOT_BEFORE` has found, with its time moved to the playback.

        The time keeps its format. It stays as it is if it is no time, or would be out of range.
        """
        text = found[2].decode("utf-8", "replace")
        moment = parse_not_before(text)
        if moment is None:
            return found[0]
        seconds = floor(self._played_at(moment))
        try:
            if _ISO_DATE.match(text):
                moved = datetime.fromtimestamp(seconds, UTC).isoformat()
            else:
                moved = formatdate(seconds, usegmt=True)
        except (ValueError, OverflowError, OSError):  # outside the years 1 to 9999
            return found[0]
        return found[1] + moved.encode() + found[3]
