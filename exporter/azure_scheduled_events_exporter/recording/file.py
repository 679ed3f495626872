"""Reads and writes recordings: the unchanged documents of the metadata service, with their times.

``history --record`` writes them, and the simulator plays them. Pure: a recording is text here.

Each line is one JSON object, so that people can read it and a program can append to it:

    {"recording": 1, "time": 1667203200.123, "vm_name": "web_4", "headers": {"Date": "…"},
    "refused": "", "body": "{…}"}

A body need not be UTF-8: a byte that is not becomes half a surrogate pair, as Python's
``surrogateescape`` makes it.
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from azure_scheduled_events_exporter.errors import UsageError

_FORMAT: Final = 1
"""The number of the format that is described above."""


@dataclass(frozen=True, slots=True)
class RecordedDocument:
    """A document as it came; a recording has those that differ from the one before.

    Attributes:
        time: when it came, Unix seconds by the VM's clock.
        body: the bytes of the answer.
        headers: the headers of the answer that are kept.
        refused: why it could not be read, in whole or in part; ``""`` when it could.
        vm_name: the VM's name, ``""`` if it was unknown then.
    """

    time: float
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    refused: str = ""
    vm_name: str = ""


def to_text(documents: Iterable[RecordedDocument]) -> str:
    """Return the recording of ``documents``, which are in the order of their arrival."""
    lines = [json.dumps(_values(document)) for document in documents]
    return "".join(f"{line}\n" for line in lines)


def _values(document: RecordedDocument) -> dict[str, object]:
    """Return the values of the line for ``document``."""
    return {
        "recording": _FORMAT,
        "time": document.time,
        "vm_name": document.vm_name,
        "headers": dict(document.headers),
        "refused": document.refused,
        "body": document.body.decode("utf-8", "surrogateescape"),
    }


def from_line(line: str | bytes) -> RecordedDocument | None:
    """Return the document of one line of a recording; None if the line has no valid document."""
    try:
        values = json.loads(line)
        if values["recording"] != _FORMAT:
            return None
        document = _document(values)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None
    if not math.isfinite(document.time):
        return None
    return document


def _document(values: Any) -> RecordedDocument:
    """Return the document of a line.

    A line in another form raises one of the errors that :func:`from_line` handles.
    """
    vm_name = str(values.get("vm_name", ""))
    vm_name.encode()  # raises ValueError for half a surrogate pair, which no name of a VM has
    headers = values.get("headers", {})
    return RecordedDocument(
        time=float(values["time"]),
        body=values["body"].encode("utf-8", "surrogateescape"),
        headers={str(name): str(value) for name, value in headers.items()},
        refused=str(values.get("refused", "")),
        vm_name=vm_name,
    )


def parse(text: str, source: str) -> tuple[RecordedDocument, ...]:
    """Return the documents of a recording, at least one; ``source`` names it in errors.

    Raises:
        UsageError: it is not a recording.
    """
    documents: list[RecordedDocument] = []
    latest = -math.inf
    for line in text.split("\n"):
        if not line.strip():
            continue
        document = from_line(line)
        if document is None:
            raise _no_recording(source)
        # If the VM's clock was set back, the documents keep their order, and the time stands still.
        latest = max(latest, document.time)
        documents.append(replace(document, time=latest))
    if not documents:
        raise _no_recording(source)
    return tuple(documents)


def _no_recording(source: str) -> UsageError:
    return UsageError(f"{source}: is no recording: 'history --record FILE' writes one")
