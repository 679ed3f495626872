"""When a hook approves a prepared event again. A script stands for the command ``approve``."""

import logging
from pathlib import Path

from azure_scheduled_events_exporter.commands.hook.approvals import Approvals
from support.events.hooked_events import life


def test_when_it_approves_again(tmp_path: Path) -> None:
    """An approval that failed is tried again. After one that succeeded, the next one follows when
    NotBefore has changed.
    """
    started = tmp_path / "started"
    status = tmp_path / "status"
    script = f'echo again >>"{started}"; exit "$(cat "{status}")"'
    approvals = Approvals(["sh", "-c", script], logging.getLogger(__name__), again_seconds=0.0)
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
