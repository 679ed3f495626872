"""Writes bodies of Scheduled Events as IMDS does, for any api-version.

Pure: no clock, no network. An api-version is a date such as ``2020-07-01``, so comparing two as
text tells which one is newer.
"""

import hashlib
import json
import re
import uuid
from collections.abc import Mapping, Sequence
from email.utils import formatdate
from math import floor
from typing import Final

from azure_scheduled_events_exporter.core.event_types import EventType

WireEvent = Mapping[str, object]
"""An event as a document has it: the names of its fields with their values.

A user of the simulator may place one by hand, so any field may be absent or of another type.
"""

_FIELDS_SINCE: Final = {
    "Description": "2019-04-01",
    "EventSource": "2019-08-01",
    "DurationInSeconds": "2020-07-01",
}
"""The first version that has each of these fields; every version has all other fields."""

PREVIEW: Final = "2017-03-01"
"""The version that needs no ``Metadata: true`` and puts an underscore before resource names."""

VERSIONS: Final = (
    PREVIEW,
    "2017-08-01",
    "2017-11-01",
    "2019-01-01",
    "2019-04-01",
    "2019-08-01",
    "2020-07-01",
    "2024-07-09",
)
"""The versions that differ in what they show.

Any other date shows what the newest one before it shows. The two oddities of ``PREVIEW`` are its
alone.
"""

ADVICE: Final = "SpotRebalanceRecommendation"
"""The type of an event of EventStatus Advisory: nothing is scheduled."""

_TYPES_SINCE: Final = {**{str(each): each.facts.since for each in EventType}, ADVICE: "2024-07-09"}
"""The first version that shows each of these event types; every version shows all other types."""

_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)

NEWEST: Final = "2025-04-07"
"""The newest version that IMDS names in a refusal, unless the simulator plays an older IMDS."""


def is_version(text: str) -> bool:
    """Return whether ``text`` is an api-version: a date that is not before the first version."""
    return bool(_DATE.fullmatch(text)) and text >= PREVIEW


def version_invalid(newest: str) -> Mapping[str, object]:
    """Return the body with which an IMDS refuses a version that it does not know.

    It names the three newest versions of that IMDS, of which ``newest`` is the first.
    """
    known = sorted({newest, *VERSIONS}, reverse=True)
    return {
        "error": "Bad request. api-version is invalid or was not specified in the request. "
        "For more information refer to aka.ms/azureimds",
        "newest-versions": [each for each in known if each <= newest][:3],
    }


def to_json(value: object) -> bytes:
    """Return ``value`` as compact JSON; half a surrogate pair, which UTF-8 lacks, becomes ``?``."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode(errors="replace")


def guid(*parts: object) -> str:
    """Return a GUID in lower case: always the same for the same ``parts``."""
    digest = hashlib.sha256("/".join(map(str, parts)).encode(errors="surrogatepass")).digest()
    return str(uuid.UUID(bytes=digest[:16], version=4))


def not_before_text(moment: float | None) -> str:
    """Return NotBefore in RFC 1123 GMT; ``""`` for None, as of an event that has started.

    It is rounded down to whole seconds: the event does not begin before the NotBefore that people
    read.
    """
    if moment is None:
        return ""
    return formatdate(floor(moment), usegmt=True)


def events_in(events: Sequence[WireEvent], version: str) -> list[WireEvent]:
    """Return ``events`` in the form of ``version``: newer fields and event types are left out."""
    shown: list[WireEvent] = []
    for event in events:
        event_type = event.get("EventType")
        if isinstance(event_type, str) and _is_newer(_TYPES_SINCE, event_type, version):
            continue
        fields = {}
        for key, value in event.items():
            if not _is_newer(_FIELDS_SINCE, key, version):
                fields[key] = _value(key, value, version)
        shown.append(fields)
    return shown


def document_body(events: Sequence[WireEvent], incarnation: int) -> bytes:
    """Return the whole body for ``events`` that are already in their version's form."""
    return to_json({"DocumentIncarnation": incarnation, "Events": events})


def _is_newer(since: Mapping[str, str], name: str, version: str) -> bool:
    """Return whether ``version`` is too old to show ``name``, a field or an event type.

    ``since`` has the first version of those that not every version shows.
    """
    return name in since and since[name] > version


def _value(key: str, value: object, version: str) -> object:
    """Return the value of the field ``key`` as ``version`` writes it."""
    if key == "Resources" and version == PREVIEW and isinstance(value, list | tuple):
        return [f"_{name}" for name in value]
    return value
