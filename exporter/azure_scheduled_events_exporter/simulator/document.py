"""Writes bodies of Scheduled Events as IMDS does, for each of the seven api-versions. Pure: no clock, no network."""

import json
from collections.abc import Mapping, Sequence
from email.utils import formatdate
from math import floor
from types import MappingProxyType
from typing import Final

from azure_scheduled_events_exporter.core.document import API_VERSIONS
from azure_scheduled_events_exporter.core.event_types import EventType

WireEvent = Mapping[str, object]

_FIELDS_SINCE: Final = MappingProxyType(
    {
        "Description": "2019-04-01",
        "EventSource": "2019-08-01",
        "DurationInSeconds": "2020-07-01",
    }
)
_TYPES_SINCE: Final = MappingProxyType({str(each): each.facts.since for each in EventType})

PREVIEW: Final = "2017-03-01"
"""The version that needs no ``Metadata: true`` and puts an underscore before resource names."""

VERSIONS: Final = API_VERSIONS

INSTANCE_VERSIONS: Final = frozenset(
    {
        "2017-04-02",
        "2017-08-01",
        "2017-12-01",
        "2018-02-01",
        "2018-04-02",
        "2018-10-01",
        "2019-02-01",
        "2019-03-11",
        "2019-04-30",
        "2019-06-01",
        "2019-06-04",
        "2019-08-01",
        "2019-08-15",
        "2019-11-01",
        "2020-06-01",
        "2020-07-15",
        "2020-09-01",
        "2020-10-01",
        "2020-12-01",
        "2021-01-01",
        "2021-02-01",
        "2021-03-01",
        "2021-05-01",
        "2021-10-01",
        "2021-11-01",
        "2021-11-15",
        "2021-12-13",
        "2023-07-01",
        "2023-11-15",
        "2024-03-15",
        "2024-07-17",
        "2025-04-07",
    }
)
"""The api-versions of ``/metadata/instance``; the simulator gives the same body for all."""

HEADER_MISSING: Final = {"error": "Bad request: . Required metadata header not specified"}
VERSION_INVALID: Final = {
    "error": (
        "Bad request. api-version is invalid or was not specified in the request. "
        "For more information refer to aka.ms/azureimds"
    ),
    "newest-versions": ["2025-04-07", "2024-07-17", "2024-03-15"],
}
FORWARDED: Final = {"error": "Bad request. X-Forwarded-For header is not allowed"}


def to_json(value: object) -> bytes:
    """Return ``value`` as compact JSON; half a surrogate pair, which UTF-8 cannot have, becomes ``?``."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode(errors="replace")


def not_before_text(moment: float | None) -> str:
    """Return NotBefore in RFC 1123 GMT; ``""`` for None (started).

    Cut to whole seconds, never rounded up: the event does not begin before the NotBefore people read.
    """
    return "" if moment is None else formatdate(floor(moment), usegmt=True)


def events_in(events: Sequence[WireEvent], version: str) -> list[WireEvent]:
    """Return ``events`` in the form of ``version``: newer fields and event types are left out."""
    return [
        {key: _value(key, value, version) for key, value in event.items() if _knows(_FIELDS_SINCE, key, version)}
        for event in events
        if _knows(_TYPES_SINCE, event.get("EventType"), version)
    ]


def document_body(events: Sequence[WireEvent], incarnation: int) -> bytes:
    """Return the whole body for ``events`` that are already in their version's form."""
    return to_json({"DocumentIncarnation": incarnation, "Events": events})


def _knows(since: Mapping[str, str], word: object, version: str) -> bool:
    return not isinstance(word, str) or since.get(word, VERSIONS[0]) <= version


def _value(key: str, value: object, version: str) -> object:
    if key == "Resources" and version == PREVIEW and isinstance(value, list | tuple):
        return [f"_{name}" for name in value]
    return value
