"""The command ``history``: prints the events of the journal, or prints or saves the documents that IMDS sent.

Reads the files of the journal, also while an exporter writes them.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from itertools import starmap
from pathlib import Path

from azure_scheduled_events_exporter.core.document import parse_document
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle
from azure_scheduled_events_exporter.core.records import Record, life_record, seconds_between
from azure_scheduled_events_exporter.errors import ExporterError, UsageError, table
from azure_scheduled_events_exporter.journal.documents import read_documents
from azure_scheduled_events_exporter.journal.file import MEMORY, file_path, read_only, reason
from azure_scheduled_events_exporter.journal.inbox import HookRun
from azure_scheduled_events_exporter.recording.file import RecordedDocument, to_text
from azure_scheduled_events_exporter.recording.redaction import LEFT, redact
from azure_scheduled_events_exporter.times import format_duration, iso_time
from azure_scheduled_events_exporter.web.wording import paused

from .settings import config_without_policy

_EVENT_COLUMNS = (
    *("First seen", "Type", "Source", "Scope", "Notice", "Approved", "Took", "Paused", "Hook"),
    *("Outcome", "EventId"),
)
_DOCUMENT_COLUMNS = ("Number", "Came", "Incarnation", "Events", "Bytes", "Refused")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``history`` to ``parser``."""
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument("--json", action="store_true", help="Print JSON instead of a table.")
    text = "List the documents that the metadata service sent, or print the one of this number as it came."
    ways.add_argument("--documents", metavar="NUMBER", nargs="?", const="", help=text)
    ways.add_argument("--record", metavar="FILE", help="Write these documents to FILE (.json), to attach or replay.")
    parser.add_argument("--redact", action="store_true", help="With --record: replace names, ids and texts.")


def run(parsed: argparse.Namespace) -> int:
    """Print every event in the journal, the oldest first, or print or save the documents; return the exit status.

    Raises:
        UsageError: there is a file in the place of the recording.
        ExporterError: there is no journal, or it cannot be read.
    """
    config = config_without_policy(parsed)
    path = Path(config.journal_path)
    if config.journal_path == MEMORY:
        raise UsageError("--journal.path: 'memory' keeps no history: name the journal of the running exporter")
    if parsed.redact and parsed.record is None:
        raise UsageError("history: --redact needs --record FILE")
    if parsed.record is not None:
        _record(_documents(path), Path(parsed.record), redacted=parsed.redact)
    elif parsed.documents:
        _print_document(_documents(path), parsed.documents)
    elif parsed.documents is not None:
        rows = list(starmap(_document_row, enumerate(_documents(path), 1)))
        sys.stdout.write(table([_DOCUMENT_COLUMNS, *rows]) if rows else "No document has been kept yet.\n")
    else:
        _print_events(path, as_json=parsed.json)
    return 0


def _print_events(path: Path, *, as_json: bool) -> None:
    store = read_only(path)
    lives, runs = list(store.history()), store.hook_runs()
    if as_json:
        print(json.dumps([_event_record(life, runs) for life in lives], indent=2))
    elif lives:
        sys.stdout.write(table([_EVENT_COLUMNS, *(_event_row(life, runs) for life in lives)]))
    else:
        print("No event has been seen yet.")


def _event_record(life: Lifecycle, runs: Sequence[HookRun]) -> Record:
    mine = [
        {
            "phase": run.phase,
            "outcome": run.outcome,
            "started": iso_time(run.started),
            "duration_seconds": run.duration,
            "seconds_left": run.seconds_left,
        }
        for run in runs
        if run.event_id == life.event_id
    ]
    return {**life_record(life, time.time()), "hook_runs": mine}


def _event_row(life: Lifecycle, runs: Sequence[HookRun]) -> tuple[str, ...]:
    after = _length(seconds_between(life.first_seen, life.approved_at))
    return (
        iso_time(life.first_seen.wall),
        life.event.event_type,
        life.event.source,
        str(life.scope),
        _length(life.notice_seconds) or "unknown",
        f"by {life.approved_by}{after and f' after {after}'}" if life.approved_by else "",
        _length(seconds_between(life.started_at, life.ended_at)),
        "" if life.observed_pause is None else paused(life.observed_pause),
        ", ".join(f"{run.phase} {run.outcome or 'runs'}" for run in runs if run.event_id == life.event_id),
        str(life.outcome or f"now {life.state}"),
        life.event_id,
    )


def _length(seconds: float | None) -> str:
    """Return a duration in whole seconds."""
    return "" if seconds is None else format_duration(round(seconds))


def _documents(path: Path) -> list[RecordedDocument]:
    """Return the stored documents, the oldest first."""
    file = file_path(path)
    try:
        if not file.exists():
            raise ExporterError(f"there is no journal at {file}: has an exporter run here? (--journal.path)")
        return read_documents(file)
    except OSError as error:
        raise ExporterError(f"the documents of the journal {file} cannot be read: {reason(error)}") from None


def _document_row(number: int, document: RecordedDocument) -> tuple[str, ...]:
    try:
        content = parse_document(document.body)
        incarnation = "" if content.incarnation is None else str(content.incarnation)
        events = ", ".join(f"{each.event_type} {each.status}" for each in content.events) or "none"
    except ExporterError:
        incarnation = events = ""
    return (str(number), iso_time(document.time), incarnation, events, str(len(document.body)), document.refused[:60])


def _print_document(documents: Sequence[RecordedDocument], number: str) -> None:
    """Print the unchanged body of a document."""
    body = next((document.body for known, document in enumerate(documents, 1) if str(known) == number), None)
    if body is None:
        raise ExporterError(f"the journal has no document {number[:100]}: 'history --documents' lists them")
    sys.stdout.flush()
    sys.stdout.buffer.write(body + b"\n")


def _record(documents: Sequence[RecordedDocument], target: Path, *, redacted: bool) -> None:
    """Write all documents as a recording to ``target``: a new file for this user alone, or a pipe."""
    if not documents:
        raise ExporterError("the journal has kept no document yet: let the exporter run and poll once")
    text = to_text(redact(documents) if redacted else documents)
    is_pipe = target.exists() and not target.is_file()  # such as /dev/stdout
    flags = os.O_WRONLY | (0 if is_pipe else os.O_CREAT | os.O_EXCL)
    try:
        with os.fdopen(os.open(target, flags, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(f"{target}: exists already: name another file, or remove it") from None
    except OSError as error:
        raise ExporterError(f"{target}: cannot be written: {error.strerror or error}") from None
    print(f"{len(documents)} document{'s' if len(documents) > 1 else ''} written to {target}.", file=sys.stderr)
    if redacted:
        print(f"Names, ids and other texts are replaced. Left as they are: {LEFT}.", file=sys.stderr)
    else:
        print("It names VMs and events: --redact replaces them.", file=sys.stderr)
