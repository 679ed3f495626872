"""The command ``hook``: its options and loop, the processes of its runs, and their rows in the journal.

Polls the metadata service itself, so that no other process or disk delays it. Must not decide when
a run begins, when it ends and what is approved: ``plan`` does.
"""

import argparse
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field, fields, replace
from functools import partial
from logging import Logger
from pathlib import Path

from azure_scheduled_events_exporter import logs
from azure_scheduled_events_exporter.commands.interruption import Interrupted, interruptible
from azure_scheduled_events_exporter.commands.settings import config_without_policy
from azure_scheduled_events_exporter.config.flags import argument, written_flags
from azure_scheduled_events_exporter.core.event_types import EventType
from azure_scheduled_events_exporter.core.kinds import Kind
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle
from azure_scheduled_events_exporter.errors import (
    ExporterError,
    JournalInUseError,
    Outcome,
    UsageError,
)
from azure_scheduled_events_exporter.journal.file import (
    MEMORY,
    file_path,
    read_only,
    writable,
    writer_lock,
)
from azure_scheduled_events_exporter.journal.journal import Journal
from azure_scheduled_events_exporter.service import daemon
from azure_scheduled_events_exporter.snapshot.hooks import HookRun, Phase, RunOutcome
from azure_scheduled_events_exporter.times import parse_duration

from .plan import (
    DEFAULT_KINDS,
    Rules,
    deadline,
    may_approve,
    outcome_of,
    preparations,
    recovery,
    unrecovered,
)

_TERMINATE = getattr(
    signal, "CTRL_BREAK_EVENT", signal.SIGTERM
)  # asks a command to end; on Windows, the first one
# that a run waits until it is in the journal: a disk that hangs must not keep it from running
_WRITE_SECONDS = 1.0
_APPROVE_SECONDS = 10.0  # how often to look whether other VMs have prepared, and to approve
_STOP_SECONDS = 5.0  # that a command has to end when the hook itself is ended
_APPROVE = (
    "After success, approve events of this VM alone (own), or also those whose VMs have all"
    " prepared (all). Never a Preempt or Terminate. (default never)"
)


def _some_of(what: str, choices: Iterable[str], text: str) -> frozenset[str]:
    known = {choice.casefold(): choice for choice in choices}
    names = frozenset(name.strip().casefold() for name in text.split(",")) if text else frozenset()
    if not names <= known.keys():
        raise ValueError(
            f"unknown {what} '{min(names - known.keys())}': choose from {', '.join(known.values())}"
        )
    return names


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    kinds = ",".join(DEFAULT_KINDS)
    for flag, parse, metavar, default, text in (
        (
            "--types",
            partial(_some_of, "event type", EventType),
            "TYPE,…",
            "",
            "Only events of these types, else all.",
        ),
        (
            "--kinds",
            partial(_some_of, "kind", Kind),
            "KIND,…",
            kinds,
            f"Only events of these kinds. (default {kinds})",
        ),
        (
            "--lead",
            parse_duration,
            "DURATION",
            "15m",
            "Prepare at most so long before NotBefore. (default 15m)",
        ),
        ("--timeout", parse_duration, "DURATION", "15m", "Longest time of a run. (default 15m)"),
        (
            "--grace",
            parse_duration,
            "DURATION",
            "5s",
            "SIGTERM so long before NotBefore, SIGKILL at it. (default 5s)",
        ),
        (
            "--marks",
            Path,
            "FOLDER",
            None,
            "With --approve all: a folder that all VMs of an event share.",
        ),
    ):
        parser.add_argument(flag, type=argument(parse), metavar=metavar, default=default, help=text)
    parser.add_argument(
        "--approve", choices=("never", "own", "all"), default="never", help=_APPROVE
    )
    parser.add_argument("command_line", nargs="*", help=argparse.SUPPRESS)


def run(parsed: argparse.Namespace) -> int:
    """Run until a signal ends it; return the exit status.

    Raises:
        ExporterError: an option is wrong, the journal cannot be written, or another hook runs the
            same command.
    """
    config, command = config_without_policy(parsed), parsed.command_line
    line = " ".join(command)
    rules = Rules(line, *(getattr(parsed, each.name) for each in fields(Rules)[1:]))
    if not command:
        raise UsageError(
            "hook: name the command to run behind --, for example: hook -- /usr/local/bin/my-script"
        )
    if shutil.which(command[0]) is None:
        raise UsageError(f"hook: {command[0]} does not exist, or is not an executable file")
    if (rules.approve == "all") != bool(rules.marks):
        raise UsageError("hook: --approve all and --marks FOLDER need each other")
    if config.journal_path == MEMORY:
        raise UsageError(
            "--journal.path: 'memory' cannot be shared: name the journal of the running exporter"
        )
    log = logs.set_up(config.log_level, config.log_format)
    path = file_path(Path(config.journal_path))
    with suppress(
        JournalInUseError
    ):  # an exporter has it; otherwise, it is created if it is missing
        Journal(path, config.journal_retention, log).close()
    with ExitStack() as stack:
        try:
            stack.callback(
                writer_lock(
                    path.with_name(f"{path.name}.hook-{zlib.crc32(line.encode()):08x}")
                ).close
            )
        except JournalInUseError:
            raise ExporterError(f"hook: another hook with the journal {path} runs {line}") from None
        except (
            sqlite3.Error,
            OSError,
        ) as error:  # a disk that fails must not keep an event from the command
            log.warning(
                "the hook's lock cannot be taken: a second hook is not noticed",
                extra=logs.facts(error=error),
            )
        flags = (f"--{name}={value}" for name, value in written_flags(parsed).items())
        approve = [
            sys.executable,
            "-m",
            "azure_scheduled_events_exporter",
            "approve",
            "--yes",
            *flags,
        ]
        hook = Hook(Runs(path, line, log), rules, command, approve, log)
        with suppress(Interrupted), interruptible(), closing(hook):
            hook.run(daemon.alone(config, log))
    return 0


class Process(subprocess.Popen[bytes]):
    """The command of ``run`` and its children.

    It gets the event in variables, and as JSON on standard input.

    Attributes:
        stopped_at: when it was asked to end, wall-clock seconds.

    Raises:
        OSError: the command cannot be started.
    """

    def __init__(self, command: Sequence[str], run: HookRun) -> None:
        self.run = run
        self.stopped_at: float | None = None
        record = json.loads(run.record)
        record |= {
            "seconds_left": record.get("seconds_until_not_before"),
            "phase": run.phase,
            "run": run.run,
        }
        env = os.environ | {
            f"EVENT_{key.removeprefix('event_').upper()}": _text(record[key]) for key in record
        }
        own = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
        words = [*command, run.phase]
        super().__init__(
            words, stdin=subprocess.PIPE, env=env, start_new_session=True, creationflags=own
        )
        threading.Thread(
            target=self.communicate, args=(run.record.encode(),), daemon=True
        ).start()  # it may not read

    def send_signal(self, sig: int) -> None:
        """Send a signal to the command, and to its children, also if it has ended."""
        if sys.platform == "win32":
            super().send_signal(sig)
        else:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, sig)


class Runs:
    """The runs of ``command`` by their ids, the oldest first, also in the journal at ``path``."""

    def __init__(self, path: Path, command: str, log: Logger) -> None:
        self._path = path
        self._log = log
        self._writing = threading.Lock()
        self.known: dict[str, HookRun] = {}
        try:
            with closing(read_only(path)) as store:
                self.known = {run.run: run for run in store.hook_runs() if run.command == command}
        except (
            ExporterError,
            sqlite3.Error,
            OSError,
        ) as error:  # to prepare twice is better than not to prepare
            log.warning("earlier runs of the hook cannot be read", extra=logs.facts(error=error))

    def keep(self, run: HookRun) -> None:
        """Log a run, add or replace it, and wait briefly until the journal has it; a thread retries."""
        names = ("phase", "event_id", "event_type", "outcome", "seconds_left")
        known = {name: value for name in names if (value := getattr(run, name)) is not None}
        self._log.info(
            "hook's run %s", "ended" if run.outcome else "begins", extra=logs.facts(**known)
        )
        self.known[run.run] = run
        writer = threading.Thread(
            target=self._write, args=(run.run,), name="hook-journal", daemon=True
        )
        writer.start()
        writer.join(_WRITE_SECONDS)

    def _write(self, name: str) -> None:
        failures = logs.Changes()
        while True:
            try:
                with self._writing, closing(writable(self._path)) as store:
                    store.put_hook_run(self.known[name])  # as it is by now
                    return
            except (ExporterError, sqlite3.Error, OSError) as error:
                if failures.is_new(name, str(error)):
                    text = (
                        "this run of the hook cannot be written to the journal yet: metrics and"
                        " history lack it"
                    )
                    self._log.error(text, extra=logs.facts(error=error))
                time.sleep(_WRITE_SECONDS)


@dataclass(frozen=True, slots=True)
class Hook:
    """The hook of one command: starts it for the events that ``plan`` selects, and ends it in time."""

    runs: Runs
    rules: Rules
    command: Sequence[str]
    approve: Sequence[str]  # the command line that approves the event whose EventId is added
    log: Logger
    processes: dict[str, Process] = field(default_factory=dict)  # by the id of the run
    approve_at: dict[str, float] = field(default_factory=dict)  # monotonic time by EventId

    def run(self, polled: Iterable[daemon.Exporter]) -> None:
        """Each time ``polled`` yields, start, watch and stop runs, and send approvals, until a signal comes."""
        runs = self.runs.known.values()
        _end_leftovers(runs)
        for exporter in polled:
            snapshot = exporter.poller.snapshot
            current, documents = snapshot.current, snapshot.polls.outcomes[Outcome.OK]
            for run in preparations(
                current.values(), runs, self.processes, self.rules, time.time()
            ):
                self._begin(run)
            for run in (
                recovery(current, runs, documents, time.time()) if not self.processes else ()
            ):
                self._begin(run)
            self._approve(current)
            for process in list(self.processes.values()):
                self._watch(process, current.get(process.run.event_id))

    def close(self) -> None:
        """End what runs. It is run again by the next hook, if there is time."""
        ends = time.monotonic() + _STOP_SECONDS
        for process in self.processes.values():
            process.send_signal(_TERMINATE)
        for process in self.processes.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, ends - time.monotonic()))
            process.kill()

    def _begin(self, run: HookRun) -> None:
        self.runs.keep(run)  # before the command runs: what has begun is known after a restart
        if run.outcome is None:
            try:
                self.processes[run.run] = Process(self.command, run)
            except OSError as error:
                facts = logs.facts(
                    command=self.command[0], event_id=run.event_id, error=error.strerror
                )
                self.log.warning("hook's command cannot be started", extra=facts)
                self.runs.keep(replace(run, outcome=str(RunOutcome.FAILED)))

    def _watch(self, process: Process, life: Lifecycle | None) -> None:
        """Record the end of a run, or stop it when its time is up."""
        run, now, stopped_at = process.run, time.time(), process.stopped_at
        not_before = life.not_before if life is not None and run.phase == Phase.PREPARE else None
        left = None if not_before is None else round(not_before - now, 3)
        if (status := process.poll()) is not None:
            del self.processes[run.run]
            if stopped_at is not None:
                process.kill()  # children that have not ended with it
            outcome = outcome_of(status, stopped=stopped_at is not None, left=left)
            self.runs.keep(
                replace(run, outcome=str(outcome), duration=now - run.started, seconds_left=left)
            )
        elif stopped_at is None:
            if now >= deadline(run.started, not_before, self.rules):
                process.stopped_at = now
                process.send_signal(_TERMINATE)
        elif now >= stopped_at + self.rules.grace or (left is not None and left <= 0):
            process.kill()

    def _approve(self, current: Mapping[str, Lifecycle]) -> None:
        """Approve what is prepared, as far as the user allows, until it has started."""
        runs, now = unrecovered(self.runs.known.values()), time.monotonic()
        prepared = {
            run.event_id
            for run in runs
            if run.phase == Phase.PREPARE and run.outcome == RunOutcome.OK
        }
        for event_id in prepared & current.keys() if self.rules.approve != "never" else ():
            if now >= self.approve_at.get(event_id, now):
                if may_approve(current[event_id], self._prepared(current[event_id])):
                    subprocess.Popen([*self.approve, event_id])  # noqa: S603 - this program
                elif (
                    not self.rules.marks
                    and current[event_id].most_resources > 1
                    and event_id not in self.approve_at
                ):
                    self.log.info(
                        "hook does not approve: the event has other VMs",
                        extra=logs.facts(event_id=event_id),
                    )
                self.approve_at[event_id] = now + _APPROVE_SECONDS

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
            self.log.warning(
                "folder of marks cannot be used",
                extra=logs.facts(path=folder, error=error.strerror),
            )
            return set()


def _end_leftovers(runs: Iterable[HookRun]) -> None:
    """End the processes of runs that a hook has left behind when it was killed.

    Only Linux shows them.
    """
    marks = {f"EVENT_RUN={run.run}".encode() for run in runs if run.outcome is None}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if not marks.isdisjoint((folder / "environ").read_bytes().split(b"\0")):
                os.kill(int(folder.name), getattr(signal, "SIGKILL", signal.SIGTERM))


def _text(value: object) -> str:
    return (
        ",".join(map(str, value))
        if isinstance(value, list)
        else ""
        if value is None
        else str(value)
    )
