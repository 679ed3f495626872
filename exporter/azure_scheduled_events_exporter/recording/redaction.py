"""Replaces names, ids and free text of a recording by placeholders, so that it can be shown.

Throughout a recording, the same text has the same placeholder. Values that the life of an event
depends on are kept: times, statuses, types, sources, durations, incarnations, and the number of VMs
and events. A body that cannot be parsed, or is nested too deeply, is replaced as a whole. Pure.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Final

from azure_scheduled_events_exporter.core.document import comparable_name
from azure_scheduled_events_exporter.core.not_before import parse_not_before
from azure_scheduled_events_exporter.core.safe_text import clean_text
from azure_scheduled_events_exporter.times import iso_time

from .file import RecordedDocument

STILL_CONTAINED: Final = (
    "times (NotBefore, Date, when documents came), EventType, EventStatus, EventSource,"
    " ResourceType, DurationInSeconds, DocumentIncarnation, names of fields, the number of VMs and"
    " events"
)
"""What a redacted recording still contains, for people."""

_KEPT_HEADERS: Final = {
    "date": re.compile(r"[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} [\d:]{8} GMT"),
    "content-type": re.compile(
        r"(application|text)/(json|xml|html|plain)(; ?charset=utf-8)?", re.IGNORECASE
    ),
}
"""The headers that are kept, in lower case, and the form that their values must have.

A value in another form may contain a name.
"""
_WORD_FORM: Final = re.compile(r"[A-Za-z]{1,24}")
"""The form of an event type, status or source that is kept, also of one that is not documented.

A longer text may be a name.
"""
_WORD_KEYS: Final = frozenset({"EventType", "EventStatus", "EventSource", "ResourceType"})
"""The keys whose values are kept if they have the form :data:`_WORD_FORM`."""
_NUMBER_KEYS: Final = frozenset({"DurationInSeconds", "DocumentIncarnation"})
"""The keys whose numbers are kept; a text there is kept if it is a number."""
_KNOWN_KEYS: Final = (
    _WORD_KEYS | _NUMBER_KEYS | {"Events", "EventId", "Resources", "NotBefore", "Description"}
)
_TIME_FORM: Final = re.compile(
    r"[A-Z][a-z]{2}, \d{1,2} [A-Z][a-z]{2} \d{4} [\d:]+ GMT|\d{4}-[\dT:.+Z-]+"
)
"""The forms of NotBefore that IMDS sends: RFC 1123 and ISO 8601."""
_ID_FORM: Final = "00000000-0000-4000-8000-{:012X}"
"""The form of the placeholder of an EventId, with its number: a valid GUID."""
_NUMBER_FORM: Final = re.compile(r"-?\d{1,9}")
"""The form of a number that is kept although it is a text; a longer one may be an id."""


def redact(recording: Iterable[RecordedDocument]) -> tuple[RecordedDocument, ...]:
    """Return the documents of a recording with all names, ids and texts replaced."""
    return tuple(map(_Placeholders().document, recording))


class _Placeholders:
    """The placeholders of one recording."""

    def __init__(self) -> None:
        # For each form of placeholders, the placeholder of each text that was replaced by one.
        self._known: defaultdict[str, dict[str, str]] = defaultdict(dict)

    def document(self, document: RecordedDocument) -> RecordedDocument:
        """Return ``document`` with all names, ids and texts replaced."""
        refused = ""
        if document.refused:
            refused = "could not be read"  # the reason may quote the document
        vm_name = ""
        if document.vm_name:
            vm_name = self._name(document.vm_name)
        return RecordedDocument(
            time=document.time,
            body=self._body(document.body),
            headers={
                name: self._header(name, value)
                for name, value in document.headers.items()
                if name.lower() in _KEPT_HEADERS
            },
            refused=refused,
            vm_name=vm_name,
        )

    def _header(self, name: str, value: str) -> str:
        """Return the value of a header that is kept, or a placeholder for it."""
        if _KEPT_HEADERS[name.lower()].fullmatch(value):
            return value
        return self._for("text {}", value)

    def _body(self, body: bytes) -> bytes:
        """Return a body of JSON with its texts replaced; a placeholder for any other body."""
        if not body:
            return body
        try:
            return json.dumps(self._value("", json.loads(body))).encode()
        except (ValueError, RecursionError):
            return f"({len(body)} bytes that are no JSON, or nested too deeply)".encode()

    def _value(self, key: str, value: Any) -> Any:
        """Return a value of JSON with its texts replaced.

        ``key``: the innermost key above it, ``""`` if there is none. In a list, each value has the
        key of the list.
        """
        if isinstance(value, dict):
            return {self._key(name): self._value(name, inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [self._value(key, inner) for inner in value]
        if isinstance(value, str):
            return self._text(key, value)
        if value is None or isinstance(value, bool) or key in _NUMBER_KEYS:
            return value
        # Any other number may be an id, so it is replaced like a text of its digits.
        return self._text(key, clean_text(value))

    def _key(self, name: str) -> str:
        """Return the name of a documented field, or a placeholder for any other."""
        if name in _KNOWN_KEYS:
            return name
        return self._for("Field{}", name)

    def _text(self, key: str, text: str) -> str:
        """Return the placeholder of a text below ``key``, or the text if it is kept."""
        is_word = key in _WORD_KEYS and _WORD_FORM.fullmatch(text)
        is_number = key in _NUMBER_KEYS and _NUMBER_FORM.fullmatch(text)
        if is_word or is_number or not text.strip():
            return text
        if key == "NotBefore":
            return self._time(text)
        if key == "Resources":
            return self._name(text)
        if key == "EventId":
            return self._for(_ID_FORM, text.upper())
        return self._for("text {}", text)

    def _time(self, text: str) -> str:
        """Return a time as it is, in ISO 8601 if it has an unusual form; replace other text."""
        moment = parse_not_before(text)
        if moment is None:
            return self._for("text {}", text)
        if _TIME_FORM.fullmatch(text):
            return text
        return iso_time(moment)

    def _name(self, text: str) -> str:
        """Replace a VM's name; keep the underscore that api-version 2017-03-01 puts in front."""
        name = self._for("vm{}", comparable_name(text))
        if text.startswith("_"):
            return f"_{name}"
        return name

    def _for(self, form: str, text: str) -> str:
        """Return the placeholder for ``text`` in ``form``, which has a place for its number."""
        known = self._known[form]
        if text not in known:
            known[text] = form.format(len(known) + 1)
        return known[text]
