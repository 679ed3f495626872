"""The command ``report``: prints one event of the journal as a page for a post-mortem.

Reads the files of the journal, also while an exporter writes them. Must not decide what the page
says: ``web.report`` does.
"""

import argparse
import re
import sys
import time
from collections.abc import Iterator
from contextlib import closing

from azure_scheduled_events_exporter import __version__
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle
from azure_scheduled_events_exporter.core.records import Record
from azure_scheduled_events_exporter.core.spans import trace_id
from azure_scheduled_events_exporter.errors import ExporterError, UsageError
from azure_scheduled_events_exporter.journal.access import read_only
from azure_scheduled_events_exporter.journal.disk.folder_owner import as_folder_owner
from azure_scheduled_events_exporter.journal.tables.store import PAGE, Store
from azure_scheduled_events_exporter.times import iso_time
from azure_scheduled_events_exporter.web.report.content import report
from azure_scheduled_events_exporter.web.report.markdown import markdown
from azure_scheduled_events_exporter.web.report.model import Asked, Sources
from azure_scheduled_events_exporter.web.report.page import page

from .settings import config_of, shared_journal

DESCRIPTION = (
    "Print one event as a page for a post-mortem, from the journal alone: timeline in UTC, notice,"
    " VMs, who approved it, what hooks did, the impact that was measured, the trace, and what is"
    " not known."
)
_TRACE_ID = "{trace_id}"
_NOT_IN_A_LINK = re.compile(r"[\s<>\x00-\x1f\x7f-\x9f]")
"""Characters that end a link in Markdown or are not printable."""
_FORMS = {"markdown": markdown, "html": page}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``report`` to ``parser``."""
    parser.add_argument("event_id", metavar="EVENT_ID", nargs="?", help="The event: see history.")
    parser.add_argument(
        "--last",
        action="store_true",
        help="The newest event of this VM, or of others if this VM had none.",
    )
    parser.add_argument(
        "--format",
        choices=tuple(_FORMS),
        default="markdown",
        help="html is one file without scripts, which can be printed. (default markdown)",
    )
    parser.add_argument(
        "--trace-link",
        metavar="URL",
        default="",
        help=f"Address of a trace in your tracing system, with {_TRACE_ID} in it.",
    )


def run(parsed: argparse.Namespace) -> int:
    """Print the report; return the exit status.

    Raises:
        UsageError: not exactly one event is named, or the link has no place for the trace id.
        ExporterError: there is no journal, it cannot be read, or it has no such event.
    """
    config = config_of(parsed)
    if bool(parsed.event_id) == parsed.last:  # both, or none
        raise UsageError("report: give one EventId, or --last")
    if parsed.trace_link and not _is_link(parsed.trace_link):
        raise UsageError(
            f"--trace-link: write an address that begins with https:// and contains {_TRACE_ID}"
        )
    path = shared_journal(config)
    with as_folder_owner(path), closing(read_only(path)) as store:
        sources = sources_of(store, chosen(store, parsed.event_id), parsed.trace_link)
    now = iso_time(round(time.time())).replace("T", " ").replace("Z", " UTC")
    program = f"azure-scheduled-events-exporter {__version__}"
    written_by = f"Written at {now} by {program} from its journal."
    sys.stdout.write(_FORMS[parsed.format](report(sources), written_by))
    return 0


def _is_link(text: str) -> bool:
    """Return whether ``text`` can stand in a page as a link to a trace."""
    has_scheme = text.startswith(("https://", "http://"))
    return has_scheme and _TRACE_ID in text and not _NOT_IN_A_LINK.search(text)


def chosen(store: Store, event_id: str | None) -> Lifecycle:
    """Return the event with this id; without an id, the newest one of this VM.

    If there is none of this VM, it is the newest of all.

    Raises:
        ExporterError: there is no such event.
    """
    lives = list(store.history())  # the oldest first
    if event_id:
        found = [life for life in lives if life.event_id == event_id.upper()]
        if not found:
            # A word that is no id may be very long: its beginning is enough.
            raise ExporterError(
                f"the journal has no event {event_id[:100]}: 'history' lists its events"
            )
        return found[0]
    if not lives:
        raise ExporterError("the journal has no event yet: no exporter has seen one")
    own = [life for life in lives if life.is_mine]
    return (own or lives)[-1]


def sources_of(store: Store, life: Lifecycle, trace_link: str = "") -> Sources:
    """Return all that the journal has about an event.

    ``trace_link`` is the text of ``--trace-link``.
    """
    runs = list(store.hook_runs.all())
    return Sources(
        life=life,
        transitions=tuple(_transitions(store, life.event_id)),
        runs=tuple(run for run in runs if run.event_id == life.event_id),
        hooks=tuple(sorted({run.command for run in runs})),  # also from runs for other events
        asked=tuple(
            Asked(request.operator, request.approver, request.created, result)
            for request, result in store.requests.all()
            if request.life.event_id == life.event_id
        ),
        others=tuple(other for other in store.history() if _overlap(life, other)),
        trace_link=trace_link.replace(_TRACE_ID, trace_id(life.event_id)),
    )


def _transitions(store: Store, event_id: str) -> Iterator[Record]:
    """Yield the transitions of an event, the oldest first; the journal is read page by page."""
    after = 0
    while rows := store.transitions(after, PAGE):
        after, _ = rows[-1]  # the position of the last record of this page
        for _, record in rows:
            if record.get("event_id") == event_id:
                yield record


def _overlap(life: Lifecycle, other: Lifecycle) -> bool:
    """Return whether another event was current at the same time."""
    if other.event_id == life.event_id:
        return False
    is_before = other.ended_at is not None and other.ended_at.wall < life.first_seen.wall
    is_after = life.ended_at is not None and other.first_seen.wall > life.ended_at.wall
    return not is_before and not is_after
