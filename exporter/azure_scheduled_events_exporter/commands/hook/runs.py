"""The runs of a hook, in memory and in the journal, from which the exporter counts and shows them.

Must not know how a command is run, nor when.
"""

import logging
import queue
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path

from azure_scheduled_events_exporter import logs
from azure_scheduled_events_exporter.errors import ExporterError
from azure_scheduled_events_exporter.journal.file import read_only, writable
from azure_scheduled_events_exporter.journal.hook_runs import HookRun

_WRITE_SECONDS = 1.0
"""How long a run waits until it is in the journal: a disk that hangs must not keep its command from running."""


class Runs:
    """The runs of ``command`` by their ids, the oldest first. A thread writes them to the journal at ``path``."""

    def __init__(self, path: Path, command: str, log: logging.Logger) -> None:
        self._path = path
        self._log = log
        self.known: dict[str, HookRun] = {}
        try:
            with closing(read_only(path)) as store:
                self.known = {run.run: run for run in store.hook_runs.all() if run.command == command}
        except (ExporterError, sqlite3.Error, OSError) as error:  # to prepare twice is better than not to prepare
            log.warning("earlier runs of the hook cannot be read", extra=logs.facts(error=error))
        self._unwritten: queue.SimpleQueue[tuple[HookRun, threading.Event]] = queue.SimpleQueue()
        threading.Thread(target=self._write, name="hook-journal", daemon=True).start()

    def keep(self, run: HookRun) -> None:
        """Add or replace a run, and wait a moment until the journal has it."""
        self.known[run.run] = run
        written = threading.Event()
        self._unwritten.put((run, written))
        written.wait(_WRITE_SECONDS)

    def _write(self) -> None:
        failures = logs.Changes()
        while True:
            run, written = self._unwritten.get()
            while not written.is_set():
                try:
                    with closing(writable(self._path)) as store:
                        store.hook_runs.put([run])
                    written.set()
                    failures.is_new("journal", "")
                except (ExporterError, sqlite3.Error, OSError) as error:
                    if failures.is_new("journal", str(error)):
                        self._log.error("runs of the hook are not in the journal yet", extra=logs.facts(error=error))
                    time.sleep(_WRITE_SECONDS)
