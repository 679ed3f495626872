"""What a policy approves, holds back or only tries, and how it shows."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.simulator import (
    PlannedEvent,
    Scenario,
    Simulator,
    VirtualMachine,
    What,
)
from support.programs import COMMAND, Exporter, environment, fetch
from trials.trial import polls_on

VMS = tuple(VirtualMachine(f"vmss_{number}", scale_set="vmss") for number in range(5))
AFTER_MINUTES = 10
RULES = f"""\
rules:
  - {{name: failover first, match: {{event_type: Redeploy}}, action: hold}}
  - {{name: after a while, match: {{event_type: Reboot}}, action: approve, after: {AFTER_MINUTES}m}}
  - {{name: trial, match: {{event_type: Freeze}}, action: approve, dry_run: true}}
  - {{name: real, action: approve}}
"""


def test_next_poll_follows_at_once(start_exporter: Callable[..., Exporter]) -> None:
    """The exporter polls immediately after an approval, at any poll interval."""
    event = PlannedEvent("Reboot", ("vmss_0",), source="User", announced_at=0.0)
    with Simulator(Scenario("once", "A reboot.", VMS, (event,))) as simulator:
        # The VM's name is a flag: a first poll that ends before IMDS has told the name approves
        # nothing, and the next one is in an hour.
        flags = (
            "--approval.policy",
            "documented",
            "--poll.interval",
            "1h",
            "--instance.name",
            "vmss_0",
        )
        exporter = start_exporter(simulator.url, *flags)
        exporter.shows(
            "started",
            lambda scrape: scrape.value("started", event_type="Reboot", scope="self") == 1,
        )
        assert [seen.vm for seen in simulator.requests if seen.method == "POST"] == ["vmss_0"]


def test_every_action(start_exporter: Callable[..., Exporter], tmp_path: Path) -> None:
    """Metric, JSON, page, ``events`` and one log line say what a rule holds, will approve, tries,
    and has approved.
    """
    policy = tmp_path / "policy.yaml"
    policy.write_text(RULES)
    types = ("Redeploy", "Reboot", "Freeze", "Terminate")
    events = tuple(
        PlannedEvent(kind, ("vmss_0", "vmss_1"), announced_at=0.0, approval_delay=3600.0)
        for kind in types
    )
    with Simulator(
        Scenario("all", "One of each.", VMS, events), requests_per_second=1000
    ) as simulator:
        exporter = start_exporter(
            simulator.url, "--poll.interval", "300ms", "--approval.policy", str(policy)
        )
        exporter.shows(
            "the approval by rule 'real'",
            lambda s: s.total("event_approved", event_type="Terminate") == 1,
        )
        polls_on(exporter, 3)  # in which nothing may be approved or logged again
        scrape = exporter.scrape()
        asked = ("events", "--imds.endpoint", simulator.url, "--approval.policy", str(policy))
        table = subprocess.run(
            [COMMAND, *asked], check=True, capture_output=True, text=True, env=environment()
        ).stdout
        page = fetch(f"{exporter.url}/").body.decode()
        shown = json.loads(fetch(f"{exporter.url}/api/v1/events").body)["events"]
        assert [each.event_type for each in simulator.record if each.what is What.APPROVED] == [
            "Terminate"
        ]
    assert scrape.value("approval_requests_total", outcome="dry_run") == 1
    assert scrape.value("approval_requests_total", outcome="accepted") == 1
    assert (
        scrape.total("transitions_total", transition="approved")
        == scrape.total("event_approved")
        == 1
    )
    first_seen = scrape.value("event_first_seen_timestamp_seconds", event_type="Reboot") or 0.0
    ((labels, due),) = scrape.series("event_approval_due_timestamp_seconds", event_type="Reboot")
    assert due - first_seen == pytest.approx(AFTER_MINUTES * 60, abs=1), labels
    reasons = {each["event_type"]: each["approval"] for each in shown}
    assert reasons["Redeploy"] == "held by rule 'failover first'"
    assert reasons["Reboot"].startswith("waiting: rule 'after a while' approves it at ")
    assert "held by rule &#x27;failover first&#x27;" in page
    assert "held by rule 'failover first'" in table
    assert len(exporter.lines("approval held back")) == 2, "one line for Redeploy and for Reboot"
    (dry,) = exporter.lines('msg="approval in a dry run: nothing is sent"')
    assert "rule=trial" in dry
    assert "resources=vmss_0,vmss_1" in dry
