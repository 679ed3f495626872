"""The loop of a hook: starts, watches and stops the runs that ``plan`` selects.

Must not decide when a run begins (``plan``), when it ends (``stops``) and what is approved
(``approvals``).
"""

import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from logging import Logger
from subprocess import TimeoutExpired
from typing import Final

from azure_scheduled_events_exporter import logs
from azure_scheduled_events_exporter.commands.interruption import uninterrupted
from azure_scheduled_events_exporter.log_limits import Changes
from azure_scheduled_events_exporter.service.exporter import Exporter
from azure_scheduled_events_exporter.snapshot.hooks import HookRun, Phase, RunOutcome
from azure_scheduled_events_exporter.snapshot.snapshot import Snapshot

from .approvals import Approvals
from .output import Output
from .plan import Rules, awaited, begins, lapsed, missed, prepared, why_not
from .process import TERMINATE, Process, end_leftovers
from .runs import Runs
from .stops import Reason, Stop, kill_at, outcome_of, reason_to_stop
from .view import View

_STOP_SECONDS: Final = 5.0
"""How long a command has to end when the hook itself is ended."""


class Hook:
    """The hook of one command: starts it for the events of ``plan``, and ends it in time."""

    def __init__(
        self,
        runs: Runs,
        rules: Rules,
        command: Sequence[str],
        approvals: Approvals,
        output: Output,
        log: Logger,
    ) -> None:
        """Take what the hook needs.

        Args:
            runs: keeps the runs of this hook, and has those of an earlier process of the same name
                that no recovery has ended.
            rules: what the user wants.
            command: the command line to run, without the phase.
            approvals: approves events that are prepared.
            output: gets what commands print.
            log: where runs are logged.
        """
        self._runs = runs
        self._rules = rules
        self._command = command
        self._approvals = approvals
        self._log = log
        self._output = output
        self._processes: dict[str, Process] = {}  # by the id of the run, `HookRun.run`
        self._reasons = Changes()  # why nothing is prepared, by EventId
        self._awaited: frozenset[str] = frozenset()  # EventIds; see `plan.awaited`
        # By EventId: how many documents had come when the event of a run was last in a document.
        self._seen_at: dict[str, int] = {}

    def run(self, polled: Iterable[Exporter]) -> None:
        """Each time ``polled`` yields, do what is due, until a signal comes.

        It yields the same exporter every 0.1 s (``service.alone.poll_alone``), whether a new
        document has come or not.
        """
        end_leftovers(self._runs.known)
        self._log_open_runs()
        for exporter in polled:
            snapshot = exporter.latest()
            now = exporter.clock().wall
            # The first two steps change the runs, so a new view is taken after each.
            self._watch_all(self._view(snapshot, now))
            self._record(self._view(snapshot, now))
            view = self._view(snapshot, now)
            self._explain(view)
            if self._rules.approves:
                self._approvals.approve(prepared(view, self._rules))
            for run in begins(view, self._rules):
                self._begin(run)

    def _view(self, snapshot: Snapshot, now: float) -> View:
        """Return what the hook sees at ``now``, by the clock of IMDS."""
        runs = self._runs.known
        return View(
            current=snapshot.current,
            now=now,
            runs=runs,
            active=frozenset(self._processes),
            ended={life.event_id: life for life in (*snapshot.recent, *snapshot.ended)},
            missing=self._missing(runs, snapshot),
        )

    def _missing(self, runs: Sequence[HookRun], snapshot: Snapshot) -> dict[str, int]:
        """Return how many documents in a row have lacked the event of a run, by EventId.

        Remembers which document was the last that showed it.
        """
        documents = snapshot.polls.documents
        missing = {}
        for event_id in {run.event_id for run in runs}:
            if event_id in snapshot.current:
                self._seen_at[event_id] = documents
            # An event of an earlier hook that this process has never seen was missing in all.
            missing[event_id] = documents - self._seen_at.get(event_id, 0)
        return missing

    def _record(self, view: View) -> None:
        """Record the preparations that were missed, and the ends of those that were interrupted."""
        for run in missed(self._awaited, view, self._rules):  # awaited at the step before
            self._runs.record(run)  # without `keep`: nothing was prepared, so nothing to recover
        self._awaited = awaited(self._awaited, view, self._rules)
        for run in lapsed(view):
            self._runs.keep(run)

    def close(self) -> None:
        """End the commands that run. The next hook runs them again, if there is time."""
        ends = time.monotonic() + _STOP_SECONDS
        children = [*self._processes.values(), *self._approvals.running]
        for process in self._processes.values():
            self._log.warning(
                "hook ends and interrupts its run: it runs again after a restart if there is time",
                extra=logs.facts(phase=process.run.phase, event_id=process.run.event_id),
            )
            process.send_signal(TERMINATE)
        self._approvals.terminate()
        for child in children:
            with suppress(TimeoutExpired):
                child.wait(max(0.0, ends - time.monotonic()))
            child.kill()
            child.wait()
        for child in children:
            child.read_all()
        self._runs.close()
        self._output.close()

    def _log_open_runs(self) -> None:
        """Log what an earlier hook of this name has left: interrupted runs, a preparation.

        The end of a recovery removes all known runs. So if a run is known, this VM has not
        recovered.
        """
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

    def _explain(self, view: View) -> None:
        """Log once why nothing is prepared for an event of this VM."""
        begun = {run.event_id for run in view.preparations}
        for event_id in view.current.keys() - begun:
            reason = why_not(view.current[event_id], view, self._rules)
            is_new = self._reasons.is_new(event_id, reason)  # which remembers an empty one too
            if is_new and reason:
                self._log.info(
                    "hook does not prepare for this event",
                    extra=logs.facts(event_id=event_id, reason=reason),
                )
        self._reasons.keep(view.current)

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
        """Start the command of ``run``."""
        if run.phase == Phase.RECOVER:
            self._approvals.terminate()  # all events are over
        with self._guarded(run):
            self._runs.keep(run)  # before the command runs: what has begun is known after a restart
            with uninterrupted():  # a signal in between would leave a process that nobody ends
                self._processes[run.run] = Process(self._command, run, self._output.pass_on)

    def _watch_all(self, view: View) -> None:
        """Watch each run whose command is running."""
        for process in list(self._processes.values()):
            with self._guarded(process.run):
                self._watch(process, view)

    def _watch(self, process: Process, view: View) -> None:
        """Record the end of a run, or stop it when its time is up."""
        status = process.poll()
        if status is not None:
            self._ended(process, status, view)
        elif process.stop is not None:
            if view.now >= kill_at(process.run, process.stop, view, self._rules):
                process.kill()
        elif reason := reason_to_stop(process.run, view, self._rules):
            process.stop = Stop(reason, view.now)
            process.send_signal(TERMINATE)
            if reason is Reason.NEW_EVENT:
                self._log.warning(
                    "hook interrupts recover, because an event comes: it runs again after the last"
                    " event",
                    extra=logs.facts(event_id=process.run.event_id),
                )

    def _ended(self, process: Process, status: int, view: View) -> None:
        """Record the end of a run; ``status`` is negative if a signal with that number ended it."""
        run = process.run
        del self._processes[run.run]
        if process.stop is not None:
            process.kill()  # children that have not ended with it
        outcome = outcome_of(run, status, process.stop, view)
        if outcome is None:
            return  # without an outcome, it is known as interrupted
        life = view.life(run.event_id)
        left = None
        if run.phase == Phase.PREPARE and life is not None:
            left = view.left(life)
        exit_status: int | None = status
        signal_name = ""
        if status < 0:
            exit_status = None
            signal_name = _name_of_signal(-status)
        ended = replace(
            run,
            outcome=str(outcome),
            duration=round(time.monotonic() - process.began, 3),
            seconds_left=None if left is None else round(left, 3),
            output=process.last_lines(),
            exit_status=exit_status,
            signal=signal_name,
        )
        self._runs.keep(ended)


def _name_of_signal(number: int) -> str:
    """Return the name of a signal, such as SIGTERM; that of a real-time signal is its number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
