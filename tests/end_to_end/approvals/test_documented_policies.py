"""What the documented policies approve, when, and the reason shown for an event that a policy does not approve."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.simulator import PlannedEvent, Scenario, Simulator, VirtualMachine
from support.programs import COMMAND, Exporter, environment, fetch
from trials.trial import polls_on

VMS = tuple(VirtualMachine(f"vmss_{number}", scale_set="vmss") for number in range(3))
DUE = "event_approval_due_timestamp_seconds"
HELD = """\
rules:
  - {name: failover first, match: {event_type: Redeploy}, action: hold}
  - {name: after a while, match: {event_type: Reboot}, action: approve, after: 10m}
"""
HELD_EVENTS = (
    PlannedEvent("Redeploy", ("vmss_0",), source="User", announced_at=0.0),
    PlannedEvent("Reboot", ("vmss_0",), source="User", announced_at=0.0),
)


def test_what_a_policy_does_not_approve_yet(start_exporter: Callable[..., Exporter], tmp_path: Path) -> None:
    """Metric, JSON, page, ``events`` and one log line say what a rule holds, and when another one will approve."""
    policy = tmp_path / "policy.yaml"
    policy.write_text(HELD)
    with Simulator(Scenario("held", "Two requests.", VMS, HELD_EVENTS), requests_per_second=1000) as simulator:
        exporter = start_exporter(simulator.url, "--poll.interval", "300ms", "--approval.policy", str(policy))
        exporter.shows("both", lambda scrape: scrape.transitions().get("detected") == 2)
        polls_on(exporter, 3)
        scrape = exporter.scrape()
        asked = ("events", "--imds.endpoint", simulator.url, "--approval.policy", str(policy))
        table = subprocess.run([COMMAND, *asked], check=True, capture_output=True, text=True, env=environment()).stdout
        page = fetch(f"{exporter.url}/").body.decode()
        events = json.loads(fetch(f"{exporter.url}/api/v1/events").body)["events"]
    first_seen = scrape.value("event_first_seen_timestamp_seconds", event_type="Reboot") or 0.0
    ((labels, due),) = scrape.series(DUE)
    assert labels["event_type"] == "Reboot"
    assert due - first_seen == pytest.approx(600, abs=1)
    reasons = {each["event_type"]: each["approval"] for each in events}
    assert reasons["Redeploy"] == "held by rule 'failover first'"
    assert reasons["Reboot"].startswith("waiting: rule 'after a while' approves it at ")
    assert "held by rule &#x27;failover first&#x27;" in page
    assert "held by rule 'failover first'" in table
    lines = exporter.lines("approval held back")
    assert len(lines) == 2, "each said once"
