"""IMDS with every fault, one after another, for simulated days: the reports are what can have been
seen.
"""

import time
from collections import Counter
from dataclasses import dataclass, field

from azure_scheduled_events_exporter.simulator import Fault, Simulator, What
from azure_scheduled_events_exporter.simulator.faults import REDIRECTED
from support.programs import Scrape, eventually
from trials.trial import POLL_SECONDS, Crew, Order, Row, Watch, lives, passes
from trials.truth import (
    MARGIN,
    RETURNED,
    Polls,
    Record,
    by_event,
    check_event,
    check_file,
    check_rows,
    told,
)

SCENARIOS = (
    "rollout",
    "live-migration",
    "user-reboot",
    "cancelled",
    "host-failure",
    "degraded-host",
)
SPEED = 240.0
# Twice as often as IMDS bears; its own budget makes it POLL_SECONDS.
HASTE = ("--poll.interval", "100ms")
TIMEOUT_SECONDS = 3.0
SLOWEST_SECONDS = 5.0  # between two polls, however throttled
THROTTLED_FAULTS = 4  # after so many faults the pace is surely what it was before IMDS throttled
BUSY_SECONDS = 2.0  # by which a busy machine may be late
# Of some faults and pauses: longer than any time after which ``up`` is judged.
LONG_SECONDS = (11.0, 16.0)
MOST_IN_A_SECOND = 5
# Polls in the version of the flag succeed.
ANSWERED = (Fault.EMPTY_BODY, Fault.PARTIAL_INSTANCE, Fault.VERSION_404)
# The agent is in the way of new connections only: the exporter's own may still reach IMDS.
OPEN = REDIRECTED
DAY = 86_400.0


@dataclass
class Window:
    """A fault, from when to when by the simulator's clock."""

    fault: Fault
    begin: float
    end: float = float("inf")


@dataclass
class Seen:
    """What the scrapes showed, each judged as it comes."""

    simulator: Simulator
    windows: list[Window]
    judged: Counter[str] = field(default_factory=Counter)
    _last: tuple[float, float, frozenset[str]] | None = None

    def look(self, _: float, scrape: Scrape) -> None:
        """Check one scrape: the value of ``up``, and that no failed poll removes an event."""
        now = self.simulator.now()
        window = self.windows[-1] if self.windows else Window(Fault.THROTTLE, 0, 0)
        throttled = any(each.fault is Fault.THROTTLE for each in self.windows[-THROTTLED_FAULTS:])
        settled = TIMEOUT_SECONDS + (SLOWEST_SECONDS if throttled else POLL_SECONDS) + BUSY_SECONDS
        since = now - window.begin if window.end > now else now - window.end
        failing = window.end > now and window.fault not in ANSWERED
        is_judged = window.end <= now or window.fault not in OPEN
        if since > settled and is_judged:
            assert scrape.value("up") == (0 if failing else 1), f"up {since:.1f} s into {window}"
            self.judged["down" if failing else "up"] += 1
        good = (
            scrape.value("polls_total", outcome="ok") or 0,
            scrape.total("document_changes_total"),
        )
        current = frozenset(labels["event_id"] for labels, _ in scrape.series("event_info"))
        if self._last is not None and self._last[:2] == good:
            assert current == self._last[2], "events came or went without a good poll"
            self.judged["same"] += 1
        self._last = (*good, current)


def most_in_a_second(record: Record) -> int:
    """Return how many requests came in the busiest second."""
    times = sorted(record.requests)
    most = first = 0
    for index, at in enumerate(times):
        while times[first] <= at - 1:
            first += 1
        most = max(most, index - first + 1)
    return most


def taken_in(record: Record, windows: list[Window]) -> list[float]:
    """Return the polls that were surely answered well: outside of all faults, and followed by
    another one.
    """
    good = []
    later = iter(windows)
    window = next(later, None)
    for at in record.polls[:-1]:
        while window is not None and window.end + MARGIN < at:
            window = next(later, None)
        if window is None or at < window.begin - MARGIN:
            good.append(at)
    return good


def inject_faults(
    order: Order, simulator: Simulator, windows: list[Window], until: float, record: Record
) -> None:
    """Let one fault follow another, all of them before any comes twice, with health in between."""
    chance = order.chance
    left: list[str] = []
    long, short = (0.03, 1.2) if order.short else (0.15, 4.0)
    said = time.monotonic()
    while time.monotonic() < until or len(windows) < len(Fault):
        left = left or chance.sample(sorted(Fault), len(Fault))
        fault = Fault(left.pop())
        lasting = (
            chance.uniform(*LONG_SECONDS) if chance.random() < long else chance.uniform(0.1, short)
        )
        window = Window(fault, simulator.now())
        windows.append(window)
        simulator.inject(fault)
        passes(lasting)
        simulator.heal()
        window.end = simulator.now()
        passes(
            chance.uniform(*LONG_SECONDS) if chance.random() < long else chance.uniform(0.1, short)
        )
        record.takes_note()
        if time.monotonic() > said + 60:
            said = time.monotonic()
            order.say(
                f"{len(windows)} faults, {len(record.truth)} events, {len(record.polls)} polls"
            )


def check(order: Order, record: Record, windows: list[Window]) -> tuple[int, int]:
    """Compare with the truth; return how many transitions there are, and how many events a fault
    lied about.
    """
    rows = told(order.folder / "state")
    check_rows(rows)
    polls = Polls(record.polls, taken_in(record, windows))
    # An empty body says that there are no events. Where that is a lie, the end of an event is the
    # liar's word.
    lies = [window for window in windows if window.fault is Fault.EMPTY_BODY]
    known = by_event(rows)
    assert known.keys() <= record.truth.keys()
    lied_about = 0
    for event_id, truth in record.truth.items():
        begin, end = truth.shown
        if any(lie.begin - MARGIN < end and begin < lie.end + MARGIN for lie in lies):
            lied_about += 1
        else:
            check_event(event_id, set(known.get(event_id, ())), truth, polls)
    return len(rows), lied_about


def run(order: Order) -> Row:
    """Let IMDS fail for so many minutes, in which days pass."""
    minutes = order.pick(order.minutes, min(order.minutes, 0.3))
    windows: list[Window] = []
    with Simulator(SCENARIOS, speed=SPEED, loop=True) as simulator, Crew(order.folder) as crew:
        first, *_ = simulator.vms
        flags = ("--imds.timeout", f"{TIMEOUT_SECONDS * 1000:.0f}ms", "--instance.name", first)
        exporter = crew.start(
            simulator.url, *HASTE, *flags, "--journal.path", str(order.folder / "state")
        )
        exporter.shows("a poll", lambda now: now.value("up") == 1)
        record = Record(simulator)
        seen = Seen(simulator, windows)
        with Watch(exporter, seen.look) as watch:
            inject_faults(order, simulator, windows, time.monotonic() + minutes * 60, record)
            watch.check()
            over = simulator.now()
            simulator.play("cancelled", 0.01)  # nothing happens any more
            exporter.shows(
                "no event", lambda now: now.value("up") == 1 and not now.series("event_info")
            )
            at_least = simulator.now() + POLL_SECONDS
            eventually(lambda: simulator.requests[-1].at > at_least, "one more poll")
        record.takes_note()
        scrape = exporter.scrape()
        lives(exporter)
        assert exporter.lines("level=error") == []
        exporter.kill()
    last = windows[-1].end
    open_yet = [
        event_id for event_id, truth in record.truth.items() if truth.shown[1] == float("inf")
    ]
    for event_id in open_yet:  # taken away by the end of the trial, as if cancelled, or completed
        moments = record.truth[event_id].moments
        moments[What.COMPLETED if What.STARTED in moments else What.CANCELLED] = over
    transitions, lied_about = check(order, record, windows)
    assert scrape.value("journal_errors_total") == 0
    assert sum(scrape.transitions().values()) == transitions
    check_file(order.folder / "state")
    most = most_in_a_second(record)
    assert most <= MOST_IN_A_SECOND, f"{most} requests in a second"
    outcomes = {labels["outcome"]: count for labels, count in scrape.series("polls_total")}
    assert all(outcomes.values()) or order.short, f"no poll ended as one of {outcomes}"
    days = (last - windows[0].begin) * SPEED / DAY
    return Row(
        "imds",
        f"{minutes:g} minutes in which {days:.2g} days pass: {len(windows)} times one of the"
        f" simulator's {len(Fault)} faults, {len(record.truth)} events, seed {order.seed}",
        f"{len(record.polls)} polls, {sum(outcomes.values()) - outcomes['ok']:.0f} of them failed;"
        f" {transitions} "
        f"transitions, each reported once, none missing of what was seen; in {seen.judged['down']}"
        " scrapes during "
        f"faults `up` was 0, in {seen.judged['up']} others 1; no event lost to a failed poll; at"
        f" most {most} requests "
        f"in a second; {watch.answered} scrapes, all answered ({lied_about} events were current"
        " while a fault made "
        'IMDS answer "no events"; they are not compared.'
        f" {scrape.transitions().get(RETURNED, 0):.0f} returned)",
    )
