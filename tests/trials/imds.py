"""IMDS with every fault, one after another, for simulated days: the reports are what can have been
seen.
"""

import time
from dataclasses import dataclass

from azure_scheduled_events_exporter.simulator import Fault, Simulator, What
from azure_scheduled_events_exporter.simulator.faults import REDIRECTED
from support.programs import Exporter, Scrape, eventually
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
    transitions_in,
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
# VERSION_404 refuses other versions than that of the flag.
ANSWERED = (Fault.EMPTY_BODY, Fault.PARTIAL_INSTANCE, Fault.VERSION_404)
"""Faults in which polls succeed."""
# The agent is in the way of new connections only: the exporter's own may still reach IMDS.
OPEN = REDIRECTED
"""Faults in which a poll may succeed or fail."""
DAY = 86_400.0


@dataclass
class Window:
    """A fault, from when to when by the simulator's clock."""

    fault: Fault
    begin: float
    end: float = float("inf")


@dataclass
class Known:
    """The current events in a scrape, and the counters that change with each good poll."""

    event_ids: frozenset[str]
    good_polls: float
    document_changes: float


@dataclass
class Seen:
    """What the scrapes showed, each judged as it comes.

    Attributes:
        up: how many scrapes had ``up`` 1, where it had to be 1.
        down: how many scrapes had ``up`` 0, where it had to be 0.
    """

    simulator: Simulator
    windows: list[Window]
    up: int = 0
    down: int = 0
    _last: Known | None = None

    def look(self, _: float, scrape: Scrape) -> None:
        """Check one scrape: the value of ``up``, and that no failed poll removes an event."""
        self._judge_up(scrape)
        known = Known(
            frozenset(labels["event_id"] for labels, _ in scrape.series("event_info")),
            scrape.total("polls_total", outcome="ok"),
            scrape.total("document_changes_total"),
        )
        last = self._last
        if (
            last is not None
            and last.good_polls == known.good_polls
            and last.document_changes == known.document_changes
        ):
            assert known.event_ids == last.event_ids, "events came or went without a good poll"
        self._last = known

    def _judge_up(self, scrape: Scrape) -> None:
        """Check ``up``, unless the last fault began or ended so shortly ago that a poll from before
        may still count.
        """
        now = self.simulator.now()
        # Before the first fault, IMDS is well since the simulator's clock began.
        window = self.windows[-1] if self.windows else Window(Fault.THROTTLE, 0, 0)
        throttled = any(each.fault is Fault.THROTTLE for each in self.windows[-THROTTLED_FAULTS:])
        settled = TIMEOUT_SECONDS + (SLOWEST_SECONDS if throttled else POLL_SECONDS) + BUSY_SECONDS
        is_faulty = window.end > now
        since = now - (window.begin if is_faulty else window.end)
        if since <= settled or (is_faulty and window.fault in OPEN):
            return
        if is_faulty and window.fault not in ANSWERED:
            assert scrape.value("up") == 0, f"{since:.1f} s into {window}"
            self.down += 1
        else:
            assert scrape.value("up") == 1, f"{since:.1f} s into {window}, or after it"
            self.up += 1


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
    share_of_long = order.pick(0.15, 0.03)
    longest_short = order.pick(4.0, 1.2)

    def some_time() -> float:
        """Return how many seconds a fault or a pause lasts: mostly short, now and then long."""
        if chance.random() < share_of_long:
            return chance.uniform(*LONG_SECONDS)
        return chance.uniform(0.1, longest_short)

    said = time.monotonic()
    while time.monotonic() < until or len(windows) < len(Fault):
        left = left or chance.sample(sorted(Fault), len(Fault))
        fault = Fault(left.pop())
        window = Window(fault, simulator.now())
        windows.append(window)
        simulator.inject(fault)
        passes(some_time())
        simulator.heal()
        window.end = simulator.now()
        passes(some_time())
        record.takes_note()
        if time.monotonic() > said + 60:
            said = time.monotonic()
            order.say(
                f"{len(windows)} faults, {len(record.truth)} events, {len(record.polls)} polls"
            )


def check(order: Order, record: Record, windows: list[Window]) -> tuple[int, int]:
    """Compare the journal with the truth; return how many transitions there are, and how many
    events a fault lied about.
    """
    check_file(order.folder / "state")
    rows = transitions_in(order.folder / "state")
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


def wait_for_the_end(simulator: Simulator, exporter: Exporter) -> float:
    """Let nothing happen any more, and wait until the exporter has polled that there is no event;
    return when the events were taken away, by the simulator's clock.
    """
    over = simulator.now()
    simulator.play("cancelled", 0.01)  # so slowly that its event is not announced
    exporter.shows("no event", lambda now: now.value("up") == 1 and not now.series("event_info"))
    at_least = simulator.now() + POLL_SECONDS
    eventually(lambda: simulator.requests[-1].at > at_least, "one more poll")
    return over


def end_open_events(record: Record, over: float) -> None:
    """Write down that the events which the end of the trial took away have ended then: as if
    cancelled, or completed.
    """
    for truth in record.truth.values():
        _, end = truth.shown
        if end == float("inf"):
            what = What.COMPLETED if What.STARTED in truth.moments else What.CANCELLED
            truth.moments[what] = over


def failed_polls(order: Order, scrape: Scrape) -> float:
    """Return how many polls failed; in the long form, each outcome must have come."""
    outcomes = {labels["outcome"]: count for labels, count in scrape.series("polls_total")}
    assert all(outcomes.values()) or order.short, f"no poll ended as one of {outcomes}"
    return sum(outcomes.values()) - outcomes["ok"]


def run(order: Order) -> Row:
    """Let IMDS fail for so many minutes, in which days pass."""
    minutes = order.pick(order.minutes, min(order.minutes, 0.3))
    windows: list[Window] = []
    with Simulator(SCENARIOS, speed=SPEED, loop=True) as simulator, Crew(order.folder) as crew:
        first, *_ = simulator.vms
        vm = ("--instance.name", first, "--journal.path", str(order.folder / "state"))
        timeout = ("--imds.timeout", f"{TIMEOUT_SECONDS * 1000:.0f}ms")
        exporter = crew.start(simulator.url, *HASTE, *timeout, *vm)
        exporter.shows("a poll", lambda now: now.value("up") == 1)
        record = Record(simulator)
        seen = Seen(simulator, windows)
        with Watch(exporter, seen.look) as watch:
            inject_faults(order, simulator, windows, time.monotonic() + minutes * 60, record)
            watch.check()
            over = wait_for_the_end(simulator, exporter)
        record.takes_note()
        scrape = exporter.scrape()
        lives(exporter)
        assert exporter.lines("level=error") == []
        exporter.kill()
    end_open_events(record, over)
    transitions, lied_about = check(order, record, windows)
    assert scrape.value("journal_errors_total") == 0
    assert scrape.total("transitions_total") == transitions
    most = most_in_a_second(record)
    assert most <= MOST_IN_A_SECOND, f"{most} requests in a second"
    failed = failed_polls(order, scrape)
    returned = scrape.transitions().get(RETURNED, 0)
    days = (windows[-1].end - windows[0].begin) * SPEED / DAY
    return Row(
        "imds",
        f"{minutes:g} minutes in which {days:.2g} days pass: {len(windows)} times one of the"
        f" simulator's {len(Fault)} faults, {len(record.truth)} events, seed {order.seed}",
        f"{len(record.polls)} polls, {failed:.0f} of them failed; {transitions} transitions, each"
        f" reported once, none missing of what was seen; in {seen.down} scrapes during faults `up`"
        f" was 0, in {seen.up} others 1; no event lost to a failed poll; at most {most} requests in"
        f" a second; {watch.answered} scrapes, all answered ({lied_about} events were current while"
        f' a fault made IMDS answer "no events"; they are not compared. {returned:.0f} returned)',
    )
