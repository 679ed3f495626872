"""Random fleets, and a short oracle of what the rules must raise.

A fleet has exporters that lose IMDS or answer no scrape, VMs that go away with their event or fail
without notice, documents that miss an event for a moment, kinds that change, targets that change,
clocks of VMs that are off by minutes, which the exporter's own :class:`ImdsClock` corrects, and
sometimes a rule engine whose clock is off. The oracle knows what really happens; where both answers
are right, it is silent.
"""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from azure_scheduled_events_exporter.alerts.events import HOLDS, NO_IMPACT_HOLD, RESOLVE_AFTER
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.polling.clock import ImdsClock
from support.stories.story import INTERVAL, Row, Story, marked

STEPS = 200
"""Steps of a story: 50 minutes."""
SLACK = 5
"""Steps around a change in which both answers are right: an own sight is read for a minute."""
OUTDATED = 4
"""Steps after which another kind replaces one that nobody sees any more."""
WRONG = 300
"""Seconds by which a clock is off at most."""
_PREFIX = "azure_scheduled_events_"
_PLACE = 'subscription_id="s",resource_group="rg",scale_set="web"'
_ALERTS = {"far_ahead": "DegradedHost", "without_notice": "WithoutNotice"}


@dataclass
class Event:
    """What really happens: kinds by step, which VM it hits, from when to when it is away."""

    name: str
    event_type: str
    vm: str
    first: int
    last: int
    impact: int
    kinds: list[str]
    back: int
    """The step at which the VM answers again; STEPS if it never does."""

    def kind(self, step: int) -> str:
        """Return the kind that a document shows, "" without the event."""
        return self.kinds[step] if self.first <= step < self.last else ""


@dataclass
class Exporter:
    """What one exporter exports.

    Attributes:
        states: ``up``, ``blind`` (without IMDS) or ``down``, at each step.
        misses: steps at which its document misses every event.
        errors: by how many seconds the clock of its VM is off, at each step.
        keeps_journal: whether its journal survives when its VM goes away.
        moves_at: from this step on it has another address.
        current: the events that its journal has as current.
        seen: when it last saw each event, by its clock, and of which kind.
        started: when each event started, by its clock.
        ended: when each event ended, by its clock.
        looks: what its document showed at each step, kinds by event; None if it read none.
    """

    vm: str
    states: list[str]
    misses: set[int]
    errors: list[float]
    keeps_journal: bool
    moves_at: int = STEPS
    current: set[str] = field(default_factory=set)
    seen: dict[str, tuple[float, str]] = field(default_factory=dict)
    started: dict[str, float] = field(default_factory=dict)
    ended: dict[str, float] = field(default_factory=dict)
    looks: list[dict[str, str] | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._machine = 0.0
        self._clock = self._new_clock()

    def _new_clock(self) -> ImdsClock:
        return ImdsClock(lambda: Timestamp(self._machine))

    def address(self, step: int) -> str:
        """Return its address."""
        return self.vm if step < self.moves_at else f"{self.vm}-moved"

    def read_clock(self, step: int, imds_time: float) -> float:
        """Return the time as the exporter has it after an answer that IMDS sent at ``imds_time``.

        Its Date header has whole seconds.
        """
        self._machine = imds_time + self.errors[step]
        self._clock.correct(math.floor(imds_time))
        return self._clock().wall

    def stop(self) -> None:
        """End with the VM. What the journal has is exported after the next start."""
        self.seen.clear()
        self.started.clear()
        if not self.keeps_journal:
            self.current.clear()
            self.ended.clear()
        self._clock = self._new_clock()


@dataclass(frozen=True)
class Check:
    """How many alerts of a name with a label fire at a step."""

    alert: str
    label: str
    step: int
    count: int


@dataclass
class Fleet:
    """A story with the oracle's checks, and of what it was made."""

    story: Story
    checks: list[Check]
    events: list[Event]
    exporters: list[Exporter]
    witnesses: dict[str, "Witness"]


@dataclass
class Witness:
    """What exporters did with one event.

    Attributes:
        ahead: how many steps the clock of IMDS is ahead of that of the rule engine.
        sights: at which steps somebody saw it, by kind.
        shown: at which steps somebody showed it, also without IMDS, by kind.
        ends: at which steps somebody saw it end, or missed it for a moment.
    """

    ahead: int = 0
    sights: dict[str, set[int]] = field(default_factory=dict)
    shown: dict[str, set[int]] = field(default_factory=dict)
    ends: set[int] = field(default_factory=set)


def fleet(seed: str) -> Fleet:
    """Return a random fleet."""
    chance = random.Random(seed)
    vms = [f"vm{number}" for number in range(chance.randint(2, 5))]
    events = [_event(chance, f"E{number}", chance.choice(vms)) for number in range(2)]
    if events[0].vm == events[1].vm:  # two events on one VM are a story of their own
        events.pop()
    exporters = [_exporter(chance, vm, events) for vm in vms]
    ahead = 0
    if chance.random() < 0.25:
        ahead = chance.randint(-WRONG // INTERVAL, WRONG // INTERVAL)
    witnesses = {event.name: Witness(ahead) for event in events}
    samples: dict[str, list[str]] = {}
    for step in range(STEPS):
        for each in exporters:
            for series, value in _exported(each, events, step, witnesses):
                samples.setdefault(series, ["_"] * STEPS)[step] = value
    rows: tuple[Row, ...] = tuple(
        (series, " ".join(marked(values))) for series, values in samples.items()
    )
    checks = [
        *(check for each in events for check in _page(each, witnesses[each.name])),
        *(check for each in events for check in _missing(each, exporters, ahead)),
    ]
    return Fleet(Story(seed, rows, {}), checks, events, exporters, witnesses)


def _event(chance: random.Random, name: str, vm: str) -> Event:
    event_type = chance.choice([str(each) for each in HOLDS])
    returns = event_type in {"Reboot", "Redeploy", "Freeze"}
    without_notice = event_type in {"Reboot", "Redeploy"} and chance.random() < 0.3
    first = chance.randint(4, 40)
    impact = first if without_notice else first + chance.randint(2, 40)
    back = STEPS
    if event_type == "Freeze":
        back = impact
    elif returns and chance.random() < 0.7:
        back = impact + chance.randint(4, 30)
    last = min(impact + chance.randint(8, 60), STEPS)
    kinds = ["without_notice" if without_notice else "announced"] * STEPS
    if event_type in {"Redeploy", "Freeze"} and not without_notice and chance.random() < 0.3:
        near = chance.randint(first + 1, impact)
        kinds[:near] = ["far_ahead"] * near
    return Event(name, event_type, vm, first, last, impact, kinds, back)


def _exporter(chance: random.Random, vm: str, events: list[Event]) -> Exporter:
    states: list[str] = []
    while len(states) < STEPS:
        kind = chance.choice(["up", "up", "up", "up", "blind", "down"])
        states += [kind] * (chance.randint(2, 6) if kind == "down" else chance.randint(6, 60))
    states = states[:STEPS]
    moves_at = STEPS
    for event in events:
        if event.vm != vm or event.event_type == "Freeze":
            continue
        # An exporter fails at most a little before its VM does, so that the VM was known.
        states[max(0, event.impact - 4) : event.impact] = ["up"] * min(4, event.impact)
        states[event.impact : event.back] = ["away"] * (event.back - event.impact)
        if event.back < STEPS and chance.random() < 0.3:
            moves_at = event.back
    misses = {chance.randrange(STEPS) for _ in range(chance.randint(0, 3))}
    return Exporter(vm, states, misses, _errors(chance), chance.random() < 0.8, moves_at)


def _errors(chance: random.Random) -> list[float]:
    """Return by how much a clock is off: right, or wrong by minutes, and now and then set anew."""
    errors: list[float] = []
    while len(errors) < STEPS:
        error = chance.choice([0.0, chance.uniform(-WRONG, WRONG)])
        errors += [error] * chance.randint(10, STEPS)
    return errors[:STEPS]


def _exported(
    exporter: Exporter, events: list[Event], step: int, witnesses: dict[str, Witness]
) -> Iterator[Row]:
    """Yield the samples of an exporter at a step, and note what it saw."""
    state = exporter.states[step]
    exporter.looks.append({} if state == "up" else None)
    target = f'job="azure-scheduled-events",instance="{exporter.address(step)}:10169"'
    yield f"up{{{target}}}", "0" if state in {"down", "away"} else "1"
    if state == "away":
        exporter.stop()
    if state in {"down", "away"}:
        return
    yield f"{_PREFIX}up{{{target}}}", "1" if state == "up" else "0"
    yield f"{_PREFIX}instance_info{{{_names(exporter)},{_PLACE},{target}}}", "1"
    for event in events:
        witness = witnesses[event.name]
        if state == "up":
            _look(exporter, event, step, witness)
        if event.name in exporter.ended:
            labels = f'{_of_event(event)},scope="self",outcome="completed",{target}'
            at = f"{exporter.ended[event.name]:.3f}"
            yield f"{_PREFIX}event_ended_timestamp_seconds{{{labels}}}", at
        if event.name in exporter.seen:
            _, kind = exporter.seen[event.name]
            witness.shown.setdefault(kind, set()).add(step)
            yield from _of_current(exporter, event, target, witness)


def _of_current(exporter: Exporter, event: Event, target: str, witness: Witness) -> Iterator[Row]:
    """Yield the samples of an exporter about an event that it has as current."""
    seen, kind = exporter.seen[event.name]
    is_own = exporter.vm == event.vm
    scope = "self" if is_own else "peer"
    labels = f'{_of_event(event)},kind="{kind}",scope="{scope}",{target}'
    started = exporter.started.get(event.name)
    not_before = (event.impact + witness.ahead) * INTERVAL
    impact = str(not_before if started is None else round(started))
    yield f"{_PREFIX}event_seen_timestamp_seconds{{{labels}}}", f"{seen:.3f}"
    yield f"{_PREFIX}event_impact_timestamp_seconds{{{labels}}}", impact
    if is_own:
        own = f"{_of_event(event)},{_names(exporter)},{_PLACE},{target}"
        yield f"{_PREFIX}vm_impact_timestamp_seconds{{{own}}}", impact
    elif started is not None:
        peer = f'{_of_event(event)},vm_name="{event.vm}",{_PLACE},{target}'
        yield f"{_PREFIX}peer_impact_timestamp_seconds{{{peer}}}", impact


def _of_event(event: Event) -> str:
    """Return the labels of an event."""
    return f'event_id="{event.name}",event_type="{event.event_type}"'


def _names(exporter: Exporter) -> str:
    """Return the labels with the names of an exporter's VM."""
    vm = exporter.vm
    return f'vm_id="{vm}",vm_name="{vm}",computer_name="{vm}"'


def _look(exporter: Exporter, event: Event, step: int, witness: Witness) -> None:
    """Let an exporter read a document, which may miss the event."""
    now = exporter.read_clock(step, (step + witness.ahead) * INTERVAL)
    kind = event.kind(step)
    if kind and step not in exporter.misses:
        exporter.current.add(event.name)
        exporter.seen[event.name] = (now, kind)
        exporter.ended.pop(event.name, None)
        if step >= event.impact:
            exporter.started.setdefault(event.name, now)
        witness.sights.setdefault(kind, set()).add(step)
        looked = exporter.looks[step]
        assert looked is not None, "an exporter without IMDS reads no document"
        looked[event.name] = kind
    elif event.name in exporter.current:
        exporter.current.remove(event.name)
        exporter.seen.pop(event.name, None)
        exporter.ended[event.name] = now
        witness.ends.add(step)


def _page(event: Event, witness: Witness) -> Iterator[Check]:
    """Yield when the alerts of an event fire: shown or held, until three minutes after its end."""
    for kind in witness.sights:
        fires = [is_told(event, witness, kind, step) for step in range(STEPS)]
        for step in range(0, STEPS, 4):
            if len(set(fires[max(0, step - SLACK) : step + SLACK])) == 1:
                label = f'event_id="{event.name}"'
                yield Check(alert_of(event, kind), label, step, int(fires[step]))


def alert_of(event: Event, kind: str) -> str:
    """Return the name of the alert that an event of a kind raises."""
    return _ALERTS.get(kind, event.event_type)


def hold_of(event: Event, kind: str) -> int:
    """Return for how many seconds this alert is held."""
    if kind == "far_ahead":
        return NO_IMPACT_HOLD
    return HOLDS["Redeploy"] if kind == "without_notice" else HOLDS[event.event_type]


def is_told(event: Event, witness: Witness, kind: str, step: float) -> bool:
    """Return whether the rules are to raise the alert of a kind at a step, or between two."""
    newest = max((at for at in witness.sights[kind] if at <= step), default=None)
    if newest is None:
        return False
    anybody = max(at for sights in witness.sights.values() for at in sights if at <= step)
    over_at = step - RESOLVE_AFTER // INTERVAL - witness.ahead
    is_over = any(anybody <= at <= min(step, over_at) for at in witness.ends)
    hold = hold_of(event, kind) // INTERVAL
    shown = max(at for at in witness.shown[kind] if at <= step)
    is_held = step < min(shown, newest + witness.ahead) + hold or shown == int(step)
    return is_held and newest >= anybody - OUTDATED and not is_over


def _missing(event: Event, exporters: list[Exporter], ahead: int) -> Iterator[Check]:
    """Yield when VmNotBack fires: 15 minutes after a VM went away that does not return."""
    own = next(each for each in exporters if each.vm == event.vm)
    vm = f'vm_name="{event.vm}"'
    if event.event_type not in {"Reboot", "Redeploy"}:
        for step in range(0, STEPS, 8):
            yield Check("VmNotBack", vm, step, 0)
        return
    is_known = event.kinds[event.impact - 1] != "without_notice" and event.first < event.impact
    is_seen = is_known and any(
        own.states[step] == "up" and event.kind(step) and step not in own.misses
        for step in range(max(event.first, event.impact - 4), event.impact)
    )
    later = max(0, ahead)
    fires = event.impact + later + 60
    for step in range(0, STEPS, 4):
        if step < fires - SLACK or step > event.back + SLACK:
            yield Check("VmNotBack", vm, step, 0)
        # A peer may see late that the event has started, which is still to come by a slow clock.
        elif is_seen and fires + later + SLACK < step < event.back - SLACK:
            yield Check("VmNotBack", vm, step, 1)
