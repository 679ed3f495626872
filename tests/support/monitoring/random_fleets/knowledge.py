"""What all exporters together show of one event, scrape by scrape. It reads what they show, and knows no rule."""

from dataclasses import dataclass, field

from support.monitoring.alert_scenarios import STEP
from support.monitoring.random_fleets.generator import Fleet, Watcher
from support.monitoring.random_fleets.limits import Limits
from support.monitoring.random_fleets.lives import BY_SOURCE, HORIZON, Life, Shown
from support.monitoring.random_fleets.pages import Truth

HIDDEN, HIDDEN_FROM_NEW = 10, 20  # seconds for which a faulty answer may hide an event, also from a new pod
SLACK = 20  # seconds that a scrape and an evaluation may take from what is remembered


class Scrapes:
    """What every scrape of a fleet shows of its events."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.moments = range(fleet.since, HORIZON + 1, STEP)
        self._shown = {
            life.event_id: {
                now: [(each, found) for each in fleet.witnesses(life) if (found := each.shows(life, now))]
                for now in self.moments
            }
            for life in fleet.lives
        }

    def of(self, life: Life, now: int) -> list[tuple[Watcher, Shown]]:
        """Return the exporters that show the event, and what they show."""
        return self._shown[life.event_id][now]


@dataclass
class Source:
    """What exporters show of who asked for an event.

    With an old api-version, an exporter does not show it. After two scrapes, every exporter has had its turn, and an
    event whose source nobody shows counts as the platform's.
    """

    scrapes: Scrapes
    life: Life
    _first: int | None = None
    _known: int | None = None

    def __post_init__(self) -> None:
        """Find when the event was first shown, and when with its source."""
        shown = [(now, each) for now in self.scrapes.moments for each, _ in self.scrapes.of(self.life, now)]
        self._first = next((now for now, _ in shown), None)
        self._known = next((now for now, each in shown if not each.old_api), None)

    def severe(self, now: int) -> Truth:
        """Return whether it counts for places, where an event without a source does at once, until it is known."""
        certain, perhaps = self.platform(now, self._first)
        if self.life.source != "User" or self._first is None or self._known is None:
            return certain, True
        return certain, perhaps or self._known > now

    def user(self, now: int) -> Truth:
        """Return whether a user is known to have asked for it."""
        known = self.life.source == "User" and self._known is not None and now >= self._known
        return known, known

    def platform(self, now: int, since: int | None) -> Truth:
        """Return whether it counts as an event that nobody asked for.

        ``since``: when it became certain that the event is current, None if it is not. Rules wait for its source again
        if it is shown after its end.
        """
        if self.life.event_type not in BY_SOURCE:
            return True, True
        if self._first is None:
            return False, False
        if self._known is None or now < self._known:
            return since is not None and now > since + 2 * STEP, now >= self._first + 2 * STEP
        return (self.life.source != "User",) * 2


@dataclass
class Knowledge:
    """What all exporters together show of one event, scrape by scrape.

    An event that is shown again after its end is current for certain from the next evaluation that shows it: rules
    learn at evaluations that an end was wrong, and need not see what was shown only between two.
    """

    scrapes: Scrapes
    life: Life
    limits: Limits
    evaluation: int
    _knew: set[tuple[int, int]] = field(default_factory=set)
    _over: bool = False
    _doubt: bool = False
    _back: bool = False
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

    def read(self, now: int) -> Truth:
        """Take the scrapes of ``now``; return whether the event is current for certain, and whether it may be."""
        self._shows = self.scrapes.of(self.life, now)
        from_journal = bool(self._shows) and not any(found.confirmed for _, found in self._shows)
        if from_journal and (self._last is None or now - self._last > self.limits.memory - SLACK):
            return self._from_journal()
        seeing = any(each.sees(now) for each, _ in self._shows)
        if self._shows:
            self._remember(now)
        if seeing:
            self._back = (self._back or self._over) and now % self.evaluation != 0
            self._seen, self._over, self._doubt = now, False, False
            self._list(now)
        elif self._knew and not self._over:
            self._end(now, self.scrapes.fleet.witnesses(self.life))
        return self._verdict(now, seeing=seeing)

    def _from_journal(self) -> Truth:
        """An event that is known from journals only raises no new page; it may hold one that has been there."""
        self._shows = []
        return False, self._last is not None and not self._over

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

    def lists(self, vm: int) -> Truth:
        """Return whether Resources have the VM, for certain and perhaps, as exporters with IMDS access show them."""
        if self._listed is None:
            return True, True
        in_all, in_one = (vm in some for some in self._listed)
        at_evaluation = self._listed_at_evaluation is None or vm in self._listed_at_evaluation
        return in_all and at_evaluation, in_one or at_evaluation

    def _end(self, now: int, witnesses: tuple[Watcher, ...]) -> None:
        """Whether an exporter that showed the event answers without it, or a new pod of a VM of the event does.

        One that has just regained access may still be wrong, so the end is only possible.
        """
        without = [each for each in witnesses if each.answers(now) and each.sees(now)]
        steady = [each for each in without if all(each.sees(now - before) for before in (STEP, 2 * STEP))]
        since = now - (self._seen if self._seen is not None else 0)
        if any((each.number, each.pod(now)) in self._knew for each in without):
            self._doubt = True
            known = any((each.number, each.pod(now)) in self._knew for each in steady)
            self._over = known and now % self.evaluation == 0 and since > HIDDEN
        elif any((each.number, 0) in self._knew for each in without):
            self._doubt = True
            own = any(each.number in self._own and each.named(now) for each in steady)
            self._over = own and not self._shows and now % self.evaluation == 0 and since > HIDDEN_FROM_NEW

    def _verdict(self, now: int, *, seeing: bool) -> Truth:
        if self._last is None or self._over:
            return False, False
        sure = not self._doubt and not self._back
        if seeing or self._shows:
            return sure, True
        remembered = self._shown is not None and now - self._shown <= self.limits.memory - SLACK
        away = self._away and not self.life.deletes
        longest = self.limits.longest if away else self.limits.memory
        return remembered and sure, now - self._last <= max(longest, self.limits.memory) + SLACK

    def near(self, now: int, within: int) -> Truth:
        """Return whether the event has started or is due ``within`` so many seconds, for certain and perhaps."""
        if any(found.started for _, found in self._shows):
            return True, True
        if self._started is not None and now - self._started <= self.limits.memory - SLACK:
            return True, True
        seen = [found.not_before for each, found in self._shows if each.sees(now)]
        if seen:
            # Rules may learn an evaluation late that an exporter has lost access.
            lately = [found.not_before for each, found in self._shows if each.sees(now - self.evaluation)]
            return min(seen) - now <= within, min(seen + lately) - now <= within
        known = {planned - now <= within for planned in self._plans}
        return known == {True}, True in known or self._started is not None
