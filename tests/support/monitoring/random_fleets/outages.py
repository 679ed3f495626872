"""The oracle of VMs that are away: which are in maintenance, which have not come back, and which nothing explains.

It reads what exporters show, and knows no rule.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from support.monitoring.alert_scenarios import STEP
from support.monitoring.random_fleets.generator import Watcher
from support.monitoring.random_fleets.impacts import SLACK, Impact
from support.monitoring.random_fleets.knowledge import Knowledge, Scrapes
from support.monitoring.random_fleets.limits import Limits
from support.monitoring.random_fleets.lives import Life
from support.monitoring.random_fleets.pages import Page, Truth, page

AWAY, WINDOW = 120, 300  # a VM is away that does not answer for so many seconds of the last five minutes
RECOVERED = 120  # a VM that was away is back when it has answered for so many seconds
MOSTLY = 0.6  # a VM that boots in a loop does not answer for such a share of twice the time allowed
LATE = 120  # seconds that a page may take


@dataclass
class _Silence:
    """When a VM does not answer: at which evaluations, since when without a break, and since it was last back."""

    vm: Watcher
    evaluation: int
    at: list[int] = field(default_factory=list)
    failed: list[tuple[int, bool]] = field(default_factory=list)
    since: int | None = None
    away_since: int | None = None
    answers_since: int | None = None
    lengths: list[tuple[int, int]] = field(default_factory=list)
    failing_since: int | None = None

    def read(self, now: int) -> None:
        """Take the scrape of ``now``."""
        answers = self.vm.answers(now)
        is_target = now < self.vm.deleted
        if answers or not is_target:
            self.since = None
            self.answers_since = now if self.answers_since is None else self.answers_since
            if now - self.answers_since >= RECOVERED + self.evaluation:
                self.away_since = None
        else:
            self.answers_since = None
            self.since = now if self.since is None else self.since
            self.away_since = now if self.away_since is None else self.away_since
            self.lengths.append((now, now - self.away_since))
        if is_target:
            self.failed.append((now, not answers))
        if now % self.evaluation:
            return
        if is_target and not answers:
            self.at.append(now)
        lately = [failed for at, failed in self.failed if at > now - WINDOW and self.vm.pod(at) == self.vm.pod(now)]
        failing = is_target and (not answers or sum(lately) >= 0.4 * len(lately))
        self.failing_since = (now if self.failing_since is None else self.failing_since) if failing else None

    def seconds(self, now: int, period: float) -> float:
        """Return for how many seconds it did not answer, as evaluations see it."""
        return self.evaluation * sum(at > now - period for at in self.at)

    def longest_of_late(self, now: int) -> int:
        """Return the longest time without being back that ended no longer ago than a VM counts as away."""
        return max((length for at, length in self.lengths if at > now - WINDOW), default=0)

    def loops(self, now: int, longest: float) -> bool:
        """Return whether it was away for most of twice the time that it may be, as if it booted in a loop."""
        return self.seconds(now, 2 * longest + SLACK) >= MOSTLY * 2 * longest - SLACK

    def lasts(self, now: int) -> int:
        """Return for how many seconds it has not answered, with the same address."""
        return 0 if self.since is None or self.vm.pod(self.since) != self.vm.pod(now) else now - self.since


@dataclass
class Outages:
    """Whether the alerts about VMs that are away must fire, at each evaluation.

    Attributes:
        maintained: by VM.
        not_back: by event.
        down: by VM: that its exporter is down, and nothing explains it.
    """

    scrapes: Scrapes
    limits: Limits
    evaluation: int
    maintained: dict[int, dict[int, Page]] = field(default_factory=lambda: defaultdict(dict))
    not_back: dict[str, dict[int, Page]] = field(default_factory=lambda: defaultdict(dict))
    down: dict[int, dict[int, Page]] = field(default_factory=lambda: defaultdict(dict))

    _away: dict[str, set[tuple[int, int]]] = field(default_factory=lambda: defaultdict(set))

    def __post_init__(self) -> None:
        """Read every scrape."""
        fleet, lives = self.scrapes.fleet, self.scrapes.fleet.lives
        known = {life.event_id: Knowledge(self.scrapes, life, self.limits, self.evaluation) for life in lives}
        silences = {each.number: _Silence(each, self.evaluation) for each in fleet.watchers}
        impacts = {
            each.number: [Impact(each, life, self.limits, self.evaluation) for life in lives] for each in fleet.watchers
        }
        for now in self.scrapes.moments:
            current = {life.event_id: known[life.event_id].read(now) for life in lives}
            for silence in silences.values():
                silence.read(now)
            for impact in (impact for some in impacts.values() for impact in some):
                event = impact.life
                impact.read(now, self.scrapes.of(event, now), current[event.event_id])
            if now % self.evaluation == 0:
                self._judge(now, impacts, silences)

    def _judge(self, now: int, impacts: dict[int, list[Impact]], silences: dict[int, _Silence]) -> None:
        not_back: dict[str, list[Truth]] = {life.event_id: [] for life in self.scrapes.fleet.lives}
        for vm, some in impacts.items():
            truths = {each.life.event_id: each.maintained(now) for each in some}
            self.maintained[vm][now] = page(_any(truths.values()))
            self.down[vm][now] = page(self._is_down(now, some, silences[vm]))
            for each in some:
                others = [truth for event, truth in truths.items() if event != each.life.event_id]
                rest = [other for other in some if other is not each]
                truth = self._is_not_back(now, each, silences[vm], _any(others), rest)
                not_back[each.life.event_id].append(truth)
                if truth[1] and (since := silences[vm].away_since) is not None:
                    self._away[each.life.event_id].add((vm, since))
        for event, found in not_back.items():
            self.not_back[event][now] = page(_any(found))

    def times(self, life: Life) -> int:
        """Return how often the event may report VMs: once for each outage, and once more if it starts when overdue."""
        starts_late = life.started is not None and life.started > life.plans[-1][1]
        return len(self._away[life.event_id]) + starts_late

    def _is_not_back(
        self, now: int, impact: Impact, silence: _Silence, maintained: Truth, others: list[Impact]
    ) -> Truth:
        """``maintained``: whether another event explains that the VM is away; ``others`` are those that hit the VM."""
        if impact.life.deletes or not impact.listed or impact.ended or not silence.at:
            return False, False
        longest = impact.longest
        away = silence.seconds(now, WINDOW + self.evaluation) >= AWAY - self.evaluation
        half = silence.seconds(now, longest + SLACK) >= longest / 2 - SLACK
        is_away = away and half and self._may_have_expired(now, impact, silence)
        certain = not any(other.may_have_begun for other in others) and self._has_expired(now, impact, silence)
        return certain, is_away and not maintained[0]

    def _may_have_expired(self, now: int, impact: Impact, silence: _Silence) -> bool:
        """Up to a minute early: inhibition must not end before the page."""
        expired = silence.at[-1] - impact.longest + SLACK
        if impact.started_perhaps is not None and impact.started_perhaps <= expired:
            return True
        long_away = silence.longest_of_late(now) >= impact.longest - SLACK or silence.loops(now, impact.longest)
        return long_away and impact.due_perhaps is not None and impact.due_perhaps <= expired

    def _has_expired(self, now: int, impact: Impact, silence: _Silence) -> bool:
        lasts, life = silence.lasts(now), impact.life
        dropped = life.dropped is not None and life.dropped[0] == impact.vm.number
        moved = any(found.not_before > now for _, found in self.scrapes.of(life, now))
        if not impact.noted or not lasts or dropped or moved or impact.pod != impact.vm.pod(now):
            return False
        if impact.started is not None:
            enough = lasts >= max(AWAY, impact.longest / 2) + LATE
            return enough and now >= impact.started + impact.longest + LATE
        if impact.due is None or impact.started_perhaps is not None:
            return False
        return lasts >= impact.longest + LATE and now >= impact.due + impact.longest + LATE

    def _is_down(self, now: int, impacts: list[Impact], silence: _Silence) -> Truth:
        since = silence.failing_since
        fails = since is not None and now - since >= self.limits.down
        explained = any(self._explains(now, each) for each in impacts)
        certain = not any(each.listed for each in impacts) and silence.lasts(now) >= self.limits.down + SLACK + STEP
        return certain, fails and not explained

    def _explains(self, now: int, impact: Impact) -> bool:
        """Return whether the exporter is away because of the event, or is back from it and restarts."""
        if impact.noted_at is None or impact.pod != impact.vm.pod(now):
            return False
        if impact.noted_first is None or now - impact.noted_first < SLACK:
            return False
        several = len(impact.vm.jobs) > 1 or impact.vm.replaced is not None
        if several and (impact.by_others or not impact.by_own):
            return False  # others know one target of the VM only
        if impact.life.deletes:
            return impact.noted
        return now - impact.noted_at <= self.limits.memory - SLACK


def _any(truths: Iterable[Truth]) -> Truth:
    found = list(truths)
    return any(certain for certain, _ in found), any(perhaps for _, perhaps in found)
