"""Runs the hook's command for one event: its environment, its input, and its end. Must not decide when."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from azure_scheduled_events_exporter.core.records import Record
from azure_scheduled_events_exporter.journal.hook_runs import HookRun

_RUN = "EVENT_RUN"
_ENVIRONMENT: Mapping[str, str] = {
    "EVENT_ID": "event_id",
    "EVENT_TYPE": "event_type",
    "EVENT_KIND": "kind",
    "EVENT_STATUS": "event_status",
    "EVENT_SOURCE": "event_source",
    "EVENT_NOT_BEFORE": "not_before",
    "EVENT_SECONDS_LEFT": "seconds_until_not_before",
    "EVENT_DESCRIPTION": "description",
    "EVENT_DURATION_SECONDS": "duration_seconds",
    "EVENT_RESOURCES": "resources",
}
"""Names of variables, each with the key of the event's record."""


class Running:
    """A command that runs for ``run``; ``record`` is the event, which it gets as JSON on standard input.

    Raises:
        OSError: the command cannot be started.
    """

    def __init__(self, command: Sequence[str], run: HookRun, record: Record, vm_name: str) -> None:
        self.run = run
        self.stopped_at: float | None = None
        self.killed = False
        variables = {name: _text(record.get(key)) for name, key in _ENVIRONMENT.items()}
        own = {"EVENT_VM_NAME": vm_name, "EVENT_PHASE": run.phase, _RUN: run.run}
        with tempfile.TemporaryFile() as text:  # not a pipe: a command that does not read it must not fail
            text.write(json.dumps(record).encode())
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
            _signal_group(self._process.pid, signal.SIGTERM)

    def kill(self) -> None:
        """End the command and its children."""
        self.killed = True
        if sys.platform == "win32":
            self._process.kill()
        else:
            _signal_group(self._process.pid, signal.SIGKILL)
        self._process.wait()


def new_run(command: str, record: Record, phase: str, now: float) -> HookRun:
    """Return a run that begins now."""
    texts = str(record["event_id"]), str(record["event_type"])
    return HookRun(uuid.uuid4().hex, command, *texts, phase, now, record=json.dumps(record))


def end_leftover(run: str) -> None:
    """End the processes of a run that a hook has left behind when it was killed. Only Linux shows them."""
    if sys.platform == "win32":
        return
    mark = f"{_RUN}={run}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                os.kill(int(folder.name), signal.SIGKILL)


def _signal_group(process: int, number: int) -> None:
    if sys.platform != "win32":
        with suppress(ProcessLookupError):
            os.killpg(process, number)


def _text(value: object) -> str:
    if value is None:
        return ""
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
