"""The runs of one hook: what it has prepared for and must recover, in a file of its own.

The file is in the journal's folder and belongs to the hook alone, so that nothing that happens to
the journal makes it forget a VM that is drained. It is named after the hook and not after its
command: a hook that starts with another command during an event still has to recover. Each run is
written to the journal too, from where the exporter takes it for metrics, traces and ``history``:
the file keeps it until that is done.

A thread writes the file and another one writes to the journal, so that a disk that hangs keeps no
command from running. Must not decide what runs (``plan``).
"""

import logging
import os
import sqlite3
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import closing
from logging import Logger
from pathlib import Path
from typing import Final

from azure_scheduled_events_exporter import logs
from azure_scheduled_events_exporter.errors import ExporterError
from azure_scheduled_events_exporter.journal.access import writable
from azure_scheduled_events_exporter.journal.disk.folder_owner import as_folder_owner
from azure_scheduled_events_exporter.journal.disk.location import file_path
from azure_scheduled_events_exporter.log_limits import Changes
from azure_scheduled_events_exporter.snapshot.hooks import HookRun, Phase, RunOutcome

from .stored import Stored, abandoned, parse, state_file, text_of

_WRITE_SECONDS: Final = 1.0
"""How long a run waits until it is on disk, and how long a failed write waits for the next one."""
_MOST_WAITING: Final = 500
"""How many runs wait for the journal. Above it, the oldest ones are dropped."""
_OTHERS_SECONDS: Final = 10.0
"""After how long a hook that has not started yet counts as one that does not run."""
_FAILURES = (ExporterError, sqlite3.Error, OSError)
"""What a journal raises that cannot be written."""


class Runs:
    """The runs of the hook ``name``, and the threads that write them.

    The known runs are those that no recovery has ended. The unsent ones are those that the journal
    does not have yet. A run can be both. The file has both, so that a restart loses neither.
    """

    def __init__(self, journal: Path, name: str, log: Logger) -> None:
        self._journal = journal
        self._name = name
        self._log = log
        self._changed = threading.Condition()
        self._known: dict[str, HookRun] = {}
        self._unsent: dict[str, HookRun] = {}
        self._is_loaded = False
        # The number of the newest change of the runs, and of the last one that is in the file. They
        # begin unequal, so that the thread reads and writes the file at once.
        self._version = 1
        self._written = 0
        for work in (self._keep_file, self._send, self._look_for_others):
            threading.Thread(target=work, name=f"hook{work.__name__}", daemon=True).start()
        self._wait_for_disk()

    @property
    def _file(self) -> Path:
        """The path of the file.

        Only the threads of this object may call this property: it looks at the disk, which may
        hang.
        """
        return state_file(self._journal, self._name)

    @property
    def known(self) -> tuple[HookRun, ...]:
        """The runs that no recovery has ended, in the order in which they began."""
        with self._changed:
            return tuple(self._known.values())

    def keep(self, run: HookRun) -> None:
        """Add or replace a run among the known ones, log it, and hand it to the journal.

        It waits briefly until the run is on disk. A recovery that has ended leaves none known.
        """
        with self._changed:
            self._known = _with(self._known, run)
        self.record(run)

    def record(self, run: HookRun) -> None:
        """Log a run, and hand it to the journal, without adding it to the known ones.

        Call it instead of :meth:`keep` for a run that did not begin: it has prepared nothing, so
        there is nothing to recover. It waits briefly until the run is on disk.
        """
        self._log_run(run)
        with self._changed:
            self._unsent[run.run] = run
            while len(self._unsent) > _MOST_WAITING:
                oldest = next(iter(self._unsent))
                del self._unsent[oldest]
            self._note_change()
        self._wait_for_disk()

    def _log_run(self, run: HookRun) -> None:
        """Log that a run begins, or how it has ended: as a warning if that was not well."""
        names = (
            "phase",
            "event_id",
            "event_type",
            "outcome",
            "seconds_left",
            "exit_status",
            "signal",
        )
        values = {name: getattr(run, name) for name in names}
        present = {name: value for name, value in values.items() if value not in {None, ""}}
        what = "ended" if run.outcome else "begins"
        level = logging.INFO if run.outcome in {None, RunOutcome.OK} else logging.WARNING
        self._log.log(level, "hook's run %s", what, extra=logs.facts(**present))

    def close(self) -> None:
        """Wait briefly until the journal has all runs."""
        with self._changed:
            self._changed.wait_for(lambda: not self._unsent, _WRITE_SECONDS)

    def _note_change(self) -> None:
        """Let the threads see a change. The lock is held."""
        self._version += 1
        self._changed.notify_all()

    def _wait_for_disk(self) -> None:
        """Wait briefly until the file has all that is known now."""
        with self._changed:
            version = self._version
            self._changed.wait_for(lambda: self._written >= version, _WRITE_SECONDS)

    def _keep_file(self) -> None:
        """Read the file once, and write it whenever something has changed. A thread runs this."""
        failures = Changes()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._version > self._written)
            try:
                with as_folder_owner(self._journal):
                    version = self._write_file()
            except (OSError, ExporterError) as error:
                self._complain(
                    failures,
                    "the hook cannot use its file: after a restart, it does not know what it has"
                    " prepared for",
                    error,
                )
                time.sleep(_WRITE_SECONDS)
            else:
                with self._changed:
                    self._written = version
                    self._changed.notify_all()

    def _write_file(self) -> int:
        """Write the file; before the first time, read it. Return its version. Raises OSError."""
        if not self._is_loaded:
            self._load()
        with self._changed:
            version = self._version
            content = text_of(Stored(self._known, self._unsent))
        self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _replace(self._file, content.encode())
        return version

    def _load(self) -> None:
        """Take over the runs of an earlier hook. Raises OSError: they cannot be read now."""
        try:
            content = self._file.read_bytes()
        except FileNotFoundError:
            content = b"{}"
        stored = parse(content.decode(errors="replace"))
        if stored.damage:
            self._set_aside(content, stored.damage)
        with self._changed:
            # What has begun meanwhile is newer.
            self._known = {**stored.runs, **self._known}
            self._unsent = {**stored.unsent, **self._unsent}
            self._is_loaded = True
            self._changed.notify_all()

    def _set_aside(self, content: bytes, damage: str) -> None:
        """Keep a copy of a damaged file, and log it. Raises OSError."""
        copy = self._file.with_suffix(".damaged")
        _replace(copy, content)
        self._log.error(
            "the file of the hook is damaged, so it may not recover what it has prepared for:"
            " check by hand whether this VM is drained",
            extra=logs.facts(path=self._file, copy=copy, error=logs.shortened(damage)),
        )

    def _look_for_others(self) -> None:
        """Log once which hooks have prepared and do not run. A thread runs this."""
        time.sleep(_OTHERS_SECONDS)  # other hooks may start with this one
        try:
            with as_folder_owner(self._journal):
                found = list(abandoned(self._journal, self._name))
        except OSError:
            return  # the other threads need the disk too, and log its failure
        for path, run in found:
            self._log.warning(
                "a hook of another name has prepared, and does not run: start it again, or bring"
                " this VM back by hand and remove the file",
                extra=logs.facts(path=path, prepared_by=run.command, event_id=run.event_id),
            )

    def _send(self) -> None:
        """Write runs to the journal, for the exporter. A thread runs this."""
        failures = Changes()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._unsent)
                unsent = dict(self._unsent)
            try:
                with as_folder_owner(self._journal):
                    self._write_to_journal(unsent.values())
            except _FAILURES as error:
                self._complain(
                    failures, "the journal does not have this run of the hook yet", error
                )
                time.sleep(_WRITE_SECONDS)
            else:
                with self._changed:
                    for run_id, run in unsent.items():
                        if self._unsent.get(run_id) == run:  # otherwise it has changed meanwhile
                            del self._unsent[run_id]
                    self._note_change()  # the file need not have them any more

    def _write_to_journal(self, runs: Iterable[HookRun]) -> None:
        """Write runs to the journal.

        Raises one of :data:`_FAILURES`: the journal may lack some of them. All are written again
        later, which changes nothing for those that it has.
        """
        file = file_path(self._journal)
        if not file.exists():
            raise ExporterError(f"there is no journal at {file}: no exporter has run here")
        with closing(writable(file)) as store:
            for run in runs:
                store.hook_runs.put(run)

    def _complain(self, failures: Changes, what: str, error: Exception) -> None:
        """Log a failure, unless the last one that was logged had the same cause."""
        if failures.is_new(what, str(error)):
            self._log.warning(what, extra=logs.facts(path=self._journal, error=error))


def _with(known: Mapping[str, HookRun], run: HookRun) -> dict[str, HookRun]:
    """Return the known runs with ``run``, new or changed.

    None is left after a recovery that has ended: it was for all of them, and is not repeated, even
    if it has failed.
    """
    if run.phase == Phase.RECOVER and run.outcome:
        return {}
    others = dict(known)
    if run.outcome is None:  # it begins, perhaps again, and is the newest
        others.pop(run.run, None)
    return {**others, run.run: run}


def _replace(path: Path, content: bytes) -> None:
    """Write a file as a whole, readable by its owner only.

    Raises OSError: it cannot be written, and is as before.
    """
    scratch = path.with_name(f"{path.name}.new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(scratch, flags, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(path)
