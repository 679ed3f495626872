"""Random fleets: VMs in places, events of every life, and exporters that are blind, late, away, or scraped twice.

Knows no rule. All times are seconds. A watcher is one VM with its exporter; it has the VM's number.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from support.monitoring.alert_scenarios import JOB, STEP

HORIZON = 1500
DAY = 86_400
FAR = 3 * DAY
MEMORY = 900  # as the setting memory
TYPES = (
    ("Preempt", "Platform"),
    ("Terminate", "Platform"),
    ("Terminate", "User"),
    ("Redeploy", "Platform"),
    ("Redeploy", "User"),
    ("Reboot", "Platform"),
    ("Reboot", "User"),
    ("Freeze", "Platform"),
)
WAYS = ("usual", "usual", "usual", "early", "approved at once", "called off", "moved", "far then near", "near then far")

Span = tuple[int, int]


@dataclass(frozen=True)
class Shown:
    """An event as a scrape shows it."""

    started: bool
    not_before: int
    resources: tuple[int, ...]
    duration: int | None


@dataclass(frozen=True)
class Life:
    """An event as it really is.

    Attributes:
        vms: the VMs in Resources; ``dropped`` is one that leaves them, and when.
        plans: when which NotBefore is announced; the first is that of the announcement.
        started: None if it is called off.
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
    def severe(self) -> bool:
        """Whether it takes a VM away that nobody asked to be taken away."""
        return self.event_type != "Freeze" and self.source != "User"

    @property
    def page(self) -> str:
        """The alert that it deserves."""
        if not self.warned:
            return "AzureScheduledEventWithoutNotice"
        short = any(each is not None and each < 9 for _, each in self.durations)
        name = ("Short" * short) + self.event_type + ("Requested" * (self.source == "User"))
        return f"AzureScheduledEvent{name}"


@dataclass(frozen=True)
class Place:
    """Where a VM is; ``scale_set`` is "" for a VM in none."""

    group: str
    scale_set: str
    zone: str


@dataclass(frozen=True)
class Watcher:
    """A VM and its exporter.

    Attributes:
        lag: how far it is behind IMDS.
        down: when it does not answer; ``missed`` are scrapes that only one of two Prometheus misses.
        fresh: after a restart, before the first poll: it answers without events.
        blind: when its polls fail: it shows what it knew.
        faulty: when its document has no events although there are some.
        nameless: until when it does not know which VM it runs on.
        replaced: when its pod moves to another address.
        deleted: when discovery drops it.
    """

    number: int
    place: Place
    lag: int = 0
    down: tuple[Span, ...] = ()
    missed: tuple[Span, ...] = ()
    fresh: tuple[Span, ...] = ()
    blind: tuple[Span, ...] = ()
    faulty: tuple[Span, ...] = ()
    nameless: int = 0
    replaced: int | None = None
    deleted: int = HORIZON + 1
    jobs: tuple[str, ...] = (JOB,)

    def answers(self, now: int) -> bool:
        """Whether a scrape is answered."""
        return now < self.deleted and not _in((*self.down, *self.missed), now)

    def sees(self, now: int) -> bool:
        """Whether its last poll was answered."""
        return not _in((*self.blind, *self.fresh), now)

    def named(self, now: int) -> bool:
        """Whether it knows its VM."""
        return now >= self.nameless

    def pod(self, now: int) -> int:
        """Return which pod it is."""
        return int(self.replaced is not None and now >= self.replaced)

    def shows(self, life: Life, now: int) -> Shown | None:
        """Return what a scrape shows of the event, None without it."""
        if not self.answers(now) or _in(self.fresh, now):
            return None
        since = next((begin for begin, end in self.blind if begin <= now < end), now)
        return None if _in(self.faulty, since) else life.at(since - self.lag)


@dataclass(frozen=True)
class Fleet:
    """One random fleet as one Prometheus sees it; ``since`` is when this Prometheus began to scrape."""

    seed: int
    watchers: tuple[Watcher, ...]
    lives: tuple[Life, ...]
    since: int = 0
    knows: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def witnesses(self, life: Life) -> tuple[Watcher, ...]:
        """Return the exporters whose document has the event."""
        return tuple(each for each in self.watchers if each.number in self.knows[life.event_id])


def _in(spans: tuple[Span, ...], now: int) -> bool:
    return any(begin <= now < end for begin, end in spans)


def fleet(seed: int) -> Fleet:
    """Return the random fleet of ``seed``; its events are called E<seed>-0 and so on."""
    chance = random.Random(seed)
    places = _places(chance)
    lives, knows = [], {}
    for number in range(chance.choice((1, 1, 2, 3))):
        home = places[chance.randrange(len(places))]
        peers = tuple(n for n, place in enumerate(places) if place == home or _together(place, home))
        peers = peers or (places.index(home),)
        life = _life(chance, f"E{seed}-{number}", peers)
        lives.append(life)
        knows[life.event_id] = peers
    watchers = tuple(_watcher(chance, number, place, tuple(lives)) for number, place in enumerate(places))
    return Fleet(seed, watchers, tuple(lives), knows=knows)


def twin(one: Fleet) -> Fleet | None:
    """Return what the other Prometheus of an HA pair sees: it misses other scrapes, and may begin late.

    None for a fleet with one Prometheus only.
    """
    chance = random.Random(f"twin of {one.seed}")
    if chance.random() < 0.6:
        return None
    watchers = tuple(replace(each, missed=_misses(chance)) for each in one.watchers)
    return replace(one, watchers=watchers, since=chance.choice((0, 0, 200, 400)) // STEP * STEP)


def _together(place: Place, other: Place) -> bool:
    """A scale set is a placement group, whatever the zone; a VM in no scale set is alone."""
    return bool(place.scale_set) and (place.group, place.scale_set) == (other.group, other.scale_set)


def _places(chance: random.Random) -> list[Place]:
    """Two scale sets, perhaps of one name in two groups, and perhaps a VM in none."""
    first = [Place("prod", "web", chance.choice("12")) for _ in range(chance.randint(1, 6))]
    other = chance.choice((("dev", "web"), ("prod", "db"), ("prod", "")))
    second = [Place(*other, zone="1") for _ in range(chance.choice((0, 0, 1, 3)))]
    return first + second


def _life(chance: random.Random, event_id: str, peers: tuple[int, ...]) -> Life:
    event_type, source = chance.choice(TYPES)
    announced = chance.randrange(30, 300, STEP)
    notice = chance.randrange(30, 600, STEP)
    way = chance.choice(WAYS)
    warned = True
    if chance.random() < 0.15 and event_type in {"Reboot", "Redeploy"} and source == "Platform":
        way, notice, warned = "no notice", 0, False
    plans, started = _plans(way, announced, notice)
    gone = (started or announced) + chance.randrange(60, 400, STEP)
    if started is None:
        gone = max(plans[-1][0] + STEP, announced + notice // 2 // STEP * STEP)
    if way == "near then far":
        gone += 300
    vms = tuple(chance.sample(peers, min(len(peers), chance.choice((1, 1, 2, 4)))))
    dropped = (
        (vms[0], chance.randrange(announced + STEP, gone + STEP, STEP))
        if len(vms) > 1 and chance.random() < 0.3
        else None
    )
    durations: tuple[tuple[int, int | None], ...] = ()
    if event_type == "Freeze":
        known = chance.choice((None, 5, 5, 30))
        durations = ((0, known),) if chance.random() < 0.7 else ((0, known), (announced + notice // 2, None))
    return Life(event_id, event_type, source, vms, plans, started, gone, dropped, durations, warned)


def _plans(way: str, announced: int, notice: int) -> tuple[tuple[Span, ...], int | None]:
    """Return when which NotBefore is announced, and when the event starts."""
    half, usual = announced + max(STEP, notice // 2 // STEP * STEP), announced + notice
    first, later = (announced, usual), usual + 300
    ways: dict[str, tuple[tuple[Span, ...], int | None]] = {
        "early": ((first,), half),
        "approved at once": ((first,), announced),
        "called off": ((first,), None),
        "moved": ((first, (half, later)), later),
        "far then near": (((announced, FAR), (half, later)), later),
        "near then far": ((first, (half, FAR)), None),
    }
    return ways.get(way, ((first,), usual))


def _watcher(chance: random.Random, number: int, place: Place, lives: tuple[Life, ...]) -> Watcher:
    """A VM goes away with an event of its own as often as not; evicted or deleted, it does not return."""
    down = [(begin, begin + chance.choice((5, 5, 10, 60))) for begin in _moments(chance, 1)]
    fresh = [(end, end + chance.choice((5, 15))) for _, end in down if chance.random() < 0.3]
    deleted = HORIZON + 1
    for life in lives:
        if number not in life.vms or life.started is None or life.event_type == "Freeze" or chance.random() < 0.4:
            continue
        begin = life.started + STEP
        if life.event_type in {"Preempt", "Terminate"}:
            down.append((begin, HORIZON + 1))
            deleted = min(deleted, begin + chance.choice((30, 300, HORIZON)))
        else:
            end = begin + STEP * chance.randint(4, 120)
            down.append((begin, end))
            fresh.append((end, end + chance.choice((0, 5, 15))))
    blind = [(begin, begin + chance.choice((5, 60, 300, HORIZON))) for begin in _moments(chance, 1)]
    return Watcher(
        number,
        place,
        lag=chance.choice((0, 0, 5, 10)),
        down=tuple(down),
        missed=_misses(chance),
        fresh=tuple(fresh),
        blind=tuple(blind),
        faulty=_misses(chance) if chance.random() < 0.2 else (),
        nameless=chance.choice((0, 0, 0, 60, 400)),
        replaced=next(iter(_moments(chance, 1)), None) if chance.random() < 0.3 else None,
        deleted=deleted,
        jobs=(JOB, f"{JOB}-again") if chance.random() < 0.2 else (JOB,),
    )


def _misses(chance: random.Random) -> tuple[Span, ...]:
    return tuple((begin, begin + STEP) for begin in _moments(chance, 2))


def _moments(chance: random.Random, most: int) -> list[int]:
    return [chance.randrange(0, 900, STEP) for _ in range(chance.randint(0, most))]
