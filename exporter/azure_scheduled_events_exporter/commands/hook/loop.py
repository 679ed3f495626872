"""The loop of a hook: starts, watches and stops the runs that ``plan`` selects, and approves.

Must not decide when a run begins, when it ends and what is approved.
"""

import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from logging import Logger
from typing import Final

from azure_scheduled_events_exporter import logs
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle
from azure_scheduled_events_exporter.errors import Outcome
from azure_scheduled_events_exporter.service.exporter import Exporter
from azure_scheduled_events_exporter.snapshot.hooks import HookRun, Phase, RunOutcome
from azure_scheduled_events_exporter.snapshot.snapshot import Snapshot

from .plan import (
    CurrentEvents,
    Rules,
    deadline,
    has_other_vms,
    may_approve,
    outcome_of,
    preparations,
    recovery,
    why_not,
)
from .process import TERMINATE, Process, end_leftovers
from .runs import Runs

_APPROVE_SECONDS: Final = 10.0
"""How long after an approval has failed it is sent again."""
_STOP_SECONDS: Final = 5.0
"""How long a command has to end when the hook itself is ended."""


class Hook:
    """The hook of one command: starts it for the events of ``plan``, and ends it in time."""

    def __init__(
        self,
        runs: Runs,
        rules: Rules,
        command: Sequence[str],
        approve: Sequence[str],
        log: Logger,
    ) -> None:
        """Take what the hook needs.

        Args:
            runs: those of an earlier hook of the same name.
            rules: what the user wants.
            command: the command line to run, without the phase.
            approve: the command line that approves the event whose EventId is added.
            log: where runs are logged.
        """
        self._runs = runs
        self._rules = rules
        self._command = command
        self._approve_command = approve
        self._log = log
        self._processes: dict[str, Process] = {}  # by the id of the run
        self._approvals: dict[str, subprocess.Popen[bytes]] = {}  # by EventId
        self._approve_at: dict[str, float] = {}  # monotonic time by EventId
        self._reasons = logs.Changes()  # why nothing is prepared, by EventId
        # How many documents had come when a document last showed an event that was prepared for.
        self._seen_at = 0

    def run(self, polled: Iterable[Exporter]) -> None:
        """Each time ``polled`` yields, do what is due, until a signal comes."""
        end_leftovers(self._runs.known)
        self._log_open_runs()
        for exporter in polled:
            snapshot = exporter.latest()
            events = CurrentEvents(snapshot.current, exporter.clock().wall)
            self._prepare(events)
            self._explain(events)
            self._recover(events, snapshot)
            self._approve(events)
            for process in list(self._processes.values()):
                with self._guarded(process.run):
                    self._watch(process, events)

    def close(self) -> None:
        """End what runs. It is run again by the next hook, if there is time."""
        ends = time.monotonic() + _STOP_SECONDS
        children = [*self._processes.values(), *self._approvals.values()]
        for process in self._processes.values():
            self._log.warning(
                "hook ends and interrupts its run: it runs again after a restart if there is time",
                extra=logs.facts(phase=process.run.phase, event_id=process.run.event_id),
            )
            process.send_signal(TERMINATE)
        for approval in self._approvals.values():
            approval.terminate()
        for child in children:
            with suppress(subprocess.TimeoutExpired):
                child.wait(max(0.0, ends - time.monotonic()))
            child.kill()
            child.wait()
        self._runs.close()

    def _prepare(self, events: CurrentEvents) -> None:
        for run in preparations(events, self._runs.known, self._processes, self._rules):
            self._begin(run)

    def _log_open_runs(self) -> None:
        """Log what an earlier hook of this name has left: interrupted runs, a preparation."""
        known = self._runs.known
        for run in known:
            if run.outcome is None:
                self._log.warning(
                    "hook's run was interrupted with the hook: it runs again if there is time",
                    extra=logs.facts(phase=run.phase, event_id=run.event_id, command=run.command),
                )
        if known:
            last = known[-1]
            self._log.info(
                "hook has prepared before its restart: it recovers after the event",
                extra=logs.facts(event_id=last.event_id, prepared_by=last.command),
            )

    def _explain(self, events: CurrentEvents) -> None:
        """Log once why nothing is prepared for an event of this VM."""
        prepared = {run.event_id for run in self._runs.known}
        for event_id in events.current.keys() - prepared:
            reason = why_not(events.current[event_id], events, self._rules)
            if self._reasons.is_new(event_id, reason) and reason:
                self._log.info(
                    "hook does not prepare for this event",
                    extra=logs.facts(event_id=event_id, reason=reason),
                )
        self._reasons.keep(events.current)

    def _recover(self, events: CurrentEvents, snapshot: Snapshot) -> None:
        """Run the command with ``recover`` once no event that it prepared for is current.

        Documents that came before an event went missing do not count.
        """
        documents = snapshot.polls.outcomes[Outcome.OK]
        runs = self._runs.known
        if any(run.event_id in events.current for run in runs):
            self._seen_at = documents
        if not self._processes:
            missing = documents - self._seen_at
            outcomes = {life.event_id: str(life.outcome or "") for life in snapshot.recent}
            for run in recovery(runs, missing, events.now, self._rules.command, outcomes):
                self._begin(run)

    @contextmanager
    def _guarded(self, run: HookRun) -> Iterator[None]:
        """Within the block, no failure ends the hook: the run has failed, and others go on."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - whatever it is
            message = "hook's command cannot be run"
            facts = logs.facts(command=self._command[0], event_id=run.event_id, error=error)
            is_bug = not isinstance(error, OSError | ValueError)
            self._log.warning(message, extra=facts, exc_info=is_bug)
            self._processes.pop(run.run, None)
            self._runs.keep(replace(run, outcome=str(RunOutcome.FAILED)))

    def _begin(self, run: HookRun) -> None:
        with self._guarded(run):
            self._runs.keep(run)  # before the command runs: what has begun is known after a restart
            if run.outcome is None:
                self._processes[run.run] = Process(self._command, run)

    def _watch(self, process: Process, events: CurrentEvents) -> None:
        """Record the end of a run, or stop it when its time is up.

        First it is asked to end; after the grace, or at NotBefore, it is killed.
        """
        run = process.run
        life = events.current.get(run.event_id) if run.phase == Phase.PREPARE else None
        not_before = None if life is None else life.not_before
        left = None if not_before is None else round(not_before - events.now, 3)
        status = process.poll()
        if status is not None:
            self._ended(process, status, left)
        elif process.stopped_at is None:
            if events.now >= deadline(run.started, not_before, self._rules):
                process.stopped_at = events.now
                process.send_signal(TERMINATE)
        elif events.now >= process.stopped_at + self._rules.grace or (
            left is not None and left <= 0
        ):
            process.kill()

    def _ended(self, process: Process, status: int, left: float | None) -> None:
        run = process.run
        is_stopped = process.stopped_at is not None
        del self._processes[run.run]
        if is_stopped:
            process.kill()  # children that have not ended with it
        ended = replace(
            run,
            outcome=str(outcome_of(status, stopped=is_stopped, left=left)),
            duration=round(time.monotonic() - process.began, 3),
            seconds_left=left,
            output=process.last_lines(),
            exit_status=status if status >= 0 else None,
            signal=_name_of_signal(-status) if status < 0 else "",
        )
        self._runs.keep(ended)

    def _approve(self, events: CurrentEvents) -> None:
        """Approve what is prepared, as far as the user allows, until it has started."""
        self._approvals = {
            event_id: approval
            for event_id, approval in self._approvals.items()
            if approval.poll() is None
        }
        if not self._rules.approves:
            return
        prepared = {
            run.event_id
            for run in self._runs.known
            if run.phase == Phase.PREPARE and run.outcome == RunOutcome.OK
        }
        to_approve = (prepared & events.current.keys()) - self._approvals.keys()
        for event_id in to_approve:
            if time.monotonic() >= self._approve_at.get(event_id, 0.0):
                self._approve_one(events.current[event_id])

    def _approve_one(self, life: Lifecycle) -> None:
        """Start the command that approves an event, or log once why it is not approved."""
        if may_approve(life):
            command = [*self._approve_command, life.event_id]
            self._approvals[life.event_id] = subprocess.Popen(command)  # noqa: S603 - this program
        elif has_other_vms(life) and life.event_id not in self._approve_at:
            self._log.info(
                "hook does not approve: the event has other VMs",
                extra=logs.facts(event_id=life.event_id),
            )
        self._approve_at[life.event_id] = time.monotonic() + _APPROVE_SECONDS


def _name_of_signal(number: int) -> str:
    """Return the name of a signal, such as SIGTERM; that of a real-time signal is its number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
