"""The stories in which an alert fires, with the complete text of its annotations."""

from azure_scheduled_events_exporter.core.event_types import NO_INTERRUPTION, EventType
from support.monitoring.alert_scenarios import (
    DOWN,
    FREEZE,
    MANY,
    PREEMPT,
    REBOOT,
    REDEPLOY,
    SHORT_FREEZE,
    TERMINATE,
    UNREACHABLE,
    WITHOUT_NOTICE,
    Exporter,
    Firing,
    Seen,
    Story,
    counting,
    one,
)


def row(event_type: str, severity: str, **more: str) -> dict[str, str]:
    """Return the labels of an alert about event E1 of vmss_0."""
    return {"event_id": "E1", "event_type": event_type, "severity": severity, **more}


def at(moment: str, left: str = "") -> str:
    """Return the sentence of a description about a NotBefore at ``moment`` (time of day), ``left`` from now."""
    return f"It starts at 1970-01-01 {moment} UTC{f' (in {left})' * bool(left)}, or earlier if approved."


def watcher(*gone: str, **more: str) -> dict[str, str]:
    """Return the labels of an alert about the exporter of vmss_0."""
    labels = {
        "job": "azure-scheduled-events-exporter",
        "instance": "vmss_0:10169",
        "severity": "warning",
        "component": "exporter",
        **more,
    }
    return {name: value for name, value in labels.items() if name not in gone}


LOST_REBOOT, LOST_REDEPLOY, LOST_TERMINATE, LOST_PREEMPT, LOST_FREEZE = (
    each.facts.loss
    for each in (EventType.REBOOT, EventType.REDEPLOY, EventType.TERMINATE, EventType.PREEMPT, EventType.FREEZE)
)
WHO = "vmss_0 (scale set vmss)"

REBOOT_FIRES = Firing(
    row("Reboot", "critical"),
    "Azure reboots a VM.",
    f"{WHO} will be rebooted. {at('00:15:30', '14m 30s')} {LOST_REBOOT} Event E1.",
)

FIRING = (
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
                    f"{WHO} will be evicted. It has started. {LOST_PREEMPT} Event E1.",
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
                    f"{WHO} is down: the Reboot had already started when it was first reported. "
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
    Story(
        "a policy means to approve, and does not",
        one(Seen(not_before=930, approval_due=300), policy="file"),
        fires={
            ("AzureScheduledEventNotApproved", 370): (
                Firing(
                    row("Reboot", "warning", event_status="Scheduled"),
                    "The approval policy is late: an event has not been approved.",
                    f"The Reboot of {WHO} should have been approved at 1970-01-01 00:05:00 UTC "
                    "by the policy of its exporter. It starts at its NotBefore all the same. Event E1.",
                ),
            )
        },
        quiet={"AzureScheduledEventNotApproved": (60, 320, 360)},
    ),
    Story(
        "an event is overdue",
        one(Seen(not_before=100)),
        fires={
            ("AzureScheduledEventOverdue", 710): (
                Firing(
                    row("Reboot", "warning", event_status="Scheduled"),
                    "An event should have started long ago and is still scheduled.",
                    f"The Reboot of {WHO} is still Scheduled, more than 10m after its NotBefore. "
                    "It may start at any moment. Event E1.",
                ),
            )
        },
        quiet={"AzureScheduledEventOverdue": (690, 700)},
    ),
    Story(
        "an event does not end",
        one(Seen(started=210, not_before=210)),
        fires={
            ("AzureScheduledEventStartedTooLong", 2010): (
                Firing(
                    row("Reboot", "warning", event_status="Started"),
                    "An event started long ago and has not ended.",
                    f"The Reboot of {WHO} has been Started for more than 30m: "
                    "the VM may be stuck, or a second impact may follow. Event E1.",
                ),
            )
        },
        quiet={"AzureScheduledEventStartedTooLong": (300, 1500, 1980)},
    ),
    Story(
        "a reboot is announced 5 minutes ahead",
        one(Seen(not_before=330)),
        fires={
            ("AzureScheduledEventShortNotice", 60): (
                Firing(
                    row("Reboot", "info", event_status="Scheduled"),
                    "An event was announced with less notice than documented.",
                    f"The Reboot of {WHO} was announced only 5m 0s before its NotBefore. Event E1.",
                ),
            )
        },
    ),
    Story(
        "a host is predicted to fail in three days",
        one(Seen("Redeploy", not_before=3 * 86_400 + 30)),
        fires={
            ("AzureScheduledEventDegradedHost", 30): (
                Firing(
                    row("Redeploy", "warning", event_status="Scheduled"),
                    "A VM is on a host that is predicted to fail.",
                    f"The Redeploy of {WHO} is 3d 0h 0m 0s ahead: the host is predicted to fail, and may fail sooner. "
                    "Redeploy the VM at a time that suits you. Event E1.",
                ),
            )
        },
        quiet={REDEPLOY: MANY[:30]},
    ),
    Story(
        "two of five VMs of a scale set, in one zone, are evicted at once",
        tuple(
            Exporter(
                f"vmss_{number}",
                (Seen("Preempt", not_before=60, event_id=f"E{number}", resources=f"vmss_{number}"),) * (number < 2),
            )
            for number in range(5)
        ),
        fires={
            ("AzureScheduledEventScaleSetHit", 40): (
                Firing(
                    {"scale_set": "vmss", "severity": "critical"},
                    "Events hit a large part of a scale set at the same time.",
                    "Events that have started or are due hit 40% of the VMs of scale set vmss. "
                    "Their capacity, memory and ephemeral disks may be lost at once.",
                    "fleet",
                ),
            ),
            ("AzureScheduledEventZoneHit", 40): (
                Firing(
                    {"location": "westeurope", "zone": "1", "severity": "critical"},
                    "Events hit a large part of a zone at the same time.",
                    "Events that have started or are due hit 40% of the VMs in zone 1 of westeurope. "
                    "Their capacity, memory and ephemeral disks may be lost at once.",
                    "fleet",
                ),
            ),
        },
        quiet={"AzureScheduledEventScaleSetHit": (20,)},
    ),
    Story(
        "an approval is refused",
        (Exporter(more={"approval_requests_total rejected": lambda now: now >= 60}),),
        fires={
            ("AzureScheduledEventApprovalRefused", 90): (
                Firing(
                    watcher(),
                    "The metadata service refused an approval.",
                    "IMDS refused an approval from vmss_0:10169, or did not answer it. "
                    "The event starts at its NotBefore instead.",
                    "exporter",
                ),
            )
        },
    ),
    Story(
        "an exporter is down",
        (Exporter(down=((60, 2000),)),),
        fires={
            (DOWN, 390): (
                Firing(
                    watcher(),
                    "An exporter does not answer, and no event explains it.",
                    "Most scrapes of vmss_0:10169 have failed for 5m. "
                    "Events that only this VM would report are not seen.",
                    "exporter",
                ),
            )
        },
        quiet={DOWN: (300, 340)},
    ),
    Story(
        "IMDS does not answer",
        (
            Exporter(
                more={
                    "up": lambda now: now < 60,
                    "last_success_timestamp_seconds": lambda now: min(max(now, 1), 60),
                    "polls_total timeout": counting(60, 2000),
                }
            ),
        ),
        fires={
            (UNREACHABLE, 240): (
                Firing(
                    watcher(),
                    "The metadata service does not answer an exporter.",
                    "vmss_0:10169 gets no answer from IMDS: new events are not seen, "
                    "and the last known ones stay shown.",
                    "exporter",
                ),
            )
        },
        quiet={
            UNREACHABLE: (90, 160),
            "AzureScheduledEventDocumentInvalid": MANY[:20],
            "AzureScheduledEventClockOff": MANY,
        },
    ),
    Story(
        "other clients eat up what IMDS answers",
        (Exporter(more={"polls_total throttled": counting(0, 5000, 0.5)}),),
        fires={
            ("AzureScheduledEventThrottled", 900): (
                Firing(
                    watcher(),
                    "The metadata service throttles an exporter.",
                    "33.33% of the polls of vmss_0:10169 are throttled: "
                    "the clients of IMDS on this VM send more than 5 requests a second together.",
                    "exporter",
                ),
            )
        },
    ),
    Story(
        "something else answers in the place of IMDS",
        (
            Exporter(
                more={
                    "up": lambda now: now < 60,
                    "polls_total invalid_document": counting(60, 2000),
                }
            ),
        ),
        fires={
            ("AzureScheduledEventDocumentInvalid", 240): (
                Firing(
                    watcher(),
                    "The metadata service answers with something that is no document of events.",
                    "vmss_0:10169 cannot read what IMDS answers: new events are not seen.",
                    "exporter",
                ),
            )
        },
    ),
    Story(
        "an exporter never gets a first answer",
        (Exporter(fresh=((0, 5000),)),),
        fires={
            ("AzureScheduledEventNeverReady", 630): (
                Firing(
                    watcher(),
                    "An exporter has not had one valid answer since it started.",
                    "vmss_0:10169 has never had a valid answer from IMDS: no event of this VM is seen.",
                    "exporter",
                ),
            )
        },
        quiet={"AzureScheduledEventNeverReady": (0, 300, 580), UNREACHABLE: MANY[:20]},
    ),
    Story(
        "the disk under the journal fails",
        (Exporter(more={"journal_errors_total": lambda now: now >= 60}),),
        fires={
            ("AzureScheduledEventJournalNotOnDisk", 390): (
                Firing(
                    watcher(),
                    "An exporter cannot write its journal.",
                    "vmss_0:10169 keeps its journal in memory because the disk fails: "
                    "a restart loses the history of events and the spans that wait.",
                    "exporter",
                ),
            )
        },
    ),
    Story(
        "Alertmanager does not accept what the exporter pushes",
        (Exporter(more={"alertmanager_up": lambda now: now < 60}),),
        fires={
            ("AzureScheduledEventAlertsNotPushed", 390): (
                Firing(
                    watcher(),
                    "Alertmanager does not accept alerts of an exporter.",
                    "vmss_0:10169 cannot push alerts to every Alertmanager that it is to push to: "
                    "its events page only by scrapes and rules.",
                    "exporter",
                ),
            )
        },
    ),
    Story(
        "the collector takes no spans",
        (Exporter(more={"spans_queued": lambda now: 250 if now >= 60 else 20}),),
        fires={
            ("AzureScheduledEventSpansPilingUp", 990): (
                Firing(
                    watcher(),
                    "Trace spans wait for a collector that does not take them.",
                    "250 spans wait on vmss_0:10169: traces are late, and nothing else is lost.",
                    "exporter",
                ),
            )
        },
        quiet={"AzureScheduledEventSpansPilingUp": (900,)},
    ),
    Story(
        "a VM's clock is two minutes behind",
        (Exporter(more={"last_success_timestamp_seconds": lambda now: now - 120}),),
        fires={
            ("AzureScheduledEventClockOff", 450): (
                Firing(
                    watcher(),
                    "The clock of a VM differs from that of Prometheus.",
                    "The clock of vmss_0:10169 is 2m 0s off: countdowns and moments of events are wrong by as much.",
                    "exporter",
                ),
            )
        },
    ),
)
