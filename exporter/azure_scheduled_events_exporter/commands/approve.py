"""The command ``approve``: an operator on this VM approves events.

A request is queued in the journal of the running exporter, which journals, sends and counts it.
Without an exporter, this process says so on standard error, and is one until the request has a
result. Both need write access to the journal's folder: approvals cannot be requested over the
network.

When this command ends for any reason, it withdraws requests that were not sent. After a SIGKILL,
they expire.

``hook`` runs this command too, with ``--by-hook``, and writes the event to its standard input.
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
from azure_scheduled_events_exporter.config.settings import Config
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
from azure_scheduled_events_exporter.standard_streams import say
from azure_scheduled_events_exporter.web.rows import CURRENT_COLUMNS, current_row

from .interruption import Interrupted, ignore_signals, interruptible
from .settings import config_of, shared_journal
from .table import table
from .waiting import until

DESCRIPTION = "Approve events: they start now, before NotBefore, on every VM in their Resources."
_POLL_SECONDS = 1.0
"""Time between polls if this process is the exporter."""

_THROTTLED_POLLS = 5
"""After so many polls that IMDS throttled, no answer is expected any more.

Another approve, or other programs of this VM, may have used up the limit of IMDS.
"""
_PATIENCE_SECONDS = 15.0
"""How long a request waits, beyond the exporter's next polls and the time of one request to IMDS.

The exporter looks for requests at every poll.
"""

_EXPIRED_SECONDS = 2.0
"""How long the exporter may take to write, at its next poll, why a request has expired."""

_STARTING_SECONDS = 3.0
"""How long an exporter that starts may take to open its journal."""

_IN_FLIGHT_SECONDS = 2.0
"""How long to wait at the end for a request that is being sent, beyond the time limit of IMDS."""

_WITHDRAWN = "withdrawn before it was sent"
"""The result of a request that this command withdraws."""

_NO_NAME = "(none named)"
"""What stands for the VMs of an event without Resources."""

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
    if not prepared and bool(parsed.event_ids) == parsed.all_mine:  # both, or none
        raise UsageError("approve: give EventIds, or --all-mine")
    path = shared_journal(config)
    with interruptible(), as_folder_owner(path):
        log = logs.set_up("error", config.log_format)
        _check_access(path)
        # Before this command may become an exporter, which would set such a file aside.
        check_may_be_opened(path)
        return _approve(parsed, with_endpoint(config, log), log, prepared)


def _prepared_by_hook() -> Lifecycle:
    """Return the event that a hook has prepared, as the hook saw it.

    The request is for the event as it was then: if another document shows it otherwise, the request
    is not sent.
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
    if parsed.by_hook:
        asker = _Asker(parsed.by_hook, Approver.HOOK)
    else:
        asker = _Asker(_operator(), Approver.OPERATOR)
    limiter = RateLimiter()
    with _journal(config, log, limiter, tells_no_exporter=True) as store:
        if prepared:
            return _requested(store, [prepared], asker, config)
        chosen = to_approve(store.current(), parsed.event_ids)
        if parsed.yes or not any(life.is_open_to_approval for life in chosen):
            say(_question(chosen))
            return _requested(store, chosen, asker, config)
    # The journal is closed while the person reads, so that an exporter can start meanwhile.
    print(_question(chosen), flush=True)
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
    config: Config, log: logging.Logger, limiter: RateLimiter, *, tells_no_exporter: bool = False
) -> Iterator[Store]:
    """Open the journal, and see to it that an exporter sends what is requested in it.

    It is the exporter that runs, or else one of this process. ``tells_no_exporter``: whether to say
    so on standard error if it is one of this process.
    """
    path = Path(config.journal_path)
    with ExitStack() as stack:
        try:
            stack.enter_context(_own_exporter(config, log, limiter))
        except JournalInUseError:
            pass  # an exporter runs, and sends what is requested
        else:
            if tells_no_exporter:
                with suppress(OSError):
                    print(_NO_EXPORTER.format(path.absolute()), file=sys.stderr, flush=True)
            # Raises if this user may not write it: to the next line, that looks like a full disk.
            writable(path).close()
        _wait_for_writer(path)
        yield stack.enter_context(closing(writable(path)))


@contextmanager
def _own_exporter(config: Config, log: logging.Logger, limiter: RateLimiter) -> Iterator[None]:
    """Within the block, this process is an exporter, which knows the events that IMDS shows now.

    Raises:
        JournalInUseError: an exporter runs already.
        ExporterError: the journal must not be used, or IMDS does not answer.
    """
    # It pushes no alerts, which it would not live to resolve.
    settings = replace(config, poll_interval=_POLL_SECONDS, alertmanager_url=())
    exporter = Exporter(settings, log, rate_limiter=limiter, renames_journal=False)
    try:
        exporter.journal.wait_until_read(_STARTING_SECONDS)
        if exporter.journal.refusal is not None:  # it is in use, for example
            raise exporter.journal.refusal
        exporter.start()
        _wait_for_poll(exporter)
        if exporter.journal.refusal is not None:  # it is another VM's, which IMDS has shown
            raise exporter.journal.refusal
        yield
    finally:
        exporter.stop()


def _wait_for_writer(path: Path) -> None:
    """Wait until an exporter writes the journal, which one that is just starting does soon.

    Raises ExporterError: none does, because its disk fails. Then it would find no request there.
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

    def is_answered() -> bool:
        """Return whether a poll has ended in another way than by a 429, or too many by a 429."""
        outcomes = exporter.latest().polls.outcomes
        throttled = outcomes[Outcome.THROTTLED]
        others = sum(outcomes.values()) - throttled
        return others > 0 or throttled >= _THROTTLED_POLLS

    until(is_answered, math.inf)
    polls = exporter.latest().polls
    if polls.up or polls.partial:
        return
    if polls.outcomes[Outcome.THROTTLED]:
        raise ExporterError(f"{polls.failure}; try again")
    raise ExporterError(polls.failure)


def _requested(store: Store, chosen: Sequence[Lifecycle], asker: _Asker, config: Config) -> int:
    """Queue requests, wait for their results, print them, and return the exit status."""
    # One poll until the exporter finds the requests, and one for each event, because it sends one
    # request at a time.
    polls_seconds = config.poll_interval * (1 + len(chosen))
    patience = config.imds_timeout + polls_seconds + _PATIENCE_SECONDS
    created = time.time()
    numbers: list[int] = []
    failure_status = 1
    try:
        numbers = store.requests.add(
            ApprovalRequest(life, asker.name, created, created + patience, approver=asker.kind)
            for life in chosen
        )
        until(
            lambda: len(store.requests.results(numbers)) == len(numbers),
            time.monotonic() + patience + config.poll_interval + _EXPIRED_SECONDS,
        )
    except Interrupted as interrupted:
        failure_status = interrupted.exit_status
    finally:
        # After the command has reported a failure, the exporter must not send the approval later.
        ignore_signals()
        if not numbers:  # a signal may have come when they were queued, and no number was known yet
            opened = store.requests.open()
            numbers = [request.number for request in opened if request.created == created]
        results = _withdrawn(store, numbers, config.imds_timeout + _IN_FLIGHT_SECONDS)
    final = [results.get(number, UNKNOWN_RESULT) for number in numbers]
    # There are no results if a signal came before the requests were queued.
    for life, result in zip(chosen, final, strict=False):
        say(printable(f"{life.event_id}: {result}"))
    if _WITHDRAWN in final:
        _say_why(config)
    if final and all(map(is_approved, final)):
        return 0
    if any(map(may_be_approved, final)):
        return _MAY_BE_APPROVED
    return failure_status


def _say_why(config: Config) -> None:
    """Ask IMDS once, and report on standard error why the exporter may not have sent a request."""
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
    """Withdraw the requests that have no result; return the results of all, by their numbers.

    Those that are being sent get at most so many ``seconds``.
    """

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
    """Return the time now by the clock of IMDS.

    NotBefore is a time by that clock, and the one of this VM may be wrong. The exporter saw each
    event at a moment that has both times: what has passed since the newest one is added to it.
    """
    clock = ImdsClock(system_clock())
    clock.follow(max((life.first_seen for life in lives), key=lambda seen: seen.wall))
    return clock().wall


def _list(names: Iterable[str]) -> str:
    """Return names of VMs for people, with commas."""
    return printable(", ".join(names) or _NO_NAME)


def _agreed() -> bool:
    """Ask the person at the terminal; return whether the answer is yes."""
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
