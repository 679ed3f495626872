"""Stories of how an event goes: approved late or elsewhere, moved, overdue, without an end, and its VM not back."""

from dataclasses import replace

from support.monitoring.alert_scenarios import (
    DOWN,
    MANY,
    REBOOT,
    REDEPLOY,
    WITHOUT_NOTICE,
    Exporter,
    Firing,
    Seen,
    Story,
    one,
)
from support.monitoring.stories.expected_alerts import (
    LOST_REBOOT,
    NOT_BACK,
    OVERDUE,
    REBOOT_FIRES,
    TOO_LONG,
    WHO,
    at,
    only,
    row,
)

_TEN = ",".join(f"vmss_{number}" for number in range(10))
_OF_25 = f"{_TEN} and 15 more (scale set vmss)"

FIRING_LIVES = (
    Story(
        "a policy means to approve, and does not",
        one(Seen(not_before=930, approval_due=300), policy="file"),
        fires={
            ("AzureScheduledEventNotApproved", 370): (
                Firing(
                    row("Reboot", "warning", event_status="Scheduled"),
                    "An approval by the policy is overdue: the event has not been approved.",
                    f"The Reboot of {WHO} should have been approved at 1970-01-01 00:05:00 UTC "
                    "by the policy of its exporter. Without an approval it starts at its NotBefore or later. Event E1.",
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
)
_REDEPLOY_AWAY = one(Seen("Redeploy", not_before=300, started=300, gone=310, first_seen=-400), down=((305, 100_000),))

_APPROVED_AT_ONCE = Seen(announced=60, not_before=None, started=60, gone=600, approved=1)


def _approved_and_down(*, saw_scheduled: bool) -> tuple[Exporter, Exporter]:
    """Return an exporter that shows a Started event in one scrape, and a peer that never saw the event Scheduled."""
    event = replace(_APPROVED_AT_ONCE, approved=int(saw_scheduled), saw_scheduled=saw_scheduled)
    peer = replace(event, scope="peer", approved=0, saw_scheduled=False)
    return Exporter(events=(event,), down=((65, 400),), policy="file"), Exporter("vmss_1", (peer,))


LIVES = (
    Story(
        "a VM never returns from its Redeploy",
        _REDEPLOY_AWAY,
        fires={
            (NOT_BACK, 2130): (
                Firing(
                    row("Redeploy", "critical", event_status="Started"),
                    "A VM has not come back from an event.",
                    f"The Redeploy of {WHO} should be over, and vmss_0 does not answer: it has not come back "
                    "within 30m 0s. Event E1.",
                ),
            ),
        },
        quiet={
            **only(REDEPLOY, TOO_LONG, NOT_BACK, until=6000),
            REDEPLOY: (3990, 4500),
            NOT_BACK: MANY,
            TOO_LONG: (1800,),
        },
        steady={REDEPLOY: (30, 3870), NOT_BACK: (2130, 6000), TOO_LONG: (2220, 3780)},
    ),
    Story(
        "a VM returns from its Redeploy after 20 minutes, and the event is still there",
        one(
            Seen("Redeploy", not_before=300, started=300, gone=2000, first_seen=-400),
            down=((305, 1500),),
            fresh=((1500, 1520),),
            more={"up": lambda now: not 1500 <= now < 1520},
        ),
        quiet={**only(REDEPLOY, until=2400), REDEPLOY: (2010, 2100, 2300)},
        steady={REDEPLOY: (30, 1990)},
    ),
    Story(
        "a VM returns from its Redeploy after 20 minutes, and the event is over",
        one(Seen("Redeploy", not_before=300, started=300, gone=1000, first_seen=-400), down=((305, 1500),)),
        quiet={**only(REDEPLOY, until=2400), REDEPLOY: (1510, 1530, 2300)},
        steady={REDEPLOY: (30, 1490)},
    ),
    Story(
        "an event that a faulty answer hid for a moment is back",
        (Exporter(events=(Seen(gone=400), Seen(announced=410, first_seen=30))),),
        quiet=only(REBOOT),
        steady={REBOOT: (30, 900)},
    ),
    Story(
        "the policy approves an event before anybody scrapes it",
        one(replace(_APPROVED_AT_ONCE, saw_scheduled=True)),
        quiet=only(REBOOT, until=900),
        steady={REBOOT: (60, 590)},
    ),
    Story(
        "somebody approves an event elsewhere before anybody scrapes it",
        one(replace(_APPROVED_AT_ONCE, approved=0, saw_scheduled=True)),
        quiet=only(REBOOT, until=900),
        steady={REBOOT: (60, 590)},
    ),
    Story(
        "the policy approves an event, its VM is scraped once and goes down, and a peer saw the event Started first",
        _approved_and_down(saw_scheduled=True),
        quiet=only(REBOOT, until=900),
        steady={REBOOT: (60, 590)},
    ),
    Story(
        "an event is Started when its VM, which then goes down, and a peer see it first",
        _approved_and_down(saw_scheduled=False),
        quiet=only(WITHOUT_NOTICE, until=900),
        steady={WITHOUT_NOTICE: (60, 590)},
    ),
    Story(
        "a VM is deleted at its NotBefore, before anybody scrapes Started",
        one(Seen("Terminate", not_before=330), down=((330, 100_000),)),
        quiet={OVERDUE: tuple(range(0, 3000, 30)), DOWN: tuple(range(0, 3000, 30))},
    ),
    Story(
        "an event is moved nearer after it was announced in time",
        (Exporter(events=(Seen(gone=300), Seen(announced=300, not_before=500, first_seen=30))),),
        quiet=only(REBOOT, OVERDUE),
        steady={REBOOT: (30, 900)},
    ),
    Story(
        "Prometheus is away for six minutes",
        one(Seen(started=930, gone=1200)),
        quiet=only(REBOOT),
        steady={REBOOT: (30, 1190)},
        blank=((300, 660),),
    ),
    Story(
        "a scale-in leaves targets behind",
        tuple(
            Exporter(
                f"vmss_{number}",
                (
                    Seen(
                        "Terminate",
                        source="User",
                        event_id=f"E{number}",
                        resources=f"vmss_{number}",
                        not_before=330,
                        started=330,
                        gone=100_000,
                    ),
                ),
                down=((340, 100_000),),
            )
            if number < 2
            else Exporter(
                f"vmss_{number}",
                tuple(
                    Seen(
                        "Terminate",
                        source="User",
                        event_id=f"E{n}",
                        resources=f"vmss_{n}",
                        not_before=330,
                        started=330,
                        gone=400,
                        scope="peer",
                    )
                    for n in range(2)
                ),
            )
            for number in range(4)
        ),
        quiet=only("AzureScheduledEventTerminateRequested", until=7000),
    ),
    Story(
        "a VM goes down long after its Terminate was called off",
        one(Seen("Terminate", gone=300, not_before=600), down=((2000, 100_000),)),
        quiet={DOWN: (1900, 2200)},
        steady={DOWN: (2330, 3000)},
    ),
    Story(
        "a VM is back 20 minutes after its Redeploy, which is over, and its exporter goes down later",
        one(Seen("Redeploy", not_before=330, started=330, gone=1500), down=((345, 1545), (3000, 100_000))),
        quiet={DOWN: tuple(range(0, 3300, 30))},
        steady={DOWN: (3330, 4500)},
    ),
    Story(
        "a VM that was evicted is started again, and evicted again",
        (
            Exporter(
                events=(
                    Seen("Preempt", not_before=60, started=60, gone=120),
                    Seen("Preempt", announced=2500, not_before=2530, started=2530, gone=2600, event_id="E2"),
                ),
                down=((75, 1500), (2545, 100_000)),
            ),
        ),
        quiet={DOWN: tuple(range(0, 7000, 300))},
    ),
    Story(
        "a Reboot is Started for two hours, and its exporter has lost its journal: no page of a host failure",
        (
            Exporter(
                events=(
                    Seen(not_before=300, gone=300, saw_scheduled=True),
                    Seen(announced=390, not_before=None, started=390, saw_scheduled=False),
                ),
                down=((300, 390),),
            ),
        ),
        quiet={WITHOUT_NOTICE: tuple(range(0, 9000, 60))},
        steady={REBOOT: (60, 9000)},
    ),
    Story(
        "a faulty answer hides a Started Reboot for 40 seconds, and then its VM is away",
        (
            Exporter(
                events=(
                    Seen(not_before=280, started=280, gone=320),
                    Seen(announced=360, not_before=None, started=360),
                ),
                down=((380, 100_000),),
            ),
        ),
        steady={REBOOT: (390, 3000)},
    ),
    Story(
        "the exporter of an overdue event restarts for 40 seconds",
        one(Seen(not_before=60), down=((1500, 1540),)),
        steady={OVERDUE: (1020, 2400)},
    ),
    Story(
        "a VM fails two days before its event, which a peer shows: the exporter is down all the same",
        (
            Exporter(events=(Seen(not_before=200_000),), down=((100, 100_000),)),
            Exporter("vmss_1", (Seen(not_before=200_000, scope="peer"),)),
        ),
        quiet={DOWN: (90, 390)},
        steady={DOWN: (450, 1800)},
    ),
    Story(
        "an exporter goes down 25 minutes before its event: the text still says when that is",
        one(Seen(not_before=1800), down=((300, 100_000),)),
        fires={
            (REBOOT, 600): (
                replace(
                    REBOOT_FIRES,
                    description=f"{WHO} will be rebooted. {at('00:30:00', '20m 0s')} {LOST_REBOOT} Event E1.",
                ),
            )
        },
    ),
    Story(
        "an event of 25 VMs, of which exporters name ten: the text says how many others, also while all are away",
        one(Seen(not_before=1830, resources=_TEN, vms=25), down=((300, 100_000),)),
        fires={
            (REBOOT, 30): (
                replace(
                    REBOOT_FIRES,
                    description=f"{_OF_25} will be rebooted. {at('00:30:30', '30m 0s')} {LOST_REBOOT} Event E1.",
                    vms=_OF_25,
                ),
            ),
            (REBOOT, 630): (
                replace(
                    REBOOT_FIRES,
                    description=f"{_OF_25} will be rebooted. {at('00:30:30', '20m 0s')} {LOST_REBOOT} Event E1.",
                    vms=_OF_25,
                ),
            ),
        },
    ),
    Story(
        "an event of ten VMs: the text does not speak of others",
        one(Seen(resources=_TEN, vms=10)),
        fires={
            (REBOOT, 60): (
                replace(
                    REBOOT_FIRES,
                    description=f"{_TEN} (scale set vmss) will be rebooted. {at('00:15:30', '14m 30s')} {LOST_REBOOT}"
                    " Event E1.",
                    vms=f"{_TEN} (scale set vmss)",
                ),
            ),
        },
    ),
    Story(
        "a VM was off while its event was called off, and shows the event from its journal until IMDS answers",
        (
            Exporter(
                events=(Seen(not_before=3600, gone=4230, unconfirmed=(4200, 4230)),),
                down=((120, 4200),),
                more={
                    "up": lambda now: not 4200 <= now < 4230,
                    "last_success_timestamp_seconds": lambda now: 0 if 4200 <= now < 4230 else max(now, 1),
                },
            ),
            Exporter("vmss_1", (Seen(not_before=3600, gone=600, scope="peer"),)),
        ),
        quiet={REBOOT: tuple(range(660, 4800, 15)), WITHOUT_NOTICE: MANY},
        steady={REBOOT: (60, 590)},
        every=5,
    ),
    Story(
        "a VM was off for two hours, and shows an event from its journal that nobody else saw until IMDS answers",
        (
            Exporter(
                events=(Seen("Redeploy", not_before=200, gone=7530, unconfirmed=(7500, 7530)),),
                down=((120, 7500),),
                more={
                    "up": lambda now: not 7500 <= now < 7530,
                    "last_success_timestamp_seconds": lambda now: 0 if 7500 <= now < 7530 else max(now, 1),
                },
            ),
        ),
        quiet={REDEPLOY: tuple(range(7400, 7600, 5))},
        every=5,
    ),
    Story(
        "an exporter restarts while IMDS does not answer: the event that it shows stays",
        (
            Exporter(
                events=(Seen(not_before=9000, unconfirmed=(330, 100_000)),),
                down=((300, 330),),
                more={
                    "up": lambda now: now < 200,
                    "last_success_timestamp_seconds": lambda now: 200 if now < 300 else 0,
                },
            ),
        ),
        steady={REBOOT: (60, 4000)},
    ),
)
