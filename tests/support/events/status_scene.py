"""Snapshots for the status page, as an exporter on VM ``web_0`` of a scale set would publish them
at 3 a.m.
"""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from azure_scheduled_events_exporter.core.document import ScheduledEvent, Scope
from azure_scheduled_events_exporter.core.instance import Instance
from azure_scheduled_events_exporter.core.kinds import SHORT_FREEZE_SECONDS, with_kind
from azure_scheduled_events_exporter.core.lifecycle import (
    Approval,
    Approver,
    Lifecycle,
    State,
    Transition,
)
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.errors import Outcome
from azure_scheduled_events_exporter.snapshot.approvals import Decision
from azure_scheduled_events_exporter.snapshot.journal_state import JournalState
from azure_scheduled_events_exporter.snapshot.snapshot import Polls, Snapshot

NOW = datetime(2026, 11, 20, 3, 7, 21, tzinfo=UTC).timestamp()
MINUTE = 60.0
HOUR = 3600.0
DAY = 86400.0
VM = "web_0"
FREEZE_ID = "C7061BAC-AFDC-4513-B24B-AA5F13A16123"
REBOOT_ID = "5DD55B64-45AD-49D3-BBC4-6E0B5B0D4F52"
IDENTITY = Instance(
    vm_name=VM,
    vm_id="99999999-2222-3333-4444-555555555555",
    scale_set="web",
    location="westeurope",
    zone="1",
    fault_domain="0",
    resource_group="production",
    vm_size="Standard_D8s_v5",
    priority="Regular",
)
POLLS = Polls(
    outcomes={**dict.fromkeys(Outcome, 0), Outcome.OK: 4711},
    up=True,
    last_success=NOW - 0.4,
    failure="",
)


def at(seconds: float) -> Timestamp:
    """Return the moment so many seconds before ``NOW``."""
    return Timestamp(NOW - seconds)


def freeze(**changes: Any) -> Lifecycle:
    """Return an announced Freeze of this VM and its neighbor, with ``changes`` to the event or its
    life.
    """
    event = ScheduledEvent(
        FREEZE_ID,
        "Freeze",
        "Scheduled",
        "Platform",
        (VM, "web_1"),
        NOW + 14 * MINUTE + 32,
        "Virtual machine is being paused because of a memory-preserving Live Migration operation.",
        5.0,
    )
    known = {name: changes.pop(name) for name in tuple(changes) if name in ScheduledEvent.__slots__}
    event = replace(event, **known)
    life = Lifecycle(event, State.SCHEDULED, Scope.SELF, at(28), event.not_before, 15 * MINUTE)
    return with_kind(replace(life, **changes), NOW, SHORT_FREEZE_SECONDS)


def reboot() -> Lifecycle:
    """Return a Reboot of twelve other VMs that has begun, without notice."""
    names = tuple(f"web_{number}" for number in range(2, 14))
    event = ScheduledEvent(
        REBOOT_ID,
        "Reboot",
        "Started",
        "Platform",
        names,
        None,
        "Host server is undergoing an emergency repair.",
    )
    life = Lifecycle(
        event, State.STARTED, Scope.PEER, at(130), notice_seconds=0.0, started_at=at(130)
    )
    return with_kind(life, NOW, SHORT_FREEZE_SECONDS)


def ended(
    event_type: str,
    began: float,
    notice: float,
    started: float | None,
    lasted: float,
    outcome: Transition,
    approver: Approver | None = None,
    approved: float | None = None,
    scope: Scope = Scope.SELF,
) -> Lifecycle:
    """Return a life that began so many seconds before ``NOW``; the other times are seconds after
    that. A document showed it a second before its start, unless it began with that.
    """
    event = ScheduledEvent(
        f"{began:08.0f}-AFDC-4513-B24B-AA5F13A16123", event_type, "Started", "Platform", (VM,)
    )
    return Lifecycle(
        event,
        State.STARTED if started is not None else State.SCHEDULED,
        scope,
        at(began),
        not_before=NOW - began + notice if notice else None,
        notice_seconds=notice,
        approval=(
            None
            if approver is None or approved is None
            else Approval(approver, at(began - approved))
        ),
        started_at=None if started is None else at(began - started),
        pending_until=NOW - began + started - 1 if started else None,
        outcome=outcome,
        ended_at=at(began - lasted),
    )


RECENT = (
    ended("Redeploy", 21 * DAY, 0, 0, 9 * MINUTE, Transition.COMPLETED),
    ended("Terminate", 9 * DAY, 10 * MINUTE, None, 11 * MINUTE, Transition.LOST, scope=Scope.PEER),
    ended("Freeze", 6 * DAY, 3 * DAY, None, 40 * MINUTE, Transition.CANCELLED),
    ended(
        "Freeze",
        2 * DAY,
        900,
        900,
        900 + 8 * MINUTE,
        Transition.COMPLETED,
        Approver.DEADLINE,
        900,
        scope=Scope.PEER,
    ),
    ended("Reboot", 5 * HOUR, 900, 300, 700, Transition.COMPLETED, Approver.OPERATOR, 130),
)
BUSY = Snapshot(
    polls=POLLS,
    vm_name=VM,
    identity=IDENTITY,
    incarnation=12,
    current={life.event_id: life for life in (reboot(), freeze())},
    recent=RECENT,
    approval_statuses={
        FREEZE_ID: Decision(
            "waiting for its turn: rule 'short-freeze' approves it at 2026-11-20T03:08:21Z if"
            " nobody else has",
            NOW + 60,
        )
    },
    journal=JournalState(up=True),
)
QUIET = replace(BUSY, current={}, approval_statuses={})
BLIND = replace(
    BUSY,
    polls=Polls(
        outcomes={**dict.fromkeys(Outcome, 0), Outcome.OK: 4711, Outcome.TIMEOUT: 2},
        last_success=NOW - 25,
        failure="no complete answer within 10s",
    ),
)
SCENES = {"busy": BUSY, "quiet": QUIET, "blind": BLIND}
