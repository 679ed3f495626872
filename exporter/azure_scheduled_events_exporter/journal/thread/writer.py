"""The journal's thread: it owns the file, reads it at the start, and writes what waits.

All that can hang or fail because of the disk is done here, and nowhere else. Whatever fails, the
thread goes on and tries again, so that nothing ends it but :meth:`Shared.end`, or a file that must
not be used. Must not open, lock or rename a file (``journal.disk.file``), or know SQL
(``journal.tables.store``).
"""

import logging
import sqlite3
import threading
from contextlib import suppress
from pathlib import Path

from azure_scheduled_events_exporter.errors import (
    ExporterError,
    JournalInUseError,
    JournalKeptError,
)
from azure_scheduled_events_exporter.journal.disk import documents
from azure_scheduled_events_exporter.journal.disk.failures import FAILURES, may_be_damage, reason
from azure_scheduled_events_exporter.journal.disk.file import JournalFile
from azure_scheduled_events_exporter.journal.disk.folder_owner import as_folder_owner
from azure_scheduled_events_exporter.journal.disk.opening import proven_damage
from azure_scheduled_events_exporter.journal.tables.store import Store

from .shared import Shared


class Writer:
    """Reads and writes the file at ``path`` for those who use ``shared``.

    With ``renames``, a file that cannot be used is renamed. A command that is no exporter must not
    do that: without ``renames``, such a file is refused.
    """

    def __init__(
        self, path: Path, shared: Shared, log: logging.Logger, *, renames: bool = True
    ) -> None:
        self._file = JournalFile(path, log, renames=renames)
        self._shared = shared
        self._log = log
        self._is_located = False
        self._is_first = True  # whether there was no attempt to use the file yet
        self._is_checked = False  # whether the whole file has been checked in this run
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    def is_alive(self) -> bool:
        """Return whether the thread runs."""
        return self._thread.is_alive()

    def join(self, seconds: float) -> None:
        """Wait for the end of the thread, at most so long."""
        self._thread.join(seconds)

    def _run(self) -> None:
        """Work until the end, or until the file turns out to be none that may be used."""
        is_last = False
        while not is_last and self._shared.refusal is None:
            is_last = self._shared.wait_for_work()
            try:
                self._work()
            except Exception as error:  # noqa: BLE001 - a bug, or an error of what handles errors
                self._report_bug(error)
        with suppress(*FAILURES), as_folder_owner(self._file.path.parent):
            self._file.close()

    def _work(self) -> None:
        """Read the file if that has not been done, and write what waits."""
        is_first = self._is_first
        self._is_first = False
        if not self._is_located:
            try:
                self._file.locate()
            except ExporterError as error:
                self._shared.refuse(error)
                return
            self._is_located = True
        with as_folder_owner(self._file.path.parent):
            try:
                if self._shared.read is None:
                    self._shared.note_read(self._file.restored())
                if self._shared.is_adopted:  # the exporter goes on with what was read
                    self._write()
            except JournalInUseError as error:
                if is_first:  # somebody has started a second exporter
                    self._shared.refuse(error)
                else:  # this exporter runs already, and goes on without the file
                    self._failed(error)
            except JournalKeptError as error:  # without ``renames``
                self._shared.refuse(error)
            except FAILURES as error:
                self._failed(error)

    def _write(self) -> None:
        """Write what waits, look at what others have written, and check the file once."""
        work = self._shared.work()
        store = self._file.opened()
        position = store.position()
        # Each journal has a random id, its epoch; a file that was never written has none.
        if position.epoch and position.epoch != work.remembered.epoch:
            # So the next opened() renames this file, and begins a new one.
            self._file.unusable = "it belongs to another VM, or is another journal"
            store = self._file.opened()
            position = store.position()
        is_new_file = not position.epoch
        is_older_copy = position.last_number < work.last_number  # of this journal
        lacks_events = is_new_file or is_older_copy or work.has_lost
        if work.has_new_change or lacks_events:
            # With ``whole``, also the events whose changes are not among the entries.
            store.write(work.entries, work.remembered, whole=lacks_events)
        self._shared.note_written(work, store.look())
        for document in work.documents:
            documents.keep(self._file.path, document, work.oldest)
        self._check(store)

    def _check(self, store: Store) -> None:
        """Check the whole file, once in a run, while nothing waits to be written.

        SQLite asks :meth:`Shared.is_check_to_stop` again and again, and interrupts the check when
        that returns True.
        """
        if self._is_checked:
            return
        try:
            store.check(self._shared.is_check_to_stop)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                raise
            return  # there is something to write: the next call begins the check anew
        self._is_checked = True

    def _failed(self, error: Exception) -> None:
        """Close the file after ``error``, so that the next attempt opens it anew.

        If its content may be the cause, the whole file is checked now. If that proves damage, the
        next attempt comes at once, renames the file and begins a new one. In all other cases the
        disk has failed: entries wait, and the same file is tried again after a while.
        """
        self._file.close_after(error)
        damage = ""
        if may_be_damage(error):
            damage = proven_damage(self._file.path)
        if damage:
            self._file.unusable = damage
            self._shared.try_at_once()
        else:
            self._shared.note_trouble(reason(error))

    def _report_bug(self, error: Exception) -> None:
        """Log an error that nothing here expects, and close the file, so that it is opened anew.

        Each step on its own: the log may be what fails.
        """
        problem = f"internal error: {type(error).__name__}: {error}"
        is_new = self._shared.problem != problem
        with suppress(Exception):
            self._file.close()
        with suppress(Exception):
            self._shared.note_trouble(problem)
        with suppress(Exception):
            if is_new:
                self._log.error("internal error in the journal's thread; retrying", exc_info=error)
