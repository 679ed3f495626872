"""Who approves, when and how it shows: every scenario under every policy, and a fleet that must not speak at once."""

from collections.abc import Callable
from pathlib import Path

from azure_scheduled_events_exporter.simulator import (
    PlannedEvent,
    Scenario,
    Simulator,
    VirtualMachine,
    What,
)
from support.programs import Exporter

VMS = tuple(VirtualMachine(f"vmss_{number}", scale_set="vmss") for number in range(5))
FAST = ("--poll.interval", "250ms")


def posts(simulator: Simulator) -> list[tuple[str, float]]:
    """Return which VM sent an approval, and when."""
    return [(seen.vm, seen.at) for seen in simulator.requests if seen.method == "POST"]


def test_next_poll_follows_at_once(start_exporter: Callable[..., Exporter]) -> None:
    """The exporter polls immediately after an approval, at any poll interval."""
    event = PlannedEvent("Reboot", ("vmss_0",), source="User", announced_at=0.0)
    with Simulator(Scenario("once", "A reboot.", VMS, (event,))) as simulator:
        # Without the name, a first poll that comes before it approves nothing, and the next one is in an hour.
        flags = ("--approval.policy", "documented", "--poll.interval", "1h", "--instance.name", "vmss_0")
        exporter = start_exporter(simulator.url, *flags)
        exporter.shows("started", lambda scrape: scrape.value("started", event_type="Reboot", scope="self") == 1)
        assert [vm for vm, _ in posts(simulator)] == ["vmss_0"]


def test_dry_run_and_hold(start_exporter: Callable[..., Exporter], tmp_path: Path) -> None:
    """A dry run decides, counts and logs; a rule that holds logs; neither sends anything."""
    policy = tmp_path / "dry.yaml"
    policy.write_text(
        "rules:\n"
        "  - {name: not these, match: {event_type: Freeze}, action: hold}\n"
        "  - {name: trial, match: {event_type: Reboot}, action: approve, dry_run: true}\n"
        "  - {name: real, action: approve}\n"
    )
    events = [PlannedEvent(kind, ("vmss_0", "vmss_1"), announced_at=0.0) for kind in ("Freeze", "Reboot")]
    events.append(PlannedEvent("Redeploy", ("vmss_0",), announced_at=3.0))
    with Simulator(Scenario("dry", "A freeze and a reboot, then a redeploy.", VMS, tuple(events))) as simulator:
        exporter = start_exporter(simulator.url, *FAST, "--approval.policy", str(policy))
        exporter.shows("the real one", lambda s: s.total("event_approved", event_type="Redeploy") == 1)
        now = exporter.scrape()
        assert now.value("approval_requests_total", outcome="dry_run") == 1
        assert now.value("approval_requests_total", outcome="accepted") == 1
        assert now.total("transitions_total", transition="approved") == 1
        assert now.total("event_approved") == 1
        assert [h.event_type for h in simulator.record if h.what is What.APPROVED] == ["Redeploy"]
    (dry,) = exporter.lines('msg="approval in a dry run: nothing is sent"')
    assert "rule=trial" in dry
    assert "resources=vmss_0,vmss_1" in dry
    (held,) = exporter.lines('msg="approval held back"')
    assert 'rule="not these"' in held
    assert "held by rule 'not these'" in held
