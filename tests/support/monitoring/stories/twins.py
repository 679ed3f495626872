"""Twins of other stories: what looks the same and must page, or must stay quiet; and what always held."""

from dataclasses import replace

from support.monitoring.alert_scenarios import (
    DOWN,
    JOB,
    REBOOT,
    REDEPLOY,
    SHORT_FREEZE,
    WITHOUT_NOTICE,
    Exporter,
    Seen,
    Story,
    one,
)
from support.monitoring.stories.expected_alerts import (
    AGAIN,
    DEGRADED,
    OVERDUE,
    REBOOT_FIRES,
    SCALE_SET_HIT,
    SHORT_NOTICE,
    ZONE_HIT,
    only,
)
from support.monitoring.stories.fleets import DAY, vms

_EVICTED = Seen("Preempt", not_before=60, gone=300)

# What an HA pair sends differs in annotations only, so that Alertmanager takes both for one alert.
_NAMELESS = REBOOT_FIRES.description.replace(" (scale set vmss)", "")

TWINS = (
    Story(
        "an event is moved near, and every exporter sees it",
        tuple(
            Exporter(
                f"vmss_{number}",
                (
                    Seen("Redeploy", not_before=3 * DAY, gone=300, scope=scope),
                    Seen("Redeploy", announced=300, not_before=900, started=900, gone=1000, scope=scope),
                ),
            )
            for number, scope in enumerate(("self", "peer"))
        ),
        quiet={**only(REDEPLOY, DEGRADED, SHORT_NOTICE), REDEPLOY: (60, 290, 1080, 1200)},
        steady={REDEPLOY: (300, 990), DEGRADED: (30, 290)},
    ),
    Story(
        "NotBefore is moved far away and back",
        (
            Exporter(
                events=(
                    Seen("Redeploy", gone=200),
                    Seen("Redeploy", announced=200, not_before=3 * DAY, gone=400, first_seen=30),
                    Seen("Redeploy", announced=400, not_before=1000, first_seen=30),
                )
            ),
        ),
        quiet={**only(REDEPLOY, DEGRADED), REDEPLOY: (210, 300, 390)},
        steady={REDEPLOY: (400, 900)},
    ),
    Story(
        "two jobs scrape the same VMs, and two of four are evicted",
        tuple(
            replace(exporter, job=job, vm_id=exporter.vm) for exporter in vms(4, 2, _EVICTED) for job in (JOB, AGAIN)
        ),
        quiet={SCALE_SET_HIT: (20, 330), ZONE_HIT: (20, 330)},
        steady={SCALE_SET_HIT: (40, 290), ZONE_HIT: (40, 290)},
    ),
    Story(
        "two jobs scrape the VMs that no event hits",
        (*(both := vms(8, 2, _EVICTED)), *(replace(each, job=AGAIN) for each in both[2:])),
        quiet={SCALE_SET_HIT: (20, 330), ZONE_HIT: (20, 330)},
        steady={SCALE_SET_HIT: (40, 290), ZONE_HIT: (40, 290)},
    ),
    Story(
        "a pod is replaced while two of four VMs are evicted",
        (
            Exporter(
                events=(replace(_EVICTED, gone=200, event_id="E0"),), vm_id="7d3e", instance="10.0.0.1:10169", gone=200
            ),
            Exporter(
                events=(replace(_EVICTED, announced=205, event_id="E0"),),
                vm_id="7d3e",
                instance="10.0.0.2:10169",
                born=205,
            ),
            *vms(4, 2, _EVICTED)[1:],
        ),
        quiet={SCALE_SET_HIT: (20, 330), ZONE_HIT: (20, 330)},
        steady={SCALE_SET_HIT: (40, 290), ZONE_HIT: (40, 290)},
    ),
    Story(
        "one exporter is scraped twice, with two racks",
        tuple(replace(each, target={"rack": rack}) for each in one(Seen()) for rack in ("1", "2")),
        quiet=only(REBOOT),
        steady={REBOOT: (30, 900)},
    ),
    Story(
        "an event that nobody announced starts where a policy approves",
        one(Seen(announced=60, not_before=None, started=60, gone=600, approved=0, saw_scheduled=False), policy="file"),
        quiet=only(WITHOUT_NOTICE, until=900),
        steady={WITHOUT_NOTICE: (60, 590)},
    ),
    Story(
        "two events on one VM",
        (
            Exporter(
                events=(Seen(gone=600), Seen("Redeploy", announced=120, event_id="E2", gone=900)),
            ),
        ),
        quiet={**only(REBOOT, REDEPLOY), REBOOT: (660, 900), REDEPLOY: (60, 110, 960)},
        steady={REBOOT: (30, 590), REDEPLOY: (120, 890)},
    ),
    Story(
        "a short Freeze becomes one of unknown duration",
        (
            Exporter(
                events=(Seen("Freeze", duration=5, gone=300), Seen("Freeze", announced=300, gone=900, first_seen=30))
            ),
        ),
        quiet=only(SHORT_FREEZE),
        steady={SHORT_FREEZE: (30, 890)},
    ),
    Story(
        "a VM in no scale set",
        (Exporter(events=(Seen(gone=900),), scale_set=""), Exporter("other", scale_set="")),
        quiet=only(REBOOT),
        steady={REBOOT: (30, 890)},
    ),
    Story(
        "no evaluation for six minutes, while the VM reboots",
        one(Seen(started=780, gone=1900), down=((790, 1250),)),
        quiet={REBOOT: (2000,)},
        steady={REBOOT: (400, 1600)},
        every=400,
    ),
    Story(
        "no evaluation for six minutes, in which the event ends",
        one(Seen(started=500, gone=700)),
        quiet={REBOOT: (800, 1200)},
        steady={REBOOT: (100, 400)},
        every=400,
    ),
    Story(
        "a VM is still there long after its NotBefore, and one peer was deleted",
        (
            Exporter(events=(Seen("Terminate", not_before=330),)),
            Exporter("vmss_1", (Seen("Terminate", not_before=330, scope="peer"),), down=((330, 100_000),)),
        ),
        quiet={OVERDUE: (330, 900)},
        steady={OVERDUE: (960, 1200), DOWN: (690, 1200)},
    ),
    Story(
        "the other Prometheus of an HA pair does not know the scale set",
        one(Seen(), scale_set=""),
        fires={(REBOOT, 60): (replace(REBOOT_FIRES, description=_NAMELESS, vms="vmss_0"),)},
        quiet=only(REBOOT),
        steady={REBOOT: (30, 900)},
    ),
)
