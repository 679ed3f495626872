"""The command ``history``: prints events, and prints or saves the documents that IMDS sent.

Reads the files of the journal, also while an exporter writes them.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from contextlib import closing
from itertools import starmap
from pathlib import Path

from azure_scheduled_events_exporter.errors import ExporterError, UsageError, printable
from azure_scheduled_events_exporter.journal.access import read_only
from azure_scheduled_events_exporter.journal.disk.documents import read_documents
from azure_scheduled_events_exporter.journal.disk.failures import reason
from azure_scheduled_events_exporter.journal.disk.folder_owner import as_folder_owner
from azure_scheduled_events_exporter.journal.disk.location import file_path
from azure_scheduled_events_exporter.recording.file import RecordedDocument, to_text
from azure_scheduled_events_exporter.recording.redaction import STILL_CONTAINED, redact
from azure_scheduled_events_exporter.web.events_api import past_record
from azure_scheduled_events_exporter.web.rows import (
    DOCUMENT_COLUMNS,
    PAST_COLUMNS,
    document_row,
    past_row,
)

from .settings import config_of, shared_journal
from .table import table

DESCRIPTION = (
    "Print past and current events from the journal, the oldest first: notice, who approved, how"
    " long each took, and what hooks did. It reads the journal's files, also while an exporter"
    " writes them, so run it as root or as the exporter's user. 'report' prints one event in full."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``history`` to ``parser``."""
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument("--json", action="store_true", help="Print JSON instead of a table.")
    text = (
        "List the documents that the metadata service sent, or print the one of this number, as it"
        " came unless standard output is a terminal."
    )
    ways.add_argument("--documents", metavar="NUMBER", nargs="?", const="", help=text)
    ways.add_argument(
        "--record",
        metavar="FILE",
        help="Write these documents to FILE (.json), to attach or replay.",
    )
    parser.add_argument(
        "--redact", action="store_true", help="With --record: replace names, ids and texts."
    )


def run(parsed: argparse.Namespace) -> int:
    """Print the events, the oldest first, or print or save the documents; return the exit status.

    Raises:
        UsageError: flags are impossible, or there is a file in the place of the recording.
        ExporterError: there is no journal, it cannot be read, or it has no document of this number.
    """
    config = config_of(parsed)
    path = shared_journal(config)
    if parsed.redact and parsed.record is None:
        raise UsageError("history: --redact needs --record FILE")
    if parsed.record is not None:
        _record(_documents(path), Path(parsed.record), redacted=parsed.redact)
    elif parsed.documents is None:
        _print_events(path, as_json=parsed.json)
    elif parsed.documents == "":  # the flag without a number
        _list_documents(_documents(path))
    else:
        _print_document(_documents(path), parsed.documents)
    return 0


def _print_events(path: Path, *, as_json: bool) -> None:
    """Print the events of the journal at ``path``, each with what hooks ran for it."""
    with as_folder_owner(path), closing(read_only(path)) as store:
        runs = store.hook_runs.all()
        lives_and_runs = [
            (life, [run for run in runs if run.event_id == life.event_id])
            for life in store.history()
        ]
    if as_json:
        print(json.dumps([past_record(*each) for each in lives_and_runs], indent=2))
    elif lives_and_runs:
        sys.stdout.write(table([PAST_COLUMNS, *starmap(past_row, lives_and_runs)]))
    else:
        print("No event has been seen yet.")


def _list_documents(documents: Sequence[RecordedDocument]) -> None:
    """Print one line for each document, with its number."""
    if documents:
        rows = starmap(document_row, enumerate(documents, 1))
        sys.stdout.write(table([DOCUMENT_COLUMNS, *rows]))
    else:
        print("No document has been kept yet.")


def _documents(path: Path) -> list[RecordedDocument]:
    """Return the stored documents, the oldest first."""
    file = file_path(path)
    try:
        with as_folder_owner(path):
            if not file.exists():
                raise ExporterError(
                    f"there is no journal at {file}: has an exporter run here? (--journal.path)"
                )
            return read_documents(file)
    except OSError as error:
        raise ExporterError(
            f"the documents of the journal {file} cannot be read: {reason(error)}"
        ) from None


def _print_document(documents: Sequence[RecordedDocument], number: str) -> None:
    """Print the body of the document that has this ``number`` in the list of documents.

    It is unchanged unless standard output is a terminal.
    """
    bodies = {str(place): document.body for place, document in enumerate(documents, 1)}
    body = bodies.get(number)
    if body is None:
        # Of a word that is longer than any number, the beginning is enough.
        raise ExporterError(
            f"the journal has no document {number[:100]}: 'history --documents' lists them"
        )
    if sys.stdout.isatty():
        # Control characters in it could do something to the terminal.
        print("\n".join(map(printable, body.decode(errors="replace").splitlines())))
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(body + b"\n")


def _record(documents: Sequence[RecordedDocument], target: Path, *, redacted: bool) -> None:
    """Write all documents to ``target``: a new file for this user alone, or a pipe."""
    if not documents:
        raise ExporterError(
            "the journal has kept no document yet: let the exporter run and poll once"
        )
    text = to_text(redact(documents) if redacted else documents)
    flags = os.O_WRONLY
    is_pipe = target.exists() and not target.is_file()  # such as /dev/stdout
    if not is_pipe:
        flags |= os.O_CREAT | os.O_EXCL  # a file that exists is not replaced
    try:
        with os.fdopen(os.open(target, flags, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(f"{target}: exists already: name another file, or remove it") from None
    except OSError as error:
        raise ExporterError(f"{target}: cannot be written: {error.strerror or error}") from None
    print(
        f"{len(documents)} document{'s' if len(documents) > 1 else ''} written to {target}.",
        file=sys.stderr,
    )
    if redacted:
        print(
            f"Names, ids and other texts are replaced. Left as they are: {STILL_CONTAINED}.",
            file=sys.stderr,
        )
    else:
        print("It names VMs and events: --redact replaces them.", file=sys.stderr)
