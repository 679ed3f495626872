"""When a hook approves a prepared event again. A script stands for the command ``approve``."""

import logging
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.commands.hook.approvals import Approvals
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
