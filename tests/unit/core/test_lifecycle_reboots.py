"""What a reboot of this VM proves of an event that nobody saw begin."""

from dataclasses import replace

import pytest

from azure_scheduled_events_exporter.core.document import ScheduledEvent
from support.lives import SCHEDULED, START, Watch, at


@pytest.mark.parametrize("event_type", ["Reboot", "Redeploy", "Preempt", "Terminate"])
@pytest.mark.parametrize("seconds", [300, 1200])
def test_completed_by_evidence_of_the_reboot(event_type: str, seconds: float) -> None:
    """An event that was to reboot this VM, gone after a boot, has happened: at the time of that boot."""
    watch = Watch()
    watch.sees(at(0), replace(SCHEDULED, event_type=event_type))
    booted = at(seconds - 40, boot="boot-2")
    assert watch.sees(at(seconds, boot="boot-2"), watched=False, booted_at=booted) == ["completed"]
    assert watch.life.started_at == booted
    assert watch.life.proven_by_boot


@pytest.mark.parametrize(
    ("event", "why"),
    [
        (replace(SCHEDULED, event_type="Freeze"), "a freeze keeps the memory, so a boot was something else"),
        (replace(SCHEDULED, event_type="Hibernate"), "nobody knows what this does"),
        (replace(SCHEDULED, resources=("vm_1",)), "it was to reboot another VM"),
    ],
)
def test_no_evidence_in_a_reboot(event: ScheduledEvent, why: str) -> None:
    """A boot proves only an event that was to reboot this very VM."""
    watch = Watch()
    watch.sees(at(0), event)
    assert watch.sees(at(1200, boot="boot-2"), watched=False, booted_at=at(1000, boot="boot-2")) == ["lost"], why


def test_boot_before_the_event_is_no_evidence() -> None:
    """The boot in which the event was first seen proves nothing, wherever the wall clock moves that boot to."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    assert watch.sees(at(1200), watched=False, booted_at=at(-5000, jump=3600 + 5000)) == ["lost"]


def test_unknown_boot_is_no_evidence() -> None:
    """Where the system does not tell when it booted, an event nobody saw start is lost."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    assert watch.sees(at(1200, boot="boot-2"), watched=False) == ["lost"]


def test_cancelled_long_after_an_unrelated_reboot() -> None:
    """An event still announced after a reboot, then taken back before our eyes, was cancelled, not done by it."""
    watch = Watch()
    days_ahead = replace(SCHEDULED, not_before=START + 7 * 86400)
    booted = at(86400, boot="boot-2")
    watch.sees(at(0), days_ahead)
    assert watch.sees(at(86460, boot="boot-2"), days_ahead, watched=False, booted_at=booted) == []
    assert watch.sees(at(3 * 86400, boot="boot-2"), booted_at=booted) == ["cancelled"]


def test_overdue_event_that_left_after_a_reboot() -> None:
    """After NotBefore, the boot shows that the reboot happened though Started was never seen."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    booted = at(910, boot="boot-2")
    watch.sees(at(950, boot="boot-2"), SCHEDULED, watched=False, booted_at=booted)
    assert watch.sees(at(951, boot="boot-2"), booted_at=booted) == ["completed"]
