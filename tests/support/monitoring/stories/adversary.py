"""The stories of an adversary: pages that were false, missing, or never ended, each with its quiet twin."""

from dataclasses import replace

from support.monitoring.alert_scenarios import (
    ALL,
    DOWN,
    FREEZE,
    MANY,
    PREEMPT,
    REBOOT,
    REDEPLOY,
    SHORT_FREEZE,
    UNREACHABLE,
    WITHOUT_NOTICE,
    Exporter,
    Firing,
    Seen,
    Story,
    Value,
    constant,
    counting,
    one,
)
from support.monitoring.stories.firing import WHO, row, watcher

DAY = 86_400
SCALE_SET_HIT, ZONE_HIT = "AzureScheduledEventScaleSetHit", "AzureScheduledEventZoneHit"
OVERDUE, TOO_LONG, NOT_BACK, NO_EXPORTERS, NEVER_READY, THROTTLED, SHORT_NOTICE, NOT_APPROVED = (
    f"AzureScheduledEvent{each}"
    for each in (
        "Overdue",
        "StartedTooLong",
        "VmNotBack",
        "NoExporters",
        "NeverReady",
        "Throttled",
        "ShortNotice",
        "NotApproved",
    )
)
REQUESTED = "AzureScheduledEventRebootRequested"
DEGRADED = "AzureScheduledEventDegradedHost"


def only(*names: str, until: int = 1230) -> dict[str, tuple[int, ...]]:
    """Return that all alerts but ``names`` stay quiet."""
    return {name: tuple(range(0, until, 30)) for name in ALL if name not in names}


def blind(since: int, until: int = 100_000) -> dict[str, Value]:
    """Return the series of an exporter that cannot reach IMDS from ``since`` to ``until``."""
    return {
        "up": lambda now: not since <= now < until,
        "last_success_timestamp_seconds": lambda now: since if since <= now < until else max(now, 1),
    }


def vms(count: int, hit: int, event: Seen, group: str = "E", **more: object) -> tuple[Exporter, ...]:
    """Return a scale set of ``count`` VMs, of which ``hit`` have an event of their own."""
    return tuple(
        Exporter(
            f"vmss_{number}",
            (replace(event, event_id=f"{group}{number}", resources=f"vmss_{number}"),) * (number < hit),
            **more,  # type: ignore[arg-type]  # the fields of Exporter
        )
        for number in range(count)
    )


_MOVED = (
    Seen("Redeploy", not_before=3 * DAY, gone=300),
    Seen("Redeploy", announced=300, not_before=900, started=900, gone=1000),
)
_REDEPLOY_AWAY = one(Seen("Redeploy", not_before=300, started=300, gone=310, first_seen=-400), down=((305, 100_000),))


def _blind_peer(*events: Seen, since: int) -> Exporter:
    return Exporter("vmss_1", tuple(replace(each, scope="peer") for each in events), more=blind(since))


_FAR_AND_OFF = Exporter(
    events=(
        Seen("Redeploy", gone=200),
        Seen("Redeploy", announced=200, not_before=3 * DAY, gone=400, first_seen=30),
    )
)

BLIND = (
    Story(
        "an event is moved near while a blind peer still shows it far",
        (Exporter(events=_MOVED), _blind_peer(replace(_MOVED[0], gone=100_000), since=100)),
        quiet={
            **only(REDEPLOY, DEGRADED, UNREACHABLE, SHORT_NOTICE),
            REDEPLOY: (60, 290, 1020, 1200),
        },
        steady={REDEPLOY: (300, 990), DEGRADED: (30, 290)},
    ),
    Story(
        "an event is moved far away while a blind peer still shows it near",
        (
            Exporter(events=(Seen("Redeploy", gone=300), Seen("Redeploy", announced=300, not_before=3 * DAY))),
            _blind_peer(Seen("Redeploy"), since=100),
        ),
        quiet={**only(REDEPLOY, DEGRADED, UNREACHABLE), REDEPLOY: (310, 600, 1200)},
        steady={REDEPLOY: (30, 290), DEGRADED: (300, 1200)},
    ),
    Story(
        "an event is called off while a blind peer still shows it",
        (Exporter(events=(Seen(gone=400),)), _blind_peer(Seen(), since=100)),
        quiet={
            **only(REBOOT, UNREACHABLE, until=3600),
            REBOOT: (*range(420, 3600, 30),),
        },
        steady={REBOOT: (30, 390)},
    ),
    Story(
        "nobody but a blind exporter knows of an event",
        one(Seen(), more=blind(100)),
        quiet=only(REBOOT, UNREACHABLE, OVERDUE),
        steady={REBOOT: (30, 2400)},
    ),
    Story(
        "a VM never returns from its Redeploy",
        _REDEPLOY_AWAY,
        fires={
            (NOT_BACK, 2130): (
                Firing(
                    row("Redeploy", "critical", event_status="Started"),
                    "A VM has not come back from an event.",
                    f"The Redeploy of {WHO} should be over, and the VM does not answer: it has not come back "
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
        "the exporter that saw the end goes away soon after it",
        (
            Exporter(events=(Seen(gone=400),), down=((500, 100_000),)),
            _blind_peer(Seen(), since=100),
        ),
        quiet={REBOOT: (*range(420, 3600, 30),)},
        steady={REBOOT: (30, 390)},
    ),
    Story(
        "one of two blind exporters reaches IMDS again after the end of an event",
        (
            Exporter(events=(Seen(gone=400),)),
            Exporter("vmss_1", (Seen(scope="peer", gone=510),), more=blind(100, 510)),
            replace(_blind_peer(Seen(), since=100), vm="vmss_2"),
        ),
        quiet={**only(REBOOT, UNREACHABLE), REBOOT: tuple(range(410, 900, 10))},
        steady={REBOOT: (30, 390)},
        exact=True,
    ),
    Story(
        "the only exporter that can tell of the end was away for eight minutes",
        (
            Exporter(events=(Seen(started=200),), down=((205, 100_000),)),
            replace(_blind_peer(Seen(), since=100), vm="vmss_2"),
            Exporter("vmss_3", (Seen(scope="peer", started=200, gone=500),), down=((220, 700),)),
        ),
        quiet={REBOOT: tuple(range(740, 1200, 30))},
        steady={REBOOT: (30, 690)},
    ),
    Story(
        "an event is moved far away and called off, and a blind peer that shows it near misses a scrape",
        (_FAR_AND_OFF, replace(_blind_peer(Seen("Redeploy"), since=100), down=((410, 415),))),
        quiet={REDEPLOY: tuple(range(210, 900, 10))},
        steady={REDEPLOY: (30, 190)},
    ),
    Story(
        "an event is moved far away and called off, and one of two blind peers reaches IMDS again at that moment",
        (
            _FAR_AND_OFF,
            _blind_peer(Seen("Redeploy"), since=100),
            Exporter("vmss_2", (Seen("Redeploy", scope="peer", gone=405),), more=blind(100, 405)),
        ),
        quiet={REDEPLOY: tuple(range(210, 900, 10))},
        steady={REDEPLOY: (30, 190)},
    ),
    Story(
        "a blind exporter moves to another address long after NotBefore",
        (
            Exporter(events=(Seen(not_before=200),), more=blind(100), instance="10.0.0.1:10169", gone=860),
            Exporter(events=(Seen(not_before=200),), more=blind(100), instance="10.0.0.2:10169", born=860),
        ),
        quiet={OVERDUE: MANY},
        steady={REBOOT: (30, 1200)},
        every=30,
    ),
    Story(
        "a lone exporter reaches IMDS again, and its event is still there",
        one(Seen(), more=blind(100, 510)),
        quiet=only(REBOOT, UNREACHABLE, OVERDUE),
        steady={REBOOT: (30, 900)},
    ),
    Story(
        "an event that a faulty answer hid for a moment is back",
        (Exporter(events=(Seen(gone=400), Seen(announced=410, first_seen=30))),),
        quiet=only(REBOOT),
        steady={REBOOT: (30, 900)},
    ),
)

_EVICTED = Seen("Preempt", not_before=60, gone=300)

PLACES = (
    Story(
        "two jobs scrape the same VMs",
        tuple(
            replace(exporter, job=job)
            for exporter in vms(4, 1, replace(_EVICTED, event_id="E0"))
            for job in ("azure-scheduled-events-exporter", "azure-scheduled-events-again")
        ),
        quiet={SCALE_SET_HIT: MANY, ZONE_HIT: MANY},
    ),
    Story(
        "a pod is replaced during an event",
        (
            Exporter(events=(replace(_EVICTED, gone=200),), vm_id="7d3e", instance="10.0.0.1:10169", gone=200),
            Exporter(events=(replace(_EVICTED, announced=205),), vm_id="7d3e", instance="10.0.0.2:10169"),
            *(Exporter(f"vmss_{number}") for number in range(1, 4)),
        ),
        quiet={SCALE_SET_HIT: MANY, ZONE_HIT: MANY, PREEMPT: (330, 400)},
        steady={PREEMPT: (30, 290)},
    ),
    Story(
        "a pod is replaced, and the event ends meanwhile",
        (
            Exporter(events=(replace(_EVICTED, gone=200),), vm_id="7d3e", instance="10.0.0.1:10169", gone=200),
            Exporter(vm_id="7d3e", instance="10.0.0.2:10169", born=230),
        ),
        quiet={PREEMPT: (260, 300, 400, 1000)},
        steady={PREEMPT: (30, 220)},
    ),
    Story(
        "scale sets of one name in two resource groups, each with one VM of four hit",
        (
            *vms(4, 1, _EVICTED, resource_group="prod"),
            *(
                replace(
                    each, vm=f"dev{each.vm}", zone="2", events=tuple(replace(e, event_id="D0") for e in each.events)
                )
                for each in vms(4, 1, _EVICTED, resource_group="dev")
            ),
        ),
        quiet={SCALE_SET_HIT: MANY, ZONE_HIT: MANY},
    ),
    Story(
        "two of four VMs in prod, beside forty of the same name in dev",
        (
            *vms(4, 2, _EVICTED, resource_group="prod"),
            *(replace(each, vm=f"dev{each.vm}") for each in vms(40, 0, _EVICTED, resource_group="dev")),
        ),
        fires={
            (SCALE_SET_HIT, 60): (
                Firing(
                    {"scale_set": "vmss", "resource_group": "prod", "severity": "critical"},
                    "Events hit a large part of a scale set at the same time.",
                    "Events that have started or are due hit 50% of the VMs of scale set vmss (resource group prod). "
                    "Their capacity, memory and ephemeral disks may be lost at once.",
                    "fleet",
                ),
            )
        },
        quiet={ZONE_HIT: MANY},
    ),
    Story(
        "targets with labels of their own called zone, location and vm_name",
        tuple(
            replace(each, target={"zone": "rack-7", "location": "here", "vm_name": each.vm})
            for each in vms(4, 2, _EVICTED)
        ),
        quiet={SCALE_SET_HIT: (20, 320)},
        steady={SCALE_SET_HIT: (60, 290)},
    ),
    Story(
        "one exporter is scraped twice, with two zones",
        tuple(replace(each, target={"zone": zone}) for each in one(Seen()) for zone in ("1", "2")),
        quiet=only(REBOOT),
        steady={REBOOT: (30, 900)},
    ),
)

_APPROVED_AT_ONCE = Seen(announced=60, not_before=None, started=60, gone=600, approved=1)

OTHERS = (
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
        "IMDS throttles, and the exporter slows down",
        (
            Exporter(
                more={
                    "polls_total throttled": counting(0, 5000, 0.05),
                    "polls_total ok": constant(0),
                    "up": constant(0),
                }
            ),
        ),
        quiet={THROTTLED: (60, 200)},
        steady={THROTTLED: (400, 1200)},
    ),
    Story(
        "polls time out, and few are throttled",
        (
            Exporter(
                more={
                    "polls_total throttled": counting(0, 5000, 0.05),
                    "polls_total timeout": counting(0, 5000, 0.9),
                    "polls_total ok": constant(0),
                }
            ),
        ),
        quiet={THROTTLED: (*range(60, 1200, 60),)},
    ),
    Story(
        "IMDS throttles a few polls while others are answered",
        (Exporter(more={"polls_total throttled": counting(0, 100, 0.05)}),),
        quiet=only(),
    ),
    Story(
        "the source of an event is empty for one api-version",
        (
            Exporter(events=(Seen(source=""),)),
            Exporter("vmss_1", (Seen(source="User", scope="peer", announced=35),)),
        ),
        quiet=only(REQUESTED),
        steady={REQUESTED: (40, 900)},
    ),
    Story(
        "no exporter shows the source of an event",
        one(Seen(source="")),
        quiet={**only(REBOOT), REBOOT: (30,)},
        steady={REBOOT: (50, 900)},
    ),
    Story(
        "two exporters order Resources differently, and one VM leaves them",
        (
            Exporter(events=(Seen(resources="vmss_0,vmss_1", gone=300), Seen(announced=300, resources="vmss_0"))),
            Exporter(
                "vmss_1", (Seen(resources="vmss_1,vmss_0", scope="self", gone=305), Seen(announced=305, scope="peer"))
            ),
        ),
        quiet=only(REBOOT, SCALE_SET_HIT, ZONE_HIT),
        steady={REBOOT: (30, 900)},
    ),
    Story(
        "reporters in two scale sets",
        (Exporter(events=(Seen(),)), Exporter("db_0", (Seen(scope="peer"),), scale_set="db")),
        quiet=only(REBOOT),
        steady={REBOOT: (30, 900)},
    ),
    Story(
        "an exporter crashes in a loop, and never gets an answer",
        (Exporter(down=tuple((begin, begin + 50) for begin in range(0, 7000, 75)), fresh=((0, 7000),)),),
        quiet={DOWN: (60, 200)},
        steady={DOWN: (360, 3000), NEVER_READY: (1000, 3000)},
    ),
    Story(
        "an exporter crashes in a loop of 300 s and 15 s",
        (Exporter(down=tuple((begin, begin + 300) for begin in range(100, 7000, 315))),),
        quiet={DOWN: (60, 200, 390)},
        steady={DOWN: (420, 3000)},
    ),
    Story(
        "a rollout restarts an exporter three times",
        (Exporter(down=((300, 310), (400, 410), (500, 520)), fresh=((310, 320), (410, 420), (520, 530))),),
        quiet=only(),
    ),
    Story(
        "all targets are gone from discovery",
        (Exporter(gone=600),),
        fires={
            (NO_EXPORTERS, 960): (
                Firing(
                    watcher("job", "instance"),
                    "No exporter is scraped.",
                    "Prometheus has no targets: no event of any VM is seen.",
                    "exporter",
                ),
            )
        },
        quiet={**only(NO_EXPORTERS, until=3000), NO_EXPORTERS: (0, 300, 600, 890)},
    ),
    Story(
        "one of two targets is gone from discovery",
        (Exporter(gone=600), Exporter("vmss_1")),
        quiet=only(until=3000),
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
)

# An exporter that answers one scrape with its event and then no more: what it showed is recorded later than that.
_AFTERWARDS = tuple(range(65, 900, 5))
SHOWN_ONCE = (
    Story(
        "a Redeploy that is days ahead, shown in one scrape",
        (Exporter(events=(Seen("Redeploy", announced=65, not_before=3 * DAY),), down=((70, 3000),)),),
        quiet={REDEPLOY: _AFTERWARDS, WITHOUT_NOTICE: _AFTERWARDS},
        steady={DEGRADED: (65, 900)},
        every=5,
    ),
    Story(
        "a Reboot that was announced, shown in one scrape",
        (Exporter(events=(Seen(announced=65),), down=((70, 3000),)),),
        quiet={WITHOUT_NOTICE: _AFTERWARDS},
        steady={REBOOT: (65, 900)},
        every=5,
    ),
    Story(
        "a Reboot that a user requested, shown in one scrape",
        (Exporter(events=(Seen(announced=65, source="User"),), down=((70, 3000),)),),
        quiet={REBOOT: _AFTERWARDS, WITHOUT_NOTICE: _AFTERWARDS},
        steady={REQUESTED: (65, 900)},
        every=5,
    ),
    Story(
        "a short Freeze, shown in one scrape",
        (Exporter(events=(Seen("Freeze", announced=65, duration=5),), down=((70, 3000),)),),
        quiet={FREEZE: _AFTERWARDS},
        steady={SHORT_FREEZE: (65, 900)},
        every=5,
    ),
)

ADVERSARY = (*BLIND, *PLACES, *OTHERS, *SHOWN_ONCE)
