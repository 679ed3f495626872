"""Runs of hooks: a table of the journal.

``hook`` writes them beside a running exporter, which counts and shows them. They are kept when events are pruned,
because counters must not fall; a run takes less than 1 KiB. Knows SQL over one connection. All methods raise
sqlite3.Error.
"""

import sqlite3
from collections.abc import Iterable
from dataclasses import astuple, fields
from typing import Final

from azure_scheduled_events_exporter.core.hook_runs import HookRun

_COLUMNS: Final = ", ".join(column.name for column in fields(HookRun))
_PUT: Final = f"REPLACE INTO hook_runs ({_COLUMNS}) VALUES ({', '.join('?' for _ in fields(HookRun))})"  # noqa: S608 - the names are this program's
_ALL: Final = f"SELECT {_COLUMNS} FROM hook_runs ORDER BY started"  # noqa: S608 - as above


class HookRuns:
    """The table ``hook_runs`` of the journal behind ``connection``."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection

    def put(self, runs: Iterable[HookRun]) -> None:
        """Write runs, new or changed; writing them again changes nothing."""
        with self._db:
            self._db.executemany(_PUT, [astuple(run) for run in runs])

    def remove(self, run: str) -> None:
        """Remove a run."""
        with self._db:
            self._db.execute("DELETE FROM hook_runs WHERE run = ?", (run,))

    def all(self) -> list[HookRun]:
        """Return every run, the oldest first."""
        return [HookRun(*row) for row in self._db.execute(_ALL).fetchall()]
