"""The command ``events``: asks IMDS once and prints the current events.

Needs no running exporter. If there is one whose journal this user can read, what that exporter
knows of the events is used. With ``--follow``, ``follow`` does the work.
"""

import argparse
import logging
import sqlite3
import sys
import threading
from contextlib import closing
from pathlib import Path

from azure_scheduled_events_exporter import logs
from azure_scheduled_events_exporter.approval.policy import Policy
from azure_scheduled_events_exporter.approval.policy_reload import load_policy
from azure_scheduled_events_exporter.approval.scheduler import ApprovalScheduler
from azure_scheduled_events_exporter.config.settings import Config
from azure_scheduled_events_exporter.core.document import Document
from azure_scheduled_events_exporter.core.instance import Instance, parse_instance
from azure_scheduled_events_exporter.core.lifecycle import Lifecycles
from azure_scheduled_events_exporter.core.observation import observe
from azure_scheduled_events_exporter.core.observation_context import ObservationContext
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.errors import (
    ExporterError,
    ImdsError,
    Outcome,
    UsageError,
)
from azure_scheduled_events_exporter.imds.api_versions import event_versions
from azure_scheduled_events_exporter.imds.client import ImdsClient
from azure_scheduled_events_exporter.imds.rate_limiter import RateLimiter
from azure_scheduled_events_exporter.journal.access import read_only
from azure_scheduled_events_exporter.polling.clock import ImdsClock, system_clock
from azure_scheduled_events_exporter.polling.document_reader import DocumentReader
from azure_scheduled_events_exporter.recording.file import RecordedDocument
from azure_scheduled_events_exporter.service.endpoint import (
    NOT_REACHED,
    SHORT_SEARCH,
    with_endpoint,
)
from azure_scheduled_events_exporter.snapshot.snapshot import Polls, Snapshot
from azure_scheduled_events_exporter.web.events_api import events_json
from azure_scheduled_events_exporter.web.rows import CURRENT_COLUMNS, current_row

from .settings import config_of
from .table import table
from .waiting import long_wait_noticed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``events`` to ``parser``."""
    parser.add_argument("--json", action="store_true", help="Print JSON instead of a table.")
    parser.add_argument(
        "--follow",
        action="store_true",
        help="Print every transition from now on as one line of JSON.",
    )
    text = "With --follow: start after the line with this 'cursor' (or 'seq')."
    parser.add_argument("--since", metavar="CURSOR", help=text)
    parser.add_argument(
        "--mine", action="store_true", help="With --follow: leave out events of other VMs."
    )


def run(parsed: argparse.Namespace) -> int:
    """Print the current events; return the exit status: 1 if some of them cannot be read.

    Raises:
        ExporterError: IMDS gave no valid answer.
    """
    if parsed.follow:
        from . import follow  # noqa: PLC0415 - only what a command needs is loaded

        return follow.run(config_of(parsed), since=parsed.since, mine=parsed.mine)
    if parsed.since or parsed.mine:
        raise UsageError("events: --since and --mine need --follow")
    return _once(config_of(parsed), as_json=parsed.json)


def _once(config: Config, *, as_json: bool) -> int:
    """Print what one document shows; return the exit status."""
    log = logs.set_up("error", "logfmt")
    policy = load_policy(config.approval_policy)
    client = ImdsClient(
        with_endpoint(config, log, SHORT_SEARCH).imds_endpoint,
        event_versions(config.imds_api_version),
        RateLimiter(),
        threading.Event().wait,
        config.imds_timeout,
    )
    # The events are requested first, and this VM's name only afterwards, in `_snapshot`: if IMDS
    # cannot be reached, the first request ends the command, so that is reported only once.
    document = _document(client, config.imds_timeout, log)
    clock = ImdsClock(system_clock())
    clock.correct(client.server_time())
    moment = clock()
    snapshot = _snapshot(config, policy, client, document, moment, log)
    if as_json:
        sys.stdout.write(events_json(snapshot, moment.wall).decode())
    elif snapshot.current:
        _print_table(snapshot, moment.wall)
    elif not document.unreadable:
        print("No events.")
    for complaint in (*document.unreadable, *document.remarks):
        print(complaint, file=sys.stderr)
    return 1 if document.unreadable else 0


def _snapshot(
    config: Config,
    policy: Policy,
    client: ImdsClient,
    document: Document,
    moment: Timestamp,
    log: logging.Logger,
) -> Snapshot:
    """Return what an exporter would show of ``document``, which came at ``moment``."""
    identity = None
    vm_name = config.instance_name
    if not vm_name:
        identity = _identity(client, config.imds_timeout)
        vm_name = None if identity is None else identity.vm_name
    known, _ = observe(
        _seen_before(config, document),
        document,
        ObservationContext(moment, vm_name, harmless_below=config.freeze_harmless_below),
    )
    # Nothing is sent: `due` is called because it sets the statuses, which have the reasons.
    approvals = ApprovalScheduler(policy, log)
    approvals.due(known, vm_name, requests=(), now=moment)
    failure = "; ".join(document.unreadable)
    return Snapshot(
        polls=Polls(up=not failure, last_success=moment.wall, failure=failure),
        poll_interval=config.poll_interval,
        vm_name=vm_name,
        identity=identity,
        incarnation=document.incarnation,
        approval_policy=approvals.policy_name,
        approval_statuses=approvals.statuses,
    ).with_events(known, moment.wall)


def _print_table(snapshot: Snapshot, now: float) -> None:
    """Print the current events, each with why it is not approved."""
    statuses = snapshot.approval_statuses
    rows = [
        (*current_row(life, now), statuses[event_id].reason if event_id in statuses else "")
        for event_id, life in snapshot.current.items()
    ]
    sys.stdout.write(table([(*CURRENT_COLUMNS, "Approval"), *rows]))


def _identity(client: ImdsClient, timeout: float) -> Instance | None:
    """Ask IMDS which VM this is; if it does not answer, print what that means and return None."""
    try:
        return parse_instance(client.instance(timeout))
    except ExporterError as error:
        print(f"this VM's name is not known, so every scope is 'unknown': {error}", file=sys.stderr)
        return None


def _seen_before(config: Config, document: Document) -> Lifecycles:
    """Return the events of ``document`` as the running exporter knows them.

    Without a journal that can be read, there are none. Events then count as first seen now, so the
    time at which a rule with ``after`` approves is not known.
    """
    try:
        with closing(read_only(Path(config.journal_path))) as store:
            known = store.current()
    except (ExporterError, ValueError, sqlite3.Error):
        return Lifecycles()
    return Lifecycles(
        {
            event.event_id: known[event.event_id]
            for event in document.events
            if event.event_id in known
        }
    )


def _document(client: ImdsClient, timeout: float, log: logging.Logger) -> Document:
    """Request the document once.

    If no answer comes for some seconds, a line says what may be wrong. If IMDS cannot be reached at
    all, the error says the same.
    """

    def keep_nothing(_: RecordedDocument) -> None:
        """Do nothing with a document: this command writes no journal."""

    reader = DocumentReader(client, timeout, system_clock(), keep_nothing, log)
    limit = f"{reader.next_timeout:g} s"
    waiting = (
        f"waiting up to {limit} for {client.endpoint}, whose first answer may take two minutes;"
        f" {NOT_REACHED}"
    )
    try:
        with long_wait_noticed(waiting):
            document = reader.read(has_events=False)
    except ImdsError as error:
        if error.outcome is Outcome.THROTTLED:
            raise ExporterError(f"{error}; try again") from None
        if client.reached:
            raise
        raise ExporterError(f"{error}; {NOT_REACHED}") from None
    # `read` returns None for an empty body that it does not believe, and it believes one if there
    # are no events.
    assert document is not None  # noqa: S101
    return document
