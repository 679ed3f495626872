"""When a hook approves a prepared event again. A script stands for the command ``approve``."""

import logging
import time
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.commands.hook.approvals import Approvals
from azure_scheduled_events_exporter.commands.hook.loop import Hook
from azure_scheduled_events_exporter.commands.hook.output import Output
from azure_scheduled_events_exporter.commands.hook.plan import Rules
from azure_scheduled_events_exporter.commands.hook.runs import Runs
from support.events.hooked_events import life
from support.hosts.task_limit import no_more_threads

LOG = logging.getLogger(__name__)


def ignore(_: bytes) -> None:
    """Ignore what the command prints."""


def test_when_it_approves_again(tmp_path: Path) -> None:
    """An approval that failed is tried again. After one that succeeded, the next one follows when
    NotBefore has changed.
    """
    started = tmp_path / "started"
    status = tmp_path / "status"
    script = f'echo again >>"{started}"; exit "$(cat "{status}")"'
    approvals = Approvals(["sh", "-c", script], ignore, LOG, again_seconds=0.0)
    for seconds_left, exit_status, starts, why in (
        (600, 1, 1, "the first one"),
        (600, 3, 2, "the one before has failed"),
        (600, 0, 3, "the one before had no certain answer"),
        (600, 0, 3, "it is approved"),
        (900, 0, 4, "NotBefore has moved"),
        (900, 0, 4, "it is approved again"),
    ):
        status.write_text(str(exit_status))
        approvals.approve([(life(left=seconds_left), "")])
        for process in approvals.running:
            process.wait()
        assert started.read_text().splitlines() == ["again"] * starts, why


def test_why_an_approval_has_failed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A failed approval is logged with its exit status and the end of what it printed, once until
    the status is another. Nobody may read the hook's output.
    """
    status = tmp_path / "status"
    script = f'echo "why $(cat "{status}")" >&2; exit "$(cat "{status}")"'
    approvals = Approvals(["sh", "-c", script], ignore, LOG, again_seconds=0.0)
    for seconds_left, exit_status in ((600, 1), (600, 1), (600, 3), (600, 0), (900, 3), (900, 3)):
        status.write_text(str(exit_status))
        approvals.approve([(life(left=seconds_left), "")])
        for process in approvals.running:
            process.wait()
    status.write_text("0")
    approvals.approve([(life(left=900), "")])
    for process in approvals.running:
        process.wait()
    logged = [vars(record)["facts"] for record in caplog.records]
    assert [(facts["exit_status"], facts["output"]) for facts in logged] == [
        (1, "why 1"),
        (3, "why 3"),
        (3, "why 3"),
    ]


def test_the_result_of_an_approval_at_the_end_of_the_hook(tmp_path: Path) -> None:
    """The result is passed on although the hook ends, also where that takes a moment."""
    got: list[bytes] = []

    def pass_on(chunk: bytes) -> None:
        """Keep what the command prints, as a busy VM does."""
        time.sleep(0.05)
        got.append(chunk)

    approvals = Approvals(["echo", "A: accepted"], pass_on, LOG)
    hook = Hook(Runs(tmp_path, "worker", LOG), Rules(), [], approvals, Output(LOG), LOG)
    approvals.approve([(life(), "")])
    for process in approvals.running:
        process.wait()
    hook.close()
    assert got == [b"A: accepted\n"]


def test_an_approval_that_cannot_be_started(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """At the limit of tasks, no approval starts. The hook does not end: it logs it, and tries
    again.
    """
    got = tmp_path / "got"
    approvals = Approvals(["sh", "-c", f'cat >"{got}"'], ignore, LOG, again_seconds=0.0)
    prepared = [(life(), "")]
    with no_more_threads():
        approvals.approve(prepared)
    assert "hook cannot start its approval" in caplog.text
    assert not approvals.running
    approvals.approve(prepared)
    (process,) = approvals.running
    assert process.wait() == 0
    assert '"A"' in got.read_text(), "the event"
