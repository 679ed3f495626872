"""Plays a recording: selects the document of a moment and moves its times to now. Uses no clock.

Each document is served at least once, at any speed, so that a client misses none.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import formatdate
from math import floor
from typing import Final

from azure_scheduled_events_exporter.core.document_parser import parse_document, parse_not_before
from azure_scheduled_events_exporter.errors import InvalidDocumentError
from azure_scheduled_events_exporter.recording.file import RecordedDocument

_NOT_BEFORE: Final = re.compile(rb'("NotBefore"\s*:\s*")([^"\\]*)(")')
"""NotBefore in a body: what is before the time, the time, and the quote after it."""


class Replay:
    """Plays ``recording`` from the moment ``at`` on, ``speed`` times as fast as recorded.

    ``ended_at`` is when its last document was served first; None until then.
    """

    def __init__(self, recording: Sequence[RecordedDocument], *, at: float, speed: float) -> None:
        self._documents = recording
        self._recorded_at = recording[0].time
        self._at = at
        self._speed = speed
        self._shown = 0  # the place of the current document in the recording
        self._served = False  # whether any document was served
        self.ended_at: float | None = None

    def body(self, now: float) -> bytes:
        """Return the document to serve at ``now``: the one before again, or the one after it.

        Each call advances by one document at most, so that none is left out.
        """
        following = self._shown + 1
        if (
            self._served
            and following < len(self._documents)
            and self._due(self._documents[following].time) <= now
        ):
            self._shown = following
        self._served = True
        if self.ended_at is None and self._shown == len(self._documents) - 1:
            self.ended_at = now
        return _NOT_BEFORE.sub(self._moved, self._documents[self._shown].body)

    def knows(self, event_id: str) -> bool:
        """Return whether ``event_id``, in any case, is an event of the current document."""
        try:
            events = parse_document(self._documents[self._shown].body).events
        except InvalidDocumentError:
            return False
        return event_id.upper() in {event.sent_id.upper() for event in events if event.sent_id}

    def _due(self, recorded: float) -> float:
        """Return when a moment of the recording is played."""
        return self._at + (recorded - self._recorded_at) / self._speed

    def _moved(self, found: re.Match[bytes]) -> bytes:
        """Return NotBefore moved to the time of the playback, in its original format.

        Out of the range of a date, it stays.
        """
        text = found[2].decode("utf-8", "replace")
        moment = parse_not_before(text)
        if moment is None:
            return found[0]
        seconds = floor(self._due(moment))
        is_iso = re.match(r"\d{4}-", text)
        try:
            moved = (
                datetime.fromtimestamp(seconds, UTC).isoformat()
                if is_iso
                else formatdate(seconds, usegmt=True)
            )
        except (ValueError, OverflowError, OSError):  # outside the years 1 to 9999
            return found[0]
        return found[1] + moved.encode() + found[3]
