"""Random fleets, and a short oracle of what the rules must raise.

A fleet has exporters that lose IMDS or answer no scrape, VMs that go away with their event or fail
without notice, documents that miss an event for a moment, kinds that change, targets that change,
and clocks that are off. The oracle knows what really happens; where both answers are right, it is
silent.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from azure_scheduled_events_exporter.alerts.events import HOLDS, NO_IMPACT_HOLD, RESOLVE_AFTER
from support.stories.story import INTERVAL, Row, Story, marked

STEPS = 200
"""Steps of a story: 50 minutes."""
SLACK = 5
"""Steps around a change in which both answers are right: an own sight is read for a minute."""
OUTDATED = 4
"""Steps after which another kind replaces one that nobody sees any more."""
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
        moves_at: from this step on it has another address.
    """

    vm: str
    states: list[str]
    misses: set[int]
    moves_at: int = STEPS
    seen: dict[str, tuple[int, str]] = field(default_factory=dict)
    ended: dict[str, int] = field(default_factory=dict)

    def address(self, step: int) -> str:
        """Return its address."""
        return self.vm if step < self.moves_at else f"{self.vm}-moved"


@dataclass(frozen=True)
class Check:
    """How many alerts of a name with a label fire at a step."""

    alert: str
    label: str
    step: int
    count: int


@dataclass
class Fleet:
    """A story with the oracle's checks."""

    story: Story
    checks: list[Check]


@dataclass
class Witness:
    """What exporters did with one event.

    Attributes:
        sights: at which steps somebody saw it, by kind.
        shown: at which steps somebody showed it, also without IMDS, by kind.
        ends: at which steps somebody saw it end, or missed it for a moment.
    """

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
    witnesses = {event.name: Witness() for event in events}
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
        *(check for each in events for check in _missing(each, exporters)),
    ]
    return Fleet(Story(seed, rows, {}), checks)


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
    return Exporter(vm, states, misses, moves_at)


def _exported(
    exporter: Exporter, events: list[Event], step: int, witnesses: dict[str, Witness]
) -> Iterator[Row]:
    """Yield the samples of an exporter at a step, and note what it saw."""
    state = exporter.states[step]
    target = f'job="azure-scheduled-events",instance="{exporter.address(step)}:10169"'
    yield f"up{{{target}}}", "0" if state in {"down", "away"} else "1"
    if state == "away":
        exporter.seen.clear()  # the exporter ends with its VM
        exporter.ended.clear()
    if state in {"down", "away"}:
        return
    name = f'vm_id="{exporter.vm}",vm_name="{exporter.vm}",computer_name="{exporter.vm}"'
    yield f"{_PREFIX}up{{{target}}}", "1" if state == "up" else "0"
    yield f"{_PREFIX}instance_info{{{name},{_PLACE},{target}}}", "1"
    for event in events:
        if state == "up":
            _look(exporter, event, step, witnesses[event.name])
        of_event = f'event_id="{event.name}",event_type="{event.event_type}"'
        if event.name in exporter.ended:
            labels = f'{of_event},scope="self",outcome="completed",{target}'
            at = str(exporter.ended[event.name] * INTERVAL)
            yield f"{_PREFIX}event_ended_timestamp_seconds{{{labels}}}", at
        if event.name not in exporter.seen:
            continue
        seen, kind = exporter.seen[event.name]
        witnesses[event.name].shown.setdefault(kind, set()).add(step)
        is_own = exporter.vm == event.vm
        labels = f'{of_event},kind="{kind}",scope="{"self" if is_own else "peer"}",{target}'
        impact = str(event.impact * INTERVAL)
        yield f"{_PREFIX}event_seen_timestamp_seconds{{{labels}}}", str(seen * INTERVAL)
        yield f"{_PREFIX}event_impact_timestamp_seconds{{{labels}}}", impact
        if is_own:
            own = f"{of_event},{name},{_PLACE},{target}"
            yield f"{_PREFIX}vm_impact_timestamp_seconds{{{own}}}", impact
        elif seen >= event.impact:
            peer = f'{of_event},vm_name="{event.vm}",{_PLACE},{target}'
            yield f"{_PREFIX}peer_impact_timestamp_seconds{{{peer}}}", impact


def _look(exporter: Exporter, event: Event, step: int, witness: Witness) -> None:
    """Let an exporter read a document, which may miss the event."""
    kind = event.kind(step)
    if kind and step not in exporter.misses:
        exporter.seen[event.name] = (step, kind)
        exporter.ended.pop(event.name, None)
        witness.sights.setdefault(kind, set()).add(step)
    elif event.name in exporter.seen:
        del exporter.seen[event.name]
        exporter.ended[event.name] = step
        witness.ends.add(step)


def _page(event: Event, witness: Witness) -> Iterator[Check]:
    """Yield when the alerts of an event fire: shown or held, until three minutes after its end."""
    for kind in witness.sights:
        alert = _ALERTS.get(kind, event.event_type)
        hold = HOLDS["Redeploy"] if kind == "without_notice" else HOLDS[event.event_type]
        if kind == "far_ahead":
            hold = NO_IMPACT_HOLD
        fires = [_is_told(witness, kind, hold, step) for step in range(STEPS)]
        for step in range(0, STEPS, 4):
            if len(set(fires[max(0, step - SLACK) : step + SLACK])) == 1:
                yield Check(alert, f'event_id="{event.name}"', step, int(fires[step]))


def _is_told(witness: Witness, kind: str, hold: int, step: int) -> bool:
    newest = max((at for at in witness.sights[kind] if at <= step), default=None)
    if newest is None:
        return False
    anybody = max(at for sights in witness.sights.values() for at in sights if at <= step)
    is_over = any(anybody <= at <= step - RESOLVE_AFTER // INTERVAL for at in witness.ends)
    is_held = (step - newest) * INTERVAL < hold or step in witness.shown[kind]
    return is_held and newest >= anybody - OUTDATED and not is_over


def _missing(event: Event, exporters: list[Exporter]) -> Iterator[Check]:
    """Yield when VmNotBack fires: 15 minutes after a VM went away that does not return."""
    own = next(each for each in exporters if each.vm == event.vm)
    vm = f'vm_name="{event.vm}"'
    if event.event_type not in {"Reboot", "Redeploy"}:
        for step in range(0, STEPS, 8):
            yield Check("VmNotBack", vm, step, 0)
        return
    is_known = event.kinds[event.impact - 1] != "without_notice" and event.first < event.impact
    is_told = is_known and any(
        own.states[step] == "up" and event.kind(step) and step not in own.misses
        for step in range(max(event.first, event.impact - 4), event.impact)
    )
    fires = event.impact + 60
    for step in range(0, STEPS, 4):
        if step < fires - SLACK or step > event.back + SLACK:
            yield Check("VmNotBack", vm, step, 0)
        elif is_told and fires + SLACK < step < event.back - SLACK:
            yield Check("VmNotBack", vm, step, 1)
