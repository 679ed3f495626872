"""Kills around approval requests: none is forgotten, and none is repeated once it is known as accepted."""

import json
import sqlite3
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from azure_scheduled_events_exporter.journal.files import file_path
from azure_scheduled_events_exporter.simulator import PlannedEvent, Scenario, Simulator, What
from support.events.gate import Arrival, Gate, Way
from support.programs import Exporter, Scrape, eventually
from trials.trial import POLL, VMS, Crew, Order, Row, passes, polls_on
from trials.truth import check_file

TIMEOUT_SECONDS = 3.0
FLAGS = (*POLL, "--imds.timeout", f"{TIMEOUT_SECONDS:g}s", "--approval.policy", "documented")
WAYS: Sequence[Way | int] = (Way.PASS, Way.PASS, Way.PASS, Way.LOSE, Way.LATE, Way.HANG, 400, 429, 500)
MARGIN = 0.05  # seconds by which two clocks may differ


def restarts(delay: float, count: int) -> Scenario:
    """Return a scenario in which a user wants to restart the first VM, so often at once, ``delay`` after approval."""
    event = PlannedEvent(
        "Reboot", ("vmss_0",), source="User", announced_at=0.0, notice=3600, approval_delay=delay, started_for=60
    )
    return Scenario("restarts", "A user's restarts.", VMS, (event,) * count)


@dataclass
class Trial:
    """An exporter that approves, and is killed when a request to approve has come."""

    order: Order
    crew: Crew
    simulator: Simulator
    gate: Gate
    journal: Path
    kills: int = 0
    events: int = 0
    approved: set[str] = field(default_factory=set)
    begins: list[float] = field(default_factory=list)

    def starts(self) -> Exporter:
        """Start it (again)."""
        self.begins.append(time.monotonic())
        return self.crew.start(self.gate.url, *FLAGS, "--journal.path", str(self.journal))

    def round(self, exporter: Exporter) -> Exporter:
        """Announce some events, kill the exporter around its requests, and see all of them approved."""
        chance = self.order.chance
        count = chance.choice([1, 1, 2, 3])
        rules = chance.choices(WAYS, k=chance.randrange(4))
        self.gate.treat(*rules, Way.PASS)
        self.simulator.play(restarts(chance.choice([0.0, 1.0, 3600.0]), count))
        self.events += count
        posts = len(self.gate.posts)
        while not self._all_approved():
            already = len(self.gate.posts)
            eventually(
                lambda at=already: len(self.gate.posts) > at or self._all_approved(),  # type: ignore[misc] # bound now
                "a request to approve",
            )
            passes(chance.choice([0.0, chance.uniform(0, 0.05), chance.uniform(0, TIMEOUT_SECONDS + 0.1)]))
            exporter.kill()
            self.kills += 1
            if chance.random() < 0.2:  # nobody is there when it begins
                passes(chance.uniform(0, 2))
            exporter = self.starts()
            if chance.random() < 0.5:
                break
        eventually(self._all_approved, f"all events approved after {self.gate.posts[posts:]}")
        exporter.shows("all of them", lambda now: now.transitions().get("approved") == self.events)
        polls_on(exporter, 3)
        return exporter

    def most_in_a_second(self) -> int:
        """Return how many requests one process sent in its busiest second; the next one does not count them."""
        arrivals = [each.at for each in self.gate.arrivals]
        lives = [[at for at in arrivals if begin <= at < end] for begin, end in pairwise((*self.begins, float("inf")))]
        return max(sum(begin <= at < begin + 1 for at in life) for life in lives for begin in life)

    def _all_approved(self) -> bool:
        self.approved |= {each.event_id for each in self.simulator.record if each.what is What.APPROVED}
        return len(self.approved) == self.events


def approvals_told(journal: Path) -> Mapping[str, tuple[float, str]]:
    """Return when (Unix seconds) each event's approval was in the journal, and whose it is."""
    with closing(sqlite3.connect(file_path(journal))) as connection:
        rows = connection.execute(
            "SELECT event_id, wall, approved_by FROM transitions WHERE transition = 'approved'"
        ).fetchall()
    assert len({row[0] for row in rows}) == len(rows), "an approval counted twice"
    return {event_id: (wall, by) for event_id, wall, by in rows}


def check(trial: Trial, scrape: Scrape, posts: Sequence[Arrival]) -> None:
    """Check that requests, the actions of IMDS, and the reported approvals agree."""
    known = approvals_told(trial.journal)
    assert known.keys() == trial.approved, "an approval was forgotten, or made up"
    assert {by for _, by in known.values()} == {"exporter"}, json.dumps(known)
    ahead = time.time() - time.monotonic()
    for post in posts:
        for event_id in post.event_ids:
            assert post.at + ahead <= known[event_id.upper()][0] + MARGIN, f"{event_id} asked for again: {post}"
    assert scrape.value("transitions_total", transition="approved", **_KEY) == trial.events
    assert scrape.value("approval_latency_seconds_count", event_type="Reboot", approved_by="exporter") == trial.events
    assert scrape.total("approval_latency_seconds_count") == trial.events
    assert (scrape.value("approval_latency_seconds_sum", event_type="Reboot", approved_by="exporter") or 0) > 0
    assert scrape.transitions()["detected"] == trial.events


_KEY = {"event_type": "Reboot", "event_source": "User", "scope": "self"}


def run(order: Order) -> Row:
    """Announce restarts that the policy approves, again and again, with kills."""
    kills = order.pick(100, 4)
    with ExitStack() as stack:
        simulator = stack.enter_context(Simulator(restarts(0.0, 0)))
        gate = stack.enter_context(Gate(simulator.url))
        crew = stack.enter_context(Crew(order.folder))
        trial = Trial(order, crew, simulator, gate, order.folder / "state")
        exporter = trial.starts()
        while trial.kills < kills:
            before = trial.kills // 20
            exporter = trial.round(exporter)
            if trial.kills // 20 > before:
                order.say(f"{trial.kills} kills, {trial.events} events, {len(gate.posts)} requests")
        scrape = exporter.scrape()
        posts = gate.posts
        assert trial.most_in_a_second() <= 5, "requests in a second by one process"
        exporter.kill()
        check(trial, scrape, posts)
        check_file(trial.journal)
    refused = sum(isinstance(post.treated, int) for post in posts)
    unanswered = sum(isinstance(post.treated, Way) and post.treated is not Way.PASS for post in posts)
    return Row(
        "approvals",
        f"{trial.kills} SIGKILLs around {len(posts)} requests to approve, {refused} of them refused and {unanswered} "
        f"without answer, seed {order.seed}",
        f"{trial.events} events, each approved, reported once as approved by the exporter, none asked for again once "
        "its acceptance was known; no process sent more than 5 requests in a second",
    )
