"""Writes bodies of Scheduled Events as IMDS does, for any api-version.

Pure: no clock, no network.
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

_FIELDS_SINCE: Final = {
    "Description": "2019-04-01",
    "EventSource": "2019-08-01",
    "DurationInSeconds": "2020-07-01",
}
"""The first version that has a field; every version has the others."""

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

Any other date shows what the newest one before it shows.
"""

ADVICE: Final = "SpotRebalanceRecommendation"
"""The type of an event of EventStatus Advisory: nothing is scheduled."""

_TYPES_SINCE: Final = {**{str(each): each.facts.since for each in EventType}, ADVICE: "2024-07-09"}
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)

NEWEST: Final = "2025-04-07"
"""The newest version that IMDS names in a refusal, unless the simulator plays an older IMDS."""


def is_version(text: str) -> bool:
    """Return whether ``text`` is a date, as every api-version is."""
    return bool(_DATE.fullmatch(text)) and text >= PREVIEW


def version_invalid(newest: str) -> Mapping[str, object]:
    """Return the error for an unknown version of an IMDS whose newest one is ``newest``.

    It names the newest three.
    """
    known = sorted({newest, *VERSIONS}, reverse=True)
    return {
        "error": "Bad request. api-version is invalid or was not specified in the request. "
        "For more information refer to aka.ms/azureimds",
        "newest-versions": [each for each in known if each <= newest][:3],
    }


def to_json(value: object) -> bytes:
    """Return ``value`` as compact JSON; half a surrogate pair becomes ``?``."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode(errors="replace")


def guid(*parts: object) -> str:
    """Return a GUID that follows from ``parts``."""
    digest = hashlib.sha256("/".join(map(str, parts)).encode(errors="surrogatepass")).digest()
    return str(uuid.UUID(bytes=digest[:16], version=4))


def not_before_text(moment: float | None) -> str:
    """Return NotBefore in RFC 1123 GMT; ``""`` for None (started).

    Cut to whole seconds, never rounded up: the event does not begin before the NotBefore people
    read.
    """
    return "" if moment is None else formatdate(floor(moment), usegmt=True)


def events_in(events: Sequence[WireEvent], version: str) -> list[WireEvent]:
    """Return ``events`` in the form of ``version``: newer fields and event types are left out."""
    return [
        {
            key: _value(key, value, version)
            for key, value in event.items()
            if _knows(_FIELDS_SINCE, key, version)
        }
        for event in events
        if _knows(_TYPES_SINCE, event.get("EventType"), version)
    ]


def document_body(events: Sequence[WireEvent], incarnation: int) -> bytes:
    """Return the whole body for ``events`` that are already in their version's form."""
    return to_json({"DocumentIncarnation": incarnation, "Events": events})


def _knows(since: Mapping[str, str], word: object, version: str) -> bool:
    """Return whether ``version`` shows ``word``, a field or a type; one not in ``since`` always."""
    return not isinstance(word, str) or since.get(word, VERSIONS[0]) <= version


def _value(key: str, value: object, version: str) -> object:
    if key == "Resources" and version == PREVIEW and isinstance(value, list | tuple):
        return [f"_{name}" for name in value]
    return value
