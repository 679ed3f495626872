"""Stories of how long VMs count as hit: those that leave Resources, or seem to, and those that stay away."""

from dataclasses import replace
from typing import TypeVar

from support.monitoring.alert_scenarios import REBOOT, REDEPLOY, Exporter, Seen, Story, one
from support.monitoring.stories.expected_alerts import OVERDUE, SCALE_SET_HIT, TOO_LONG, ZONE_HIT
from support.monitoring.stories.fleets import DAY, blind

_Times = TypeVar("_Times", bound=tuple[int, ...])

_BOTH = Seen("Redeploy", announced=30, resources="vmss_0,vmss_1")
_THEN_ONE = Seen("Redeploy", announced=300, resources="vmss_1", scope="peer")
_OTHERS = tuple(Exporter(f"vmss_{number}") for number in range(2, 6))
_AWAY = ((200, 100_000),)
_TEN = ",".join(f"vmss_{number}" for number in range(10))
_STARTED = Seen("Redeploy", started=100, gone=300, resources="vmss_0,vmss_1")
_OF_THREE = Seen("Redeploy", started=100, resources="vmss_0,vmss_1,vmss_2")
_SUDDEN = Seen("Preempt", announced=92, not_before=122, resources="vmss_0,vmss_1")
_EVICTED = Seen("Preempt", not_before=100, started=100, gone=300, resources="vmss_0,vmss_1")


def _both(times: _Times) -> dict[str, _Times]:
    """Return the same times for the alerts of scale sets and of zones."""
    return dict.fromkeys((SCALE_SET_HIT, ZONE_HIT), times)


def _nobody_hears_of(event: Seen) -> tuple[Exporter, Exporter]:
    return Exporter(events=(event,), down=((105, 100_000),)), Exporter("vmss_1", (event,), down=((105, 100_000),))


def _left_behind(names: str, **more: object) -> tuple[Exporter, ...]:
    """Return six VMs: an event hits the first two, and later Resources have ``names``; ``more`` is of the first VM."""
    return (
        Exporter(events=(_BOTH,), **more),  # type: ignore[arg-type]  # the fields of Exporter
        Exporter("vmss_1", (replace(_BOTH, gone=300), replace(_THEN_ONE, scope="self", resources=names))),
        *_OTHERS,
    )


def _hit_until_300(name: str, exporters: tuple[Exporter, ...]) -> Story:
    steady = {**_both((60, 290)), REDEPLOY: (30, 900)}
    return Story(name, exporters, quiet=_both(tuple(range(360, 900, 30))), steady=steady)


def _hit_throughout(name: str, exporters: tuple[Exporter, ...]) -> Story:
    return Story(name, exporters, quiet=_both((20,)), steady={**_both((60, 900)), REDEPLOY: (30, 900)})


HITS = (
    Story(
        "a VM is dropped from Resources",
        (
            Exporter(
                events=(
                    Seen("Redeploy", announced=30, gone=300, resources="vmss_0,vmss_1"),
                    Seen("Redeploy", announced=300, resources="vmss_1", scope="peer"),
                )
            ),
            Exporter(
                "vmss_1",
                (
                    Seen("Redeploy", announced=30, gone=300, resources="vmss_0,vmss_1"),
                    Seen("Redeploy", announced=300, resources="vmss_1"),
                ),
            ),
            *(Exporter(f"vmss_{number}") for number in range(2, 6)),
        ),
        quiet=_both(tuple(range(310, 900, 30))),
        steady={**_both((60, 290)), REDEPLOY: (30, 900)},
    ),
    Story(
        "two VMs stay in Resources",
        (Exporter(events=(_BOTH,)), Exporter("vmss_1", (_BOTH,)), *_OTHERS),
        quiet=_both((20,)),
        steady={**_both((60, 900)), REDEPLOY: (30, 900)},
    ),
    Story(
        "a VM is dropped from Resources, and then goes down",
        (
            Exporter(events=(replace(_BOTH, gone=300), _THEN_ONE), down=((400, 100_000),)),
            Exporter("vmss_1", (replace(_BOTH, gone=300), replace(_THEN_ONE, scope="self"))),
            *_OTHERS,
        ),
        quiet=_both(tuple(range(310, 900, 30))),
        steady={**_both((60, 290)), REDEPLOY: (30, 900)},
    ),
    Story(
        "a VM that stays in Resources goes down",
        (Exporter(events=(_BOTH,), down=((400, 100_000),)), Exporter("vmss_1", (_BOTH,)), *_OTHERS),
        quiet=_both((20,)),
        steady={**_both((60, 900)), REDEPLOY: (30, 900)},
    ),
    Story(
        "a VM is dropped from Resources, and goes down in the next minute",
        (
            Exporter(events=(replace(_BOTH, gone=300), _THEN_ONE), down=((320, 100_000),)),
            Exporter("vmss_1", (replace(_BOTH, gone=300), replace(_THEN_ONE, scope="self"))),
            *_OTHERS,
        ),
        quiet=_both(tuple(range(310, 900, 10))),
        steady={**_both((60, 290)), REDEPLOY: (30, 900)},
    ),
    _hit_until_300("a VM that is down is dropped from Resources", _left_behind("vmss_1", down=_AWAY)),
    _hit_throughout(
        "a VM that is down stays in Resources, in another order", _left_behind("vmss_1,vmss_0", down=_AWAY)
    ),
    _hit_until_300("a VM whose exporter is blind is dropped from Resources", _left_behind("vmss_1", more=blind(200))),
    _hit_throughout(
        "a VM whose exporter is blind stays in Resources, in another order",
        _left_behind("vmss_1,vmss_0", more=blind(200)),
    ),
    _hit_throughout(
        "a VM that is down is named in other letters than Resources name it",
        tuple(
            replace(each, events=tuple(replace(shown, resources=shown.resources.upper()) for shown in each.events))
            for each in _left_behind("vmss_1,vmss_0", down=_AWAY)
        ),
    ),
    _hit_throughout(
        "Resources are so long that exporters name not all of them, and a VM that is down is no longer among these",
        tuple(
            replace(
                each,
                events=tuple(
                    replace(shown, resources=_TEN if shown.announced == 30 else f"{_TEN[7:]},vmss_10")
                    for shown in each.events
                ),
            )
            for each in _left_behind("", down=_AWAY)
        ),
    ),
    Story(
        "a VM that is down is dropped from Resources of an event that goes on for long",
        tuple(
            replace(each, events=tuple(replace(shown, started=max(100, shown.announced)) for shown in each.events))
            for each in _left_behind("vmss_1", down=_AWAY)
        ),
        quiet=_both(tuple(range(360, 3600, 30))),
        steady=_both((60, 290)),
    ),
    Story(
        "two VMs do not return from their Redeploy, and who saw its end went away",
        (
            *_nobody_hears_of(_STARTED),
            Exporter("vmss_2", (replace(_STARTED, scope="peer"),), down=((400, 100_000),)),
            *_OTHERS[1:],
        ),
        quiet=_both(tuple(range(330, 3600, 30))),
        steady=_both((60, 290)),
    ),
    Story(
        "two VMs do not return from their Redeploy, and nobody saw its end",
        (*_nobody_hears_of(_STARTED), *_OTHERS),
        quiet=_both((20, 5000)),
        steady=_both((60, 3600)),
    ),
    Story(
        "two VMs are evicted, and nobody saw the end of it",
        (*_nobody_hears_of(_EVICTED), *_OTHERS),
        quiet=_both(tuple(range(1140, 3600, 30))),
        steady=_both((60, 900)),
    ),
)


def _both_hit(name: str, event: Seen, fires: tuple[int, int], **more: object) -> Story:
    """Return a story in which ``event`` hits two of six VMs; both alerts fire throughout ``fires``.

    They are quiet ten seconds before the event is announced. ``more``: fields of the exporters of both VMs.
    """
    hit = tuple(Exporter(f"vmss_{number}", (event,), **more) for number in range(2))  # type: ignore[arg-type]
    before = (event.announced - 10,)
    return Story(
        name,
        hit + _OTHERS,
        quiet=_both(before),
        steady=_both(fires),
    )


def _hit_in_turn(name: str, **more: object) -> Story:
    """Return a story in which the Redeploy of one of six VMs begins as that of another VM, with ``more``, ends."""
    exporters = (
        Exporter(events=(Seen("Redeploy", started=60, gone=303),), **more),  # type: ignore[arg-type]
        Exporter("vmss_1", (Seen("Redeploy", announced=303, not_before=330, event_id="E2", resources="vmss_1"),)),
        *_OTHERS,
    )
    never = tuple(range(20, 600, 5))
    return Story(name, exporters, quiet=_both(never))


ANY_ORDER = (
    _both_hit("two VMs that an event hits go down", _BOTH, (60, 900), down=((182, 100_000),)),
    _both_hit("two VMs that an event hits lose IMDS", _BOTH, (60, 900), more=blind(182)),
    _both_hit(
        "two VMs go down 20 seconds after their eviction is announced", _SUDDEN, (95, 600), down=((112, 100_000),)
    ),
    _hit_in_turn("events hit two VMs one after the other"),
    _hit_in_turn(
        "events hit two VMs one after the other, and the first returns as the second is hit", down=((62, 303),)
    ),
    Story(
        "a VM does not return from its Redeploy, and an event hits another VM 27 seconds after its end",
        (
            Exporter(events=(Seen("Redeploy", started=60),), down=((62, 100_000),)),
            Exporter("vmss_1", (Seen("Redeploy", announced=330, not_before=360, event_id="E2", resources="vmss_1"),)),
            Exporter("vmss_2", (Seen("Redeploy", started=60, gone=303, scope="peer"),)),
            *_OTHERS[1:],
        ),
        quiet=_both(tuple(range(20, 600, 5))),
    ),
    Story(
        "the VM of an event days ahead is away until the event is forgotten",
        (Exporter(events=(Seen("Redeploy", not_before=3 * DAY),), down=((200, 100_000),)), *_OTHERS),
        quiet={REDEPLOY: tuple(range(30, 1500, 10))},
    ),
    Story(
        "a VM is back from its reboot, and its exporter, which has no journal, has not polled yet",
        one(Seen(not_before=100, started=100), vm_id="7d3e", down=((105, 420),), fresh=((420, 480),)),
        steady={REBOOT: (60, 600)},
    ),
    Story(
        "two of three VMs do not come back, and the replaced exporter of the third one sees that their event is over",
        (
            *(Exporter(vm, (_OF_THREE,), down=((105, 100_000),), vm_id=vm[-1]) for vm in ("vmss_0", "vmss_1")),
            Exporter("vmss_2", (_OF_THREE,), vm_id="2", instance="10.0.0.2:10169", gone=400),
            Exporter("vmss_2", vm_id="2", instance="10.0.0.3:10169", born=400),
            *_OTHERS[1:],
        ),
        quiet=_both(tuple(range(560, 2000, 10))),
    ),
    Story(
        "an exporter is back with an overdue event in its journal, which has ended meanwhile",
        one(Seen(not_before=60, unconfirmed=(900, 960), gone=960), down=((400, 900),), more=blind(880, 960)),
        quiet={OVERDUE: tuple(range(0, 1200, 10))},
    ),
    Story(
        "a VM is back from its reboot, and the event stays Started",
        one(Seen(not_before=300, started=300), vm_id="7d3e", down=((305, 600),)),
        quiet={TOO_LONG: (600, 2000)},
        steady={TOO_LONG: (2190, 3000)},
    ),
    _both_hit(
        "two VMs are back from their Redeploy, and their exporters, which have no journal, have not polled yet",
        replace(_STARTED, gone=100_000),
        (60, 600),
        down=((105, 420),),
        fresh=((420, 480),),
    ),
)
"""Stories that hold whatever the order of groups."""
