"""Runs the hook's command for one event: its environment, its input, and its end. Must not decide when."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from azure_scheduled_events_exporter.journal.hook_runs import HookRun

_RUN = "EVENT_RUN"
_SAME = ("event_id", "event_type", "event_source", "event_status", "not_before", "description", "duration_seconds")
_VARIABLES = {
    **{name if name.startswith("event_") else f"event_{name}": name for name in (*_SAME, "kind", "resources")},
    "event_seconds_left": "seconds_until_not_before",
}
"""Names of variables in lower case, each with the key of the event's record."""


class Running:
    """The command of ``run``, which gets the event as JSON on standard input.

    Raises:
        OSError: the command cannot be started.
    """

    def __init__(self, command: Sequence[str], run: HookRun, vm_name: str) -> None:
        self.run = run
        self.stopped_at: float | None = None
        record = json.loads(run.record)
        variables = {name.upper(): _text(record.get(key)) for name, key in _VARIABLES.items()}
        own = {"EVENT_VM_NAME": vm_name, "EVENT_PHASE": run.phase, _RUN: run.run}
        with tempfile.TemporaryFile() as text:  # not a pipe: a command that does not read it must not fail
            text.write(run.record.encode())
            text.seek(0)
            self._process = subprocess.Popen(  # noqa: S603 - the command is the user's own
                [*command, run.phase],
                stdin=text,
                env={**os.environ, **variables, **own},
                start_new_session=True,
                creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
            )

    @property
    def status(self) -> int | None:
        """The exit status; None while it runs."""
        return self._process.poll()

    def stop(self, now: float) -> None:
        """Ask the command and its children to end."""
        self.stopped_at = now
        if sys.platform == "win32":
            self._process.send_signal(signal.CTRL_BREAK_EVENT)
        else:
            self._signal_group(signal.SIGTERM)

    def kill(self) -> None:
        """End the command and its children."""
        if sys.platform == "win32":
            self._process.kill()
        else:
            self._signal_group(signal.SIGKILL)
        self._process.wait()

    def _signal_group(self, number: int) -> None:
        if sys.platform != "win32":
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)


def end_leftover(run: str) -> None:
    """End the processes of a run that a hook has left behind when it was killed. Only Linux shows them."""
    mark = f"{_RUN}={run}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                os.kill(int(folder.name), getattr(signal, "SIGKILL", signal.SIGTERM))


def _text(value: object) -> str:
    if value is None:
        return ""
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
