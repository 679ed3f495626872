"""Reads the policy file again when it changes. An invalid file leaves the policy that was in effect in place."""

import logging
from pathlib import Path

from azure_scheduled_events_exporter.errors import UnreadableFileError, UsageError
from azure_scheduled_events_exporter.logs import facts

from .policy import BUILT_IN, Policy

_Stamp = tuple[int, int, int]


class ReloadingPolicy:
    """The policy in effect. :meth:`current` checks the file with one ``stat``.

    Attributes:
        has_changed: whether the last :meth:`current` found another file than the one before it.
    """

    def __init__(self, policy: Policy, log: logging.Logger) -> None:
        self._policy = policy
        self._log = log
        # A built-in policy has no file. The name of any other is the path that it was read from.
        self._path = None if policy is BUILT_IN.get(policy.name) else Path(policy.name)
        self._stamp: _Stamp | None = None  # the file may have changed since the policy was read
        self._missing = False
        self._error = ""
        self.has_changed = False

    def current(self) -> Policy:
        """Return the policy, read again if its file has changed since the last call."""
        if self._path is None:
            return self._policy
        stamp = self._look()
        self.has_changed = False
        if stamp is not None and stamp != self._stamp:
            was_read, before = self._stamp is not None, self._policy
            self._stamp = stamp
            self._reload(self._path)
            self.has_changed = was_read or self._policy is not before
        elif stamp is None and not self._missing:
            self._log.error(
                "approval policy file is missing: the last valid policy stays", extra=facts(file=self._path)
            )
        self._missing = stamp is None
        return self._policy

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
            if policy != self._policy or self._error:
                self._log.info("approval policy reloaded", extra=facts(file=path, rules=len(policy.rules)))
            if policy != self._policy:  # else the same object: its decisions stay logged and counted
                self._policy = policy
            self._error = ""

    def _look(self) -> _Stamp | None:
        """Return the stamp by which a change of the file is detected; None if the file cannot be found."""
        if self._path is None:
            return None
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino
