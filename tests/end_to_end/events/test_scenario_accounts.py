"""The simulator's record and the exporter's transitions agree in every scenario, also with interruptions."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.core.event_types import is_reboot
from azure_scheduled_events_exporter.simulator import Simulator
from azure_scheduled_events_exporter.simulator.scenario import SHIPPED
from azure_scheduled_events_exporter.simulator.timeline import Happening, What
from support.events.machine import START, Machine, MachineClock

LONGEST_GAP = 60
NAME = "vmss_0"


@dataclass(frozen=True)
class Look:
    """One poll: when, whether IMDS sends an empty body, whether the exporter is new, when the VM booted before it."""

    at: float
    empty: bool = False
    restarted: bool = False
    booted_at: float | None = None


def moments(scenario: str) -> list[tuple[float, What]]:
    """Return what happens in ``scenario`` if nobody approves, in seconds from its beginning."""
    now = START
    with Simulator(scenario, clock=lambda: now) as simulator:
        now = START + 10_000
        return [(each.at - START, each.what) for each in simulator.record]


def looks(scenario: str, interval: int, interruption: str) -> Iterator[Look]:
    """Return the polls; of short intervals those near a change and one every 50 s: the others would see the same."""
    changes = [at for at, _ in moments(scenario)]
    end = max(changes) + 300
    absences = [
        (begin - 5, begin + 10, min(at for at in changes if at > begin) + 5)
        for begin, what in moments(scenario)
        if what in {What.STARTED, What.REBOOTED}
    ]
    boot = None
    for number, second in enumerate(range(0, int(end), interval)):
        at = second + 0.5
        nearest = min(abs(at - change) for change in changes)
        if interval == 1 and second % 50 and nearest > 6:
            continue
        if interruption == "absence" and (gone := [each for each in absences if each[0] <= at < each[2]]):
            boot = gone[0][1]
            continue
        spoiled = second % 4 > 1 if interval == 1 else number % 4 == 2  # two in a row for 2 s, or one
        yield Look(
            at,
            empty=interruption == "empty bodies" and spoiled and (interval > 1 or nearest < 4),
            restarted=interruption == "restarts" and number % 7 == 3,
            booted_at=boot,
        )
        boot = None


def expected(record: tuple[Happening, ...], polls: list[Look]) -> Counter[tuple[str, str]]:
    """Return the transitions that polls at these moments must find in what truly happened, by EventId."""
    account: Counter[tuple[str, str]] = Counter()
    for event_id in {each.event_id for each in record}:
        facts = [each for each in record if each.event_id == event_id]
        account.update((event_id, transition) for transition in life(facts, polls))
    return account


def life(facts: list[Happening], polls: list[Look]) -> Iterator[str]:
    """Yield the transitions of one event."""
    shown: Sequence[What] = ()
    boots: list[float] = []
    watched, previous = False, None
    for poll in polls:
        boots += [] if poll.booted_at is None else [poll.booted_at]
        fresh = poll.restarted or poll.booted_at is not None or previous is None
        watched = (watched or previous is not None) and not fresh and poll.at - (previous or 0) <= LONGEST_GAP
        previous = poll.at
        if poll.empty:
            continue
        happened = [each for each in facts if each.at - START <= poll.at]
        what = [each.what for each in happened if each.what not in {What.IMPACT, What.REBOOTED}]
        now = set(what)
        if not now:
            watched = True
            continue
        gone = bool(now & {What.COMPLETED, What.CANCELLED})
        if not gone:
            news = [each for each in what if each not in shown]
            if not shown:
                yield "detected"
                news = [each for each in news if each is What.STARTED]
            yield from (str(each) for each in news if each is not What.APPROVED)
            shown = what
        elif shown:
            yield end(shown, facts, poll, boots, watched=watched)
            return
        watched = True


def end(shown: Sequence[What], facts: list[Happening], poll: Look, boots: list[float], *, watched: bool) -> str:
    """Return how an event ended that was last seen after ``shown``."""
    if What.STARTED in shown:
        return "completed"
    not_before = [each.not_before - START for each in facts[: len(shown)] if each.not_before is not None][-1]
    if watched and poll.at < not_before:
        return "cancelled"
    first, own = facts[0], NAME in facts[0].resources
    proven = any(boot >= not_before - 5 and boot > first.at - START for boot in boots[-1:])
    return "completed" if own and is_reboot(first.event_type) and proven else "lost"


@pytest.mark.parametrize("interruption", ["nothing", "restarts", "empty bodies", "absence"])
@pytest.mark.parametrize("interval", [1, 120])
@pytest.mark.parametrize("scenario", SHIPPED)
def test_accounts_agree(scenario: str, interval: int, interruption: str, tmp_path: Path) -> None:
    """Every transition that the polls could see is counted once, and no other."""
    clock = MachineClock()
    with ExitStack() as stack:
        imds = stack.enter_context(Simulator(scenario, clock=lambda: clock.wall, requests_per_second=100_000))
        machine = Machine(imds, tmp_path / "state", stack, clock=clock)
        polls = list(looks(scenario, interval, interruption))
        for poll in polls:
            if poll.restarted or poll.booted_at is not None:
                machine.restarts(boots_at=poll.booted_at)
            imds.serve_body(b"" if poll.empty else None)
            machine.looks(poll.at)
        record = tuple(each for each in imds.record if is_visible(each, scenario))
        assert machine.account == expected(record, polls)


def is_visible(happening: Happening, scenario: str) -> bool:
    """Return whether this VM sees that event: GPU VMs of one fault domain see their own only."""
    return scenario != "single-fault-domain" or NAME in happening.resources
