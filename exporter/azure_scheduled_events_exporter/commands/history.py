"""The command ``history``: prints the journal for people or as JSON, also while the exporter runs."""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from azure_scheduled_events_exporter.core.lifecycle import Lifecycle
from azure_scheduled_events_exporter.core.records import Record, life_record, seconds_between
from azure_scheduled_events_exporter.errors import UsageError, table
from azure_scheduled_events_exporter.journal.file import MEMORY, read_only
from azure_scheduled_events_exporter.journal.hook_runs import HookRun
from azure_scheduled_events_exporter.times import format_duration, iso_time
from azure_scheduled_events_exporter.web.wording import paused

from . import documents as documents_command
from .settings import config_without_policy

_COLUMNS = (
    *("First seen", "Type", "Source", "Scope", "Notice", "Approved", "Took", "Paused", "Hook"),
    *("Outcome", "EventId"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``history`` to ``parser``."""
    parser.add_argument("--json", action="store_true", help="Print JSON instead of a table.")
    parser.add_argument(
        "--documents",
        metavar="NUMBER",
        nargs="?",
        const="",
        help="List the documents that the metadata service sent, or print the one of this number as it came.",
    )
    parser.add_argument("--record", metavar="FILE", help="Write these documents to FILE (.json), to attach or replay.")
    parser.add_argument("--redact", action="store_true", help="With --record: replace names, ids and texts.")


def run(parsed: argparse.Namespace) -> int:
    """Print every event in the journal, the oldest first; return the exit status.

    Or list the stored documents, print the one with a number, or write all to a file.

    Raises:
        ExporterError: there is no journal, or it cannot be read.
    """
    config = config_without_policy(parsed)
    documents, record = parsed.documents, parsed.record
    if config.journal_path == MEMORY:
        raise UsageError("--journal.path: 'memory' keeps no history: name the journal of the running exporter")
    if parsed.redact and record is None:
        raise UsageError("history: --redact needs --record FILE")
    if documents is not None and record is not None:
        raise UsageError("history: --documents and --record cannot be used together")
    if parsed.json and (documents is not None or record is not None):
        raise UsageError("history: --json is for events: leave it out with --documents and --record")
    if record == "":
        raise UsageError("history: --record: has no value: name a file")
    if record is not None:
        return documents_command.record(Path(config.journal_path), Path(record), redacted=parsed.redact)
    if documents is not None:
        return documents_command.show(Path(config.journal_path), documents)
    lives, runs = _read(Path(config.journal_path))
    if parsed.json:
        sys.stdout.write(json.dumps([_record(life, runs) for life in lives], indent=2) + "\n")
    elif lives:
        sys.stdout.write(table([_COLUMNS, *(_row(life, runs) for life in lives)]))
    else:
        print("No event has been seen yet.")
    return 0


def _read(path: Path) -> tuple[list[Lifecycle], list[HookRun]]:
    """Return every event in the journal and every run of a hook, the oldest first; warn if one cannot be read."""
    store = read_only(path)
    lives = list(store.history())
    runs = store.hook_runs.all()
    if store.left_out:
        print(f"history: at least one event is left out: {store.left_out}", file=sys.stderr)
    return lives, runs


def _record(life: Lifecycle, runs: Sequence[HookRun]) -> Record:
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


def _row(life: Lifecycle, runs: Sequence[HookRun]) -> tuple[str, ...]:
    approval = ""
    if life.approved_by:
        after = seconds_between(life.first_seen, life.approved_at)
        approval = f"by {life.approved_by}" + (f" after {_length(after)}" if after is not None else "")
    return (
        iso_time(life.first_seen.wall),
        life.event.event_type,
        life.event.source,
        str(life.scope),
        "unknown" if life.notice_seconds is None else _length(life.notice_seconds),
        approval,
        _length(seconds_between(life.started_at, life.ended_at)),
        "" if life.observed_pause is None else paused(life.observed_pause),
        ", ".join(f"{run.phase} {run.outcome or 'runs'}" for run in runs if run.event_id == life.event_id),
        str(life.outcome or f"now {life.state}"),
        life.event_id,
    )


def _length(seconds: float | None) -> str:
    """Return a duration in whole seconds."""
    return "" if seconds is None else format_duration(round(seconds))
