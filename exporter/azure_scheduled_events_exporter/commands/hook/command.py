"""The loop of ``hook``: looks at the events, starts and stops runs, and writes them to the journal.

The only module here that sequences effects; ``plan`` decides.
"""

import argparse
import json
import logging
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
import uuid
import zlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing, suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import NoReturn

from azure_scheduled_events_exporter import logs
from azure_scheduled_events_exporter.commands.interruption import Interrupted, interruptible
from azure_scheduled_events_exporter.commands.settings import config_without_policy
from azure_scheduled_events_exporter.config import Config
from azure_scheduled_events_exporter.config.flags import written_flags
from azure_scheduled_events_exporter.core.kinds import Kind
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle
from azure_scheduled_events_exporter.core.records import Record, current_record
from azure_scheduled_events_exporter.errors import ExporterError, JournalInUseError, UsageError, closest
from azure_scheduled_events_exporter.journal.file import MEMORY, WriterLock, file_path, writable
from azure_scheduled_events_exporter.journal.hook_runs import HookRun, Phase, RunOutcome
from azure_scheduled_events_exporter.journal.journal import Journal
from azure_scheduled_events_exporter.times import parse_duration

from .plan import DEFAULT_KINDS, Rules, deadlines, may_approve, outcome_of, seconds_left, to_prepare, to_recover
from .process import Running, end_leftover
from .source import Source

_LOOK_SECONDS = 0.1
_MARKS_SECONDS = 1.0  # how often to look whether other VMs have prepared
_APPROVE_AGAIN_SECONDS = 10.0
_STOP_SECONDS = 5.0  # that a command has to end when the hook itself is ended
_WRITE_SECONDS = 1.0
"""How long the start of a command waits for the journal: a disk that hangs must not keep it from running."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    kinds = ",".join(DEFAULT_KINDS)
    for flag, read, metavar, default, text in (
        ("--types", _names, "TYPE,…", "", "Only events of these types. (default all)"),
        ("--kinds", _kinds, "KIND,…", kinds, f"Only events of these kinds. (default {kinds})"),
        ("--lead", _duration, "DURATION", "15m", "Prepare at most so long before NotBefore. (default 15m)"),
        ("--timeout", _duration, "DURATION", "15m", "Longest time of a run. (default 15m)"),
        (
            "--grace",
            _duration,
            "DURATION",
            "5s",
            "SIGTERM so long before NotBefore, or after half of a shorter notice; SIGKILL at NotBefore. (default 5s)",
        ),
        ("--marks", Path, "FOLDER", None, "With --approve all: a folder that all VMs of an event share."),
    ):
        parser.add_argument(flag, type=read, metavar=metavar, default=default, help=text)
    parser.add_argument("command_line", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument(
        "--approve",
        choices=("never", "own", "all"),
        default="never",
        help="After success, approve events of this VM alone (own), or also those whose VMs have all prepared (all). "
        "Never a Preempt or Terminate. (default never)",
    )


def run(parsed: argparse.Namespace) -> int:
    """Run until a signal ends it; return the exit status.

    Raises:
        ExporterError: an option is wrong, the journal cannot be written, or another hook runs the same command.
    """
    config, command = config_without_policy(parsed), parsed.command_line
    rules = Rules(**{each.name: getattr(parsed, each.name) for each in fields(Rules)})
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
    try:
        lock = WriterLock(path.with_name(f"{path.name}.hook-{zlib.crc32(' '.join(command).encode()):08x}"))
    except JournalInUseError:
        raise ExporterError(f"hook: another hook with the journal {path} runs {' '.join(command)}") from None
    try:
        hook = Hook(config, rules, command, written_flags(parsed), log)
        with interruptible(), closing(hook):
            hook.run()
    except Interrupted:
        return 0
    finally:
        lock.release()


class Hook:
    """One hook: its events, its runs, and the processes that it has started."""

    def __init__(
        self, config: Config, rules: Rules, command: Sequence[str], settings: Mapping[str, str], log: logging.Logger
    ) -> None:
        """Read the runs of earlier hooks, and end what they have left running. Raises ExporterError: no journal."""
        self._path = Path(config.journal_path)
        self._rules = rules
        self._command = command
        self._settings = settings
        self._log = log
        self._journal = threading.Lock()
        self._source = Source(config, log, self._journal)
        self._running: dict[str, Running] = {}
        self._approve_at: dict[str, float] = {}
        self._writer = ThreadPoolExecutor(1, "hook-journal")
        self._ending = threading.Event()
        with closing(writable(self._path)) as store:
            self._runs = [run for run in store.hook_runs.all() if run.command == " ".join(command)]
            interrupted = [run for run in self._runs if run.outcome is None]
            for run in interrupted:
                end_leftover(run.run)
                if run.phase == Phase.RECOVER:  # decided anew
                    self._runs.remove(run)
                    store.hook_runs.remove(run.run)
        for run in set(interrupted) & set(self._runs):  # a preparation is repeated as if it had failed
            self._end(run, RunOutcome.FAILED, ran=False)

    def run(self) -> NoReturn:
        """Look at the events until a signal comes."""
        while True:
            current = self._source.current()
            if current is not None:
                self._prepare(current)
                self._recover(current)
                self._approve(current)
            for running in list(self._running.values()):
                self._watch(running, (current or {}).get(running.run.event_id))
            time.sleep(_LOOK_SECONDS)

    def close(self) -> None:
        """End what runs. It is run again by the next hook, if there is time."""
        for running in self._running.values():
            running.stop(time.time())
        deadline = time.monotonic() + _STOP_SECONDS
        while any(each.status is None for each in self._running.values()) and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)
        for running in self._running.values():
            running.kill()
        self._ending.set()
        self._writer.shutdown()
        self._source.close()

    def _prepare(self, current: Mapping[str, Lifecycle]) -> None:
        now = time.time()
        for life, too_late in to_prepare(current, self._runs, self._rules, now):
            run = self._new(current_record(life, now), Phase.PREPARE)
            if not too_late:
                self._start(run, life.own_name or life.vm_name or "")
                continue
            self._log.warning("hook comes too late", extra=logs.facts(event_id=run.event_id, event_type=run.event_type))
            self._end(run, RunOutcome.TOO_LATE, seconds_left(life, now), ran=False)

    def _recover(self, current: Mapping[str, Lifecycle]) -> None:
        over = to_recover(current.keys(), self._runs)
        if over is not None and not self._running:
            self._start(self._new({**json.loads(over.record), "seconds_until_not_before": None}, Phase.RECOVER))

    def _new(self, record: Record, phase: Phase) -> HookRun:
        names = str(record["event_id"]), str(record["event_type"])
        run = HookRun(uuid.uuid4().hex, " ".join(self._command), *names, phase, time.time(), record=json.dumps(record))
        self._runs.append(run)
        return run

    def _start(self, run: HookRun, vm_name: str = "") -> None:
        # Written before the command runs: what has begun is known after a restart.
        wait([self._writer.submit(self._write, run)], _WRITE_SECONDS)
        facts = logs.facts(phase=run.phase, event_id=run.event_id, event_type=run.event_type)
        try:
            self._running[run.run] = Running(self._command, run, vm_name)
        except OSError as error:
            self._log.error("hook's command cannot be started: %s", error.strerror, extra=facts)
            self._end(run, RunOutcome.FAILED, ran=False)
        else:
            self._log.info("hook's command started", extra=facts)

    def _watch(self, running: Running, life: Lifecycle | None) -> None:
        """Take in the end of a run, or stop it when its time is up."""
        run, now = running.run, time.time()
        left = seconds_left(life, now) if life is not None and run.phase == Phase.PREPARE else None
        asked, killed = deadlines(run.started, None if left is None else now + left, self._rules)
        status, stopped_at = running.status, running.stopped_at
        if status is not None:
            del self._running[run.run]
            if stopped_at is not None:
                running.kill()  # children that have not ended with it
            self._end(run, outcome_of(status, stopped=stopped_at is not None, left=left), left)
        elif stopped_at is None and now >= asked:
            self._log.warning("hook's command is stopped: its time is up", extra=logs.facts(phase=run.phase))
            running.stop(now)
        elif stopped_at is not None and now >= min(killed, stopped_at + self._rules.grace):
            running.kill()

    def _end(self, run: HookRun, outcome: RunOutcome, left: float | None = None, *, ran: bool = True) -> None:
        duration = time.time() - run.started if ran else None
        ended = replace(run, outcome=str(outcome), duration=duration, seconds_left=left)
        self._runs[self._runs.index(run)] = ended
        self._writer.submit(self._write, ended)
        facts = logs.facts(phase=run.phase, event_id=run.event_id, outcome=ended.outcome, seconds_left=left)
        self._log.info("hook's command ended", extra=facts)

    def _approve(self, current: Mapping[str, Lifecycle]) -> None:
        """Approve what is prepared, as far as the user allows, until it has started."""
        prepared = {run.event_id for run in self._runs if run.phase == Phase.PREPARE and run.outcome == RunOutcome.OK}
        for event_id in prepared & current.keys():
            if time.monotonic() < self._approve_at.get(event_id, 0.0):
                continue
            self._approve_at[event_id] = time.monotonic() + _MARKS_SECONDS
            life = current[event_id]
            ready = self._marked(self._rules.marks, life) if self._rules.marks else frozenset()
            if may_approve(life, self._rules, ready):
                self._approve_at[event_id] = time.monotonic() + _APPROVE_AGAIN_SECONDS
                flags = [f"--{name}={value}" for name, value in self._settings.items()]
                program = [sys.executable, "-m", "azure_scheduled_events_exporter", "approve"]
                subprocess.Popen([*program, *flags, event_id, "--yes"])  # noqa: S603 - this program

    def _marked(self, marks: Path, life: Lifecycle) -> frozenset[str]:
        """Mark this VM as prepared for an event in the shared folder; return the VMs that are, in lower case."""
        folder = marks / life.event_id
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / (life.own_name or life.vm_name or "").casefold()).touch()
            return frozenset(path.name for path in folder.iterdir())
        except OSError as error:
            self._log.error("folder of marks cannot be used: %s", error.strerror, extra=logs.facts(path=str(folder)))
            return frozenset()

    def _write(self, run: HookRun) -> None:
        """Write a run to the journal, in the writer's thread. While that fails, this and later ones wait."""
        is_reported = False
        while True:
            try:
                with self._journal, closing(writable(self._path)) as store:
                    return store.hook_runs.put([run])
            except (ExporterError, sqlite3.Error, OSError) as error:
                if not is_reported:
                    self._log.error("runs of the hook are not in the journal yet: %s", error)
                is_reported = True
            if self._ending.wait(_WRITE_SECONDS):
                return None


def _duration(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _kinds(text: str) -> frozenset[str]:
    for kind in (kinds := _names(text)) - set(Kind):
        meant = closest(kind, list(Kind))
        hint = f"did you mean '{meant}'?" if meant else f"choose from {', '.join(Kind)}"
        raise argparse.ArgumentTypeError(f"unknown kind '{kind}': {hint}")
    return kinds


def _names(text: str) -> frozenset[str]:
    return frozenset(name.strip().casefold() for name in text.split(",") if name.strip())
