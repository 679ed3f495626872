"""The stories of VMs that Azure works on: when they count as in maintenance, and when that is over."""

from dataclasses import replace

from support.monitoring.alert_scenarios import DOWN, MAINTENANCE, MANY, Exporter, Firing, Seen, Story, one
from support.monitoring.stories.expected_alerts import NOT_BACK, row
from support.monitoring.stories.fleets import blind

_REBOOT = Seen(not_before=300, started=300, gone=700)
_FREEZE = Seen("Freeze", not_before=300, started=300, gone=1020, duration=5)
_FREEZE_BEFORE = replace(_FREEZE, gone=780, event_id="F")
_REBOOT_AFTER = Seen(announced=500, not_before=800, started=800, gone=1300)
_BOOT_LOOP = tuple((begin, begin + 90) for begin in range(305, 3000, 120))
_HOST_FAILURE = Seen(announced=65, not_before=None, started=65, gone=800)
_OF_THREE = replace(_REBOOT, gone=100_000, resources="vmss_0,vmss_1,vmss_2")
_OF_TWELVE = replace(_REBOOT, resources=",".join(f"vmss_{number}" for number in range(10)), vms=12)


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


def not_back(vms: str, away: str) -> Firing:
    """Return the alert that VMs have not come back from a reboot of ``vms``; ``away`` begins what it says of them."""
    return Firing(
        row("Reboot", "critical", event_status="Started"),
        "A VM has not come back from an event.",
        f"The Reboot of {vms} (scale set vmss) should be over, and {away} not come back within 15m 0s. Event E1.",
        vms=f"{vms if away.startswith('a VM') else away.partition(' do')[0]} (scale set vmss)",
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
        "an event is approved and starts between two recordings, and the VM does not come back",
        one(Seen(announced=305, not_before=1200, approved=1, started=310), down=((315, 100_000),)),
        quiet={MAINTENANCE: (300, 1230), NOT_BACK: (1200,)},
        steady={MAINTENANCE: (305, 1200), NOT_BACK: (1230, 1500)},
        every=5,
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
        "a VM boots in a loop after a reboot that nobody saw Started",
        (Exporter(events=(Seen(not_before=300, gone=400),), down=_BOOT_LOOP), Exporter("vmss_1")),
        quiet={NOT_BACK: (1170,)},
        steady={NOT_BACK: (1230, 2400)},
        exact=True,
    ),
    Story(
        "Prometheus is away while a VM does not come back from a reboot that nobody saw Started",
        one(Seen(not_before=300), down=((305, 100_000),)),
        blank=((400, 1000),),
        quiet={NOT_BACK: (1170,)},
        steady={NOT_BACK: (1230, 2400)},
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
        "a VM does not come back from a reboot, and does after an hour",
        one(replace(_REBOOT, gone=100_000), down=((305, 3600),)),
        quiet={MAINTENANCE: (1210, 2400, 3900), NOT_BACK: (1180, 3810, 4000)},
        steady={NOT_BACK: (1210, 3590)},
        exact=True,
    ),
    Story(
        "of three VMs, one comes back, one comes back and fails again for a moment, and one stays away: it is named",
        (
            Exporter(events=(_OF_THREE,), down=((305, 600),)),
            Exporter("vmss_1", (_OF_THREE,), down=((305, 100_000),)),
            Exporter("vmss_2", (_OF_THREE,), down=((305, 600), (1080, 1260))),
        ),
        fires={(NOT_BACK, 1260): (not_back("vmss_0,vmss_1,vmss_2", "vmss_1 does not answer: it has"),)},
        quiet={NOT_BACK: (1170,)},
        steady={NOT_BACK: (1230, 2400)},
        exact=True,
    ),
    Story(
        "of three VMs whose event is over, one comes back late: it is named until the alert ends",
        tuple(
            Exporter(vm, (replace(_OF_THREE, gone=700),), down=((305, 1500 if vm == "vmss_1" else 600),))
            for vm in ("vmss_0", "vmss_1", "vmss_2")
        ),
        fires={(NOT_BACK, 1620): (not_back("vmss_0, vmss_1, vmss_2", "vmss_1 does not answer: it has"),)},
        quiet={NOT_BACK: (1170, 1740)},
        steady={NOT_BACK: (1230, 1650)},
        exact=True,
    ),
    Story(
        "twelve VMs do not come back, and a peer has seen the end of their event: ten are named",
        (
            *(Exporter(f"vmss_{number}", (_OF_TWELVE,), down=((305, 100_000),)) for number in range(12)),
            Exporter("vmss_12", (replace(_OF_TWELVE, scope="peer"),)),
        ),
        fires={
            (NOT_BACK, 1260): (
                not_back(
                    "vmss_0, vmss_1, vmss_10, vmss_11, vmss_2, vmss_3, vmss_4, vmss_5, vmss_6, vmss_7 and 2 more",
                    "vmss_0, vmss_1, vmss_10, vmss_11, vmss_2, vmss_3, vmss_4, vmss_5, vmss_6, vmss_7 and 2 more "
                    "do not answer: they have",
                ),
            )
        },
        quiet={NOT_BACK: (1170,)},
        steady={NOT_BACK: (1230, 1500)},
    ),
    Story(
        "a VM without a name does not come back",
        (
            Exporter(
                "", (replace(_REBOOT, gone=100_000),), down=((305, 100_000),), vm_id="7d3e", instance="10.0.0.4:10169"
            ),
        ),
        fires={(NOT_BACK, 1260): (not_back("vmss_0", "a VM does not answer: it has"),)},
        quiet={NOT_BACK: (1170,)},
        steady={NOT_BACK: (1230, 1500)},
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
        "a freeze is Started for 12 minutes: one scrape is missed, and later the exporter is upgraded",
        one(_FREEZE, down=((960, 970), (1180, 1240))),
        quiet={NOT_BACK: tuple(range(900, 1600, 10))},
        exact=True,
    ),
    Story(
        "a freeze is Started for 12 minutes, and the VM goes down after 11",
        one(_FREEZE, down=((960, 3000),)),
        quiet={NOT_BACK: (1050,)},
        steady={NOT_BACK: (1290, 1700)},
        exact=True,
    ),
    Story(
        "a VM is back after three minutes, its event stays Started, and much later it is away for three minutes",
        one(Seen(not_before=300, started=300), down=((305, 485), (3600, 3765))),
        quiet={NOT_BACK: (*MANY, *range(3600, 4000, 30))},
        exact=True,
    ),
    Story(
        "a VM does not come back; another one has its address, and goes down much later",
        (
            Exporter(
                events=(Seen(not_before=300, started=300),),
                vm_id="7d3e",
                instance="10.0.0.4:10169",
                down=((305, 100_000),),
                gone=600,
            ),
            Exporter(vm_id="9a41", instance="10.0.0.4:10169", born=750, down=((4500, 100_000),)),
        ),
        quiet={NOT_BACK: tuple(range(4500, 6000, 60)), MAINTENANCE: (1300, 4500, 4800)},
        steady={DOWN: (4830, 6000)},
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
        "a VM dies when its event is overdue, and a peer shows the event as Scheduled on and on",
        (
            Exporter(events=(Seen(not_before=300),), down=((305, 100_000),)),
            Exporter("vmss_1", (Seen(not_before=300, scope="peer"),)),
        ),
        fires={(NOT_BACK, 1260): (not_back("vmss_0", "vmss_0 does not answer: it has"),)},
        steady={NOT_BACK: (1260, 3600)},
    ),
    Story(
        "a VM answers a quarter of the time after its reboot",
        one(replace(_REBOOT, gone=100_000), down=_BOOT_LOOP),
        quiet={NOT_BACK: (1180,)},
        steady={NOT_BACK: (1230, 2400)},
    ),
    Story(
        "a freeze is over, and a reboot follows that takes seven minutes",
        (Exporter(events=(_FREEZE_BEFORE, _REBOOT_AFTER), down=((805, 1200),)),),
        quiet={NOT_BACK: tuple(range(800, 1700, 10))},
        exact=True,
    ),
    Story(
        "a freeze is over, and a reboot follows from which the VM does not come back",
        (Exporter(events=(_FREEZE_BEFORE, _REBOOT_AFTER), down=((805, 100_000),)),),
        quiet={NOT_BACK: tuple(range(810, 1690, 30))},
        steady={NOT_BACK: (1740, 2190)},
    ),
    Story(
        "an overdue reboot begins, and takes three minutes",
        one(Seen(not_before=300, gone=1680), down=((1500, 1680),)),
        quiet={NOT_BACK: tuple(range(1490, 1900, 10))},
        exact=True,
    ),
    Story(
        "a VM whose event is overdue does not answer for a minute and a half, and a quarter of an hour later for three",
        one(Seen(not_before=300), down=((1590, 1680), (2395, 2575))),
        quiet={NOT_BACK: tuple(range(1490, 2700, 10))},
        exact=True,
    ),
    Story(
        "an overdue reboot begins, and takes twelve and a half minutes",
        one(Seen(not_before=300), down=((1500, 2250),)),
        quiet={NOT_BACK: tuple(range(1490, 3000, 10))},
        exact=True,
    ),
    Story(
        "an overdue reboot begins, and takes a minute longer than it may",
        one(Seen(not_before=300), down=((1500, 2460),)),
        quiet={NOT_BACK: (2380, 2700)},
        steady={NOT_BACK: (2430, 2610)},
        exact=True,
    ),
    Story(
        "an overdue reboot begins, and the VM does not come back",
        one(Seen(not_before=300), down=((1500, 100_000),)),
        quiet={NOT_BACK: (1510, 2390)},
        steady={NOT_BACK: (2430, 3000)},
    ),
    Story(
        "no evaluation for six minutes, again and again, while a VM does not come back",
        one(Seen(not_before=390, started=390), down=((405, 100_000),)),
        quiet={NOT_BACK: (400, 800, 1200)},
        steady={NOT_BACK: (1600, 4000)},
        every=400,
    ),
    Story(
        "no evaluation for six minutes, again and again, and a VM that was back goes down by itself",
        one(Seen(not_before=390, started=390, gone=1000), down=((405, 900), (1210, 100_000))),
        quiet={NOT_BACK: tuple(range(0, 4001, 400))},
        every=400,
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
)
