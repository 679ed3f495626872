"""Runs of a command to its end, the error that a command ends with, and an event to show."""

import io
import os
import re
import subprocess
import time
from contextlib import redirect_stderr, redirect_stdout
from email.utils import formatdate

from azure_scheduled_events_exporter.commands.cli import main
from azure_scheduled_events_exporter.simulator import Simulator
from support.events.imds_bodies import entry
from support.programs import COMMAND, environment

NAME = "azure-scheduled-events-exporter"
EVENT_ID = "C7061BAC-AFDC-4513-B24B-AA5F13A16123"


def command(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, with the environment and the streams that a process has.

    In this process, except for ``run``, which gives up capabilities that later tests need.
    """
    env = {"COLUMNS": "100", **env}
    if arguments[:1] == ("run",):
        return subprocess.run(
            [COMMAND, *arguments],
            env=environment(**env),
            capture_output=True,
            text=True,
            check=False,
        )
    output = io.StringIO()
    errors = io.StringIO()
    before = dict(os.environ)
    clean = {
        name: value for name, value in environment().items() if not name.lower().endswith("_proxy")
    }
    os.environ.clear()
    os.environ.update(clean, **env)
    try:
        with redirect_stdout(output), redirect_stderr(errors):
            status = main(arguments)
    finally:
        os.environ.clear()
        os.environ.update(before)
    return subprocess.CompletedProcess(arguments, status, output.getvalue(), errors.getvalue())


def assert_one_line(done: subprocess.CompletedProcess[str], status: int, *words: str) -> None:
    """It ended with ``status``, and its one line contains ``words``."""
    assert done.returncode == status, done
    assert done.stdout == ""
    assert re.fullmatch(rf"{NAME}: [^\n]+\n", done.stderr), done.stderr
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr


def place_event(simulator: Simulator) -> float:
    """Announce a Reboot of this VM and its neighbor; return its NotBefore."""
    not_before = float(int(time.time()) + 900)
    shown = {"EventId": EVENT_ID, "Resources": ["vm_0", "vm_1"], "DurationInSeconds": 30}
    simulator.set_document([entry(NotBefore=formatdate(not_before, usegmt=True), **shown)])
    return not_before
