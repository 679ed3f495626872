"""What a reboot of this VM proves about an event whose start was not seen."""

from dataclasses import replace

import pytest

from azure_scheduled_events_exporter.core.approvals import mark_refused, mark_requested
from azure_scheduled_events_exporter.core.document import ScheduledEvent
from azure_scheduled_events_exporter.core.lifecycle import Approver
from azure_scheduled_events_exporter.core.statistics import Statistics
from support.events.lives import NOT_BEFORE, SCHEDULED, START, Watch, at


@pytest.mark.parametrize("event_type", ["Reboot", "Redeploy", "Preempt", "Terminate"])
@pytest.mark.parametrize(
    ("booted_after", "began"),
    [
        pytest.param(895, START + 895, id="a boot 5 s before NotBefore"),
        pytest.param(1160, NOT_BEFORE, id="a boot after NotBefore"),
    ],
)
def test_completed_by_evidence_of_the_reboot(
    event_type: str, booted_after: float, began: float
) -> None:
    """An event that was to reboot this VM, gone after a boot, has happened: at NotBefore, or at a
    boot before it.

    The exporter is back 40 s after the boot.
    """
    watch = Watch()
    watch.sees(at(0), replace(SCHEDULED, event_type=event_type))
    booted = at(booted_after, boot="boot-2")
    back = at(booted_after + 40, boot="boot-2")
    assert watch.sees(back, watched=False, booted_at=booted) == ["completed"]
    assert watch.life.started_at is not None
    assert watch.life.started_at.wall == began
    assert watch.life.proven_by_boot
    assert (watch.life.approved_by, watch.life.approved_at) == (
        Approver.DEADLINE,
        watch.life.started_at,
    )


TIMELESS = replace(SCHEDULED, not_before=None)


@pytest.mark.parametrize(
    ("event", "booted", "end"),
    [
        pytest.param(
            replace(SCHEDULED, event_type="Freeze"), 1000, "lost", id="a Freeze boots no VM"
        ),
        pytest.param(
            replace(SCHEDULED, event_type="OfTomorrow"), 1000, "lost", id="of an unknown type"
        ),
        pytest.param(replace(SCHEDULED, resources=("vm_1",)), 1000, "lost", id="another VM's"),
        pytest.param(SCHEDULED, 300, "lost", id="long before NotBefore"),
        pytest.param(SCHEDULED, 894, "lost", id="6 s before NotBefore"),
        pytest.param(SCHEDULED, 895, "completed", id="5 s before NotBefore"),
        pytest.param(SCHEDULED, 901, "completed", id="after NotBefore"),
        pytest.param(TIMELESS, 60, "completed", id="without a NotBefore it may begin at any time"),
    ],
)
def test_what_a_boot_proves(event: ScheduledEvent, booted: float, end: str) -> None:
    """A boot proves an event of this VM that reboots it and can have begun by then, up to 5 s
    before NotBefore.

    ``booted`` is in seconds after START, and NotBefore is at 900. The exporter is back 40 s after
    the boot.
    """
    watch = Watch()
    watch.sees(at(0), event)
    boot = at(booted, boot="boot-2")
    back = at(booted + 40, boot="boot-2")
    assert watch.sees(back, watched=False, booted_at=boot) == [end]


def test_a_boot_at_an_unknown_time() -> None:
    """If the system does not know when it booted, the boot proves nothing."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    assert watch.sees(at(1040, boot="boot-2"), watched=False, booted_at=None) == ["lost"]


def test_boot_before_the_event_is_no_evidence() -> None:
    """The boot in which the event was first seen proves nothing, even if the wall clock is set
    forward afterwards: by the new wall clock, this boot was later than the first sight.
    """
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    # This VM booted 5000 s before START. By the new wall clock, that was an hour after START.
    set_forward = 5000 + 3600
    booted = at(-5000, jump=set_forward)
    now = at(1200, jump=set_forward)
    assert watch.sees(now, watched=False, booted_at=booted) == ["lost"]


def test_cancelled_long_after_an_unrelated_reboot() -> None:
    """An event that is still announced after a reboot, and is gone days later while every document
    was seen, was cancelled: that reboot was not the event.
    """
    watch = Watch()
    days_ahead = replace(SCHEDULED, not_before=START + 7 * 86400)
    booted = at(86400, boot="boot-2")
    watch.sees(at(0), days_ahead)
    assert watch.sees(at(86460, boot="boot-2"), days_ahead, watched=False, booted_at=booted) == []
    assert watch.sees(at(3 * 86400, boot="boot-2"), booted_at=booted) == ["cancelled"]


@pytest.mark.parametrize("approver", [Approver.EXPORTER, Approver.OPERATOR])
def test_a_boot_after_an_accepted_approval(approver: Approver) -> None:
    """An early boot after an approval from here proves the event, with its approver."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    watch.approves(at(10), approver)
    assert watch.sees(at(90, boot="boot-2"), watched=False, booted_at=at(60, boot="boot-2")) == [
        "completed"
    ]
    assert (watch.life.approved_by, watch.life.approved_at) == (approver, at(10))


@pytest.mark.parametrize("booted", [60, 930], ids=["early", "after NotBefore"])
@pytest.mark.parametrize("approver", [Approver.EXPORTER, Approver.OPERATOR])
def test_a_boot_after_a_request_without_an_answer(booted: float, approver: Approver) -> None:
    """A reboot that comes before the answer to its approval counts that approval, from when it was
    requested.
    """
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    watch.known = mark_requested(watch.known, "A", approver, at(10))
    transitions = watch.sees(
        at(booted + 30, boot="boot-2"), watched=False, booted_at=at(booted, boot="boot-2")
    )
    assert transitions == ["approved", "completed"]
    assert (watch.life.approved_by, watch.life.approved_at) == (approver, at(10))


@pytest.mark.parametrize(("is_approved", "outcome"), [(True, "completed"), (False, "cancelled")])
def test_an_outdated_document_after_the_boot(is_approved: bool, outcome: str) -> None:
    """A boot soon after an approval completes the event, also if IMDS shows it as Scheduled for a
    moment after it.

    Without an approval, an event that leaves before NotBefore is cancelled, whatever booted the VM.
    """
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    if is_approved:
        watch.approves(at(1))
    booted = at(30, boot="boot-2")
    assert watch.sees(at(60, boot="boot-2"), SCHEDULED, watched=False, booted_at=booted) == []
    assert watch.sees(at(61, boot="boot-2"), booted_at=booted) == [outcome]


def test_days_after_an_eviction_are_not_measured() -> None:
    """If a Spot VM is started again three days after its eviction, the event counts as Scheduled
    for the 30 s of its notice, and not for the days in which the VM did not exist.
    """
    watch = Watch()
    watch.sees(at(0), replace(SCHEDULED, event_type="Preempt", not_before=START + 30))
    back = 3 * 86400.0
    watch.sees(at(back + 20, boot="boot-2"), watched=False, booted_at=at(back, boot="boot-2"))
    result = Statistics().plus(watch.changes)
    assert result.time_in_state["Preempt", "scheduled"].total == 30.0
    assert result.approval_latency["Preempt", "deadline"].total == 30.0


def test_scheduled_long_after_the_boot() -> None:
    """A boot does not prove an event that documents have shown as Scheduled for hours since."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    booted = at(2000, boot="boot-2")
    watch.sees(at(2040, boot="boot-2"), SCHEDULED, watched=False, booted_at=booted)
    watch.sees(at(12_999, boot="boot-2"), SCHEDULED, booted_at=booted)
    assert watch.sees(at(13_000, boot="boot-2"), booted_at=booted) == ["lost"]


def test_a_boot_after_a_refused_request() -> None:
    """A request that IMDS refused does not make an early boot a proof."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    watch.known = mark_refused(mark_requested(watch.known, "A", Approver.EXPORTER, at(10)), "A")
    assert watch.sees(at(90, boot="boot-2"), watched=False, booted_at=at(60, boot="boot-2")) == [
        "lost"
    ]


def test_an_approval_sent_after_the_boot() -> None:
    """A boot from before the approval was sent cannot be its doing."""
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    booted = at(60, boot="boot-2")
    watch.sees(at(90, boot="boot-2"), SCHEDULED, watched=False, booted_at=booted)
    watch.approves(at(100, boot="boot-2"))
    assert watch.sees(at(300, boot="boot-2"), watched=False, booted_at=booted) == ["lost"]


def test_approval_after_a_wrong_end() -> None:
    """How long an event waited for its approval is measured once. That holds for an event that was
    taken for completed, with the deadline as its approver, and then returned and was approved.
    """
    watch = Watch()
    watch.sees(at(0), SCHEDULED)
    assert watch.sees(
        at(1012, boot="boot-2"), watched=False, booted_at=at(1000, boot="boot-2")
    ) == ["completed"]
    assert watch.sees(at(1020, boot="boot-2"), SCHEDULED) == ["returned"]
    assert watch.approves(at(1030, boot="boot-2")) == ["approved"]
    (histogram,) = Statistics().plus(watch.changes).approval_latency.values()
    assert sum(histogram.counts) == 1
