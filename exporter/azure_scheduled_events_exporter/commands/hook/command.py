"""The loop of ``hook``: looks at the events, starts and stops runs, and writes them to the journal.

The only module here that sequences effects; ``plan`` decides.
"""

import argparse
import hashlib
import json
import logging
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

from azure_scheduled_events_exporter import logs
from azure_scheduled_events_exporter.commands.interruption import Interrupted, interruptible
from azure_scheduled_events_exporter.config import Config
from azure_scheduled_events_exporter.core.kinds import Kind
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle, State
from azure_scheduled_events_exporter.core.records import Record, current_record
from azure_scheduled_events_exporter.errors import ExporterError, JournalInUseError, UsageError, closest
from azure_scheduled_events_exporter.journal.file import MEMORY, WriterLock, file_path, writable
from azure_scheduled_events_exporter.journal.hook_runs import HookRun, Phase, RunOutcome
from azure_scheduled_events_exporter.journal.journal import Journal
from azure_scheduled_events_exporter.times import parse_duration

from .plan import (
    DEFAULT_KINDS,
    Rules,
    asked_to_end_at,
    killed_at,
    may_approve,
    prepare_outcome,
    seconds_left,
    to_prepare,
    to_recover,
)
from .process import Running, end_leftover, new_run
from .source import Source

_LOOK_SECONDS = 0.1
_APPROVE_AGAIN_SECONDS = 5.0
_STOP_SECONDS = 5.0  # that a command has to end when the hook itself is ended
_WRITE_SECONDS = 1.0
"""How long the start of a command waits for the journal: a disk that hangs must not keep it from running."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--types", metavar="TYPE,…", default="", help="Only events of these types. (default all)")
    kinds = ",".join(DEFAULT_KINDS)
    parser.add_argument(
        "--kinds", metavar="KIND,…", default=kinds, help=f"Only events of these kinds. (default {kinds})"
    )
    parser.add_argument(
        "--lead", metavar="DURATION", default="15m", help="Prepare at most so long before NotBefore. (default 15m)"
    )
    parser.add_argument("--timeout", metavar="DURATION", default="15m", help="Longest time of a run. (default 15m)")
    parser.add_argument(
        "--grace",
        metavar="DURATION",
        default="5s",
        help="SIGTERM so long before NotBefore, or after half of a shorter notice; SIGKILL at NotBefore. (default 5s)",
    )
    parser.add_argument(
        "--approve",
        choices=("never", "own", "all"),
        default="never",
        help="After success, approve events of this VM alone (own), or also those whose VMs have all prepared (all). "
        "Never a Preempt or Terminate. (default never)",
    )
    parser.add_argument(
        "--marks", metavar="FOLDER", help="With --approve all: a folder that all VMs of an event share."
    )


def run(config: Config, parsed: argparse.Namespace, command: Sequence[str], settings: Mapping[str, str]) -> int:
    """Run until a signal ends it; return the exit status.

    ``settings`` are the flags of the command line, for ``approve``.

    Raises:
        ExporterError: an option is wrong, the journal cannot be written, or another hook runs the same command.
    """
    rules = _rules(parsed)
    if not command:
        raise UsageError("hook: name the command to run behind --, for example: hook -- /usr/local/bin/my-script")
    if shutil.which(command[0]) is None:
        raise UsageError(f"hook: {command[0]} does not exist, or is not an executable file")
    if (rules.approve == "all") != bool(parsed.marks):
        raise UsageError("hook: --approve all and --marks FOLDER need each other")
    if config.journal_path == MEMORY:
        raise UsageError("--journal.path: 'memory' cannot be shared: name the journal of the running exporter")
    log = logs.set_up(config.log_level, config.log_format)
    path = file_path(Path(config.journal_path))
    _create(path, config, log)
    name = " ".join(command)
    try:
        lock = WriterLock(path.with_name(f"{path.name}.hook-{_digest(name)}"))
    except JournalInUseError:
        raise ExporterError(f"hook: another hook with the journal {path} runs {name}") from None
    hook = Hook(config, rules, command, settings, log, Path(parsed.marks) if parsed.marks else None)
    with interruptible():
        try:
            hook.run()
        except (Interrupted, KeyboardInterrupt):
            return 0
        finally:
            hook.close()
            lock.release()
    return 0


class Hook:
    """One hook: its events, its runs, and the processes that it has started."""

    def __init__(
        self,
        config: Config,
        rules: Rules,
        command: Sequence[str],
        settings: Mapping[str, str],
        log: logging.Logger,
        marks: Path | None,
    ) -> None:
        self._path = Path(config.journal_path)
        self._rules = rules
        self._command = command
        self._name = " ".join(command)
        self._settings = settings
        self._log = log
        self._marks = marks
        self._journal = threading.Lock()
        self._source = Source(config, log, self._journal)
        self._running: dict[str, Running] = {}
        self._approving: dict[str, subprocess.Popen[bytes]] = {}
        self._approve_at: dict[str, float] = {}
        self._unwritten: dict[str, HookRun] = {}
        self._writer = ThreadPoolExecutor(1, "hook-journal")
        self._writing: Future[None] | None = None
        self._vm_name = ""
        self._is_reported = False  # whether the log has why runs cannot be written
        with closing(writable(self._path)) as store:
            self._runs = [run for run in store.hook_runs.all() if run.command == self._name]
        self._leftovers = [run for run in self._runs if run.outcome is None]

    def run(self) -> None:
        """Look at the events until a signal comes."""
        for run in self._leftovers:
            end_leftover(run.run)
        while True:
            current = self._source.current()
            if current is not None:
                self._take_up(current)
                self._prepare(current)
                self._recover(current)
                self._approve(current)
            self._watch(current or {})
            self._write()
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
        if self._writing is not None:
            wait([self._writing], _WRITE_SECONDS)
        self._write()
        self._writer.shutdown()
        self._source.close()

    def _take_up(self, current: Mapping[str, Lifecycle]) -> None:
        """Run again what the end of the last hook interrupted; a preparation only while its event has not started."""
        for run in self._leftovers:
            life = current.get(run.event_id)
            waits = life is not None and life.state is not State.STARTED
            if waits or run.phase == Phase.RECOVER:
                self._runs.remove(run)
                with suppress(ExporterError, sqlite3.Error), self._journal, closing(writable(self._path)) as store:
                    store.hook_runs.remove(run.run)
            else:
                self._end(run, RunOutcome.FAILED, ran=False)
        self._leftovers = []

    def _prepare(self, current: Mapping[str, Lifecycle]) -> None:
        now = time.time()
        for life, too_late in to_prepare(current, self._runs, self._rules, now):
            run = new_run(self._name, current_record(life, now), Phase.PREPARE, now)
            if too_late is None:
                self._vm_name = life.own_name or life.vm_name or ""
                self._start(run)
                continue
            self._note(run)
            self._log.warning("hook comes too late", extra=logs.facts(event_id=run.event_id, event_type=run.event_type))
            self._end(run, too_late, seconds_left(life, now), ran=False)

    def _recover(self, current: Mapping[str, Lifecycle]) -> None:
        over = to_recover(current.keys(), self._runs)
        if over is not None and not self._running:
            record = {**_record(over), "seconds_until_not_before": None}
            self._start(new_run(self._name, record, Phase.RECOVER, time.time()))

    def _start(self, run: HookRun) -> None:
        self._note(run)
        self._write()
        if self._writing is not None:  # before the command: what has begun is known after a restart
            wait([self._writing], _WRITE_SECONDS)
        facts = logs.facts(phase=run.phase, event_id=run.event_id, event_type=run.event_type)
        try:
            self._running[run.run] = Running(self._command, run, _record(run), self._vm_name)
        except OSError as error:
            self._log.error("hook's command cannot be started: %s", error.strerror, extra=facts)
            self._end(run, RunOutcome.FAILED, ran=False)
        else:
            self._log.info("hook's command started", extra=facts)

    def _watch(self, current: Mapping[str, Lifecycle]) -> None:
        """Take in the ends of runs, and stop those whose time is up."""
        for running in list(self._running.values()):
            run, now = running.run, time.time()
            life = current.get(run.event_id)
            is_preparing = run.phase == Phase.PREPARE
            not_before = life.not_before if is_preparing and life is not None else None
            status = running.status
            if status is not None:
                del self._running[run.run]
                left = None if not_before is None else not_before - now
                is_stopped = running.stopped_at is not None
                if is_stopped:
                    running.kill()  # children that have not ended with it
                self._end(run, prepare_outcome(status, stopped=is_stopped, left=left), left if is_preparing else None)
            elif running.stopped_at is None:
                if now >= asked_to_end_at(run.started, not_before, self._rules):
                    self._log.warning("hook's command is stopped: its time is up", extra=logs.facts(phase=run.phase))
                    running.stop(now)
            elif now >= killed_at(running.stopped_at, not_before, self._rules):
                running.kill()

    def _end(self, run: HookRun, outcome: RunOutcome, left: float | None = None, *, ran: bool = True) -> None:
        duration = time.time() - run.started if ran else None
        ended = replace(run, outcome=str(outcome), duration=duration, seconds_left=left)
        self._runs = [ended if each.run == run.run else each for each in self._runs]
        self._unwritten[run.run] = ended
        self._log.info(
            "hook's command ended",
            extra=logs.facts(phase=run.phase, event_id=run.event_id, outcome=ended.outcome, seconds_left=left),
        )

    def _approve(self, current: Mapping[str, Lifecycle]) -> None:
        """Approve what is prepared, as far as the user allows, until it has started."""
        prepared = {run.event_id for run in self._runs if run.phase == Phase.PREPARE and run.outcome == RunOutcome.OK}
        for event_id in prepared & current.keys():
            life = current[event_id]
            approving = self._approving.get(event_id)
            if approving is not None and approving.poll() is None:
                continue
            ready = self._marked(life) if self._marks is not None else frozenset()
            if may_approve(life, self._rules, ready) and time.monotonic() >= self._approve_at.get(event_id, 0.0):
                self._approve_at[event_id] = time.monotonic() + _APPROVE_AGAIN_SECONDS
                flags = [f"--{name}={value}" for name, value in self._settings.items()]
                program = [sys.executable, "-m", "azure_scheduled_events_exporter", "approve"]
                self._approving[event_id] = subprocess.Popen([*program, *flags, event_id, "--yes"])  # noqa: S603 - this program

    def _marked(self, life: Lifecycle) -> frozenset[str]:
        """Mark this VM as prepared for an event in the shared folder; return the VMs that are, in lower case."""
        folder = (self._marks or Path()) / life.event_id
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / (life.own_name or life.vm_name or "").casefold()).touch()
            return frozenset(path.name for path in folder.iterdir())
        except OSError as error:
            self._log.error("folder of marks cannot be used: %s", error.strerror, extra=logs.facts(path=str(folder)))
            return frozenset()

    def _note(self, run: HookRun) -> None:
        self._runs.append(run)
        self._unwritten[run.run] = run

    def _write(self) -> None:
        """Hand new and changed runs to the thread that writes the journal. While it fails, they wait."""
        if self._writing is not None and not self._writing.done():
            return
        self._writing = self._writer.submit(self._put, dict(self._unwritten)) if self._unwritten else None

    def _put(self, runs: Mapping[str, HookRun]) -> None:
        try:
            with self._journal, closing(writable(self._path)) as store:
                store.hook_runs.put(runs.values())
        except (ExporterError, sqlite3.Error, OSError) as error:
            if not self._is_reported:
                self._log.error("runs of the hook are not in the journal yet: %s", error)
            self._is_reported = True
            return
        self._is_reported = False
        for name, run in runs.items():
            if self._unwritten.get(name) is run:
                del self._unwritten[name]


def _rules(parsed: argparse.Namespace) -> Rules:
    seconds = {}
    for name in ("lead", "timeout", "grace"):
        try:
            seconds[name] = parse_duration(getattr(parsed, name))
        except ValueError as error:
            raise UsageError(f"hook: --{name}: {error}") from None
    kinds = _names(parsed.kinds)
    for kind in kinds:
        if kind not in set(Kind):
            meant = closest(kind, list(Kind))
            hint = f"did you mean '{meant}'?" if meant else f"choose from {', '.join(Kind)}"
            raise UsageError(f"hook: --kinds: unknown kind '{kind}': {hint}")
    return Rules(_names(parsed.types), frozenset(map(Kind, kinds)), **seconds, approve=parsed.approve)


def _names(text: str) -> frozenset[str]:
    return frozenset(name.strip().casefold() for name in text.split(",") if name.strip())


def _create(path: Path, config: Config, log: logging.Logger) -> None:
    """Make sure that there is a journal: the runs are written to it, whether an exporter runs or not.

    Raises:
        ExporterError: it cannot be written.
    """
    with suppress(JournalInUseError):  # an exporter has it
        journal = Journal(path, config.journal_retention, log)
        is_usable = journal.state.up
        journal.close()
        if not is_usable:
            raise ExporterError(
                f"hook: the journal {path} cannot be written: run it as the exporter's user, or as root"
            )


def _record(run: HookRun) -> Record:
    record: Record = json.loads(run.record)
    return record


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:12]
