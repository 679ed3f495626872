"""The stories of VMs that do not come back from an event in time, and of those that do."""

from dataclasses import replace

from support.monitoring.alert_scenarios import DOWN, JOB, MAINTENANCE, MANY, Exporter, Firing, Seen, Story, one
from support.monitoring.stories.expected_alerts import AGAIN, NOT_BACK, row
from support.monitoring.stories.fleets import blind

_REBOOT = Seen(not_before=300, started=300, gone=700)
_FREEZE = Seen("Freeze", not_before=300, started=300, gone=1020, duration=5)
_FREEZE_BEFORE = replace(_FREEZE, gone=780, event_id="F")
_REBOOT_AFTER = Seen(announced=500, not_before=800, started=800, gone=1300)
_BOOT_LOOP = tuple((begin, begin + 90) for begin in range(305, 3000, 120))
_OF_TWO = Seen(not_before=330, resources="vmss_0,vmss_1")
_OF_THREE = replace(_REBOOT, gone=100_000, resources="vmss_0,vmss_1,vmss_2")
_OF_TWELVE = replace(_REBOOT, resources=",".join(f"vmss_{number}" for number in range(10)), vms=12)
_EARLY = Seen(not_before=900)


def _loop(down: int, up: int) -> tuple[tuple[int, int], ...]:
    """Return when a VM is away that is ``down`` and ``up`` for so many seconds in turn, from the 305th second."""
    return tuple((begin, begin + down) for begin in range(305, 6000, down + up))


def _missed(begin: int, end: int) -> tuple[tuple[int, int], ...]:
    """Return every fourth scrape."""
    return tuple((at, at + 5) for at in range(begin, end, 20))


def not_back(vms: str, away: str, event_id: str = "E1") -> Firing:
    """Return the alert that VMs have not come back from a reboot of ``vms``; ``away`` begins what it says of them."""
    return Firing(
        row("Reboot", "critical", event_status="Started", event_id=event_id),
        "A VM has not come back from an event.",
        f"The Reboot of {vms} (scale set vmss) should be over, and {away} not come back within 15m 0s. "
        f"Event {event_id}.",
        vms=f"{vms if away.startswith('a VM') else away.partition(' do')[0]} (scale set vmss)",
    )


NOT_BACK_STORIES = (
    Story(
        "an event is approved and starts between two recordings, and the VM does not come back",
        one(Seen(announced=305, not_before=1200, approved=1, started=310), down=((315, 100_000),)),
        quiet={MAINTENANCE: (300, 1230), NOT_BACK: (1200,)},
        steady={MAINTENANCE: (305, 1200), NOT_BACK: (1230, 1500)},
        every=5,
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
        steady={NOT_BACK: (2430, 2550)},
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
        "a scrape is missed six minutes before an overdue reboot of twelve and a half minutes",
        one(Seen(not_before=300), down=((1140, 1145), (1500, 2250))),
        quiet={NOT_BACK: tuple(range(1490, 3000, 10))},
        exact=True,
    ),
    Story(
        "an overdue reboot takes three minutes, and a second one, three minutes later, thirteen",
        one(Seen(not_before=300), down=((1500, 1680), (1860, 2640))),
        quiet={NOT_BACK: tuple(range(1490, 3000, 10))},
        exact=True,
    ),
    Story(
        "an overdue reboot takes three minutes, and from a second one, three minutes later, the VM does not come back",
        one(Seen(not_before=300), down=((1500, 1680), (1860, 100_000))),
        quiet={NOT_BACK: tuple(range(1490, 2750, 10))},
        steady={NOT_BACK: (2820, 4000)},
    ),
    Story(
        "one of two VMs is back, and shows from its journal that their event is only due; the other one stays away",
        (
            Exporter(events=(replace(_OF_TWO, started=300),), down=((305, 100_000),)),
            Exporter(
                "vmss_1",
                (replace(_OF_TWO, started=1400, unconfirmed=(1300, 1400)),),
                down=((300, 1300),),
                more=blind(1300, 1400),
            ),
        ),
        quiet={NOT_BACK: (1170,), MAINTENANCE: (1650, 1700)},
        steady={NOT_BACK: (1230, 2400)},
        exact=True,
    ),
    Story(
        "an event starts early, which a peer without IMDS access does not see, and its VM does not come back",
        (
            Exporter(events=(replace(_EARLY, started=300),), down=((305, 100_000),)),
            Exporter("vmss_1", (replace(_EARLY, scope="peer"),), more=blind(200)),
        ),
        quiet={NOT_BACK: (1170,), MAINTENANCE: (1230, 1500, 1800)},
        steady={NOT_BACK: (1230, 2400)},
        exact=True,
    ),
    Story(
        "a VM that two jobs scrape does not come back from a freeze, nor from a reboot that only another VM shows",
        (
            *(
                Exporter(events=(Seen("Freeze", not_before=60, started=60),), down=((65, 100_000),), job=job)
                for job in (JOB, AGAIN)
            ),
            Exporter(
                "vmss_1",
                (
                    Seen("Freeze", not_before=60, started=60, scope="peer"),
                    Seen(announced=900, not_before=960, started=960, scope="peer", event_id="E2"),
                ),
            ),
        ),
        fires={(NOT_BACK, 1950): (not_back("vmss_0", "vmss_0 does not answer: it has", "E2"),)},
        quiet={NOT_BACK: (930, 1000, 1500, 1800)},
        steady={NOT_BACK: (690, 870)},
    ),
    Story(
        "a VM boots in a loop after a reboot that nobody saw Started, and answers for two minutes each time",
        one(Seen(not_before=300, gone=400), down=_loop(600, 130)),
        quiet={NOT_BACK: (1170,)},
        steady={NOT_BACK: (1260, 4000)},
        every=15,
    ),
    Story(
        "a VM boots in a loop after a reboot that nobody saw Started, and answers a third of the time",
        one(Seen(not_before=300, gone=400), down=_loop(240, 120)),
        quiet={NOT_BACK: (1170,)},
        steady={NOT_BACK: (2130, 4000)},
        every=15,
    ),
    Story(
        "a quarter of the scrapes fail, and an overdue reboot takes two and a half minutes",
        one(Seen(not_before=300), down=(*_missed(600, 1700), (1700, 1850), *_missed(1855, 3000))),
        quiet={NOT_BACK: tuple(range(600, 3000, 15))},
        every=15,
    ),
    Story(
        "half of the scrapes of a VM fail whose event is overdue",
        one(Seen(not_before=300), down=tuple((begin, begin + 10) for begin in range(600, 3000, 20))),
        quiet={NOT_BACK: tuple(range(600, 3000, 15))},
        every=15,
    ),
    Story(
        "a VM is back from its reboot for six minutes without IMDS access, with its journal, and goes down for good",
        one(
            Seen(not_before=300, started=300, unconfirmed=(600, 100_000)),
            down=((305, 600), (960, 100_000)),
            more=blind(600),
        ),
        quiet={NOT_BACK: (1170,)},
        steady={NOT_BACK: (1230, 2400)},
        every=15,
    ),
    Story(
        "an exporter restarts with its journal while its event is due, gets no answer of IMDS, and does not come back",
        one(Seen(not_before=900, unconfirmed=(1000, 100_000)), down=((990, 1000), (1420, 100_000)), more=blind(1000)),
        quiet={NOT_BACK: (2310,)},
        steady={NOT_BACK: (2370, 3600)},
        every=15,
    ),
    Story(
        "an event that is overdue when it is first shown begins at last, and its VM does not come back",
        one(Seen(announced=2000, not_before=800), born=1900, down=((3000, 100_000),)),
        quiet={NOT_BACK: (3870,)},
        steady={NOT_BACK: (3930, 4800)},
        every=15,
    ),
)
