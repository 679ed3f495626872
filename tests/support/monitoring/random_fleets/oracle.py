"""The oracle: when a random fleet deserves which page of an event or a place. It reads what exporters show.

At each evaluation a page must be there, must not be there, or may be there: within two minutes of an end, or where
nobody can know. A person who reads every scrape would say the same. It knows no rule.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from support.monitoring.random_fleets.generator import Watcher
from support.monitoring.random_fleets.knowledge import SLACK, Knowledge, Scrapes, Source
from support.monitoring.random_fleets.limits import Limits
from support.monitoring.random_fleets.lives import BY_SOURCE, DAY, UNKNOWN_TYPE, Life
from support.monitoring.random_fleets.pages import Page, Truth, both, lasting

TOGETHER = 900
SHARE, LEAST = 0.25, 2
SHORT = 9


def event_pages(scrapes: Scrapes, life: Life, limits: Limits, evaluation: int) -> dict[str, dict[int, Page]]:
    """Return whether there is a page for the event, for each evaluation, by the name of the alert.

    The name is a regular expression. An event that a user asked for is the platform's until an exporter shows who did.
    """
    names = {_name(scrapes, life, evaluation): False}
    if life.event_type in BY_SOURCE and life.source == "User":
        names[f"{life.event_type}Requested"] = True
    return {
        name: dict(lasting(_event_truths(scrapes, life, limits, evaluation, is_requested=is_requested)))
        for name, is_requested in names.items()
    }


def _name(scrapes: Scrapes, life: Life, evaluation: int) -> str:
    """Return the alert of an event that nobody asked for.

    A Freeze whose duration nobody ever showed is not known to be short. It may be either if only scrapes between two
    evaluations showed it, since rules look back at those but need not.
    """
    if life.event_type == UNKNOWN_TYPE:
        return "UnknownType"
    if not life.warned:
        return "WithoutNotice"
    shown = [
        now
        for now in scrapes.moments
        for _, found in scrapes.of(life, now)
        if found.duration is not None and found.duration < SHORT
    ]
    if life.event_type != "Freeze" or not shown:
        return life.event_type
    return "ShortFreeze" if any(now % evaluation == 0 for now in shown) else "(Short)?Freeze"


def _event_truths(
    scrapes: Scrapes, life: Life, limits: Limits, evaluation: int, *, is_requested: bool
) -> Iterator[tuple[int, bool, bool]]:
    known, source = Knowledge(scrapes, life, limits, evaluation), Source(scrapes, life)
    since: int | None = None
    for now in scrapes.moments:
        current = known.read(now)
        since = (now if since is None else since) if current[0] else None
        near = known.near(now, DAY) if life.warned else (True, True)
        asked = source.user(now) if is_requested else source.platform(now, since)
        if now % evaluation == 0:
            yield now, *both(current, near, asked)


def place_pages(
    scrapes: Scrapes, watchers: tuple[Watcher, ...], limits: Limits, evaluation: int, *, late: int = 0
) -> dict[int, Page]:
    """Return whether there is a page for the place of ``watchers``, for each evaluation.

    ``late``: for how many seconds a VM may still count that an event hits no more, if recordings are that old.
    """
    return dict(lasting(_place_truths(scrapes, watchers, limits, evaluation, late)))


@dataclass
class _Vm:
    """What is known of one VM: when it last showed which event of its own, at an evaluation and in any scrape.

    Rules look back at scrapes between evaluations, but need not reach all of them. ``perhaps_at`` is when an event may
    have hit it last.
    """

    watcher: Watcher
    hit: dict[str, int] = field(default_factory=dict)
    shown: dict[str, int] = field(default_factory=dict)
    started: set[str] = field(default_factory=set)
    perhaps_at: int = -DAY


def _place_truths(
    scrapes: Scrapes, watchers: tuple[Watcher, ...], limits: Limits, evaluation: int, late: int
) -> Iterator[tuple[int, bool, bool]]:
    here = {each.number for each in watchers}
    severe = [life for life in scrapes.fleet.lives if life.event_type != "Freeze" and here & {*life.vms}]
    known = {life.event_id: Knowledge(scrapes, life, limits, evaluation) for life in severe}
    sources = {life.event_id: Source(scrapes, life) for life in severe}
    vms = [_Vm(each) for each in watchers]
    sizes: deque[tuple[int, int]] = deque()
    for now in scrapes.moments:
        current = {life.event_id: known[life.event_id].read(now) for life in severe}
        due = {life.event_id: known[life.event_id].near(now, TOGETHER) for life in severe}
        answering = sum(each.answers(now) and each.named(now) for each in watchers)
        if now % evaluation == 0:
            sizes.append((now, answering))
        while sizes and sizes[0][0] < now - limits.memory + SLACK:
            sizes.popleft()
        certain = possible = 0
        for vm in vms:
            found = [
                _hit(
                    vm,
                    life,
                    now,
                    both(
                        current[life.event_id],
                        due[life.event_id],
                        known[life.event_id].lists(vm.watcher.number),
                        sources[life.event_id].severe(now),
                    ),
                    limits,
                    evaluation,
                )
                for life in severe
            ]
            certain += any(each for each, _ in found)
            vm.perhaps_at = now if any(each for _, each in found) else vm.perhaps_at
            possible += now - vm.perhaps_at <= late
        least = max((size for _, size in sizes), default=0)
        if now % evaluation == 0:
            yield (
                now,
                certain >= LEAST and certain / len(watchers) >= SHARE,
                possible >= LEAST and possible / max(1, least) >= SHARE,
            )


def _hit(vm: _Vm, life: Life, now: int, event: Truth, limits: Limits, evaluation: int) -> Truth:
    """Return whether the event hits the VM, for certain and perhaps; ``event``: whether it can hit it at all."""
    each = vm.watcher
    found = each.shows(life, now)
    confirmed = found is not None and found.confirmed
    answered = each.answers(now) and each.sees(now) and each.named(now)
    if found is not None and each.named(now) and each.number in found.resources:
        vm.shown[life.event_id] = now
        vm.started |= {life.event_id} if found.started and not life.deletes else set()
        if now % evaluation == 0 and confirmed:
            vm.hit[life.event_id] = now
    elif answered:
        vm.hit.pop(life.event_id, None)
        if now % evaluation == 0:
            vm.shown.pop(life.event_id, None)
            vm.started.discard(life.event_id)
        return False, False
    last, shown = (known.get(life.event_id, -DAY) for known in (vm.hit, vm.shown))
    remembered = now - shown <= limits.memory + SLACK or life.event_id in vm.started  # who has started is expected back
    return event[0] and now - last <= limits.memory - SLACK, event[1] and remembered
