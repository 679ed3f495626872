"""The process of a run: its environment, its input, and its end. Must not decide when."""

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

_KEYS = {
    **{key: key.removeprefix("event_") for key in ("event_id", "event_type", "event_source", "event_status")},
    **{key: key for key in ("not_before", "description", "duration_seconds", "kind", "resources", "vm_name")},
    "seconds_until_not_before": "seconds_left",
}
"""Keys of the event's record, each with its variable, in lower case and without ``EVENT_``."""


class Process:
    """The command of ``run`` and its children. It gets the event as JSON on standard input.

    Raises:
        OSError: the command cannot be started.
    """

    def __init__(self, command: Sequence[str], run: HookRun) -> None:
        self.run = run
        self.stopped_at: float | None = None
        record = json.loads(run.record)
        variables = {f"EVENT_{name.upper()}": _text(record.get(key)) for key, name in _KEYS.items()}
        with tempfile.TemporaryFile() as text:  # not a pipe: a command that does not read it must not fail
            text.write(run.record.encode())
            text.seek(0)
            self._process = subprocess.Popen(  # noqa: S603 - the command is the user's own
                [*command, run.phase],
                stdin=text,
                env={**os.environ, **variables, "EVENT_PHASE": run.phase, "EVENT_RUN": run.run},
                start_new_session=True,
                creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
            )

    @property
    def status(self) -> int | None:
        """The exit status; None while it runs."""
        return self._process.poll()

    def stop(self, now: float) -> None:
        """Ask it to end."""
        self.stopped_at = now
        self._signal("SIGTERM")

    def kill(self) -> None:
        """End it."""
        self._signal("SIGKILL")
        self._process.wait()

    def _signal(self, name: str) -> None:
        with suppress(ProcessLookupError):
            if sys.platform != "win32":
                os.killpg(self._process.pid, getattr(signal, name))
            elif name == "SIGTERM":
                self._process.send_signal(signal.CTRL_BREAK_EVENT)
            else:
                self._process.kill()


def end_leftover(run: HookRun) -> None:
    """End the processes of a run that a hook has left behind when it was killed. Only Linux shows them."""
    mark = f"EVENT_RUN={run.run}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                os.kill(int(folder.name), getattr(signal, "SIGKILL", signal.SIGTERM))


def _text(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else "" if value is None else str(value)
