"""Stories of exporters that cannot reach IMDS: what they last showed neither hides nor outlives what others know."""

from dataclasses import replace

from support.monitoring.alert_scenarios import (
    FREEZE,
    MANY,
    REBOOT,
    REDEPLOY,
    SHORT_FREEZE,
    UNREACHABLE,
    Exporter,
    Seen,
    Story,
    one,
)
from support.monitoring.stories.expected_alerts import DEGRADED, OVERDUE, SHORT_NOTICE, only
from support.monitoring.stories.fleets import DAY, blind, vms

_MOVED = (
    Seen("Redeploy", not_before=3 * DAY, gone=300),
    Seen("Redeploy", announced=300, not_before=900, started=900, gone=1000),
)


def _blind_peer(*events: Seen, since: int) -> Exporter:
    return Exporter("vmss_1", tuple(replace(each, scope="peer") for each in events), more=blind(since))


_OF_TWO = Seen(not_before=360, started=360, resources="vmss_0,vmss_1")
_FAR_AND_OFF = Exporter(
    events=(
        Seen("Redeploy", gone=200),
        Seen("Redeploy", announced=200, not_before=3 * DAY, gone=400, first_seen=30),
    )
)

BLIND = (
    Story(
        "a VM was off while its event, days ahead, was called off, and shows it from its journal until IMDS answers",
        one(
            Seen("Redeploy", not_before=3 * DAY, gone=2000, unconfirmed=(1800, 2000)),
            down=((300, 1800),),
            more=blind(1800, 2000),
        ),
        quiet={DEGRADED: tuple(range(1500, 2100, 30))},
    ),
    Story(
        "half of a scale set reboots, nobody can show who asked, and the VMs come back: the alert is one",
        tuple(
            replace(each, down=((305, 500),) * (number < 2))
            for number, each in enumerate(vms(4, 2, Seen(source="", not_before=300, started=300, gone=900)))
        ),
        steady={"AzureScheduledEventScaleSetHit": (60, 890)},
        every=5,
    ),
    Story(
        "an event starts days early: only its VM, which then goes down, shows it, and a blind peer does not",
        (
            Exporter(
                events=(Seen("Redeploy", not_before=3 * DAY, started=300, saw_scheduled=True),), down=((305, 100_000),)
            ),
            _blind_peer(Seen("Redeploy", not_before=3 * DAY), since=290),
        ),
        quiet={REDEPLOY: (270,), DEGRADED: tuple(range(360, 1500, 60))},
        steady={REDEPLOY: (300, 1500)},
        every=15,
    ),
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
        "a faulty answer hides an event for a moment, then its VM goes down, and a blind peer still shows it",
        (
            Exporter(events=(Seen(gone=300), Seen(announced=340)), down=((500, 100_000),)),
            _blind_peer(Seen(), since=100),
        ),
        steady={REBOOT: (360, 1300)},
    ),
    Story(
        "nobody but a blind exporter knows of an event",
        one(Seen(), more=blind(100)),
        quiet=only(REBOOT, UNREACHABLE, OVERDUE),
        steady={REBOOT: (30, 2400)},
    ),
    Story(
        "an exporter is back with its journal, without IMDS access, after a replaced one has seen the end of its event",
        (
            Exporter(
                events=(replace(_OF_TWO, unconfirmed=(905, 1150), gone=1150),),
                down=((365, 905),),
                more=blind(850, 1150),
                vm_id="0",
            ),
            Exporter("vmss_1", (_OF_TWO,), vm_id="1", instance="10.0.0.2:10169", gone=565),
            Exporter("vmss_1", vm_id="1", instance="10.0.0.3:10169", born=565),
        ),
        quiet={REBOOT: tuple(range(690, 1500, 10))},
        steady={REBOOT: (30, 560)},
    ),
    Story(
        "the replaced exporter of a VM sees the end of its event, and does not answer for a minute some time later",
        (
            Exporter(events=(Seen(gone=400),), down=((365, 400),), vm_id="0", instance="10.0.0.1:10169", gone=400),
            Exporter(vm_id="0", instance="10.0.0.2:10169", born=400, down=((600, 660),)),
            Exporter("vmss_1"),
        ),
        quiet={REBOOT: tuple(range(540, 1500, 10))},
        steady={REBOOT: (30, 390)},
    ),
    Story(
        "how short a freeze is, only an exporter has shown that has been down for hours",
        (
            Exporter(events=(Seen("Freeze", duration=5),), down=((400, 100_000),)),
            _blind_peer(Seen("Freeze"), since=100),
        ),
        quiet={FREEZE: tuple(range(30, 7200, 300))},
        steady={SHORT_FREEZE: (60, 7200)},
        every=30,
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
        quiet={**only(REBOOT, UNREACHABLE), REBOOT: tuple(range(435, 900, 5))},
        steady={REBOOT: (30, 395)},
        every=5,
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
        quiet={REDEPLOY: tuple(range(200, 900, 5))},
        steady={REDEPLOY: (30, 195)},
        every=5,
    ),
    Story(
        "an event is moved far away and called off, and one of two blind peers reaches IMDS again at that moment",
        (
            _FAR_AND_OFF,
            _blind_peer(Seen("Redeploy"), since=100),
            Exporter("vmss_2", (Seen("Redeploy", scope="peer", gone=405),), more=blind(100, 405)),
        ),
        quiet={REDEPLOY: tuple(range(200, 900, 5))},
        steady={REDEPLOY: (30, 195)},
        every=5,
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
)
