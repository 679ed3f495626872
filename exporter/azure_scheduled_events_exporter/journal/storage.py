"""Keeps the journal in its file on disk, and in memory while the disk fails.

Decides which store is in use and what to do if the file fails. ``journal.files`` handles files,
``journal.writer_lock`` the lock, ``journal.store`` tables, and ``journal.recovery`` merges two records of one event.
Must not know who uses the journal, what for, or from which thread: ``journal.journal`` makes one call at a time.

Failures of the file, and their handling:

- it is removed or replaced while it is open: a copy of the open file is put in its place; nothing is lost;
- a file system with a journal is mounted over its folder: the two are merged there;
- its content is damaged: it is set aside. A new file continues with the same counters, current events and numbers; at
  the start, when nothing has been read yet, it begins empty;
- an event in it, or the sums, do not fit the class: they alone are left out;
- the disk accepts no writes, or is not mounted any more: entries are kept in memory and merged when it works again;
- it belongs to another VM (this VM was created from its image): it is set aside, and an empty journal begins.

The exporter holds a lock on the journal, so that no second exporter can write it.
"""

import contextlib
import errno
import logging
import sqlite3
from pathlib import Path

from azure_scheduled_events_exporter.core.lifecycle import Lifecycles
from azure_scheduled_events_exporter.core.statistics import Statistics
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.errors import CodecError, DamagedTextError, JournalInUseError
from azure_scheduled_events_exporter.logs import facts

from .failures import is_damage, reason
from .files import (
    Identities,
    create,
    device,
    file_path,
    identities,
    in_memory,
    is_read_only,
    on_disk,
    replace_with,
    set_aside,
)
from .store import RECENT, Entry, Restored, Store
from .writer_lock import WriterLock

RETRY_SECONDS = 5.0
"""Interval of the attempts to have the journal on disk again, while its entries are in memory."""
FAILURES = (sqlite3.Error, OSError, DamagedTextError)
"""Errors of reads and writes that a file or a disk can cause."""
_NOTHING = Entry()


class Storage:
    """Keeps the journal in its file, or in memory if there is no file or the file fails. Not thread-safe.

    Args:
        path: of the file, or of a folder to put it in; None keeps everything in memory.
        log: where failures are logged.
        known: the initial events of a journal in memory.

    Attributes:
        path: of the file; None if there is none.
        disk: the open file; None while only memory is used.
        errors: number of failures of the file.

    Raises:
        JournalInUseError: another process writes it.
    """

    def __init__(self, path: Path | None, log: logging.Logger, known: Restored | None) -> None:
        self.path = path and file_path(path)
        self.disk: Store | None = None
        self.errors = 0
        self._log = log
        self._writer_lock: WriterLock | None = None
        self._identities: Identities = ()
        self._device: int | None = None  # of the folder, once the file has been open
        self._memory = in_memory()
        self._tried: float | None = None
        self._trouble_reported = False
        # The content of the disk after the last write; None until it is read.
        self._on_disk: Restored | None = None
        self._epoch = ""
        self._last_number = 0
        self._vm_id = ""
        self._owner = ""  # the VM id in the journal when it was last read whole
        if self.path is not None:
            try:
                self._open_or_go_on()
            except JournalInUseError:
                self._memory.close()
                raise
        elif known is not None:
            self._memory.begin_with(known, _NOTHING)

    @property
    def store(self) -> Store:
        """The store to read and write: the file if it is open, else memory."""
        return self.disk if self.disk is not None else self._memory

    def restore(self) -> Restored:
        """Return the events and statistics in the journal."""
        try:
            restored = self.store.restore()
            if self.disk is not None:
                self._included(restored)
        except FAILURES as error:
            self.handle(error)
            return Restored()
        return restored

    def record(self, entry: Entry, statistics: Statistics, known: Lifecycles) -> None:
        """Write ``entry``; ``statistics`` and ``known`` are the complete state after it, in case a new file is needed.

        Raises:
            CodecError: a bug; nothing is written, and the file is unchanged.
        """
        if self.disk is None:
            self._memory.record(entry)
            return
        try:
            self.disk.record(entry)
        except (sqlite3.Error, OSError) as error:
            self.handle(error, entry)
        if self.disk is not None:
            self._last_number += len(entry.changes)
            ended = tuple(life for life in entry.lives if life.outcome is not None)
            recent = self._on_disk.recent if self._on_disk else ()
            self._on_disk = Restored(known, statistics, (*recent, *ended)[-RECENT:])

    def handle(self, error: Exception, entry: Entry = _NOTHING) -> None:
        """Handle ``error`` from writing ``entry``: begin a new file if the old one is damaged, else use memory."""
        if self.disk is None or not is_damage(error):
            self._use_memory(error)
            self._memory.record(entry)
            return
        try:
            self._use(self._new_file(error))
            assert self.disk is not None  # noqa: S101 - just opened
            before = self._on_disk or Restored()
            self.disk.begin_with(before, entry, epoch=self._epoch, last_number=self._last_number)
            if self._vm_id:
                self.disk.set_vm_id(self._vm_id)
            self._epoch = self.disk.epoch()
        except (sqlite3.Error, OSError) as failure:
            self._use_memory(failure)
            self._memory.record(entry)

    def check_file(self) -> None:
        """Write the journal's file again from the open one if it, or one of its logs, was removed or replaced."""
        if self.disk is None or self.path is None:
            return
        try:
            holds = self._writer_lock is not None and self._writer_lock.holds()
            now = identities(self.path)
            linked = now[0] is not None and now[0].links > 1
            if holds and now == self._identities and not linked:
                return
            opened = self._identities[0]
            if now[0] is not None and opened is not None and now[0].device != opened.device:
                self._leave_mount_point()
            else:
                self._put_back(linked=linked)
        except (*FAILURES, JournalInUseError) as error:
            self._use_memory(error)

    def claim(self, vm_id: str) -> bool:
        """Set this VM's id; return whether the journal was another VM's. Then a new one begins, if only in memory."""
        if not vm_id or vm_id == self._vm_id:
            return False
        self._vm_id = vm_id
        try:
            if self.disk is not None and not self.disk.vm_id():
                self.disk.set_vm_id(vm_id)
                self._owner = vm_id
        except FAILURES as error:
            self.handle(error)
        if self._owner.casefold() in {"", vm_id.casefold()}:
            return False
        self._forget()
        try:
            if self.disk is not None:
                self._begin_own(self._owner)
        except FAILURES as error:
            self.handle(error)
        return True

    @property
    def awaits_vm_id(self) -> bool:
        """Whether the journal has a VM id but this VM's id is not known yet."""
        try:
            return not self._vm_id and self.disk is not None and bool(self.disk.vm_id())
        except sqlite3.Error:
            return False

    def try_disk_again(self, now: Timestamp) -> Restored | None:
        """Return to the disk if a retry is due and succeeds; then return the content of the disk, else None."""
        if self.path is None or self.disk is not None:
            return None
        if self._tried is None:
            self._tried = now.monotonic
        if now.monotonic - self._tried < RETRY_SECONDS:
            return None
        self._tried = now.monotonic
        try:
            restored = self._regained()
        except (*FAILURES, JournalInUseError, CodecError):
            self.errors += 1
            self._stop_writing()
            return None
        self._trouble_reported = False
        self._memory.close()
        self._memory = in_memory()
        self._log.info("journal is on disk again", extra=facts(path=self.path))
        return restored

    def close(self) -> None:
        """Close the file and release its lock."""
        self._drop_disk()
        self._release()
        self._memory.close()

    def _open_or_go_on(self) -> None:
        try:
            self._open()
            self._show_writing()
        except (sqlite3.Error, OSError) as error:
            self._use_memory(error)

    def _open(self) -> Store:
        """Open the file for writing; a damaged file, or one of another program, is set aside and a new one begun."""
        path = self._take_lock()
        try:
            self._use(on_disk(path))
        except sqlite3.Error as error:
            if not is_damage(error):
                raise
            self._use(self._new_file(error))
        assert self.disk is not None  # noqa: S101 - just opened
        return self.disk

    def _take_lock(self) -> Path:
        """Take the lock, also if its file was removed in the meantime; return the journal's path."""
        assert self.path is not None  # noqa: S101 - callers have looked
        folder = self.path.parent
        if self._device is not None and not self.path.exists() and device(folder) != self._device:
            # A journal that is begun in the mount point would hide the history, and later be put in its place.
            raise OSError(errno.ENODEV, "the file system that the journal was on is not mounted", str(self.path))
        if not folder.exists():
            folder.mkdir(parents=True, mode=0o700)
        if self._writer_lock is None or not self._writer_lock.holds():
            self._release()
            self._writer_lock = WriterLock(self.path)
        return self.path

    def _use(self, disk: Store) -> None:
        """Make ``disk`` the store in use, and take note of the files that it has open."""
        assert self.path is not None  # noqa: S101 - there is a file
        self.disk = disk
        disk.spans_queued()  # opens the logs, so that they can be identified
        self._identities, self._device = identities(self.path), device(self.path.parent)

    def _use_memory(self, error: Exception) -> None:
        """Continue in memory; log why, once until the disk works again."""
        self.errors += 1
        self._tried = None
        if not self._trouble_reported:
            message = "journal cannot be used, and events are kept in memory until it can"
            self._log.error(message, extra=facts(path=self.path, error=reason(error)))
        self._trouble_reported = True
        self._stop_writing()

    def _included(self, restored: Restored) -> None:
        """Record that the state in memory and on disk is the same."""
        assert self.disk is not None  # noqa: S101 - just read
        if self.disk.left_out:
            self.errors += 1
            message = "an entry in the journal cannot be read: left out"
            self._log.error(message, extra=facts(path=self.path, error=self.disk.left_out))
        self._on_disk = restored
        self._epoch, self._last_number = self.disk.epoch(), self.disk.last_number()
        self._owner = self.disk.vm_id()

    def _regained(self) -> Restored:
        """Open the disk, merge the entries from memory, and return the content of the disk."""
        disk = self._open()
        try:
            restored = self._merged(disk)
        except FAILURES as error:
            if not is_damage(error):
                raise
            self._use(self._new_file(error))
            assert self.disk is not None  # noqa: S101 - just opened
            restored = self._merged(self.disk)
        self._show_writing()
        return restored

    def _merged(self, disk: Store) -> Restored:
        owner = disk.vm_id()
        if self._vm_id and owner and owner.casefold() != self._vm_id.casefold():
            disk = self._begin_own(owner)
        elif self._on_disk is not None and not self._goes_on(disk):
            # Another journal, or an older copy: counters must not fall, and numbers must not repeat.
            if not disk.is_empty():
                disk = self._set_aside("an older copy of the journal, or another one, is in its place")
            disk.begin_with(self._on_disk, _NOTHING, epoch=self._epoch, last_number=self._last_number)
        disk.merge(self._memory)
        if self._vm_id and not disk.vm_id():
            disk.set_vm_id(self._vm_id)
        counted = self._on_disk.statistics if self._on_disk is not None else None
        restored = disk.restore(counted, self._last_number)
        self._included(restored)
        return restored

    def _goes_on(self, disk: Store) -> bool:
        """Return whether ``disk`` is the journal that was open here, with all entries written to it."""
        return disk.epoch() == self._epoch and disk.last_number() >= self._last_number

    def _leave_mount_point(self) -> None:
        """Take the open journal into memory, to be merged with the one that a mount has put in its place.

        The exporter was started before the file system with its journal was mounted.
        """
        assert self.disk is not None  # noqa: S101 - callers have looked
        self._memory.merge(self.disk)
        self._on_disk, self._epoch, self._last_number = None, "", 0
        self._use_memory(OSError(errno.ESTALE, "a file system with another journal was mounted over its folder"))

    def _put_back(self, *, linked: bool) -> None:
        """Copy the open file to the journal's path. A file that is there is renamed and kept."""
        assert self.disk is not None  # noqa: S101 - callers have looked
        path = self._take_lock()
        copy = path.with_name(path.name + ".new")
        copy.unlink(missing_ok=True)
        try:
            try:
                create(copy)
                self.disk.copy_to(str(copy))
            except sqlite3.Error as error:
                if not is_damage(error):
                    raise
                self.handle(error)
                return
            aside = replace_with(path, copy)
        finally:
            copy.unlink(missing_ok=True)
        self._drop_disk()
        self._use(on_disk(path))
        self._show_writing()
        if linked:
            self._log.warning(
                "journal file has a hard link: replaced by a copy, so that no other program changes it",
                extra=facts(path=path, set_aside=aside),
            )
            return
        self.errors += 1
        self._log.error(
            "journal files were removed or replaced; wrote them again from the open journal, no data lost",
            extra=facts(path=path, set_aside=aside),
        )

    def _new_file(self, error: Exception) -> Store:
        """Set aside a file that is damaged or of another program, and return a new one."""
        self.errors += 1
        return self._set_aside(reason(error))

    def _set_aside(self, why: str) -> Store:
        assert self.path is not None  # noqa: S101 - there is a file
        self._drop_disk()
        aside = set_aside(self.path)
        self._log.error(
            "journal is damaged or not ours: set aside, and a new one begun",
            extra=facts(path=self.path, set_aside=aside, error=why),
        )
        disk = on_disk(self.path)
        self._use(disk)
        return disk

    def _begin_own(self, owner: str) -> Store:
        """Begin a new journal for this VM. The file that came with the VM's image is renamed and kept."""
        assert self.path is not None  # noqa: S101 - there is a file
        self._drop_disk()
        aside = set_aside(self.path)
        self._log.warning(
            "journal belongs to another VM: set aside, and a new one begun",
            extra=facts(path=self.path, set_aside=aside, vm_id=self._vm_id, journal_vm_id=owner),
        )
        disk = on_disk(self.path)
        disk.set_vm_id(self._vm_id)
        self._use(disk)
        self._included(Restored())
        return disk

    def _forget(self) -> None:
        """Forget the entries of another VM: those that were read, and those in memory."""
        self._on_disk, self._epoch, self._last_number = None, "", 0
        self._memory.close()
        self._memory = in_memory()

    def _drop_disk(self) -> None:
        if self.disk is not None:
            with contextlib.suppress(sqlite3.Error):
                self.disk.close()
        self.disk = None

    def _show_writing(self) -> None:
        """Let followers know that the file has what this exporter sees."""
        assert self._writer_lock is not None  # noqa: S101 - there is an open file
        self._writer_lock.show(is_written=True)

    def _stop_writing(self) -> None:
        """Close the file, and let followers know that they do not find in it what this exporter sees.

        Other writers stay locked out, but not on a read-only file system: no process can write there, and without the
        lock it can be unmounted.
        """
        self._drop_disk()
        if self._writer_lock is None or self.path is None:
            return
        if is_read_only(self.path):
            self._release()
        else:
            with contextlib.suppress(sqlite3.Error):
                self._writer_lock.show(is_written=False)

    def _release(self) -> None:
        if self._writer_lock is not None:
            self._writer_lock.release()
        self._writer_lock = None
