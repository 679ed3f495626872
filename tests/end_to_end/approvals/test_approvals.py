"""What a policy approves, holds back or only tries, and how it shows."""

import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.simulator import (
    PlannedEvent,
    Scenario,
    Simulator,
    VirtualMachine,
    What,
)
from support.programs import COMMAND, Exporter, Scrape, environment, fetch
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


@dataclass(frozen=True)
class Result:
    """What became of one event of each type in RULES: what IMDS was asked to approve, and what an
    exporter and the command ``events`` show.
    """

    approved_types: list[str]  # of the events whose approval reached IMDS
    metrics: Scrape
    reasons: dict[str, str]  # in the JSON: why an event is not approved, by its type
    page: str
    table: str  # the output of ``events``
    exporter: Exporter


@pytest.fixture
def result(start_exporter: Callable[..., Exporter], tmp_path: Path) -> Iterator[Result]:
    """Return what is shown some polls after the event of rule ``real`` was approved."""
    policy = tmp_path / "policy.yaml"
    policy.write_text(RULES)
    events = tuple(
        PlannedEvent(event_type, ("vmss_0", "vmss_1"), announced_at=0.0, approval_delay=3600.0)
        for event_type in ("Redeploy", "Reboot", "Freeze", "Terminate")
    )
    scenario = Scenario("all", "One of each.", VMS, events)
    with Simulator(scenario, requests_per_second=1000) as simulator:
        exporter = start_exporter(
            simulator.url, "--poll.interval", "300ms", "--approval.policy", str(policy)
        )
        exporter.shows(
            "the approval by rule 'real'",
            lambda now: now.total("event_approved", event_type="Terminate") == 1,
        )
        polls_on(exporter, 3)  # in which nothing may be approved or logged again
        asked = ("events", "--imds.endpoint", simulator.url, "--approval.policy", str(policy))
        table = subprocess.run(
            [COMMAND, *asked], check=True, capture_output=True, text=True, env=environment()
        ).stdout
        in_json = json.loads(fetch(f"{exporter.url}/api/v1/events").body)["events"]
        approved = [each.event_type for each in simulator.record if each.what is What.APPROVED]
        yield Result(
            approved_types=approved,
            metrics=exporter.scrape(),
            reasons={event["event_type"]: event["approval"] for event in in_json},
            page=fetch(f"{exporter.url}/").body.decode(),
            table=table,
            exporter=exporter,
        )


def test_every_action(result: Result) -> None:
    """Metric, JSON, page, ``events`` and one log line say what a rule holds, will approve, tries,
    and has approved.
    """
    assert result.approved_types == ["Terminate"]
    metrics = result.metrics
    assert metrics.value("approval_requests_total", outcome="dry_run") == 1
    assert metrics.value("approval_requests_total", outcome="accepted") == 1
    assert metrics.total("transitions_total", transition="approved") == 1
    assert metrics.total("event_approved") == 1
    first_seen = metrics.value("event_first_seen_timestamp_seconds", event_type="Reboot") or 0.0
    ((labels, due),) = metrics.series("event_approval_due_timestamp_seconds", event_type="Reboot")
    assert due - first_seen == pytest.approx(AFTER_MINUTES * 60, abs=1), labels
    assert result.reasons["Redeploy"] == "held by rule 'failover first'"
    assert result.reasons["Reboot"].startswith("waiting: rule 'after a while' approves it at ")
    assert "held by rule &#x27;failover first&#x27;" in result.page
    assert "held by rule 'failover first'" in result.table
    held = result.exporter.lines("approval held back")
    assert len(held) == 2, "one line for Redeploy and one for Reboot"
    (dry,) = result.exporter.lines('msg="approval in a dry run: nothing is sent"')
    assert "rule=trial" in dry
    assert "resources=vmss_0,vmss_1" in dry
