"""The oracle: when a random fleet deserves which page. It reads what exporters show, and knows no rule.

At each evaluation a page must be there, must not be there, or may be there: within two minutes of an end, or where
nobody can know. A person who reads every scrape would say the same.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto

from support.monitoring.alert_scenarios import STEP
from support.monitoring.random_fleets.generator import DAY, HORIZON, MEMORY, Fleet, Life, Shown, Watcher

RESOLVED_WITHIN = 120
HIDDEN, HIDDEN_FROM_NEW = 10, 20  # seconds for which a faulty answer may hide an event, also from a new pod
SLACK = 20  # seconds that a scrape and an evaluation may take from what is remembered
TOGETHER = 900
SHARE, LEAST = 0.25, 2
DELETING = {"Preempt", "Terminate"}


class Page(Enum):
    """Whether there is a page."""

    MUST = auto()
    MAY = auto()
    NOT = auto()


@dataclass
class Knowledge:
    """What all exporters together show of one event, scrape by scrape."""

    fleet: Fleet
    life: Life
    evaluation: int
    _knew: set[tuple[int, int]] = field(default_factory=set)
    _over: bool = False
    _doubt: bool = False
    _seen: int | None = None
    _last: int | None = None
    _shown: int | None = None
    _started: int | None = None
    _own: set[int] = field(default_factory=set)
    _away: bool = False
    _plans: set[int] = field(default_factory=set)
    _shows: list[tuple[Watcher, Shown]] = field(default_factory=list)
    _listed: tuple[set[int], set[int]] | None = None
    _listed_at_evaluation: set[int] | None = None

    def read(self, now: int) -> tuple[bool, bool]:
        """Take the scrapes of ``now``; return whether the event is current for certain, and whether it may be."""
        witnesses = self.fleet.witnesses(self.life)
        self._shows = [(each, found) for each in witnesses if (found := each.shows(self.life, now))]
        seeing = any(each.sees(now) for each, _ in self._shows)
        if self._shows:
            self._remember(now)
        if seeing:
            self._seen, self._over, self._doubt = now, False, False
            self._list(now)
        elif self._knew and not self._over:
            self._end(now, witnesses)
        return self._verdict(now, seeing=seeing)

    def _remember(self, now: int) -> None:
        self._last = now
        self._knew |= {(each.number, each.pod(now)) for each, _ in self._shows}
        self._plans |= {found.not_before for _, found in self._shows}
        if self._over and not any(each.sees(now) for each, _ in self._shows):
            return
        own = {each.number for each, found in self._shows if each.named(now) and each.number in found.resources}
        started = any(found.started for _, found in self._shows)
        self._away |= started and bool(own)  # also between two evaluations, since rules look back
        if now % self.evaluation:
            return
        self._shown = now
        self._own |= own
        if started:
            self._started = now

    def _list(self, now: int) -> None:
        lists = [set(found.resources) for each, found in self._shows if each.sees(now)]
        self._listed = set.intersection(*lists), set.union(*lists)
        if now % self.evaluation == 0:
            self._listed_at_evaluation = self._listed[1]

    def lists(self, vm: int) -> tuple[bool, bool]:
        """Return whether Resources have the VM, for certain and perhaps, as exporters with IMDS access show them."""
        if self._listed is None:
            return True, True
        in_all, in_one = (vm in some for some in self._listed)
        at_evaluation = self._listed_at_evaluation is None or vm in self._listed_at_evaluation
        return in_all and at_evaluation, in_one or at_evaluation

    def _end(self, now: int, witnesses: tuple[Watcher, ...]) -> None:
        """Whether an exporter that showed the event answers without it, or a new pod of a VM of the event does."""
        without = [each for each in witnesses if each.answers(now) and each.sees(now)]
        since = now - (self._seen if self._seen is not None else 0)
        if any((each.number, each.pod(now)) in self._knew for each in without):
            self._doubt = True
            self._over = now % self.evaluation == 0 and since > HIDDEN
        elif any((each.number, 0) in self._knew for each in without):
            self._doubt = True
            own = any(each.number in self._own and each.named(now) for each in without)
            self._over = own and not self._shows and now % self.evaluation == 0 and since > HIDDEN_FROM_NEW

    def _verdict(self, now: int, *, seeing: bool) -> tuple[bool, bool]:
        if self._last is None or self._over:
            return False, False
        if seeing:
            return True, True
        if self._shows:
            return not self._doubt, True
        remembered = self._shown is not None and now - self._shown <= MEMORY - SLACK
        away = self._away and self.life.event_type not in DELETING
        return remembered and not self._doubt, away or now - self._last <= MEMORY + SLACK

    def near(self, now: int, within: int) -> tuple[bool, bool]:
        """Return whether the event has started or is due ``within`` so many seconds, for certain and perhaps."""
        if any(found.started for _, found in self._shows):
            return True, True
        if self._started is not None and now - self._started <= MEMORY - SLACK:
            return True, True
        seen = [found.not_before for each, found in self._shows if each.sees(now)]
        if seen:
            return min(seen) - now <= within, min(seen) - now <= within
        known = {planned - now <= within for planned in self._plans}
        return known == {True}, True in known or self._started is not None


def _lasting(truths: Iterable[tuple[int, bool, bool]]) -> Iterator[tuple[int, Page]]:
    """Yield the pages: one that may be there may stay for two minutes more."""
    last: int | None = None
    for now, certain, possible in truths:
        if possible:
            last = now
        if certain:
            yield now, Page.MUST
        else:
            gone = last is None or now - last >= RESOLVED_WITHIN
            yield now, Page.NOT if gone else Page.MAY


def page_name(fleet: Fleet, life: Life, evaluation: int) -> str:
    """Return the alert that the event deserves, as a regular expression.

    A Freeze whose duration nobody ever showed is not known to be short. It may be either if only scrapes between two
    evaluations showed it, since rules look back at those but need not.
    """
    if life.event_type != "Freeze":
        return life.page
    shown = [
        now
        for now in range(fleet.since, HORIZON + 1, STEP)
        for each in fleet.witnesses(life)
        if (found := each.shows(life, now)) and found.duration is not None
    ]
    if not shown:
        return "AzureScheduledEventFreeze"
    return life.page if any(now % evaluation == 0 for now in shown) else "AzureScheduledEvent(Short)?Freeze"


def event_pages(fleet: Fleet, life: Life, evaluation: int) -> dict[int, Page]:
    """Return whether there is a page for the event, for each evaluation."""
    return dict(_lasting(_event_truths(fleet, life, evaluation)))


def _event_truths(fleet: Fleet, life: Life, evaluation: int) -> Iterator[tuple[int, bool, bool]]:
    known = Knowledge(fleet, life, evaluation)
    without_notice = not life.warned
    for now in range(fleet.since, HORIZON + 1, STEP):
        current, perhaps = known.read(now)
        near, near_perhaps = (True, True) if without_notice else known.near(now, DAY)
        if now % evaluation == 0:
            yield now, current and near, perhaps and near_perhaps


def place_pages(fleet: Fleet, watchers: tuple[Watcher, ...], evaluation: int) -> dict[int, Page]:
    """Return whether there is a page for the place of ``watchers``, for each evaluation."""
    return dict(_lasting(_place_truths(fleet, watchers, evaluation)))


@dataclass
class _Vm:
    """What is known of one VM: when it last showed which event of its own, at an evaluation and in any scrape.

    Rules look back at scrapes between evaluations, but need not reach all of them.
    """

    watcher: Watcher
    hit: dict[str, int] = field(default_factory=dict)
    shown: dict[str, int] = field(default_factory=dict)
    started: set[str] = field(default_factory=set)


def _place_truths(fleet: Fleet, watchers: tuple[Watcher, ...], evaluation: int) -> Iterator[tuple[int, bool, bool]]:
    severe = [life for life in fleet.lives if life.severe]
    known = {life.event_id: Knowledge(fleet, life, evaluation) for life in severe}
    vms = [_Vm(each) for each in watchers]
    sizes: deque[tuple[int, int]] = deque()
    for now in range(fleet.since, HORIZON + 1, STEP):
        current = {life.event_id: known[life.event_id].read(now) for life in severe}
        due = {life.event_id: known[life.event_id].near(now, TOGETHER) for life in severe}
        answering = sum(each.answers(now) and each.named(now) for each in watchers)
        if now % evaluation == 0:
            sizes.append((now, answering))
        while sizes and sizes[0][0] < now - MEMORY + SLACK:
            sizes.popleft()
        certain = possible = 0
        for vm in vms:
            found = [
                _hit(
                    vm,
                    life,
                    now,
                    _both(current[life.event_id], due[life.event_id], known[life.event_id].lists(vm.watcher.number)),
                    evaluation,
                )
                for life in severe
            ]
            certain += any(each for each, _ in found)
            possible += any(each for _, each in found)
        least = max((size for _, size in sizes), default=0)
        if now % evaluation == 0:
            yield (
                now,
                certain >= LEAST and certain / len(watchers) >= SHARE,
                possible >= LEAST and possible / max(1, least) >= SHARE,
            )


def _both(*truths: tuple[bool, bool]) -> tuple[bool, bool]:
    return all(certain for certain, _ in truths), all(possible for _, possible in truths)


def _hit(vm: _Vm, life: Life, now: int, event: tuple[bool, bool], evaluation: int) -> tuple[bool, bool]:
    """Return whether the event hits the VM, for certain and perhaps; ``event``: whether it can hit it at all."""
    each = vm.watcher
    found = each.shows(life, now)
    answered = each.answers(now) and each.sees(now) and each.named(now)
    if found is not None and each.named(now) and each.number in found.resources:
        vm.shown[life.event_id] = now
        vm.started |= {life.event_id} if found.started and life.event_type not in DELETING else set()
        if now % evaluation == 0:
            vm.hit[life.event_id] = now
    elif answered:
        vm.hit.pop(life.event_id, None)
        if now % evaluation == 0:
            vm.shown.pop(life.event_id, None)
            vm.started.discard(life.event_id)
        return False, False
    last, shown = (known.get(life.event_id, -HORIZON) for known in (vm.hit, vm.shown))
    remembered = now - shown <= MEMORY + SLACK or life.event_id in vm.started  # who has started is expected back
    return event[0] and now - last <= MEMORY - SLACK, event[1] and remembered
