"""The stories that resemble those in which an alert fires, but in which it must not fire."""

from support.monitoring.alert_scenarios import (
    ALL,
    FREEZE,
    MANY,
    PREEMPT,
    REBOOT,
    SHORT_FREEZE,
    Exporter,
    Seen,
    Story,
    constant,
    counting,
    one,
)
from support.monitoring.stories.fleets import vms

EVENTS_QUIET = dict.fromkeys(ALL, MANY)
REBOOT_ONLY = {name: MANY for name in ALL if name != REBOOT}

QUIET = (
    Story("nothing happens", (Exporter(), Exporter("vmss_1")), quiet=EVENTS_QUIET),
    Story("a journal is kept in memory because its owner wants it", (Exporter(),), quiet=EVENTS_QUIET),
    Story(
        "Alertmanager is restarted, and the exporter's next push is accepted",
        (Exporter(more={"alertmanager_up": lambda now: not 300 <= now < 420}),),
        quiet=EVENTS_QUIET,
    ),
    Story(
        "an exporter restart: its first scrape comes before its first poll",
        one(Seen(started=930, gone=1200), fresh=((300, 310), (950, 960))),
        quiet=REBOOT_ONLY,
        steady={REBOOT: (30, 1190)},
    ),
    Story(
        "an exporter restart without events", (Exporter(fresh=((300, 330),), down=((290, 300),)),), quiet=EVENTS_QUIET
    ),
    Story(
        "a missed scrape", one(Seen(), down=((300, 305), (600, 620))), quiet=REBOOT_ONLY, steady={REBOOT: (30, 1000)}
    ),
    Story("a missed scrape without events", (Exporter(down=((300, 305), (600, 610))),), quiet=EVENTS_QUIET),
    Story(
        "the VM is away while it reboots",
        one(Seen(started=900, not_before=900, gone=1300), down=((905, 1200),)),
        quiet=REBOOT_ONLY,
        steady={REBOOT: (30, 1290)},
    ),
    Story(
        "a Prometheus restart",
        one(Seen(started=930, gone=1200)),
        quiet=REBOOT_ONLY,
        steady={REBOOT: (30, 1190)},
        blank=((300, 420), (925, 935)),
    ),
    Story(
        "an event is cancelled",
        one(Seen(gone=400)),
        quiet={**REBOOT_ONLY, REBOOT: (*range(410, 1200, 30),)},
        steady={REBOOT: (30, 390)},
        exact=True,
    ),
    Story(
        "a peer's event: whichever exporter reports it, it is the event of vmss_0",
        (Exporter("vmss_1", (Seen(scope="peer"),)), Exporter("vmss_2", (Seen(scope="peer"),), down=((500, 600),))),
        quiet=REBOOT_ONLY,
        steady={REBOOT: (30, 1200)},
    ),
    Story(
        "short freezes of a whole scale set at once",
        tuple(Exporter(f"vmss_{number}", (Seen("Freeze", duration=5),)) for number in range(4)),
        quiet={name: MANY for name in ALL if name != SHORT_FREEZE},
    ),
    Story(
        "long freezes of a whole scale set at once",
        tuple(Exporter(f"vmss_{number}", (Seen("Freeze", duration=30),)) for number in range(4)),
        quiet={name: MANY[:30] for name in ALL if name != FREEZE},
    ),
    Story(
        "a scale set is scaled in by half",
        tuple(
            Exporter(f"vmss_{number}", (Seen("Terminate", source="User", event_id=f"E{number}"),) * (number < 2))
            for number in range(4)
        ),
        quiet={name: MANY[:30] for name in ALL if name != "AzureScheduledEventTerminateRequested"},
    ),
    Story(
        "one of two VMs is evicted",
        (Exporter(events=(Seen("Preempt", not_before=60),)), Exporter("vmss_1")),
        quiet={name: MANY[:15] for name in ALL if name != PREEMPT},
    ),
    Story(
        "an event is approved in time",
        one(Seen(not_before=630, approved=1), policy="documented"),
        quiet={"AzureScheduledEventNotApproved": MANY[:21]},
    ),
    Story(
        "a user deletes half of a scale set: exporters that cannot show who asked are scraped first",
        (
            *vms(4, 2, Seen("Terminate", source="", not_before=330))[:3],
            Exporter(
                "vmss_3",
                tuple(
                    Seen(
                        "Terminate",
                        announced=35,
                        not_before=330,
                        source="User",
                        scope="peer",
                        event_id=f"E{number}",
                        resources=f"vmss_{number}",
                    )
                    for number in (0, 1)
                ),
            ),
        ),
        quiet={"AzureScheduledEventScaleSetHit": tuple(range(30, 120, 5))},
        every=5,
    ),
    Story(
        "an approved event ends, and no exporter has shown that it started",
        one(Seen(not_before=930, approval_due=60, approved=1, gone=300), policy="documented"),
        quiet={"AzureScheduledEventNotApproved": tuple(range(290, 345, 5))},
        every=5,
    ),
    Story(
        "an event ends while the VM it is about is still away: the peer knows",
        (
            Exporter(events=(Seen(started=930, gone=1000),), down=((940, 1300),)),
            Exporter("vmss_1", (Seen(started=930, gone=1000, scope="peer"),)),
        ),
        quiet={**REBOOT_ONLY, REBOOT: (1010, 1050, 1200)},
        steady={REBOOT: (30, 990)},
        exact=True,
    ),
    Story(
        "one exporter does not know its own scale set, another polls a little later",
        (
            Exporter(events=(Seen(),), scale_set=""),
            Exporter("vmss_1", (Seen(announced=40, scope="peer", first_seen=30),)),
        ),
        quiet=REBOOT_ONLY,
        steady={REBOOT: (60, 900)},
    ),
    Story(
        "an exporter back from the reboot does not know its VM yet",
        one(Seen(started=900, not_before=900, gone=1300), down=((905, 1000),), nameless=((1000, 1100),)),
        quiet=REBOOT_ONLY,
        steady={REBOOT: (30, 1290)},
    ),
    Story(
        "an exporter learns its VM's name after the event",
        one(Seen(), nameless=((0, 300),)),
        quiet=REBOOT_ONLY,
        steady={REBOOT: (30, 900)},
    ),
    Story(
        "no policy, though an operator has approved before",
        one(Seen(not_before=630), more={"approval_requests_total accepted": constant(3)}),
        quiet={"AzureScheduledEventNotApproved": MANY[:21]},
    ),
    Story(
        "an eviction with 5 s of notice: Azure documents none",
        one(Seen("Preempt", not_before=35, started=40, gone=300)),
        quiet={"AzureScheduledEventShortNotice": MANY},
    ),
    Story(
        "an exporter restart with a journal in memory, in the middle of the notice",
        one(Seen(first_seen=400), more={"process_start_time_seconds": constant(399)}),
        quiet={"AzureScheduledEventShortNotice": MANY[14:30]},
    ),
    Story(
        "an approval is accepted, and the counter begins anew with a restart",
        (Exporter(more={"approval_requests_total accepted": lambda now: now >= 60 and now < 300}),),
        quiet={"AzureScheduledEventApprovalRefused": MANY[:20]},
    ),
    Story(
        "IMDS throttles for a moment",
        (Exporter(more={"polls_total throttled": counting(300, 330)}),),
        quiet=EVENTS_QUIET,
    ),
    Story(
        "IMDS is away for a minute",
        (
            Exporter(
                more={
                    "up": lambda now: not 300 <= now < 360,
                    "polls_total connection_error": counting(300, 360),
                }
            ),
        ),
        quiet=EVENTS_QUIET,
    ),
    Story(
        "one document is garbled",
        (Exporter(more={"up": lambda now: now != 300, "polls_total invalid_document": lambda now: now >= 300}),),
        quiet=EVENTS_QUIET,
    ),
    Story("enabling the service takes four minutes", (Exporter(fresh=((0, 240),)),), quiet=EVENTS_QUIET),
    Story(
        "a burst of spans that the collector soon takes",
        (Exporter(more={"spans_queued": lambda now: 500 if 300 <= now < 600 else 0}),),
        quiet=EVENTS_QUIET,
    ),
    Story(
        "a clock lags for half a minute after a pause",
        (Exporter(more={"last_success_timestamp_seconds": lambda now: now - 30 if 300 <= now < 360 else max(now, 1)}),),
        quiet=EVENTS_QUIET,
    ),
    Story(
        "NotBefore is not known",
        one(Seen(not_before=None)),
        quiet={name: MANY for name in ALL if name != REBOOT},
    ),
    Story(
        "a disk that failed once and works again",
        (Exporter(more={"journal_errors_total": constant(1), "journal_up": lambda now: not 300 <= now < 420}),),
        quiet=EVENTS_QUIET,
    ),
)
