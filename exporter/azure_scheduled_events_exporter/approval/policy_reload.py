"""Reads the policy file again when it changes. An invalid file leaves the policy that was in effect in place."""

import logging
import threading
from collections import deque
from pathlib import Path

from azure_scheduled_events_exporter.errors import UnreadableFileError, UsageError
from azure_scheduled_events_exporter.logs import facts

from .policy import BUILT_IN, Policy

_Stamp = tuple[int, int, int]


class ReloadingPolicy:
    """The policy in effect. A thread reads its file, because a disk may hang and a long file takes time.

    Attributes:
        policy: in effect.
        has_changed: whether the file has changed since the last :meth:`current`.
    """

    def __init__(self, policy: Policy, log: logging.Logger) -> None:
        self.policy = policy
        self._log = log
        # A built-in policy has no file. The name of any other is the path that it was read from.
        self._path = None if policy is BUILT_IN.get(policy.name) else Path(policy.name)
        self._stamp: _Stamp | None = None  # the file may have changed since the policy was read
        self._missing = False
        self._error = ""
        self._found: deque[None] = deque()  # one for each change; both ends may be used by different threads
        self._looking = threading.Lock()
        self._asked = threading.Event()
        self._thread: threading.Thread | None = None
        self.has_changed = False

    def current(self) -> Policy:
        """Return the policy, and let the thread look whether its file has changed, for the next call."""
        self.has_changed = False
        while self._found:
            self._found.popleft()
            self.has_changed = True
        if self._path is not None:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, args=(self._path,), name="policy", daemon=True)
                self._thread.start()
            self._asked.set()
        return self.policy

    def _run(self, path: Path) -> None:
        while True:
            self._asked.wait()
            self._asked.clear()
            self.look(path)

    def look(self, path: Path) -> None:
        """Read the file again if it has changed since the last look."""
        with self._looking:
            stamp = _stamp(path)
            if stamp is not None and stamp != self._stamp:
                was_read, before = self._stamp is not None, self.policy
                self._stamp = stamp
                self._reload(path)
                if was_read or self.policy is not before:
                    self._found.append(None)
            elif stamp is None and not self._missing:
                self._log.error("approval policy file is missing: the last valid policy stays", extra=facts(file=path))
            self._missing = stamp is None

    def _reload(self, path: Path) -> None:
        from .policy_file import load  # noqa: PLC0415 - loaded with the first policy file already

        try:
            policy = load(path)
        except UsageError as error:
            if isinstance(error, UnreadableFileError):
                self._stamp = None  # becoming readable does not change it
            if str(error) != self._error:
                self._error = str(error)
                message = "changed approval policy is invalid: the last valid policy stays"
                self._log.error(message, extra=facts(error=error))
        else:
            if policy != self.policy or self._error:
                self._log.info("approval policy reloaded", extra=facts(file=path, rules=len(policy.rules)))
            if policy != self.policy:  # else the same object: its decisions stay logged and counted
                self.policy = policy
            self._error = ""


def _stamp(path: Path) -> _Stamp | None:
    """Return the stamp by which a change of the file is detected; None if the file cannot be found."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
