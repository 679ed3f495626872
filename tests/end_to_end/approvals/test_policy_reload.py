"""A policy file that changes while the exporter runs."""

import time
from collections.abc import Callable
from email.utils import formatdate
from pathlib import Path

from azure_scheduled_events_exporter.simulator import Simulator
from support.events.imds_bodies import entry
from support.programs import Exporter, eventually
from support.quiet import QUIET

HOLD = "rules: [{name: wait, action: hold}]\n"
APPROVE = "rules: [{name: go, action: approve}]\n"


def place_reboot(simulator: Simulator) -> None:
    """Announce a Reboot of this VM, a quarter of an hour ahead."""
    simulator.set_document(
        [entry(NotBefore=formatdate(time.time() + 900, usegmt=True), EventSource="User")]
    )


def test_policy_is_read_again(start_exporter: Callable[..., Exporter], tmp_path: Path) -> None:
    """A changed policy decides about current events too; an invalid or missing file leaves the last
    valid one.
    """
    file = tmp_path / "policy.yaml"
    file.write_text(HOLD)
    with Simulator(QUIET) as simulator:
        exporter = start_exporter(
            simulator.url, "--approval.policy", str(file), "--poll.interval", "100ms"
        )
        place_reboot(simulator)
        eventually(lambda: exporter.lines("approval held back"), "the decision to wait")

        file.write_text("rules: [{name: go, action: aprove}]\n")
        [line] = eventually(lambda: exporter.lines("missing or invalid"), "a line: it is invalid")
        assert f"{file}:1" in line
        assert "'aprove' is none of approve, hold" in line
        file.unlink()
        eventually(lambda: len(exporter.lines("missing or invalid")) == 2, "a line: it is missing")
        assert exporter.scrape().total("approval_requests_total", outcome="accepted") == 0

        file.write_text(APPROVE)
        eventually(lambda: exporter.lines("approval policy reloaded"), "the new policy")
        exporter.shows(
            "the approval",
            lambda scrape: scrape.total("approval_requests_total", outcome="accepted") == 1,
        )
        assert len(exporter.lines("missing or invalid")) == 2, "not one line each poll"
