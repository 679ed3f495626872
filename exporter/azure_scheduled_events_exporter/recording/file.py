"""Reads and writes recordings: the unchanged documents of the metadata service, with their times.

Pure.

A recording is text of one JSON object a line, so that people can read it and a program can append
to it:

    {"recording": 1, "time": 1667203200.123, "vm_name": "web_4", "headers": {"Date": "…"},
    "refused": "", "body": "{…}"}

``refused`` is the reason why the exporter could not read a document. A byte of a body that is not
UTF-8 is half a surrogate pair, as Python's ``surrogateescape`` makes it.
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from azure_scheduled_events_exporter.errors import UsageError

_FORM: Final = 1


@dataclass(frozen=True, slots=True)
class RecordedDocument:
    """A document that differed from the one before.

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
    return "".join(f"{json.dumps(_values(each))}\n" for each in documents)


def _values(document: RecordedDocument) -> dict[str, object]:
    """Return the object that a line has for ``document``."""
    return {
        "recording": _FORM,
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
        if values["recording"] != _FORM:
            return None
        document = _document(values)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None
    if not math.isfinite(document.time):
        return None
    return document


def _document(values: Any) -> RecordedDocument:
    """Return the document of a line. Raises almost anything if the line has another form."""
    vm_name = str(values.get("vm_name", ""))
    vm_name.encode()  # ValueError: half a surrogate pair, which no name of a VM contains
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
        # The VM's clock may have been set back: the documents keep their order, and no time falls.
        latest = max(latest, document.time)
        documents.append(replace(document, time=latest))
    if not documents:
        raise _no_recording(source)
    return tuple(documents)


def _no_recording(source: str) -> UsageError:
    return UsageError(f"{source}: is no recording: 'history --record FILE' writes one")
