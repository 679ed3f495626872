"""Random fleets: VMs in places, and exporters that are blind, late, away, restarted or scraped twice.

Knows the events of ``lives``, and no rule. All times are seconds. A watcher is one VM with its exporter; it has the
VM's number.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from support.monitoring.alert_scenarios import JOB, STEP
from support.monitoring.random_fleets.lives import HORIZON, Life, Shown, Span, life

NEVER = HORIZON + 1


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
        fresh: after a restart, before the first poll: it answers without events, or with those of its journal.
        blind: when its polls fail: it shows what it knew.
        faulty: when its document has no events although there are some.
        nameless: until when it does not know which VM it runs on.
        replaced: when its pod moves to another address.
        deleted: when discovery drops it.
        journal: whether it keeps events over a restart.
        old_api: whether its api-version does not show who asked for an event.
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
    deleted: int = NEVER
    jobs: tuple[str, ...] = (JOB,)
    journal: bool = False
    old_api: bool = False

    def answers(self, now: int) -> bool:
        """Whether a scrape is answered."""
        return now < self.deleted and not _in(self.down, now) and not _in(self.missed, now)

    def sees(self, now: int) -> bool:
        """Whether its last poll was answered."""
        return not _in(self.blind, now) and not _in(self.fresh, now)

    def named(self, now: int) -> bool:
        """Whether it knows its VM."""
        return now >= self.nameless

    def pod(self, now: int) -> int:
        """Return which pod it is."""
        return int(self.replaced is not None and now >= self.replaced)

    def shows(self, event: Life, now: int) -> Shown | None:
        """Return what a scrape shows of the event, None without it."""
        return self._knows(event, now) if self.answers(now) else None

    def _knows(self, event: Life, now: int) -> Shown | None:
        """Return what it knows of the event: what its document says, or said, or what its journal has."""
        fresh = next((begin for begin, end in self.fresh if begin <= now < end), None)
        blind = next((begin for begin, end in self.blind if begin <= now < end), None)
        restarts = [(begin, end) for begin, end in self.down if end <= now]
        if fresh is not None:
            restart = next((each for each in restarts if each[1] == fresh), None)
        else:
            restart = max((each for each in restarts if blind is not None and each[0] > blind), default=None)
            restart = restart if self.journal else None  # without a journal, only the network was away
        if restart is not None or fresh is not None:
            known = self._knows(event, restart[0] - STEP) if restart and self.journal else None
            return None if known is None else replace(known, confirmed=False)
        since = now if blind is None else blind
        return None if _in(self.faulty, since) else event.at(since - self.lag)


@dataclass(frozen=True)
class Fleet:
    """One random fleet as one Prometheus sees it; ``since`` is when this Prometheus began to scrape."""

    seed: int
    watchers: tuple[Watcher, ...]
    lives: tuple[Life, ...]
    since: int = 0
    knows: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def witnesses(self, event: Life) -> tuple[Watcher, ...]:
        """Return the exporters whose document has the event."""
        return tuple(each for each in self.watchers if each.number in self.knows[event.event_id])


def _in(spans: tuple[Span, ...], now: int) -> bool:
    for begin, end in spans:  # noqa: SIM110  # asked a million times: a generator takes three times as long
        if begin <= now < end:
            return True
    return False


def fleet(seed: int) -> Fleet:
    """Return the random fleet of ``seed``; its events are called E<seed>-0 and so on."""
    chance = random.Random(seed)
    places = _places(chance)
    lives, knows = [], {}
    for number in range(chance.choice((1, 1, 2, 3))):
        home = places[chance.randrange(len(places))]
        peers = tuple(n for n, place in enumerate(places) if place == home or _together(place, home))
        peers = peers or (places.index(home),)
        event = life(chance, f"E{seed}-{number}", peers)
        lives.append(event)
        knows[event.event_id] = peers
    old = chance.choice((0.0, 0.0, 0.0, 0.5, 1.0))
    watchers = tuple(_watcher(chance, number, place, tuple(lives), old) for number, place in enumerate(places))
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


@dataclass
class _Absences:
    """When one VM is away, and what its exporter does when it is back."""

    down: list[Span] = field(default_factory=list)
    fresh: list[Span] = field(default_factory=list)
    faulty: list[Span] = field(default_factory=list)
    deleted: int = NEVER

    def go(self, chance: random.Random, begin: int, end: int) -> None:
        """Go away, and be back without events for a while: before the first poll, or because IMDS shows none yet."""
        polled = end + chance.choice((0, 5, 15, 60))
        self.down.append((begin, end))
        self.fresh.append((end, polled))
        if chance.random() < 0.2:
            self.faulty.append((polled, polled + chance.choice((10, 30, 120))))

    def stay_away(self, begin: int, delete: int) -> None:
        """Go away for good; discovery drops the target after ``delete`` seconds."""
        self.down.append((begin, NEVER))
        self.deleted = min(self.deleted, begin + delete)


def _absences(chance: random.Random, number: int, lives: tuple[Life, ...]) -> _Absences:
    """A VM goes away with an event of its own as often as not.

    Evicted or deleted, it does not return, and after another event it may not. It may also fail by itself.
    """
    found = _Absences()
    for begin in _moments(chance, 1):
        end = begin + chance.choice((5, 5, 10, 60))
        found.down.append((begin, end))
        if chance.random() < 0.3:
            found.fresh.append((end, end + chance.choice((5, 15))))
    for event in lives:
        begins = event.started
        if begins is None and event.gone > event.plans[-1][1] and chance.random() < 0.6:
            begins = chance.randrange(event.plans[-1][1], min(event.gone, HORIZON), STEP)  # it begins unseen
        if number not in event.vms or begins is None or event.event_type == "Freeze" or chance.random() < 0.4:
            continue
        if event.deletes:
            found.stay_away(begins + STEP, chance.choice((30, 300, HORIZON)))
        elif chance.random() < 0.35:
            found.stay_away(begins + STEP, chance.choice((700, HORIZON, HORIZON)))
        else:
            found.go(chance, begins + STEP, begins + STEP + STEP * chance.randint(4, 120))
    if chance.random() < 0.06:
        begin = chance.randrange(0, 1000, STEP)
        found.go(chance, begin, begin + chance.choice((400, 600, HORIZON)))
    return found


def _watcher(chance: random.Random, number: int, place: Place, lives: tuple[Life, ...], old: float) -> Watcher:
    absences = _absences(chance, number, lives)
    blind = [(begin, begin + chance.choice((5, 60, 300, HORIZON))) for begin in _moments(chance, 1)]
    faulty = _misses(chance) if chance.random() < 0.2 else ()
    return Watcher(
        number,
        place,
        lag=chance.choice((0, 0, 5, 10)),
        down=tuple(absences.down),
        missed=_misses(chance),
        fresh=tuple(absences.fresh),
        blind=tuple(blind),
        faulty=(*faulty, *absences.faulty),
        nameless=chance.choice((0, 0, 0, 60, 400)),
        replaced=next(iter(_moments(chance, 1)), None) if chance.random() < 0.3 else None,
        deleted=absences.deleted,
        jobs=(JOB, f"{JOB}-again") if chance.random() < 0.2 else (JOB,),
        journal=chance.random() < 0.5,
        old_api=chance.random() < old,
    )


def _misses(chance: random.Random) -> tuple[Span, ...]:
    return tuple((begin, begin + STEP) for begin in _moments(chance, 2))


def _moments(chance: random.Random, most: int) -> list[int]:
    return [chance.randrange(0, 900, STEP) for _ in range(chance.randint(0, most))]
