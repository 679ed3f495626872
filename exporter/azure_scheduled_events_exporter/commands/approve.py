"""The command ``approve``: an operator on this VM approves events.

A request is queued in the journal of the running exporter, which journals, sends and counts it.
Without an exporter, this process says so on standard error, and is one until the request has a
result. Both need write access to the journal's folder: approvals cannot be requested over the
network.

When this command ends for any reason, it withdraws requests that were not sent. After a SIGKILL,
they expire.
"""

import argparse
import getpass
import logging
import math
import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from azure_scheduled_events_exporter import logs
from azure_scheduled_events_exporter.approval.operator_requests import (
    UNKNOWN_RESULT,
    is_approved,
    may_be_approved,
    to_approve,
)
from azure_scheduled_events_exporter.config.settings import DISCOVER, Config
from azure_scheduled_events_exporter.core.event_types import EVENT_FACTS
from azure_scheduled_events_exporter.core.lifecycle import Approver, Lifecycle
from azure_scheduled_events_exporter.errors import (
    ExporterError,
    ImdsError,
    JournalInUseError,
    Outcome,
    UsageError,
    printable,
)
from azure_scheduled_events_exporter.imds.api_versions import event_versions
from azure_scheduled_events_exporter.imds.client import ImdsClient
from azure_scheduled_events_exporter.imds.rate_limiter import RateLimiter
from azure_scheduled_events_exporter.journal.access import writable
from azure_scheduled_events_exporter.journal.content.codec import decode
from azure_scheduled_events_exporter.journal.content.inbox import ApprovalRequest
from azure_scheduled_events_exporter.journal.disk.folder_owner import as_folder_owner
from azure_scheduled_events_exporter.journal.disk.location import file_path
from azure_scheduled_events_exporter.journal.disk.lock import has_writer
from azure_scheduled_events_exporter.journal.disk.opening import check_may_be_opened
from azure_scheduled_events_exporter.journal.tables.store import Store
from azure_scheduled_events_exporter.polling.clock import ImdsClock, system_clock
from azure_scheduled_events_exporter.service.endpoint import with_endpoint
from azure_scheduled_events_exporter.service.exporter import Exporter
from azure_scheduled_events_exporter.snapshot.snapshot import Polls
from azure_scheduled_events_exporter.standard_streams import say
from azure_scheduled_events_exporter.web.rows import CURRENT_COLUMNS, current_row

from .interruption import Interrupted, ignore_signals, interruptible
from .settings import config_of, shared_journal
from .table import table
from .waiting import until

DESCRIPTION = "Approve events: they start now, before NotBefore, on every VM in their Resources."
_POLL_SECONDS = 1.0  # without an exporter
_THROTTLED_POLLS = 5
"""After so many polls that IMDS throttled, no answer is expected any more.

Another approve, or other programs of this VM, may have used up the limit of IMDS.
"""
# Beyond the time of one request: the exporter looks for requests at every poll.
_PATIENCE_SECONDS = 15.0
# The exporter writes why a request has expired at the next poll.
_EXPIRED_SECONDS = 2.0
_STARTING_SECONDS = 3.0  # until an exporter that starts has opened its journal
# Beyond the time of one request, if one is being sent when this command is stopped.
_IN_FLIGHT_SECONDS = 2.0
_WITHDRAWN = "withdrawn before it was sent"
_NO_NAME = "(none named)"
_NO_EXPORTER = (
    "approve: no exporter uses the journal in {}, so this command sends the request itself, and"
    " writes it to that journal. If an exporter runs here with another journal, name it:"
    " --journal.path"
)
_MAY_BE_APPROVED = 3
"""The exit status if IMDS may have accepted: what was prepared for the event must stay so."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``approve`` to ``parser``."""
    parser.add_argument("event_ids", metavar="EVENT_ID", nargs="*", help="Events to approve.")
    text = (
        "Approve all Scheduled events of this VM, including Preempt and Terminate, which delete it."
    )
    parser.add_argument("--all-mine", action="store_true", help=text)
    parser.add_argument("--yes", action="store_true", help="Do not ask for confirmation.")
    parser.add_argument("--by-hook", metavar="SCRIPT", help=argparse.SUPPRESS)


def run(parsed: argparse.Namespace) -> int:
    """Approve; return the exit status.

    It is 0 if all events are approved or have started, 3 if that is not known of all, 128 and the
    signal's number if a signal ended the command before it had all results, and 1 otherwise.

    Raises:
        ExporterError: nothing to approve, no access, or no answer.
    """
    config = config_of(parsed)
    prepared = _prepared_by_hook() if parsed.by_hook else None
    if not prepared and bool(parsed.event_ids) == parsed.all_mine:
        raise UsageError("approve: give EventIds, or --all-mine")
    path = shared_journal(config)
    with interruptible(), as_folder_owner(path):
        log = logs.set_up("error", config.log_format)
        _check_access(path)
        check_may_be_opened(path)  # without an exporter, this command would set it aside
        return _approve(parsed, with_endpoint(config, log), log, prepared)


def _prepared_by_hook() -> Lifecycle:
    """Return the event that a hook has prepared, as the hook saw it.

    The request is for that: if another document shows it otherwise, it is not sent.
    """
    return decode(Lifecycle, sys.stdin.buffer.read().decode(errors="replace"))


def _check_access(path: Path) -> None:
    """Raise ExporterError if this user may not write the journal, before anything else is said."""
    file = file_path(path)
    folder = next(each for each in file.parents if os.path.exists(each))  # noqa: PTH110 - does not raise
    may_write = os.access(folder, os.W_OK | os.X_OK)
    if may_write and os.path.exists(file):  # noqa: PTH110
        may_write = os.access(file, os.R_OK | os.W_OK)
    if not may_write and hasattr(os, "geteuid") and os.geteuid() != 0:
        raise ExporterError(
            f"approve: the user {_login_name()} may not write the journal {file}: run approve as"
            " root, or as the exporter's user"
        )


def _approve(
    parsed: argparse.Namespace, config: Config, log: logging.Logger, prepared: Lifecycle | None
) -> int:
    """Show the events, ask if that is wanted, and approve; return the exit status."""
    asker = _Asker(parsed.by_hook, Approver.HOOK)
    if not parsed.by_hook:
        asker = _Asker(_operator(), Approver.OPERATOR)
    limiter = RateLimiter()
    with _journal(config, log, limiter, says=True) as store:
        if prepared:
            return _requested(store, [prepared], asker, config)
        chosen = to_approve(store.current(), parsed.event_ids)
        if parsed.yes or not any(life.is_open_to_approval for life in chosen):
            say(_question(chosen))
            return _requested(store, chosen, asker, config)
    print(_question(chosen), flush=True)  # meanwhile, an exporter can start
    if not _agreed():
        return 1
    with _journal(config, log, limiter) as store:
        return _requested(store, chosen, asker, config)


@dataclass(frozen=True, slots=True)
class _Asker:
    """Who asks for an approval: an operator's login name, or the name of a hook's script."""

    name: str
    kind: Approver


@contextmanager
def _journal(
    config: Config, log: logging.Logger, limiter: RateLimiter, *, says: bool = False
) -> Iterator[Store]:
    """Open the journal while an exporter sends what is requested in it.

    It is the one that runs, or one of this process.
    """
    path = Path(config.journal_path)
    # It pushes no alerts, which it would not live to resolve.
    own = replace(config, poll_interval=_POLL_SECONDS, alertmanager_url=())
    with ExitStack() as stack:
        with suppress(JournalInUseError):  # then an exporter runs, and sends what is requested
            exporter = Exporter(own, log, rate_limiter=limiter, renames_journal=False)
            stack.callback(exporter.stop)
            exporter.journal.wait_until_read(_STARTING_SECONDS)
            if exporter.journal.refusal is not None:
                raise exporter.journal.refusal
            exporter.start()
            _wait_for_poll(exporter)
            if exporter.journal.refusal is not None:  # it is another VM's
                raise exporter.journal.refusal
            if says:
                with suppress(OSError):
                    print(_NO_EXPORTER.format(path.absolute()), file=sys.stderr, flush=True)
            writable(path).close()  # raises if this user may not write it
        _wait_for_writer(path)
        yield stack.enter_context(closing(writable(path)))


def _wait_for_writer(path: Path) -> None:
    """Wait until an exporter writes the journal: it may be just starting.

    Raises ExporterError: none does, because its disk fails. It would find no request there.
    """
    if not until(lambda: has_writer(path), time.monotonic() + _STARTING_SECONDS):
        raise ExporterError(
            f"the exporter cannot write its journal {path}, so it gets no request: "
            "make room on that disk, or mend it, and try again"
        )


def _wait_for_poll(exporter: Exporter) -> None:
    """Wait until the journal has what IMDS shows now.

    Raises ExporterError: IMDS does not answer.
    """

    def result() -> Polls | None:
        polls = exporter.latest().polls
        throttled = polls.outcomes[Outcome.THROTTLED]
        is_over = sum(polls.outcomes.values()) > throttled or throttled == _THROTTLED_POLLS
        return polls if is_over else None

    polls = until(result, math.inf)
    if polls is not None and not (polls.up or polls.partial):
        if polls.outcomes[Outcome.THROTTLED]:
            raise ExporterError(f"{polls.failure}; try again")
        raise ExporterError(polls.failure)


def _requested(store: Store, chosen: Sequence[Lifecycle], asker: _Asker, config: Config) -> int:
    """Queue requests, wait for their results, print them, and return the exit status."""
    # A poll for each event too, because the exporter sends one request at a time.
    patience = config.imds_timeout + config.poll_interval * (1 + len(chosen)) + _PATIENCE_SECONDS
    wall = time.time()
    numbers: list[int] = []
    status = 1
    try:
        numbers = store.requests.add(
            ApprovalRequest(life, asker.name, wall, wall + patience, approver=asker.kind)
            for life in chosen
        )
        until(
            lambda: len(store.requests.results(numbers)) == len(numbers),
            time.monotonic() + patience + config.poll_interval + _EXPIRED_SECONDS,
        )
    except Interrupted as interrupted:
        status = interrupted.exit_status
    finally:
        # After the command has reported a failure, the exporter must not send the approval later.
        ignore_signals()
        # A signal may have come after they were queued, and before their numbers were known.
        numbers = numbers or [
            request.number for request in store.requests.open() if request.created == wall
        ]
        results = _withdrawn(store, numbers, config.imds_timeout + _IN_FLIGHT_SECONDS)
    final = [results.get(number, UNKNOWN_RESULT) for number in numbers]
    # There are no results if a signal came before the requests were queued.
    for life, result in zip(chosen, final, strict=False):
        say(printable(f"{life.event_id}: {result}"))
    if _WITHDRAWN in final:
        _say_why(config)
    if final and all(map(is_approved, final)):
        return 0
    return _MAY_BE_APPROVED if any(map(may_be_approved, final)) else status


def _say_why(config: Config) -> None:
    """Ask IMDS once, and report on standard error why the running exporter may not have sent it."""
    if config.imds_endpoint == DISCOVER:
        return
    versions = event_versions(config.imds_api_version)
    wait = threading.Event().wait
    client = ImdsClient(config.imds_endpoint, versions, RateLimiter(), wait, config.imds_timeout)
    reason = "its log, and 'doctor', say why: IMDS answers this command"
    try:
        client.scheduled_events(config.imds_timeout)
    except ImdsError as error:
        reason = str(error)
    with suppress(OSError):
        print(f"approve: the running exporter did not send it: {reason}", file=sys.stderr)


def _withdrawn(store: Store, numbers: Sequence[int], seconds: float) -> Mapping[int, str]:
    """Withdraw requests without a result; wait for those that are being sent."""

    def all_have_results() -> bool:
        # Again and again: what IMDS refused may be sent again.
        store.requests.withdraw(numbers, _WITHDRAWN)
        return len(store.requests.results(numbers)) == len(numbers)

    if not until(all_have_results, time.monotonic() + seconds):
        store.requests.withdraw(numbers, UNKNOWN_RESULT, sent_too=True)
    return store.requests.results(numbers)


def _question(chosen: Sequence[Lifecycle]) -> str:
    """Return the events and, if one waits for an approval, what approving does to which VMs."""
    now = _now(chosen)
    rows = table([CURRENT_COLUMNS, *(current_row(life, now) for life in chosen)])
    events = [life.event for life in chosen if life.is_open_to_approval]
    if not events:
        return rows.rstrip("\n")  # the result gives the reason
    hit = dict.fromkeys(name for event in events for name in event.resources)
    text = f"{rows}Approving lets this begin now, for every VM in Resources: {_list(hit)}"
    deleting = [
        event
        for event in events
        if event.event_type in EVENT_FACTS and EVENT_FACTS[event.event_type].deletes
    ]
    gone = dict.fromkeys(
        f"{name} ({each.event_type})" for each in deleting for name in each.resources or [_NO_NAME]
    )
    if not gone:
        return text
    return f"{text}\nApproving deletes or evicts now, and this cannot be undone: {_list(gone)}"


def _now(lives: Sequence[Lifecycle]) -> float:
    """Return the time by the clock of IMDS, as the exporter had it when it saw the events.

    NotBefore is a time by that clock, and the one of this VM may be wrong.
    """
    clock = ImdsClock(system_clock())
    clock.follow(max((life.first_seen for life in lives), key=lambda seen: seen.wall))
    return clock().wall


def _list(names: Iterable[str]) -> str:
    return printable(", ".join(names) or _NO_NAME)


def _agreed() -> bool:
    if not sys.stdin.isatty():
        raise UsageError("approve: standard input is not a terminal: add --yes")
    try:
        return input("Approve? [y/N] ").strip().lower() in {"y", "yes"}
    except EOFError:  # Ctrl-D
        print()
        return False


def _operator() -> str:
    """Return the operator's login name: with sudo, that of the person and not root."""
    return printable(os.environ.get("SUDO_USER") or _login_name())


def _login_name() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"
