"""The stored documents: ``history --documents`` lists and prints them, ``history --record`` writes them to a file."""

import os
import stat
import sys
from collections.abc import Sequence
from pathlib import Path

from azure_scheduled_events_exporter import __version__
from azure_scheduled_events_exporter.core.document import parse_document
from azure_scheduled_events_exporter.errors import ExporterError, UsageError, table
from azure_scheduled_events_exporter.file_replacement import replace
from azure_scheduled_events_exporter.journal.documents import read_documents
from azure_scheduled_events_exporter.journal.file import FAILURES, documents_path, file_path, own_files, reason
from azure_scheduled_events_exporter.recording.file import RecordedDocument, Recording, parse, to_text
from azure_scheduled_events_exporter.recording.redaction import LEFT, redact
from azure_scheduled_events_exporter.times import iso_time

_COLUMNS = ("Number", "Came", "Incarnation", "Events", "Bytes", "Refused")
_Numbered = Sequence[tuple[int, RecordedDocument]]


def show(journal: Path, number: str) -> int:
    """List the documents, or print the unchanged body of document ``number``; return the exit status.

    Raises:
        ExporterError: the journal cannot be read, or has no such document.
    """
    documents = _read(journal)
    if number:
        if not number.isdecimal():
            raise UsageError(f"--documents: '{number[:100]}' is not a number: 'history --documents' lists them")
        body = next((each.body for known, each in documents if str(known) == number), None)
        if body is None:
            raise ExporterError(f"the journal has no document {number[:100]}: 'history --documents' lists them")
        sys.stdout.flush()
        sys.stdout.buffer.write(body + b"\n")
    elif documents:
        sys.stdout.write(table([_COLUMNS, *(_row(known, each) for known, each in documents)]))
    else:
        print("No document has been kept yet.")
    return 0


def record(journal: Path, target: Path, *, redacted: bool) -> int:
    """Write all documents as a recording to ``target``; return the exit status.

    Raises:
        UsageError: there is another file, which would be lost.
        ExporterError: the journal cannot be read or has no document, or the file cannot be written.
    """
    documents = tuple(each for _, each in _read(journal))
    if not documents:
        raise ExporterError("the journal has kept no document yet: let the exporter run and poll once")
    recording = Recording(documents, __version__)
    if redacted:
        recording = redact(recording)
    try:
        _write(target, to_text(recording), journal)
    except OSError as error:
        raise ExporterError(f"{target}: cannot be written: {error.strerror or error}") from None
    print(f"{len(documents)} document{'s' if len(documents) > 1 else ''} written to {target}.", file=sys.stderr)
    if redacted:
        print(f"Names, ids and other texts are replaced. Left as they are: {LEFT}.", file=sys.stderr)
    else:
        print("It names VMs and events: --redact replaces them.", file=sys.stderr)
    return 0


def _write(target: Path, text: str, journal: Path) -> None:
    """Write the recording; UsageError: in the place of the journal, or of a file that is no recording."""
    place = Path(os.path.realpath(target))
    if place in own_files(journal):
        raise UsageError(f"{target}: belongs to the journal: name another file")
    if target.exists() and not target.is_file():  # a pipe, such as /dev/stdout
        target.write_text(text, encoding="utf-8")
        return
    mode = 0o600  # as the journal: it names VMs and events
    if place.exists():
        mode = stat.S_IMODE(place.stat().st_mode)
        try:
            content = place.read_text(encoding="utf-8")
            if content:  # else nothing is lost: mktemp made it
                parse(content, str(target))
        except (UsageError, UnicodeDecodeError):
            raise UsageError(f"{target}: is there and is no recording: name another file, or remove it") from None
    replace(place, text.encode(), mode)


def _read(journal: Path) -> _Numbered:
    file = file_path(journal)
    try:
        if not file.exists():
            raise ExporterError(f"there is no journal at {file}: has an exporter run here? (--journal.path)")
        return read_documents(documents_path(file))
    except FAILURES as error:
        raise ExporterError(f"the documents {documents_path(file)} cannot be read: {reason(error)}") from None


def _row(number: int, document: RecordedDocument) -> tuple[str, ...]:
    try:
        content = parse_document(document.body)
        incarnation = "" if content.incarnation is None else str(content.incarnation)
        events = ", ".join(f"{each.event_type} {each.status}" for each in content.events) or "none"
    except ExporterError:
        incarnation = events = ""
    return (str(number), iso_time(document.time), incarnation, events, str(len(document.body)), document.refused[:60])
