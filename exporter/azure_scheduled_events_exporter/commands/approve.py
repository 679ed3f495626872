"""The command ``approve``: an operator on this VM lets events begin.

With an exporter running, the wish is laid into its journal, so that it is journalled, sent and counted in one place;
without one, this process polls once and sends it itself. Either way it takes write access to the journal's folder:
there is no port to ask on.
"""

import getpass
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from azure_scheduled_events_exporter import logs
from azure_scheduled_events_exporter.approval.policy import OFF
from azure_scheduled_events_exporter.approval.scheduler import ACCEPTED
from azure_scheduled_events_exporter.config import Config
from azure_scheduled_events_exporter.core.document import Scope
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle, State
from azure_scheduled_events_exporter.errors import ExporterError, JournalInUseError, UsageError
from azure_scheduled_events_exporter.journal.files import MEMORY, read_only, writable
from azure_scheduled_events_exporter.service import daemon

from .events import COLUMNS, event_row
from .table import table

_LOOK_SECONDS = 0.1
_THROTTLED_SECONDS = 1.0
_PATIENCE_SECONDS = 15.0  # behind the time of one request: the exporter looks for wishes at every poll


def run(config: Config, event_ids: Sequence[str], *, all_mine: bool, yes: bool) -> int:
    """Approve; return 0 if IMDS accepted all, 1 if not.

    Raises:
        ExporterError: nothing to approve, no access, or no answer.
    """
    if bool(event_ids) == all_mine:
        raise UsageError("approve: name events by their EventId, or say --all-mine")
    if config.journal_path == MEMORY:
        raise UsageError("--journal.path: 'memory' cannot be shared: name the journal of the running exporter")
    try:
        log = logs.set_up("error", config.log_format)
        exporter = daemon.Exporter(replace(daemon.found(config, log), approval_policy=OFF), log)
    except JournalInUseError:
        return _beside(config, event_ids, yes=yes)
    try:
        if not exporter.journal.state.up:
            raise ExporterError(f"the journal {config.journal_path} cannot be written, so nothing is sent: try as root")
        return _alone(exporter, event_ids, yes=yes)
    finally:
        exporter.stop()


def _beside(config: Config, event_ids: Sequence[str], *, yes: bool) -> int:
    """ApprovalRequest the running exporter."""
    path = Path(config.journal_path)
    lives = read_only(path).current()
    chosen = _chosen(lives, event_ids)
    if not _agreed(chosen, yes=yes):
        return 1
    store = writable(path)
    numbers = store.ask([life.event_id for life in chosen], _operator(), time.time())
    deadline = time.monotonic() + config.imds_timeout + config.poll_interval + _PATIENCE_SECONDS
    while len(answers := store.answers(numbers)) < len(numbers):
        if time.monotonic() > deadline:
            raise ExporterError("the running exporter has not answered: see its log; it may still approve")
        time.sleep(_LOOK_SECONDS)
    return _report(chosen, numbers, answers)


def _alone(exporter: daemon.Exporter, event_ids: Sequence[str], *, yes: bool) -> int:
    """Poll, approve, and leave it in the journal for the exporter that starts next."""
    exporter.identify()
    _poll(exporter)
    chosen = _chosen(exporter.poller.snapshot.current, event_ids)
    if not _agreed(chosen, yes=yes):
        return 1
    numbers = exporter.journal.ask([life.event_id for life in chosen], _operator(), time.time())
    deadline = time.monotonic() + _PATIENCE_SECONDS
    try:
        _poll(exporter)
        while len(exporter.journal.answers(numbers)) < len(numbers) and time.monotonic() < deadline:
            time.sleep(_THROTTLED_SECONDS)  # IMDS throttles, which is no answer
            _poll(exporter)
    finally:
        # Else the exporter that starts next would fulfil a wish of which the operator was told that it failed.
        answers = exporter.journal.answers(numbers)
        withdrawn = dict.fromkeys(set(numbers) - answers.keys(), "withdrawn: IMDS could not be asked")
        exporter.journal.answer(withdrawn)
    return _report(chosen, numbers, answers | withdrawn)


def _poll(exporter: daemon.Exporter) -> None:
    exporter.poller.poll()
    if not exporter.poller.snapshot.polls.up:
        raise ExporterError(exporter.poller.snapshot.polls.failure)


def _chosen(current: Mapping[str, Lifecycle], event_ids: Sequence[str]) -> list[Lifecycle]:
    """The events that were named, or all of this VM's that wait."""
    if event_ids:
        missing = [name for name in event_ids if name.upper() not in current]
        if missing:
            raise ExporterError(f"no current event has the id {missing[0]}: see azure-scheduled-events-exporter events")
        return [current[name] for name in dict.fromkeys(name.upper() for name in event_ids)]
    chosen = [
        life
        for life in current.values()
        if life.scope is Scope.SELF and life.state is State.SCHEDULED and not life.approved_by
    ]
    if not chosen:
        raise ExporterError("no event of this VM waits for an approval")
    return chosen


def _agreed(chosen: Sequence[Lifecycle], *, yes: bool) -> bool:
    """Show what will be allowed and for which VMs, and ask."""
    sys.stdout.write(table([COLUMNS, *(event_row(life, time.time()) for life in chosen)]))
    names = dict.fromkeys(name for life in chosen for name in life.event.resources)
    print(f"Approving lets this begin now, for every VM in Resources: {', '.join(names) or '(none named)'}")
    if yes:
        return True
    if not sys.stdin.isatty():
        raise UsageError("approve: there is nobody to ask: say --yes")
    try:
        return input("Approve? [y/N] ").strip().lower() in {"y", "yes"}
    except EOFError:  # Ctrl-D
        print()
        return False


def _report(chosen: Sequence[Lifecycle], numbers: Sequence[int], answers: Mapping[int, str]) -> int:
    said = {life.event_id: answers.get(number, "no answer") for life, number in zip(chosen, numbers, strict=True)}
    for event_id, answer in said.items():
        print(f"{event_id}: {answer}")
    return 0 if all(answer == ACCEPTED for answer in said.values()) else 1


def _operator() -> str:
    """Who asks, for the audit in the exporter's log."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"
