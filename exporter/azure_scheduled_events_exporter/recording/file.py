"""Reads and writes recordings: the unchanged documents of the metadata service, with their times.

Pure.

A recording is text of one JSON object a line, so that people can read it and a program can append
to it:

    {"recording": 1, "time": 1667203200.123, "vm_name": "web_4", "headers": {"Date": "…"},
    "refused": "", "body": "{…}"}

``refused`` is the reason why the exporter could not read a document. A byte of a body that is not
UTF-8 is half a surrogate pair, as Python's ``surrogateescape`` makes it.
"""

import itertools
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

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
        time = float(values["time"])
        name = str(values.get("vm_name", ""))
        body = values["body"].encode("utf-8", "surrogateescape")
        headers = {str(key): str(value) for key, value in values.get("headers", {}).items()}
        name.encode()  # ValueError: half a surrogate pair, which no name of a VM contains
        if values["recording"] != _FORM or not math.isfinite(time):
            return None
        return RecordedDocument(time, body, headers, str(values.get("refused", "")), name)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None


def parse(text: str, source: str) -> tuple[RecordedDocument, ...]:
    """Return the documents of a recording, at least one; ``source`` names it in errors.

    Raises:
        UsageError: it is not a recording.
    """
    documents = [from_line(line) for line in text.split("\n") if line.strip()]
    sound = [each for each in documents if each is not None]
    if not sound or len(sound) < len(documents):
        raise UsageError(f"{source}: is no recording: 'history --record FILE' writes one")
    # The VM's clock may have been set back.
    times = itertools.accumulate((each.time for each in sound), max)
    return tuple(replace(each, time=time) for each, time in zip(sound, times, strict=True))
