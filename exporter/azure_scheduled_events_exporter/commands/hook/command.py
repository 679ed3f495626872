"""The loop of ``hook``: begins runs, ends their processes, and approves. ``plan`` decides.

Polls the metadata service itself, so that no other process or disk delays it.
"""

import argparse
import shutil
import sqlite3
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field, fields, replace
from logging import Logger
from pathlib import Path

from azure_scheduled_events_exporter import logs
from azure_scheduled_events_exporter.commands.interruption import Interrupted, interruptible
from azure_scheduled_events_exporter.commands.settings import argument, config_without_policy
from azure_scheduled_events_exporter.config.flags import written_flags
from azure_scheduled_events_exporter.core.event_types import EventType
from azure_scheduled_events_exporter.core.kinds import Kind
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle
from azure_scheduled_events_exporter.errors import ExporterError, JournalInUseError, Outcome, UsageError
from azure_scheduled_events_exporter.journal.file import MEMORY, WriterLock, file_path
from azure_scheduled_events_exporter.journal.hook_runs import HookRun, Phase, RunOutcome
from azure_scheduled_events_exporter.journal.journal import Journal
from azure_scheduled_events_exporter.service import daemon
from azure_scheduled_events_exporter.times import parse_duration

from .plan import DEFAULT_KINDS, Rules, deadline, may_approve, outcome_of, preparations, recovery, unrecovered
from .runs import TERMINATE, Process, Runs, end_leftover

_APPROVE_SECONDS = 10.0  # how often to look whether other VMs have prepared, and to approve
_STOP_SECONDS = 5.0  # that a command has to end when the hook itself is ended
_APPROVE = (
    "After success, approve events of this VM alone (own), or also those whose VMs have all prepared (all). "
    "Never a Preempt or Terminate. (default never)"
)


def _some_of(what: str, choices: Iterable[str]) -> Callable[[str], frozenset[str]]:
    known = {choice.casefold(): choice for choice in choices}

    def parse(text: str) -> frozenset[str]:
        names = frozenset(name.strip().casefold() for name in text.split(",")) if text else frozenset()
        if not names <= known.keys():
            raise ValueError(f"unknown {what} '{min(names - known.keys())}': choose from {', '.join(known.values())}")
        return names

    return parse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    kinds = ",".join(DEFAULT_KINDS)
    for flag, parse, metavar, default, text in (
        ("--types", _some_of("event type", EventType), "TYPE,…", "", "Only events of these types, else of all."),
        ("--kinds", _some_of("kind", Kind), "KIND,…", kinds, f"Only events of these kinds. (default {kinds})"),
        ("--lead", parse_duration, "DURATION", "15m", "Prepare at most so long before NotBefore. (default 15m)"),
        ("--timeout", parse_duration, "DURATION", "15m", "Longest time of a run. (default 15m)"),
        ("--grace", parse_duration, "DURATION", "5s", "SIGTERM so long before NotBefore, SIGKILL at it. (default 5s)"),
        ("--marks", Path, "FOLDER", None, "With --approve all: a folder that all VMs of an event share."),
    ):
        parser.add_argument(flag, type=argument(parse), metavar=metavar, default=default, help=text)
    parser.add_argument("--approve", choices=("never", "own", "all"), default="never", help=_APPROVE)
    parser.add_argument("command_line", nargs="*", help=argparse.SUPPRESS)


def run(parsed: argparse.Namespace) -> int:
    """Run until a signal ends it; return the exit status.

    Raises:
        ExporterError: an option is wrong, the journal cannot be written, or another hook runs the same command.
    """
    config, command = config_without_policy(parsed), parsed.command_line
    line = " ".join(command)
    rules = Rules(line, *(getattr(parsed, each.name) for each in fields(Rules)[1:]))
    if not command:
        raise UsageError("hook: name the command to run behind --, for example: hook -- /usr/local/bin/my-script")
    if shutil.which(command[0]) is None:
        raise UsageError(f"hook: {command[0]} does not exist, or is not an executable file")
    if (rules.approve == "all") != bool(rules.marks):
        raise UsageError("hook: --approve all and --marks FOLDER need each other")
    if config.journal_path == MEMORY:
        raise UsageError("--journal.path: 'memory' cannot be shared: name the journal of the running exporter")
    log = logs.set_up(config.log_level, config.log_format)
    path = file_path(Path(config.journal_path))
    with suppress(JournalInUseError):  # an exporter has it; otherwise, it is created if it is missing
        Journal(path, config.journal_retention, log).close()
    with ExitStack() as stack:
        try:
            stack.callback(WriterLock(path.with_name(f"{path.name}.hook-{zlib.crc32(line.encode()):08x}")).release)
        except JournalInUseError:
            raise ExporterError(f"hook: another hook with the journal {path} runs {line}") from None
        except (sqlite3.Error, OSError) as error:  # a disk that fails must not keep an event from the command
            log.warning("the hook's lock cannot be taken: a second hook is not noticed", extra=logs.facts(error=error))
        hook = Hook(Runs(path, line, log), rules, command, written_flags(parsed), log)
        with suppress(Interrupted), interruptible(), closing(hook):
            hook.run(daemon.alone(config, log))
    return 0


@dataclass(frozen=True, slots=True)
class Hook:
    """The hook of one command: starts it for the events that ``plan`` selects, and ends it in time.

    Attributes:
        runs: the runs of the command, in the journal.
        flags: flags of ``hook`` that are passed on to the command ``approve``.
    """

    runs: Runs
    rules: Rules
    command: Sequence[str]
    flags: Mapping[str, str]
    log: Logger
    processes: dict[str, Process] = field(default_factory=dict)  # by the id of the run
    approve_at: dict[str, float] = field(default_factory=dict)  # monotonic time by EventId

    def run(self, polled: Iterable[daemon.Exporter]) -> None:
        """Look at the events in ``polled`` until a signal comes."""
        runs = self.runs.known.values()
        for run in runs:
            if run.outcome is None:
                end_leftover(run)
        for exporter in polled:
            snapshot = exporter.poller.snapshot
            current, documents = snapshot.current, snapshot.polls.outcomes[Outcome.OK]
            for run in preparations(current.values(), runs, self.processes, self.rules, time.time()):
                self._begin(run)
            if not self.processes:
                for run in recovery(current, runs, documents, time.time()):
                    self._begin(run)
            self._approve(current)
            for process in list(self.processes.values()):
                self._watch(process, current.get(process.run.event_id))

    def close(self) -> None:
        """End what runs. It is run again by the next hook, if there is time."""
        ends = time.monotonic() + _STOP_SECONDS
        for process in self.processes.values():
            process.send_signal(TERMINATE)
        for process in self.processes.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, ends - time.monotonic()))
            process.kill()

    def _begin(self, run: HookRun) -> None:
        # Before the command runs: what has begun is known after a restart.
        self._keep("ended" if run.outcome else "begins", run)
        if run.outcome is None:
            try:
                self.processes[run.run] = Process(self.command, run)
            except OSError as error:
                facts = {"command": self.command[0], "event_id": run.event_id, "error": error.strerror}
                self.log.warning("hook's command cannot be started", extra=logs.facts(**facts))
                self._keep("ended", replace(run, outcome=str(RunOutcome.FAILED)))

    def _watch(self, process: Process, life: Lifecycle | None) -> None:
        """Take in the end of a run, or stop it when its time is up."""
        run, now, stopped_at = process.run, time.time(), process.stopped_at
        not_before = life.not_before if life is not None and run.phase == Phase.PREPARE else None
        left = None if not_before is None else not_before - now
        status = process.poll()
        if status is not None:
            del self.processes[run.run]
            if stopped_at is not None:
                process.kill()  # children that have not ended with it
            outcome = outcome_of(status, stopped=stopped_at is not None, left=left)
            self._keep("ended", replace(run, outcome=str(outcome), duration=now - run.started, seconds_left=left))
        elif stopped_at is None:
            if now >= deadline(run.started, not_before, self.rules):
                process.stopped_at = now
                process.send_signal(TERMINATE)
        elif now >= stopped_at + self.rules.grace or (left is not None and left <= 0):
            process.kill()

    def _keep(self, what: str, run: HookRun) -> None:
        left = None if run.seconds_left is None else round(run.seconds_left, 3)
        facts = {name: getattr(run, name) for name in ("phase", "event_id", "event_type", "outcome")}
        known = {name: value for name, value in {**facts, "seconds_left": left}.items() if value is not None}
        self.log.info("hook's run %s", what, extra=logs.facts(**known))
        self.runs.keep(run)

    def _approve(self, current: Mapping[str, Lifecycle]) -> None:
        """Approve what is prepared, as far as the user allows, until it has started."""
        runs, now = unrecovered(self.runs.known.values()), time.monotonic()
        prepared = {run.event_id for run in runs if run.phase == Phase.PREPARE and run.outcome == RunOutcome.OK}
        for event_id in prepared & current.keys() if self.rules.approve != "never" else ():
            if now >= self.approve_at.get(event_id, now):
                self.approve_at[event_id] = now + _APPROVE_SECONDS
                if may_approve(current[event_id], self._prepared(current[event_id])):
                    flags = [f"--{name}={value}" for name, value in self.flags.items()]
                    program = [sys.executable, "-m", "azure_scheduled_events_exporter", "approve"]
                    subprocess.Popen([*program, *flags, event_id, "--yes"])  # noqa: S603 - this program

    def _prepared(self, life: Lifecycle) -> set[str]:
        """Return the VMs that have prepared, in lower case: this one, or those with a mark in the shared folder."""
        own = life.own_name.casefold()
        if self.rules.marks is None:
            return {own}
        folder = self.rules.marks / life.event_id
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / own).touch()
            return {path.name for path in folder.iterdir()}
        except OSError as error:
            self.log.warning("folder of marks cannot be used", extra=logs.facts(path=folder, error=error.strerror))
            return set()
