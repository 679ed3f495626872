"""Where a hook learns of current events: the journal of the running exporter, or polls of its own.

Must not know what a hook does with them, and must not keep an exporter from starting.
"""

import logging
import sqlite3
import threading
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from azure_scheduled_events_exporter.config import Config
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle, Lifecycles
from azure_scheduled_events_exporter.errors import DamagedTextError, ExporterError
from azure_scheduled_events_exporter.journal.file import MEMORY, file_path, is_written, read_only
from azure_scheduled_events_exporter.journal.journal import Journal
from azure_scheduled_events_exporter.journal.store import Restored
from azure_scheduled_events_exporter.service import daemon
from azure_scheduled_events_exporter.service.endpoint import with_endpoint

_CHECK_SECONDS = 1.0
"""Interval of the checks whether an exporter runs, and whether the open file is still the journal."""


class Source:
    """The current events, from whoever polls the metadata service on this VM; ``config`` has no approval policy.

    ``lock`` is held while the journal is open: in one process, SQLite shares a log's index that was opened for reading
    only with connections that write.
    """

    def __init__(self, config: Config, log: logging.Logger, lock: threading.Lock) -> None:
        self._config = config
        self._log = log
        self._lock = lock
        self._path = file_path(Path(config.journal_path))
        self._polling: daemon.Exporter | None = None
        self._follows = False
        self._check_at = 0.0
        self._stamp: object = None
        self._known: Mapping[str, Lifecycle] | None = None

    def current(self) -> Mapping[str, Lifecycle] | None:
        """Return the current events by EventId; None while nobody knows them."""
        if time.monotonic() >= self._check_at:
            self._check_at = time.monotonic() + _CHECK_SECONDS
            self._choose()
        if self._polling is None:
            self._read()
            return self._known
        snapshot = self._polling.poller.snapshot
        return snapshot.current if snapshot.polls.ready else None

    def close(self) -> None:
        """Stop polling."""
        if self._polling is not None:
            self._polling.stop()
            self._polling = None

    def _choose(self) -> None:
        """Read the journal if an exporter writes it; poll otherwise, from what is known."""
        self._stamp = None
        if is_written(self._path):
            if not self._follows:
                self._log.info("an exporter runs: its journal is followed")
            self._follows = True
            self.close()
        elif self._polling is None:
            self._follows = False
            self._log.info("no exporter runs: the hook polls the metadata service itself")
            alone = with_endpoint(replace(self._config, journal_path=MEMORY), self._log)
            known = Restored(Lifecycles(dict(self._known or {})))
            journal = Journal(None, alone.journal_retention, self._log, known)
            self._polling = daemon.Exporter(alone, self._log, journal=journal, reports=False)
            self._polling.start()

    def _read(self) -> None:
        """Read the journal if it has changed. While the other thread writes to it, what is known stays."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            files = (self._path, Path(f"{self._path}-wal"))
            stamp = [(each.st_size, each.st_mtime_ns) for each in (file.stat() for file in files if file.exists())]
            if stamp != self._stamp:
                with closing(read_only(self._path)) as store:
                    self._known = store.current()
                self._stamp = stamp
        except (ExporterError, sqlite3.Error, DamagedTextError, OSError):
            self._known = None
        finally:
            self._lock.release()
