"""The command ``events``: asks IMDS once and prints the current events.

Needs no running exporter. If there is one whose journal this user can read, what it knows of the events is used.
"""

import argparse
import sqlite3
import sys
import threading
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from azure_scheduled_events_exporter import logs
from azure_scheduled_events_exporter.approval.scheduler import ApprovalScheduler
from azure_scheduled_events_exporter.config import Config
from azure_scheduled_events_exporter.core.document import Document, parse_document
from azure_scheduled_events_exporter.core.instance import parse_instance
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle, Lifecycles, State
from azure_scheduled_events_exporter.core.observation import ObservationContext, observe
from azure_scheduled_events_exporter.core.records import current_record
from azure_scheduled_events_exporter.errors import (
    DamagedTextError,
    ExporterError,
    ImdsError,
    InvalidDocumentError,
    Outcome,
    UsageError,
    table,
)
from azure_scheduled_events_exporter.imds.api_versions import event_versions
from azure_scheduled_events_exporter.imds.client import ImdsClient
from azure_scheduled_events_exporter.imds.rate_limiter import RateLimiter
from azure_scheduled_events_exporter.journal.file import MEMORY, read_only
from azure_scheduled_events_exporter.polling.clock import system_clock
from azure_scheduled_events_exporter.polling.document_reader import FIRST_TIMEOUT_SECONDS
from azure_scheduled_events_exporter.polling.snapshot import Polls, Snapshot
from azure_scheduled_events_exporter.service.endpoint import NOT_ON_AZURE, with_endpoint
from azure_scheduled_events_exporter.times import format_duration
from azure_scheduled_events_exporter.web.events_api import events_json

from .settings import config_of, config_without_policy

COLUMNS = (
    *("EventId", "Type", "Status", "Source", "Scope", "NotBefore", "Impact"),
    *("ResourceType", "Resources", "Description"),
)
_NOTICE_SECONDS = 5.0
"""An answer usually takes milliseconds; after this time, the command prints what it waits for."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``events`` to ``parser``."""
    parser.add_argument("--json", action="store_true", help="Print JSON instead of a table.")
    parser.add_argument("--follow", action="store_true", help="Print every transition from now on as one line of JSON.")
    parser.add_argument(
        "--since", metavar="CURSOR", help="With --follow: start after the line with this 'cursor' (or 'seq')."
    )
    parser.add_argument("--mine", action="store_true", help="With --follow: only events of this VM.")


def run(parsed: argparse.Namespace) -> int:
    """Print the current events to standard output; return the exit status: 1 if some of them cannot be read.

    Raises:
        ExporterError: IMDS gave no valid answer.
    """
    if parsed.follow:
        from . import follow  # noqa: PLC0415 - only what a command needs is loaded

        return follow.run(config_without_policy(parsed), since=parsed.since, mine=parsed.mine)
    if parsed.since or parsed.mine:
        raise UsageError("events: --since and --mine need --follow")
    return _once(config_of(parsed), as_json=parsed.json)


def _once(config: Config, *, as_json: bool) -> int:
    log = logs.set_up("error", "logfmt")
    endpoint = with_endpoint(config, log).imds_endpoint
    client = ImdsClient(
        endpoint, event_versions(config.imds_api_version), RateLimiter(), threading.Event().wait, config.imds_timeout
    )
    # First the events, so that an IMDS that cannot be reached is reported once.
    document = _document(client, endpoint, max(FIRST_TIMEOUT_SECONDS, config.imds_timeout))
    identity, vm_name = None, config.instance_name
    if vm_name is None:
        try:
            identity = parse_instance(client.instance(config.imds_timeout))
            vm_name = identity.vm_name
        except ExporterError as error:
            print(f"this VM's name is not known, so every scope is 'unknown': {error}", file=sys.stderr)
    moment = system_clock().now()
    known, _ = observe(_seen_before(config, document), document, ObservationContext(moment, vm_name))
    approvals = ApprovalScheduler(config.approval_policy, log)  # used only for the reasons: nothing is sent
    approvals.due(known, vm_name, (), moment, client.server_time())
    now = time.time()
    if as_json:
        polls = replace(Polls(), up=not document.unreadable, last_success=now, failure="; ".join(document.unreadable))
        snapshot = Snapshot(
            polls=polls,
            poll_interval=config.poll_interval,
            vm_name=vm_name,
            identity=identity,
            incarnation=document.incarnation,
            approval_policy=approvals.policy_name,
            approval_statuses=approvals.statuses,
        ).showing(known, (), now)
        sys.stdout.write(events_json(snapshot, now).decode())
    elif known.current:
        reasons = {event_id: status.reason for event_id, status in approvals.statuses.items()}
        rows = [(*event_row(life, now), reasons.get(event_id, "")) for event_id, life in known.current.items()]
        sys.stdout.write(table([(*COLUMNS, "Approval"), *rows]))
    elif not document.unreadable:
        print("No events.")
    for complaint in (*document.unreadable, *document.remarks):
        print(complaint, file=sys.stderr)
    return 1 if document.unreadable else 0


def _seen_before(config: Config, document: Document) -> Lifecycles:
    """Return the events of ``document`` as the running exporter knows them; none without a journal that can be read.

    Without it, they count as first seen now, so the time at which a rule with ``after`` approves is not known.
    """
    if config.journal_path == MEMORY:
        return Lifecycles()
    try:
        with closing(read_only(Path(config.journal_path))) as store:
            known = store.current()
    except (ExporterError, DamagedTextError, sqlite3.Error):
        return Lifecycles()
    return Lifecycles({event.event_id: known[event.event_id] for event in document.events if event.event_id in known})


def _document(client: ImdsClient, endpoint: str, timeout: float) -> Document:
    """Request the document; print what to do while no answer comes or if none came."""
    waiting = f"waiting up to {timeout:g} s for {endpoint}, whose first answer may take two minutes; {NOT_ON_AZURE}"
    notice = threading.Timer(_NOTICE_SECONDS, print, [waiting], {"file": sys.stderr})
    notice.start()
    try:
        body = client.scheduled_events(timeout)
    except ImdsError as error:
        if error.outcome is Outcome.THROTTLED:
            raise ExporterError(f"{error}; try again") from None
        raise error if client.reached else ExporterError(f"{error}; {NOT_ON_AZURE}") from None
    finally:
        notice.cancel()
    if body is None:
        raise ExporterError(f"{endpoint} answered 304 (unchanged) to a first request")
    try:
        return parse_document(body)
    except InvalidDocumentError as error:
        raise ExporterError(f"{endpoint} answered no Scheduled Events document: {error}") from None


def event_row(life: Lifecycle, now: float) -> tuple[str, ...]:
    """Return a current event as a row of :data:`COLUMNS`, for people."""
    record = current_record(life, now)
    left = record["seconds_until_not_before"]
    when = str(record["not_before"] or "unknown")
    if isinstance(left, float):
        when += (
            f" (in {format_duration(round(left))})" if left >= 0 else f" (overdue by {format_duration(round(-left))})"
        )
    elif life.state is State.STARTED:
        when = "has begun"
    seconds = life.event.duration_seconds
    return (
        life.event_id,
        life.event.event_type,
        str(record["event_status"]),
        life.event.source,
        str(life.scope),
        when,
        "unknown" if seconds is None else format_duration(seconds),
        life.event.resource_type,
        ", ".join(life.event.resources),
        life.event.description,
    )
