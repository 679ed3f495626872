"""Reads and writes recordings: the unchanged documents of the metadata service, with their times. Pure.

The file is JSON, so that people can read it and attach it to a bug report:

    {"recording": 1, "version": "0.1.0", "vm_name": "web_4", "redacted": false, "documents": [
      {"time": 1667203200.123, "headers": {"Date": "…"}, "refused": "", "body": "{…}"}, …]}

``refused`` is the reason why the exporter could not read a document. A body that is not UTF-8 is in ``body_base64``.
"""

import base64
import itertools
import json
import math
from collections.abc import Mapping
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


@dataclass(frozen=True, slots=True)
class Recording:
    """Documents in the order of their arrival."""

    documents: tuple[RecordedDocument, ...]
    version: str = ""
    redacted: bool = False

    @property
    def vm_name(self) -> str:
        """The last known name of the VM; ``""`` if it was never known."""
        return next((each.vm_name for each in reversed(self.documents) if each.vm_name), "")


def to_text(recording: Recording) -> str:
    """Return the file's text."""
    content = {
        "recording": _FORM,
        "version": recording.version,
        "vm_name": recording.vm_name,
        "redacted": recording.redacted,
        "documents": [
            {"time": each.time, "headers": dict(each.headers), "refused": each.refused, **_body(each.body)}
            for each in recording.documents
        ],
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def _body(body: bytes) -> dict[str, str]:
    try:
        return {"body": body.decode("utf-8")}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(body).decode("ascii")}


def parse(text: str, source: str) -> Recording:
    """Return the recording in ``text``; ``source`` names it in error messages.

    Raises:
        UsageError: it is not a recording, or has no document.
    """
    try:
        content = json.loads(text)
        if content["recording"] != _FORM:
            raise UsageError(f"{source}: recording of form {content['recording']}, known here is {_FORM}: update")
        name = str(content["vm_name"])
        name.encode()  # ValueError: half a surrogate pair, which no name of a VM contains
        documents = tuple(_document(each, name) for each in content["documents"])
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        raise UsageError(f"{source}: is no recording: 'history --record FILE' writes one") from None
    if not documents:
        raise UsageError(f"{source}: has no document to play")
    times = itertools.accumulate((each.time for each in documents), max)  # the VM's clock may have been set back
    documents = tuple(replace(each, time=time) for each, time in zip(documents, times, strict=True))
    return Recording(documents, str(content.get("version", "")), bool(content.get("redacted")))


def _document(values: Mapping[str, Any], vm_name: str) -> RecordedDocument:
    body = values["body"].encode() if "body" in values else base64.b64decode(values["body_base64"], validate=True)
    headers = {str(name): str(value) for name, value in values.get("headers", {}).items()}
    time = float(values["time"])
    if not math.isfinite(time):
        raise ValueError
    return RecordedDocument(time, body, headers, str(values.get("refused", "")), vm_name)
