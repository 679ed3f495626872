"""The runs of a hook: their processes, and their rows in the journal, which the exporter counts and shows.

Must not decide when a run begins or ends.
"""

import json
import logging
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

from azure_scheduled_events_exporter.errors import ExporterError
from azure_scheduled_events_exporter.journal.file import read_only, writable
from azure_scheduled_events_exporter.journal.hook_runs import HookRun
from azure_scheduled_events_exporter.logs import Changes, facts

TERMINATE = getattr(signal, "CTRL_BREAK_EVENT", signal.SIGTERM)
"""The signal that asks a command to end; the first one is Windows'."""

_WRITE_SECONDS = 1.0
"""How long a run waits until it is in the journal: a disk that hangs must not keep its command from running."""


class Process(subprocess.Popen[bytes]):
    """The command of ``run`` and its children. It gets the event in variables, and as JSON on standard input.

    Attributes:
        stopped_at: when it was asked to end, wall-clock seconds.

    Raises:
        OSError: the command cannot be started.
    """

    def __init__(self, command: Sequence[str], run: HookRun) -> None:
        self.run = run
        self.stopped_at: float | None = None
        record = json.loads(run.record)
        record |= {"seconds_left": record.get("seconds_until_not_before"), "phase": run.phase, "run": run.run}
        super().__init__(
            [*command, run.phase],
            stdin=subprocess.PIPE,
            env={**os.environ, **{f"EVENT_{key.removeprefix('event_').upper()}": _text(record[key]) for key in record}},
            start_new_session=True,
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        )
        threading.Thread(target=self.communicate, args=(run.record.encode(),), daemon=True).start()  # it may not read

    def send_signal(self, sig: int) -> None:
        """Send a signal to the command, and to its children, also if it has ended."""
        if sys.platform == "win32":
            super().send_signal(sig)
        else:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, sig)


class Runs:
    """The runs of ``command`` by their ids, the oldest first, also in the journal at ``path``."""

    def __init__(self, path: Path, command: str, log: logging.Logger) -> None:
        self._path = path
        self._log = log
        self._writing = threading.Lock()
        self._failures = Changes()
        self.known: dict[str, HookRun] = {}
        try:
            with closing(read_only(path)) as store:
                self.known = {run.run: run for run in store.hook_runs.all() if run.command == command}
        except (ExporterError, sqlite3.Error, OSError) as error:  # to prepare twice is better than not to prepare
            log.warning("earlier runs of the hook cannot be read", extra=facts(error=error))

    def keep(self, run: HookRun) -> None:
        """Add or replace a run, and wait a moment until the journal has it; a thread goes on trying."""
        self.known[run.run] = run
        writer = threading.Thread(target=self._write, args=(run.run,), name="hook-journal", daemon=True)
        writer.start()
        writer.join(_WRITE_SECONDS)

    def _write(self, name: str) -> None:
        while True:
            try:
                with self._writing, closing(writable(self._path)) as store:
                    store.hook_runs.put([self.known[name]])  # as it is by now
                    self._failures.is_new("journal", "")
                    break
            except (ExporterError, sqlite3.Error, OSError) as error:
                if self._failures.is_new("journal", str(error)):
                    self._log.error("runs of the hook are not in the journal yet", extra=facts(error=error))
                time.sleep(_WRITE_SECONDS)


def end_leftover(run: HookRun) -> None:
    """End the processes of a run that a hook has left behind when it was killed. Only Linux shows them."""
    mark = f"EVENT_RUN={run.run}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                os.kill(int(folder.name), getattr(signal, "SIGKILL", signal.SIGTERM))


def _text(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else "" if value is None else str(value)
