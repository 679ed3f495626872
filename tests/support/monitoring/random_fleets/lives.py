"""Random events of every life: punctual, early, moved, called off, overdue, without an end, and of an unknown type.

Knows no exporter and no rule. All times are seconds.
"""

import random
from dataclasses import dataclass

from support.monitoring.alert_scenarios import STEP

HORIZON = 1500
DAY = 86_400
FAR = 3 * DAY
UNKNOWN_TYPE = "Relocate"
DELETING = frozenset({"Preempt", "Terminate"})
BY_SOURCE = frozenset({"Terminate", "Redeploy", "Reboot"})
"""Types whose page depends on who asked for the event."""
TYPES = (
    ("Preempt", "Platform"),
    ("Terminate", "Platform"),
    ("Terminate", "User"),
    ("Redeploy", "Platform"),
    ("Redeploy", "User"),
    ("Reboot", "Platform"),
    ("Reboot", "Platform"),
    ("Reboot", "User"),
    ("Freeze", "Platform"),
    (UNKNOWN_TYPE, "Platform"),
)
WAYS = (
    *("usual", "usual", "usual", "usual", "early", "approved at once", "called off", "moved"),
    *("far then near", "near then far", "overdue, then late", "overdue, then called off", "overdue"),
)

Span = tuple[int, int]


@dataclass(frozen=True)
class Shown:
    """An event as a scrape shows it; ``confirmed`` unless the exporter has it from its journal only."""

    started: bool
    not_before: int
    resources: tuple[int, ...]
    duration: int | None
    confirmed: bool = True


@dataclass(frozen=True)
class Life:
    """An event as it really is.

    Attributes:
        vms: the VMs in Resources; ``dropped`` is one that leaves them, and when.
        plans: when which NotBefore is announced; the first is that of the announcement.
        started: None if it never starts.
        gone: when it leaves the document; after the horizon if it does not end.
        durations: when which announced duration is shown; None is unknown.
        warned: whether exporters know that it was announced before it started.
    """

    event_id: str
    event_type: str
    source: str
    vms: tuple[int, ...]
    plans: tuple[Span, ...]
    started: int | None
    gone: int
    dropped: Span | None = None
    durations: tuple[tuple[int, int | None], ...] = ()
    warned: bool = True

    def at(self, now: int) -> Shown | None:
        """Return what its document says, None while it is not in the document."""
        if not self.plans[0][0] <= now < self.gone:
            return None
        resources = tuple(
            vm for vm in self.vms if self.dropped is None or vm != self.dropped[0] or now < self.dropped[1]
        )
        not_before = [planned for since, planned in self.plans if since <= now][-1]
        duration = next((each for since, each in reversed(self.durations) if since <= now), None)
        return Shown(self.started is not None and now >= self.started, not_before, resources, duration)

    @property
    def deletes(self) -> bool:
        """Whether its VMs are not expected back."""
        return self.event_type in DELETING


def life(chance: random.Random, event_id: str, peers: tuple[int, ...]) -> Life:
    """Return a random event of some of ``peers``."""
    event_type, source = chance.choice(TYPES)
    announced = chance.randrange(30, 300, STEP)
    notice = chance.randrange(30, 600, STEP)
    way = chance.choice(WAYS)
    warned = True
    if chance.random() < 0.15 and event_type in {"Reboot", "Redeploy"} and source == "Platform":
        way, notice, warned = "no notice", 0, False
    if way.startswith("overdue"):
        notice = chance.randrange(30, 300, STEP)
    plans, started = _plans(way, announced, notice, late=chance.randrange(400, 800, STEP))
    gone = _gone(chance, way, plans, started, announced + notice // 2 // STEP * STEP)
    vms = tuple(chance.sample(peers, min(len(peers), chance.choice((1, 1, 2, 4)))))
    dropped = (
        (vms[0], chance.randrange(announced + STEP, min(gone, HORIZON) + STEP, STEP))
        if len(vms) > 1 and chance.random() < 0.3
        else None
    )
    durations: tuple[tuple[int, int | None], ...] = ()
    if event_type == "Freeze":
        known = chance.choice((None, 5, 5, 30))
        durations = ((0, known),) if chance.random() < 0.7 else ((0, known), (announced + notice // 2, None))
    return Life(event_id, event_type, source, vms, plans, started, gone, dropped, durations, warned)


def _gone(chance: random.Random, way: str, plans: tuple[Span, ...], started: int | None, half: int) -> int:
    if way == "overdue" or (started is not None and chance.random() < 0.15):
        return HORIZON + STEP
    if way == "overdue, then called off":
        return plans[0][1] + chance.randrange(100, 900, STEP)
    if started is not None:
        return started + chance.randrange(60, 400, STEP)
    gone = max(plans[-1][0] + STEP, half)
    return gone + (300 + chance.randrange(60, 400, STEP) if way == "near then far" else 0)


def _plans(way: str, announced: int, notice: int, late: int) -> tuple[tuple[Span, ...], int | None]:
    """Return when which NotBefore is announced, and when the event starts; ``late``: how long after NotBefore."""
    half, usual = announced + max(STEP, notice // 2 // STEP * STEP), announced + notice
    first, later = (announced, usual), usual + 300
    ways: dict[str, tuple[tuple[Span, ...], int | None]] = {
        "early": ((first,), half),
        "approved at once": ((first,), announced),
        "called off": ((first,), None),
        "moved": ((first, (half, later)), later),
        "far then near": (((announced, FAR), (half, later)), later),
        "near then far": ((first, (half, FAR)), None),
        "overdue, then late": ((first,), usual + late),
        "overdue, then called off": ((first,), None),
        "overdue": ((first,), None),
    }
    return ways.get(way, ((first,), usual))
