"""Stories of scale sets and zones: which part of them events hit when each VM counts once, however it is scraped."""

from dataclasses import replace

from support.monitoring.alert_scenarios import JOB, MANY, PREEMPT, REBOOT, Exporter, Firing, Seen, Story, one
from support.monitoring.stories.expected_alerts import AGAIN, SCALE_SET_HIT, ZONE_HIT, only
from support.monitoring.stories.fleets import vms

FIRING_PLACES = (
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
)

_EVICTED = Seen("Preempt", not_before=60, gone=300)

PLACES = (
    *(
        Story(
            f"two jobs scrape the same VMs, {identity}",
            tuple(
                replace(exporter, job=job, vm_id=exporter.vm if identity == "whose ids are known" else "")
                for exporter in vms(4, 1, _EVICTED)
                for job in (JOB, AGAIN)
            ),
            quiet={SCALE_SET_HIT: MANY, ZONE_HIT: MANY},
        )
        for identity in ("whose ids are known", "whose ids IMDS does not tell")
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
        quiet={PREEMPT: (280, 300, 400, 900)},
        steady={PREEMPT: (30, 225)},
        every=5,
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
        steady={SCALE_SET_HIT: (60, 290)},
    ),
    Story(
        "scale sets of one name in two subscriptions, each with one VM of four hit",
        tuple(
            each
            for subscription in ("prod", "dev")
            for each in vms(
                4,
                1,
                _EVICTED,
                f"{subscription}-",
                subscription=subscription,
                resource_group="web",
                job=subscription + JOB,
            )
        ),
        quiet={SCALE_SET_HIT: MANY, ZONE_HIT: MANY},
    ),
    Story(
        "two of four VMs in one subscription, beside forty of the same name in another one",
        (
            *vms(4, 2, _EVICTED, subscription="prod", resource_group="web"),
            *vms(40, 0, _EVICTED, subscription="dev", resource_group="web", job=AGAIN),
        ),
        fires={
            (SCALE_SET_HIT, 60): (
                Firing(
                    {
                        "scale_set": "vmss",
                        "subscription_id": "prod",
                        "resource_group": "web",
                        "severity": "critical",
                    },
                    "Events hit a large part of a scale set at the same time.",
                    "Events that have started or are due hit 50% of the VMs of scale set vmss (resource group web). "
                    "Their capacity, memory and ephemeral disks may be lost at once.",
                    "fleet",
                ),
            ),
            (ZONE_HIT, 60): (
                Firing(
                    {"subscription_id": "prod", "location": "westeurope", "zone": "1", "severity": "critical"},
                    "Events hit a large part of a zone at the same time.",
                    "Events that have started or are due hit 50% of the VMs in zone 1 of westeurope. "
                    "Their capacity, memory and ephemeral disks may be lost at once.",
                    "fleet",
                ),
            ),
        },
        quiet={SCALE_SET_HIT: (20, 330), ZONE_HIT: (20, 330)},
        steady={SCALE_SET_HIT: (60, 290), ZONE_HIT: (60, 290)},
    ),
    Story(
        "targets with labels of their own called zone, location and vm_name",
        tuple(
            replace(each, target={"zone": "rack-7", "location": "here", "vm_name": each.vm})
            for each in vms(4, 2, _EVICTED)
        ),
        quiet={SCALE_SET_HIT: (20, 320), ZONE_HIT: (20, 320)},
        steady={SCALE_SET_HIT: (60, 290), ZONE_HIT: (60, 290)},
    ),
    Story(
        "two of nine targets with labels of their own called zone, location and vm_name",
        tuple(
            replace(each, target={"zone": "rack-7", "location": "here", "vm_name": each.vm})
            for each in vms(9, 2, _EVICTED)
        ),
        quiet={SCALE_SET_HIT: MANY, ZONE_HIT: MANY},
    ),
    Story(
        "one exporter is scraped twice, with two zones",
        tuple(replace(each, target={"zone": zone}) for each in one(Seen()) for zone in ("1", "2")),
        quiet=only(REBOOT),
        steady={REBOOT: (30, 900)},
    ),
    *(
        Story(
            f"four exporters are scraped twice, with two zones, and an event hits {hit} of their VMs",
            tuple(
                replace(each, target={"zone": zone})
                for each in vms(4, hit, replace(_EVICTED, event_type="Redeploy"))
                for zone in ("1", "2")
            ),
            quiet=dict.fromkeys((SCALE_SET_HIT, ZONE_HIT), (20, 330) if hit > 1 else MANY),
            steady={SCALE_SET_HIT: (60, 290)} if hit > 1 else {},
        )
        for hit in (1, 2)
    ),
    Story(
        "a wave of evictions half an hour after another one, whose VMs have been replaced",
        (
            *(
                Exporter(
                    f"vmss_{number}",
                    (Seen("Preempt", not_before=60, started=60, event_id=f"E{number}", resources=f"vmss_{number}"),),
                    down=((70, 100_000),),
                    gone=150,
                )
                for number in range(4)
            ),
            *(Exporter(f"vmss_{number}", born=330) for number in range(8, 12)),
            *(
                Exporter(
                    f"vmss_{number}",
                    (
                        Seen(
                            "Preempt",
                            announced=2100,
                            not_before=2130,
                            event_id=f"E{number}",
                            resources=f"vmss_{number}",
                        ),
                    )
                    * (number < 6),
                )
                for number in range(4, 8)
            ),
        ),
        quiet={SCALE_SET_HIT: (1800, 2070)},
        steady={SCALE_SET_HIT: (2100, 2400)},
    ),
)
