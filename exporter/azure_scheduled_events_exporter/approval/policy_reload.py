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
"""Time between two looks at the policy file."""


def load_policy(name: str) -> Policy:
    """Return the policy that ``--approval.policy`` names: a built-in one, or a file.

    Raises:
        UsageError: there is neither, or the file cannot be read or is invalid.
    """
    if name in BUILT_IN:
        return BUILT_IN[name]
    # A word without a folder or a suffix is either a file or a misspelled built-in name.
    # Path.exists would raise for a name that is too long.
    path = Path(name)
    looks_like_a_file = path.name != name or path.suffix
    if not looks_like_a_file and not os.path.exists(name):  # noqa: PTH110
        known = ", ".join(BUILT_IN)
        raise UsageError(
            f"--approval.policy: {name!r} is neither {known} nor a file in this folder"
        )
    from . import policy_file  # noqa: PLC0415 - YAML takes 1.3 MiB

    with named_by("--approval.policy"):
        return policy_file.load(path)


class ReloadingPolicy:
    """The policy in effect, which changes with its file.

    An approval cannot be taken back, and in a file that is only half written, a rule whose
    ``match`` is still missing matches every event of this VM. So a text is used only when two looks
    in a row have found it.

    Attributes:
        in_effect: the policy that decides now.
    """

    def __init__(self, policy: Policy, log: logging.Logger) -> None:
        self.in_effect = policy
        self._log = log
        # The text that the last look found; None before the first look.
        self._found: str | None = None
        # The text that was applied or refused last.
        self._used: str | None = None
        self._errors = Changes()

    def run(self, wait: Callable[[float], bool]) -> None:
        """Look at the file until ``wait`` says that the process is to end.

        It runs in a thread of its own, because a disk may hang. ``wait`` sleeps for so many
        seconds and returns whether to end.
        """
        if self.in_effect.is_built_in:
            return
        while not wait(_LOOK_SECONDS):
            self.look()

    def look(self) -> None:
        """Read the file. If its text has changed and is the same as at the last look, use it."""
        from . import policy_file  # noqa: PLC0415 - a built-in policy does not need it

        path = Path(self.in_effect.name)
        try:
            text = read_text(path)
            if not self._is_to_be_used(text):
                return
            self._used = text
            policy = policy_file.parse(text, str(path))
        except UsageError as error:
            if isinstance(error, UnreadableFileError):
                # Once the file can be read again, its text is used even if it has not changed.
                self._used = None
            if self._errors.is_new("file", str(error)):
                message = "approval policy file is missing or invalid: the last valid policy stays"
                self._log.error(message, extra=facts(error=error))
            return
        had_error = self._errors.is_new("file", "")  # "" is new only if an error was noted before
        is_changed = policy != self.in_effect
        if had_error or is_changed:
            self._log.info(
                "approval policy reloaded", extra=facts(file=path, rules=len(policy.rules))
            )
        # An equal policy is not replaced: the reasons of a new object are logged and counted again.
        if is_changed:
            self.in_effect = policy

    def _is_to_be_used(self, text: str) -> bool:
        """Return whether the last look found this text, too, and it has not been used yet.

        Remembers ``text`` for the next look.
        """
        before = self._found
        self._found = text
        return text == before and text != self._used
