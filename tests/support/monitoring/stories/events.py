"""Stories in which an event raises the alert of its type, with the complete text of its annotations."""

from azure_scheduled_events_exporter.core.event_types import NO_INTERRUPTION
from support.monitoring.alert_scenarios import (
    FREEZE,
    MANY,
    PREEMPT,
    REBOOT,
    REDEPLOY,
    SHORT_FREEZE,
    TERMINATE,
    WITHOUT_NOTICE,
    Firing,
    Seen,
    Story,
    one,
)
from support.monitoring.stories.expected_alerts import (
    LOST_FREEZE,
    LOST_PREEMPT,
    LOST_REBOOT,
    LOST_REDEPLOY,
    LOST_TERMINATE,
    REBOOT_FIRES,
    WHO,
    at,
    row,
)

FIRING_EVENTS = (
    Story(
        "a Spot VM is evicted",
        one(Seen("Preempt", not_before=60, started=60, gone=360)),
        fires={
            (PREEMPT, 40): (
                Firing(
                    row("Preempt", "warning"),
                    "Azure evicts a Spot VM.",
                    f"{WHO} will be evicted. {at('00:01:00', '20s')} {LOST_PREEMPT} Event E1.",
                ),
            ),
            (PREEMPT, 90): (
                Firing(
                    row("Preempt", "warning"),
                    "Azure evicts a Spot VM.",
                    f"{WHO} will be evicted. The event has started. {LOST_PREEMPT} Event E1.",
                ),
            ),
        },
        quiet={PREEMPT: (20, 390), WITHOUT_NOTICE: MANY[:20], REBOOT: MANY[:20]},
    ),
    Story(
        "a VM is deleted",
        one(Seen("Terminate", not_before=630)),
        fires={
            (TERMINATE, 30): (
                Firing(
                    row("Terminate", "critical"),
                    "A VM will be deleted.",
                    f"{WHO} will be deleted. {at('00:10:30', '10m 0s')} {LOST_TERMINATE} Event E1.",
                ),
            )
        },
    ),
    Story(
        "a VM is deleted by a user",
        one(Seen("Terminate", not_before=630, source="User")),
        fires={
            ("AzureScheduledEventTerminateRequested", 30): (
                Firing(
                    row("Terminate", "warning"),
                    "A user deletes a VM.",
                    f"{WHO} will be deleted, as a user requested. {at('00:10:30', '10m 0s')} "
                    f"{LOST_TERMINATE} Event E1.",
                ),
            )
        },
        quiet={TERMINATE: MANY[:30]},
    ),
    Story(
        "a VM is moved to another host",
        one(Seen("Redeploy", not_before=630)),
        fires={
            (REDEPLOY, 330): (
                Firing(
                    row("Redeploy", "critical"),
                    "Azure moves a VM to another host.",
                    f"{WHO} will be moved to another host. {at('00:10:30', '5m 0s')} {LOST_REDEPLOY} Event E1.",
                ),
            )
        },
    ),
    Story(
        "a user moves a VM",
        one(Seen("Redeploy", not_before=630, source="User")),
        fires={
            ("AzureScheduledEventRedeployRequested", 330): (
                Firing(
                    row("Redeploy", "warning"),
                    "A user moves a VM to another host.",
                    f"{WHO} will be moved to another host, as a user requested. {at('00:10:30', '5m 0s')} "
                    f"{LOST_REDEPLOY} Event E1.",
                ),
            )
        },
        quiet={REDEPLOY: MANY[:30]},
    ),
    Story(
        "a VM is rebooted, and its countdown is negative before it starts",
        one(Seen(not_before=930, started=1000, gone=1200)),
        fires={
            (REBOOT, 60): (REBOOT_FIRES,),
            (REBOOT, 990): (
                Firing(
                    row("Reboot", "critical"),
                    "Azure reboots a VM.",
                    f"{WHO} will be rebooted. {at('00:15:30')} {LOST_REBOOT} Event E1.",
                ),
            ),
        },
        quiet={REBOOT: (1230, 1260), WITHOUT_NOTICE: MANY, "AzureScheduledEventOverdue": MANY},
    ),
    Story(
        "a user reboots a VM",
        one(Seen(source="User")),
        fires={
            ("AzureScheduledEventRebootRequested", 60): (
                Firing(
                    row("Reboot", "warning"),
                    "A user reboots a VM.",
                    f"{WHO} will be rebooted, as a user requested. {at('00:15:30', '14m 30s')} {LOST_REBOOT} Event E1.",
                ),
            )
        },
        quiet={REBOOT: MANY[:30]},
    ),
    Story(
        "a VM is paused for an unknown duration",
        one(Seen("Freeze")),
        fires={
            (FREEZE, 60): (
                Firing(
                    row("Freeze", "warning"),
                    "Azure pauses a VM.",
                    f"{WHO} will be paused. {at('00:15:30', '14m 30s')} {LOST_FREEZE} Event E1.",
                ),
            )
        },
        quiet={SHORT_FREEZE: MANY[:30]},
    ),
    Story(
        "a live migration of 5 s",
        one(Seen("Freeze", duration=5, started=930, gone=1400)),
        fires={
            (SHORT_FREEZE, 60): (
                Firing(
                    row("Freeze", "info"),
                    "Azure pauses a VM for a few seconds, or not at all.",
                    f"{WHO} will be paused for less than 9s. {at('00:15:30', '14m 30s')} {LOST_FREEZE} Event E1.",
                ),
            )
        },
        quiet={FREEZE: MANY},
    ),
    Story(
        "a live migration that interrupts nothing: its duration is 0",
        one(Seen("Freeze", duration=0, started=930, gone=1400)),
        fires={
            (SHORT_FREEZE, 60): (
                Firing(
                    row("Freeze", "info"),
                    "Azure pauses a VM for a few seconds, or not at all.",
                    f"{WHO} will be paused for less than 9s. {at('00:15:30', '14m 30s')} {NO_INTERRUPTION} "
                    f"{LOST_FREEZE} Event E1.",
                ),
            )
        },
        quiet={FREEZE: MANY},
        steady={SHORT_FREEZE: (30, 1390)},
    ),
    Story(
        "a host fails",
        one(Seen(announced=60, not_before=None, started=60, gone=600)),
        fires={
            (WITHOUT_NOTICE, 60): (
                Firing(
                    row("Reboot", "critical", event_status="Started"),
                    "A VM went down without notice, as it does when its host fails.",
                    f"A Reboot of {WHO} had already started when it was first reported: Azure gave no notice. "
                    "Memory is lost. After a Redeploy, ephemeral disks are lost too. Event E1.",
                ),
            )
        },
        quiet={REBOOT: MANY[:25], WITHOUT_NOTICE: (630, 660)},
    ),
    Story(
        "a type never seen before",
        one(Seen("Teleport")),
        fires={
            ("AzureScheduledEventUnknownType", 60): (
                Firing(
                    row("Teleport", "warning"),
                    "Azure announces an event of a type that these rules do not know.",
                    f"{WHO}: Azure announces a Teleport. {at('00:15:30', '14m 30s')} "
                    "What it does is not known. Event E1.",
                ),
            )
        },
        quiet=dict.fromkeys((PREEMPT, TERMINATE, REDEPLOY, REBOOT, FREEZE, SHORT_FREEZE), MANY[:30]),
    ),
)
