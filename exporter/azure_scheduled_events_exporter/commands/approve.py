"""The command ``approve``: an operator on this VM approves events.

If an exporter is running, the request is queued in its journal, so that the exporter journals, sends and counts it.
Without one, this process says so on standard error, polls once and sends it itself. Both need write access to the
journal's folder: approvals cannot be requested over the network.

The exit status is 0 only if all events are approved, now or before, or have started. It is 3 if IMDS may have accepted,
but no answer came. When this command ends for any reason, it withdraws requests that were not sent. After a SIGKILL,
they expire.
"""

import argparse
import getpass
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from azure_scheduled_events_exporter import logs, standard_streams
from azure_scheduled_events_exporter.approval.policy import OFF
from azure_scheduled_events_exporter.approval.scheduler import UNKNOWN_RESULT, is_approved, may_be_approved
from azure_scheduled_events_exporter.config import Config
from azure_scheduled_events_exporter.core.document import Scope
from azure_scheduled_events_exporter.core.event_types import EVENT_FACTS
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle, State
from azure_scheduled_events_exporter.errors import (
    ExporterError,
    JournalInUseError,
    Outcome,
    OutputError,
    UsageError,
    printable,
    table,
)
from azure_scheduled_events_exporter.imds.rate_limiter import RateLimiter
from azure_scheduled_events_exporter.journal.file import (
    MEMORY,
    check_may_be_opened,
    is_written,
    read_only,
    writable,
)
from azure_scheduled_events_exporter.service import daemon
from azure_scheduled_events_exporter.service.endpoint import with_endpoint

from .events import COLUMNS, event_row
from .interruption import Interrupted, ignore_signals, interrupted_afterwards, interruptible
from .settings import config_without_policy

_LOOK_SECONDS = 0.1
_AGAIN_SECONDS = 1.0  # until the next poll, without an exporter
_THROTTLED_POLLS = 5  # another approve, or other programs of this VM, may have used up the limit of IMDS
_PATIENCE_SECONDS = 15.0  # beyond the time of one request: the exporter looks for requests at every poll
_STARTING_SECONDS = 3.0  # until an exporter that starts has opened its journal
_IN_FLIGHT_SECONDS = 2.0  # beyond the time of one request, if one is being sent when this command is stopped
_WITHDRAWN = "withdrawn before it was sent"
_NO_NAME = "(none named)"
_MAY_BE_APPROVED = 3
"""The exit status if IMDS may have accepted: what was prepared for the event must stay so."""


class Requests(Protocol):
    """Where approval requests are queued: the running exporter's journal, or this process' own."""

    def add(self, lives: Iterable[Lifecycle], operator: str, created: float, expires: float) -> list[int]:
        """Queue requests to approve events as they were shown; return their numbers."""

    def results(self, numbers: Iterable[int]) -> dict[int, str]:
        """Return the results of those requests that have one."""

    def withdraw(self, numbers: Iterable[int], result: str, *, sent_too: bool = False) -> None:
        """Withdraw the requests that have no result yet, so that they are not sent."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``approve`` to ``parser``."""
    parser.add_argument("event_ids", metavar="EVENT_ID", nargs="*", help="Events to approve.")
    parser.add_argument(
        "--all-mine",
        action="store_true",
        help="Approve all Scheduled events of this VM, including Preempt and Terminate, which delete it.",
    )
    parser.add_argument("--yes", action="store_true", help="Do not ask for confirmation.")


def run(parsed: argparse.Namespace) -> int:
    """Approve; return the exit status.

    It is 0 if all events are approved or have started, 3 if that is not known of all, 128 and the signal's number if a
    signal ended the command before it had all results, and 1 otherwise.

    Raises:
        ExporterError: nothing to approve, no access, or no answer.
    """
    config = config_without_policy(parsed)
    if bool(parsed.event_ids) == parsed.all_mine:
        raise UsageError("approve: give EventIds, or --all-mine")
    if config.journal_path == MEMORY:
        raise UsageError("--journal.path: 'memory' cannot be shared: name the journal of the running exporter")
    with interruptible():
        return _approve(config, parsed.event_ids, yes=parsed.yes)


def _approve(config: Config, event_ids: Sequence[str], *, yes: bool) -> int:
    log = logs.set_up("error", config.log_format)
    check_may_be_opened(Path(config.journal_path))  # without an exporter, this command would set it aside
    config = replace(with_endpoint(config, log), approval_policy=OFF)
    rate_limiter = RateLimiter()
    confirmed: list[Lifecycle] = []

    def start() -> daemon.Exporter:
        return daemon.Exporter(config, log, rate_limiter=rate_limiter)

    try:
        exporter = start()
    except JournalInUseError:
        return _beside(config, event_ids, confirmed, yes=yes)
    try:
        _check_writable(exporter, config)
        exporter.identification.ask()
        _poll(exporter)
        confirmed = _chosen(exporter.poller.snapshot.current, event_ids)
        if any(life.is_open_to_approval for life in confirmed):
            _say_that_no_exporter_sends(config, yes=yes)
        if not yes:
            exporter.stop()  # release the journal, so that an exporter can start while a person thinks
            if not _agreed(confirmed, yes=yes):
                return 1
            try:
                exporter = start()
            except JournalInUseError:
                return _beside(config, event_ids, confirmed, yes=yes)
            _check_writable(exporter, config)
            exporter.identification.ask()
            _poll(exporter)
        else:
            _agreed(confirmed, yes=yes)
        return _alone(exporter, confirmed, config)
    finally:
        exporter.stop()


def _check_writable(exporter: daemon.Exporter, config: Config) -> None:
    if not exporter.journal.state.up:
        raise ExporterError(f"the journal {config.journal_path} cannot be written, so nothing is sent: try as root")


def _say_that_no_exporter_sends(config: Config, *, yes: bool) -> None:
    """Print that this command sends the request: a running exporter of another user neither logs nor counts it."""
    line = (
        f"approve: no exporter writes the journal {config.journal_path}, so this command sends the request itself. "
        f"If an exporter runs here as another user, {'' if yes else 'answer no and '}run approve as that user (root): "
        "then the exporter sends, logs and counts it"
    )
    with suppress(OSError):
        print(line, file=sys.stderr, flush=True)


def _beside(config: Config, event_ids: Sequence[str], confirmed: Sequence[Lifecycle], *, yes: bool) -> int:
    """Queue the requests in the journal of the running exporter, and wait for their results."""
    path = Path(config.journal_path)
    _check_is_written(path)
    chosen = confirmed
    if not chosen:
        store = read_only(path)
        chosen = _chosen(store.current(), event_ids)
        store.close()
        if not _agreed(chosen, yes=yes):
            return 1
    store = writable(path)
    # A poll for each event too: after a refusal of all together, each is sent alone.
    patience = config.imds_timeout + config.poll_interval * (1 + len(chosen)) + _PATIENCE_SECONDS

    def wait() -> None:
        time.sleep(_LOOK_SECONDS)

    try:
        return _requested(store.requests, chosen, config, patience, wait, wait)
    finally:
        store.close()


def _check_is_written(path: Path) -> None:
    """Wait for an exporter that is just starting. One whose disk fails finds no request in the journal's file."""
    deadline = time.monotonic() + _STARTING_SECONDS
    while not is_written(path):
        if time.monotonic() > deadline:
            raise ExporterError(
                f"the running exporter cannot write its journal {path}, so it gets no request: "
                "make room on that disk, or mend it, and try again"
            )
        time.sleep(_LOOK_SECONDS)


def _alone(exporter: daemon.Exporter, chosen: Sequence[Lifecycle], config: Config) -> int:
    """Poll, approve, and write the result to the journal for the next exporter."""

    def look() -> None:
        if polled:
            time.sleep(_AGAIN_SECONDS)  # no result yet: IMDS throttles, or has refused several events together
        polled.append(True)
        _poll(exporter)

    def settle() -> None:
        time.sleep(_LOOK_SECONDS)
        exporter.poller.take_answer()

    polled: list[bool] = []
    patience = _AGAIN_SECONDS * len(chosen) + _PATIENCE_SECONDS
    return _requested(_Own(exporter), chosen, config, patience, look, settle)


class _Own:
    """The requests in the journal that this process writes."""

    def __init__(self, exporter: daemon.Exporter) -> None:
        self._journal = exporter.journal

    def add(self, lives: Iterable[Lifecycle], operator: str, created: float, expires: float) -> list[int]:
        """Queue requests; ExporterError: the journal cannot be written."""
        numbers = self._journal.ask(lambda store: store.requests.add(lives, operator, created, expires), None)
        if numbers is None:
            raise ExporterError("the journal cannot be written, so nothing is sent")
        return numbers

    def results(self, numbers: Iterable[int]) -> dict[int, str]:
        """Return the results of those requests that have one."""
        return self._journal.ask(lambda store: store.requests.results(numbers), {})

    def withdraw(self, numbers: Iterable[int], result: str, *, sent_too: bool = False) -> None:
        """Withdraw the requests that have no result yet."""
        self._journal.withdraw_requests(numbers, result, sent_too=sent_too)


def _requested(
    requests: Requests,
    chosen: Sequence[Lifecycle],
    config: Config,
    patience: float,
    look: Callable[[], None],
    settle: Callable[[], None],
) -> int:
    """Queue requests, wait for their results, for ``patience`` seconds at most, and return the exit status.

    Args:
        requests: where they are queued.
        chosen: the events to approve.
        config: the configuration.
        patience: in seconds.
        look: waits a moment, sends what is due, and records the answers of IMDS that have come.
        settle: waits a moment, and records the answers of IMDS that have come.

    Raises:
        ExporterError: ``look`` failed, and no event may have been approved.
    """
    wall = time.time()
    numbers: list[int] = []
    status = 1
    failure: ExporterError | None = None
    try:
        with interrupted_afterwards():  # else the request may be on the disk, and nobody knows its number
            numbers = requests.add(chosen, _operator(), wall, wall + patience)
        deadline = time.monotonic() + patience
        while len(requests.results(numbers)) < len(numbers) and time.monotonic() < deadline:
            look()
    except Interrupted as interrupted:
        status = interrupted.exit_status
    except ExporterError as error:  # IMDS fails after the request was sent, or before
        failure = error
    finally:
        # After the command has reported a failure, the exporter must not send the approval later.
        ignore_signals()
        results = _withdrawn(requests, numbers, config.imds_timeout + _IN_FLIGHT_SECONDS, settle)
    if not numbers:  # interrupted before anything was queued
        return status
    _report(chosen, numbers, results)
    final = [results.get(number, UNKNOWN_RESULT) for number in numbers]
    if all(map(is_approved, final)):
        return 0
    if any(map(may_be_approved, final)):
        return _MAY_BE_APPROVED
    if failure is not None:
        raise failure
    return status


def _withdrawn(
    requests: Requests, numbers: Sequence[int], seconds: float, settle: Callable[[], None]
) -> Mapping[int, str]:
    """Withdraw requests without a result; wait for those being sent, because they cannot be withdrawn."""
    requests.withdraw(numbers, _WITHDRAWN)
    deadline = time.monotonic() + seconds
    while len(results := requests.results(numbers)) < len(numbers) and time.monotonic() < deadline:
        settle()
        requests.withdraw(numbers, _WITHDRAWN)  # what IMDS has refused may be marked to be sent again
    if len(results) < len(numbers):
        requests.withdraw(numbers, UNKNOWN_RESULT, sent_too=True)
        results = requests.results(numbers)
    return results


def _poll(exporter: daemon.Exporter) -> None:
    for _ in range(_THROTTLED_POLLS):
        outcome = exporter.poller.poll()
        if outcome is not Outcome.THROTTLED:
            break
        time.sleep(_AGAIN_SECONDS)
    if not exporter.poller.has_read:
        failure = exporter.poller.snapshot.polls.failure
        raise ExporterError(f"{failure}; try again" if outcome is Outcome.THROTTLED else failure)


def _chosen(current: Mapping[str, Lifecycle], event_ids: Sequence[str]) -> list[Lifecycle]:
    """Return the given events, or all Scheduled events of this VM. If none waits, return the approved and started."""
    if event_ids:
        missing = [name for name in event_ids if name.upper() not in current]
        if missing:
            raise ExporterError(f"no current event has the id {missing[0]}: see azure-scheduled-events-exporter events")
        return [current[name] for name in dict.fromkeys(name.upper() for name in event_ids)]
    mine = [life for life in current.values() if life.scope is Scope.SELF]
    if not mine and any(life.scope is Scope.UNKNOWN for life in current.values()):
        raise ExporterError(
            "this VM's name is unknown, because IMDS has not answered it yet, so --all-mine cannot select its events: "
            "try again, give EventIds, or set --instance.name"
        )
    waiting = [life for life in mine if life.state is State.SCHEDULED and life.is_open_to_approval]
    chosen = waiting or [life for life in mine if not life.is_open_to_approval]
    if not chosen:
        raise ExporterError("no event of this VM waits for an approval")
    return chosen


def _agreed(chosen: Sequence[Lifecycle], *, yes: bool) -> bool:
    """Show the events to approve and their VMs, and ask for confirmation if any of them waits for an approval."""
    open_lives = [life for life in chosen if life.is_open_to_approval]
    names = dict.fromkeys(name for life in open_lives for name in life.event.resources)
    rows = table([COLUMNS, *(event_row(life, time.time()) for life in chosen)])
    hit = printable(", ".join(names)) or _NO_NAME
    shown = f"{rows}Approving lets this begin now, for every VM in Resources: {hit}{_deletions(open_lives)}"
    if not open_lives:
        _show(rows.rstrip("\n"))  # the result gives the reason
        return True
    if yes:
        _show(shown)
        return True
    print(shown, flush=True)
    if not sys.stdin.isatty():
        raise UsageError("approve: standard input is not a terminal: add --yes")
    try:
        return input("Approve? [y/N] ").strip().lower() in {"y", "yes"}
    except EOFError:  # Ctrl-D
        print()
        return False


def _deletions(lives: Iterable[Lifecycle]) -> str:
    """Return a line, begun by a line break, that names the VMs that are gone afterwards; ``""`` if there are none."""
    deleting = [life.event for life in lives if life.event.event_type in EVENT_FACTS]
    deleting = [event for event in deleting if EVENT_FACTS[event.event_type].deletes]
    hit = dict.fromkeys(f"{name} ({event.event_type})" for event in deleting for name in event.resources or [_NO_NAME])
    return f"\nApproving deletes or evicts now, and this cannot be undone: {printable(', '.join(hit))}" if hit else ""


def _report(chosen: Sequence[Lifecycle], numbers: Sequence[int], results: Mapping[int, str]) -> None:
    for life, number in zip(chosen, numbers, strict=True):
        _show(f"{life.event_id}: {results.get(number, UNKNOWN_RESULT)}")


def _show(text: str) -> None:
    """Print a line. What is approved, and the exit status, do not depend on whether anybody reads it."""
    try:
        print(text, flush=True)
    except (BrokenPipeError, OutputError) as error:
        standard_streams.discard(sys.stdout)
        if isinstance(error, OutputError):
            with suppress(OSError):
                print(error, file=sys.stderr)


def _operator() -> str:
    """Return the operator's login name, for the exporter's log."""
    try:
        return printable(getpass.getuser())
    except (OSError, KeyError):
        return "unknown"
