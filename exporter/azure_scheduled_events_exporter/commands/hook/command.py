"""The loop of ``hook``: polls, begins runs, ends their processes, and approves. ``plan`` decides."""

import argparse
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, fields, replace
from logging import Logger
from pathlib import Path
from typing import NoReturn

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
from azure_scheduled_events_exporter.service.endpoint import with_endpoint
from azure_scheduled_events_exporter.times import parse_duration

from .plan import DEFAULT_KINDS, Rules, deadlines, may_approve, next_runs, outcome_of
from .process import Process, end_leftover
from .runs import Runs

_LOOK_SECONDS = 0.1
_MARKS_SECONDS = 1.0  # how often to look whether other VMs have prepared
_APPROVE_AGAIN_SECONDS = 10.0
_STOP_SECONDS = 5.0  # that a command has to end when the hook itself is ended


def _some_of(what: str, choices: Iterable[str]) -> Callable[[str], frozenset[str]]:
    known = {choice.casefold(): choice for choice in choices}

    def parse(text: str) -> frozenset[str]:
        names = frozenset(name.strip().casefold() for name in text.split(","))
        if text and not names <= known.keys():
            raise ValueError(f"unknown {what} '{min(names - known.keys())}': choose from {', '.join(known.values())}")
        return names if text else frozenset()

    return parse


_OPTIONS = (
    ("--types", _some_of("event type", EventType), "TYPE,…", "", "Only events of these types, else of all."),
    (
        "--kinds",
        _some_of("kind", Kind),
        "KIND,…",
        ",".join(DEFAULT_KINDS),
        "Only events of these kinds. (default %(default)s)",
    ),
    ("--lead", parse_duration, "DURATION", "15m", "Prepare at most so long before NotBefore. (default 15m)"),
    ("--timeout", parse_duration, "DURATION", "15m", "Longest time of a run. (default 15m)"),
    ("--grace", parse_duration, "DURATION", "5s", "SIGTERM so long before NotBefore, SIGKILL at it. (default 5s)"),
    ("--marks", Path, "FOLDER", None, "With --approve all: a folder that all VMs of an event share."),
)
_APPROVE = (
    "After success, approve events of this VM alone (own), or also those whose VMs have all prepared (all). "
    "Never a Preempt or Terminate. (default never)"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    for flag, parse, metavar, default, text in _OPTIONS:
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
    lock = None
    try:
        lock = WriterLock(path.with_name(f"{path.name}.hook-{zlib.crc32(line.encode()):08x}"))
    except JournalInUseError:
        raise ExporterError(f"hook: another hook with the journal {path} runs {line}") from None
    except (sqlite3.Error, OSError) as error:  # a disk that fails must not keep an event from the command
        log.warning("the hook's lock cannot be taken: a second hook is not noticed", extra=logs.facts(error=error))
    polling = daemon.Exporter(with_endpoint(replace(config, journal_path=MEMORY), log), log, reports=False)
    hook = Hook(polling, Runs(path, line, log), rules, command, written_flags(parsed), log)
    try:
        with interruptible(), closing(hook):
            hook.run()
    except Interrupted:
        return 0
    finally:
        if lock is not None:
            lock.release()


@dataclass(frozen=True, slots=True)
class Hook:
    """The hook of one command: starts it for the events that ``plan`` selects, and ends it in time.

    Attributes:
        polling: an exporter without a journal, which polls IMDS for this hook.
        runs: the runs of the command, in the journal.
        flags: flags of ``hook`` that are passed on to the command ``approve``.
    """

    polling: daemon.Exporter
    runs: Runs
    rules: Rules
    command: Sequence[str]
    flags: Mapping[str, str]
    log: Logger
    processes: dict[str, Process] = field(default_factory=dict)  # by the id of the run
    approve_at: dict[str, float] = field(default_factory=dict)  # monotonic time by EventId

    def run(self) -> NoReturn:
        """Look at the events until a signal comes. Raises ExporterError: polling has ended by an internal error."""
        failed = threading.Event()
        self.polling.failed = failed.set
        for run in self.runs.known.values():
            if run.outcome is None:
                end_leftover(run)
        self.polling.start()
        while not failed.is_set():
            snapshot = self.polling.poller.snapshot
            runs, documents = list(self.runs.known.values()), snapshot.polls.outcomes[Outcome.OK]
            for run in next_runs(snapshot.current, runs, self.processes, self.rules, time.time(), documents):
                self._begin(run)
            self._approve(snapshot.current)
            for process in list(self.processes.values()):
                self._watch(process, snapshot.current.get(process.run.event_id))
            time.sleep(_LOOK_SECONDS)
        raise ExporterError("hook: polling has ended by an internal error, which is logged above")

    def close(self) -> None:
        """End what runs. It is run again by the next hook, if there is time."""
        for process in self.processes.values():
            process.stop(time.time())
        deadline = time.monotonic() + _STOP_SECONDS
        while any(each.status is None for each in self.processes.values()) and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)
        for process in self.processes.values():
            process.kill()
        self.polling.stop()

    def _begin(self, run: HookRun) -> None:
        self.runs.keep(run)  # before the command runs: what has begun is known after a restart
        if run.outcome is None:
            try:
                self.processes[run.run] = Process(self.command, run)
            except OSError as error:
                self.log.warning("hook's command cannot be started", extra=logs.facts(error=error.strerror))
                run = replace(run, outcome=str(RunOutcome.FAILED))
                self.runs.keep(run)
        self._say("begins", run)

    def _watch(self, process: Process, life: Lifecycle | None) -> None:
        """Take in the end of a run, or stop it when its time is up."""
        run, now, stopped_at = process.run, time.time(), process.stopped_at
        not_before = life.not_before if life is not None and run.phase == Phase.PREPARE else None
        asked, killed = deadlines(run.started, not_before, self.rules)
        if process.status is not None:
            del self.processes[run.run]
            if stopped_at is not None:
                process.kill()  # children that have not ended with it
            left = None if not_before is None else not_before - now
            outcome = outcome_of(process.status, stopped=stopped_at is not None, left=left)
            run = replace(run, outcome=str(outcome), duration=now - run.started, seconds_left=left)
            self._say("ended", run)
            self.runs.keep(run)
        elif stopped_at is None and now >= asked:
            self._say("is stopped: its time is up", run)
            process.stop(now)
        elif stopped_at is not None and now >= min(killed, stopped_at + self.rules.grace):
            process.kill()

    def _say(self, what: str, run: HookRun) -> None:
        facts = {name: getattr(run, name) for name in ("phase", "event_id", "event_type", "outcome", "seconds_left")}
        self.log.info("hook's run %s", what, extra=logs.facts(**facts))

    def _approve(self, current: Mapping[str, Lifecycle]) -> None:
        """Approve what is prepared, as far as the user allows, until it has started."""
        runs = self.runs.known.values()
        prepared = {run.event_id for run in runs if run.phase == Phase.PREPARE and run.outcome == RunOutcome.OK}
        for event_id in prepared & current.keys():
            now, life = time.monotonic(), current[event_id]
            if now < self.approve_at.get(event_id, 0.0):
                continue
            self.approve_at[event_id] = now + _MARKS_SECONDS
            ready = self._marked(self.rules.marks / event_id, life) if self.rules.marks else frozenset()
            if may_approve(life, self.rules, ready):
                self.approve_at[event_id] = now + _APPROVE_AGAIN_SECONDS
                flags = [f"--{name}={value}" for name, value in self.flags.items()]
                program = [sys.executable, "-m", "azure_scheduled_events_exporter", "approve"]
                subprocess.Popen([*program, *flags, event_id, "--yes"])  # noqa: S603 - this program

    def _marked(self, folder: Path, life: Lifecycle) -> frozenset[str]:
        """Mark this VM as prepared in the event's shared folder; return the VMs that are, in lower case."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / life.own_name.casefold()).touch()
            return frozenset(path.name for path in folder.iterdir())
        except OSError as error:
            self.log.warning("folder of marks cannot be used", extra=logs.facts(path=folder, error=error.strerror))
            return frozenset()
