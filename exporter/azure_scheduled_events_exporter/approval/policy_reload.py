"""Reads the policy: at the start, and its file again when that changes.

An invalid file stops a start; later, it leaves the policy that was in effect in place.
"""

import logging
import os
from collections.abc import Callable
from pathlib import Path

from azure_scheduled_events_exporter.errors import UnreadableFileError, UsageError, named_by
from azure_scheduled_events_exporter.log_limits import Changes
from azure_scheduled_events_exporter.logs import facts
from azure_scheduled_events_exporter.text_file import read_text

from .policy import BUILT_IN, Policy

_LOOK_SECONDS = 1.0


def load_policy(name: str) -> Policy:
    """Return the policy that ``--approval.policy`` names: a built-in one, or a file.

    Raises:
        UsageError: there is neither, or the file cannot be read or is invalid.
    """
    if name in BUILT_IN:
        return BUILT_IN[name]
    path = Path(name)
    looks_like_a_file = path.name != name or path.suffix
    if not looks_like_a_file and not os.path.exists(name):  # noqa: PTH110 - Path.exists raises for a name that is too long
        known = ", ".join(BUILT_IN)
        raise UsageError(
            f"--approval.policy: {name!r} is neither {known} nor a file in this folder"
        )
    from . import policy_file  # noqa: PLC0415 - YAML takes 1.3 MiB

    with named_by("--approval.policy"):
        return policy_file.load(path)


class ReloadingPolicy:
    """The policy in effect.

    What is approved cannot be taken back, and a rule whose ``match`` is not written yet matches
    every event of this VM. So a file is read only when two looks, a second apart, have found the
    same content.

    Attributes:
        policy: in effect.
    """

    def __init__(self, policy: Policy, log: logging.Logger) -> None:
        self.policy = policy
        self._log = log
        self._found = ""  # by the last look
        self._read: str | None = None  # the content that was applied or refused last
        self._errors = Changes()

    def run(self, wait: Callable[[float], bool]) -> None:
        """Look at the file until ``wait`` says that the process is to end.

        It runs in a thread of its own, because a disk may hang. ``wait`` sleeps for so many
        seconds and returns whether to end.
        """
        while not self.policy.is_built_in and not wait(_LOOK_SECONDS):
            self.look()

    def look(self) -> None:
        """Read the file. If its text has changed and is the same as at the last look, use it."""
        from . import policy_file  # noqa: PLC0415 - a built-in policy does not need it

        path = Path(self.policy.name)
        try:
            text = read_text(path)
            before = self._found
            self._found = text
            if text != before or text == self._read:
                return
            self._read = text
            policy = policy_file.parse(text, str(path))
        except UsageError as error:
            if isinstance(error, UnreadableFileError):
                self._read = None  # once it can be read, it is used even if nothing has changed
            if self._errors.is_new("file", str(error)):
                message = "approval policy file is missing or invalid: the last valid policy stays"
                self._log.error(message, extra=facts(error=error))
            return
        if self._errors.is_new("file", "") or policy != self.policy:
            self._log.info(
                "approval policy reloaded", extra=facts(file=path, rules=len(policy.rules))
            )
        # An equal policy is not replaced: the reasons of a new object are logged and counted again.
        if policy != self.policy:
            self.policy = policy
