"""The stories of VMs that Azure works on: when they count as in maintenance, and when that is over."""

from dataclasses import replace

from support.monitoring.alert_scenarios import DOWN, MAINTENANCE, MANY, Exporter, Firing, Seen, Story, one
from support.monitoring.stories.expected_alerts import NOT_BACK
from support.monitoring.stories.fleets import blind

_REBOOT = Seen(not_before=300, started=300, gone=700)
_HOST_FAILURE = Seen(announced=65, not_before=None, started=65, gone=800)


def working(vm: str = "vmss_0", since: str = "00:04:00", **labels: str) -> Firing:
    """Return the alert that Azure works on ``vm``, since ``since`` (time of day)."""
    return Firing(
        {
            "severity": "info",
            "component": "maintenance",
            "instance": vm,
            "vm_name": vm,
            "vm_id": f"//{vm}",
            **labels,
        },
        "A VM is in maintenance by Azure.",
        f"{vm} has been in maintenance since 1970-01-01 {since} UTC: "
        "an event of Azure is due, has started, or has just ended. Alerts about its absence can wait.",
        vms="",
    )


MAINTAINED = (
    Story(
        "a reboot: from a minute before until five minutes after its end, also while the VM is down",
        one(_REBOOT, down=((305, 600),)),
        fires={(MAINTENANCE, 240): (working(),), (MAINTENANCE, 450): (working(since="00:05:00"),)},
        quiet={MAINTENANCE: (60, 230, 1010, 1200), NOT_BACK: MANY},
        steady={MAINTENANCE: (240, 980)},
        exact=True,
    ),
    Story(
        "a host fails: a peer reports it, and its VM is known by its last target",
        (
            Exporter(down=((60, 900),)),
            Exporter("vmss_1", (replace(_HOST_FAILURE, scope="peer"),)),
            Exporter("vmss_2", down=((60, 900),)),
        ),
        fires={(MAINTENANCE, 120): (working(since="00:01:15"),)},
        quiet={MAINTENANCE: (50, 980, 1200), NOT_BACK: MANY},
        steady={MAINTENANCE: (80, 960)},
        every=5,
    ),
    Story(
        "two exporters of one VM on two ports",
        (
            Exporter(events=(_REBOOT,), instance="vmss_0:10169"),
            Exporter(events=(_REBOOT,), instance="vmss_0:10170"),
        ),
        fires={(MAINTENANCE, 450): (working(since="00:05:00"),)},
        quiet={MAINTENANCE: (60, 230, 1200)},
        steady={MAINTENANCE: (240, 980)},
        exact=True,
    ),
    Story(
        "a redeploy of 20 minutes",
        one(Seen("Redeploy", not_before=300, started=300, gone=1400), down=((305, 1500),)),
        quiet={MAINTENANCE: (230, 1820), NOT_BACK: (*MANY, 1400, 1600, 2400)},
        steady={MAINTENANCE: (240, 1790)},
        exact=True,
    ),
    Story(
        "a freeze that is Started for ever",
        one(Seen("Freeze", not_before=300, started=300)),
        quiet={MAINTENANCE: (230, 910, 1200, 2400), NOT_BACK: (*MANY, 2400)},
        steady={MAINTENANCE: (240, 890)},
        exact=True,
    ),
    Story(
        "a stuck exporter goes down long after the impact",
        one(Seen(not_before=300, started=300), down=((1500, 100_000),)),
        quiet={MAINTENANCE: (1210, 1500, 1600, 2400)},
        exact=True,
    ),
    Story(
        "an overdue event starts at last",
        one(Seen(not_before=300, started=2000, gone=2300), down=((2005, 2200),)),
        quiet={MAINTENANCE: (1155, 1995, 2625)},
        steady={MAINTENANCE: (2010, 2580)},
        every=15,
    ),
    Story(
        "a VM restarts by itself just before its event is called off",
        one(Seen(not_before=400, gone=330), down=((320, 325),)),
        quiet={MAINTENANCE: tuple(range(0, 700, 20))},
        every=5,
    ),
    Story(
        "an approved event",
        one(Seen(not_before=3000, approved=1, started=3100)),
        fires={(MAINTENANCE, 30): (working(since="00:00:30"),)},
        quiet={MAINTENANCE: (20, 940)},
        exact=True,
    ),
    Story(
        "an event that is called off before it is near",
        one(Seen(not_before=930, gone=600)),
        quiet={MAINTENANCE: MANY},
        exact=True,
    ),
    Story(
        "an exporter is down without any event",
        (Exporter(down=((60, 2000),)), Exporter("vmss_1")),
        quiet={MAINTENANCE: MANY, NOT_BACK: (*MANY, 2000)},
        steady={DOWN: (370, 1900)},
        exact=True,
    ),
    Story(
        "an exporter fails again after its VM has been back for a while",
        one(_REBOOT, down=((305, 600), (1020, 2400))),
        quiet={MAINTENANCE: (1010, 1030, 1100, 2300), NOT_BACK: (*MANY, 2300)},
        exact=True,
    ),
    Story(
        "an exporter fails just after the Terminate of its VM was called off",
        (Exporter(events=(Seen("Terminate", not_before=300, gone=330),), down=((400, 100_000),)), Exporter("vmss_1")),
        quiet={DOWN: (690,), NOT_BACK: MANY},
        steady={DOWN: (720, 2000)},
        exact=True,
    ),
    Story(
        "a VM fails by itself after an event whose end its exporter, without IMDS access, has not seen",
        (
            Exporter(events=(replace(_REBOOT, gone=100_000),), down=((1100, 100_000),), more=blind(400)),
            Exporter("vmss_1", (replace(_REBOOT, scope="peer", gone=500),)),
        ),
        quiet={MAINTENANCE: (900, 1110, 1200, 1500, 1700), NOT_BACK: (*MANY, 1560, 1600, 1650, 1700)},
        exact=True,
    ),
    Story(
        "an evicted VM: until it has left the targets, and nobody waits for it",
        one(Seen("Preempt", not_before=60, started=60), down=((90, 100_000),), gone=2400),
        quiet={MAINTENANCE: (2720,), NOT_BACK: (*MANY, 2300, 2700)},
        steady={MAINTENANCE: (30, 2600)},
        exact=True,
    ),
    Story(
        "a deleted VM whose target stays for hours",
        one(Seen("Terminate", not_before=330, started=330), down=((340, 100_000),)),
        quiet={NOT_BACK: (*MANY, 7200)},
        steady={MAINTENANCE: (270, 7200)},
        every=30,
    ),
    Story(
        "two VMs of one event, one of which no longer answers, and a third one",
        (
            Exporter(events=(replace(_REBOOT, resources="vmss_0,vmss_1"),)),
            Exporter("vmss_1", down=((100, 900),)),
            Exporter("vmss_2", (replace(_REBOOT, resources="vmss_0,vmss_1", scope="peer"),), down=((310, 900),)),
        ),
        fires={(MAINTENANCE, 300): (working(since="00:05:00"), working("vmss_1", since="00:05:00"))},
        quiet={MAINTENANCE: (230, 1210)},
        exact=True,
    ),
    Story(
        "an event that was due is moved two hours ahead, and its VM fails before that",
        (
            Exporter(
                events=(Seen(not_before=300, gone=270), Seen(announced=270, not_before=7500)), down=((900, 100_000),)
            ),
        ),
        quiet={MAINTENANCE: (900, 920, 1000, 1500, 1900), NOT_BACK: (1000, 1830, 1900, 2400)},
        exact=True,
    ),
    Story(
        "an event that was due is moved by 14 minutes, and its VM goes down then",
        (
            Exporter(
                events=(Seen(not_before=300, gone=245), Seen(announced=245, not_before=1140)), down=((1140, 100_000),)
            ),
        ),
        steady={MAINTENANCE: (1110, 1600)},
        every=5,
    ),
    Story(
        "a host fails soon after its VM has got another address: the newest one counts",
        (
            Exporter(instance="10.0.0.5:10169", gone=600),
            Exporter(instance="10.0.0.4:10169", born=600, down=((900, 100_000),)),
            Exporter("vmss_1", (Seen(announced=900, not_before=None, started=900, scope="peer"),)),
        ),
        fires={(MAINTENANCE, 1200): (working(instance="10.0.0.4", since="00:15:00"),)},
        steady={NOT_BACK: (1860, 2400)},
        exact=True,
    ),
    Story(
        "a VM has left Resources, which an exporter without IMDS access still shows, and is stopped by its owner",
        (
            Exporter(
                events=(
                    Seen(resources="vmss_0,vmss_1", not_before=900, gone=315),
                    Seen(announced=315, not_before=900, started=905),
                )
            ),
            Exporter(
                "vmss_1",
                (
                    Seen(resources="vmss_0,vmss_1", not_before=900, gone=315),
                    Seen(announced=315, not_before=900, started=905, scope="peer"),
                ),
                down=((930, 100_000),),
            ),
            Exporter(
                "vmss_2",
                (Seen(resources="vmss_0,vmss_1", not_before=900, scope="peer"),),
                more={"up": lambda now: now < 210},
            ),
        ),
        fires={(MAINTENANCE, 1500): (working(since="00:15:20"),)},
        quiet={NOT_BACK: (1500, 2100, 2400)},
        exact=True,
    ),
    Story(
        "a VM is evicted, and another one has its address: it is in no maintenance, and goes down later",
        (
            Exporter(
                events=(Seen("Preempt", not_before=60, started=60),),
                vm_id="7d3e",
                instance="10.0.0.4:10169",
                down=((90, 100_000),),
                gone=240,
            ),
            Exporter("vmss_7", vm_id="9a41", instance="10.0.0.4:10169", born=300, down=((1200, 100_000),)),
        ),
        quiet={MAINTENANCE: (20, 610, 1300, 2000), NOT_BACK: MANY},
        steady={MAINTENANCE: (30, 510), DOWN: (1530, 2010)},
    ),
    Story(
        "a VM is evicted before its own exporter shows the event: another one does",
        (Exporter(down=((65, 100_000),)), Exporter("vmss_1", (Seen("Preempt", started=60, scope="peer"),))),
        quiet={DOWN: tuple(range(0, 1200, 30))},
        steady={MAINTENANCE: (80, 1190)},
    ),
    Story(
        "an approved event is first shown long after its NotBefore",
        one(Seen(announced=2000, not_before=800, approved=1), born=1900, down=((2050, 2530),)),
        quiet={MAINTENANCE: (1995,)},
        steady={MAINTENANCE: (2010, 2520)},
        every=15,
    ),
    Story(
        "a VM that was stopped is started again with an event in its journal, and gets no answer of IMDS",
        one(Seen(not_before=300, started=300, unconfirmed=(2000, 100_000)), born=2000, more=blind(2000)),
        quiet={MAINTENANCE: (2010, 2025, 2100, 2500)},
        every=15,
    ),
    Story(
        "a VM that answers has left Resources, and goes down by itself some minutes later",
        (
            Exporter(
                events=(
                    Seen(not_before=300, started=300, gone=330, resources="vmss_0,vmss_1"),
                    Seen(announced=330, not_before=300, started=330, resources="vmss_1", scope="peer"),
                ),
                down=((900, 100_000),),
            ),
            Exporter(
                "vmss_1",
                (
                    Seen(not_before=300, started=300, gone=330, resources="vmss_0,vmss_1"),
                    Seen(announced=330, not_before=300, started=330, resources="vmss_1"),
                ),
            ),
        ),
        fires={
            (MAINTENANCE, 600): (working(since="00:05:00"), working("vmss_1", since="00:05:00")),
            (MAINTENANCE, 960): (working("vmss_1", since="00:05:00"),),
        },
        every=15,
    ),
)
