"""SIGKILL at any moment of a lifecycle: the journal, the counters and what truly happened agree in
the end.
"""

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from azure_scheduled_events_exporter.simulator import Simulator, What, parse
from support.programs import Exporter, Scrape, eventually
from trials.trial import POLL, POLL_SECONDS, Crew, Order, Row
from trials.truth import (
    Polls,
    Record,
    check_counters,
    check_file,
    check_rows,
    check_truth,
    transitions_in,
)

# Every way that an event can go, all at once, in half a minute; phases short enough that some of
# them meet no poll.
STORY = parse(
    """
    description: Everything that can happen, at once.
    vms: [{name: vm_0}, {name: vm_1}]
    events:
      - {type: Freeze, announced_at: 1s, notice: 5s, started_for: 4s}
      - {type: Reboot, announced_at: 2s, notice: 9s, started_for: 300ms, resources: [vm_0]}
      - {type: Redeploy, source: User, announced_at: 2s, notice: 3s, started_for: 6s,
         resources: [vm_1]}
      - {type: Preempt, announced_at: 3s, notice: 400ms, started_for: 300ms}
      - {type: Reboot, announced_at: 4s, starts: at once, started_for: 5s}
      - {type: Freeze, announced_at: 1s, notice: 30s, rescheduled_at: 4s, new_notice: 20s,
         cancelled_at: 10s}
      - {type: Terminate, announced_at: 5s, notice: 12s, cancelled_at: 9s}
      - {type: Freeze, announced_at: 6s, notice: 4s, started_for: 2s}
    """,
    "STORY",
    "story",
)


@dataclass
class Ordeal:
    """An exporter that is killed again and again while the simulator plays.

    Attributes:
        lives: from when to when each of its processes ran, by the simulator's clock.
        counted: the transitions in its last scrape.
        began: when its present process was started, by the simulator's clock.
        rounds: how often the story was begun.
    """

    simulator: Simulator
    record: Record
    journal: Path
    crew: Crew
    chance: random.Random
    exporter: Exporter | None = None
    lives: list[tuple[float, float]] = field(default_factory=list)
    counted: Counter[str] = field(default_factory=Counter)
    kills: int = 0
    began: float = 0.0
    rounds: int = 0
    environment: Mapping[str, str] = field(default_factory=dict)

    def starts(self) -> None:
        """Start it again; no counter may be less than before."""
        flags = (*POLL, "--instance.name", "vm_0", "--journal.path", str(self.journal))
        self.exporter = self.crew.start(self.simulator.url, *flags, **self.environment)
        # Only now: the last request of the killed process may arrive after its end.
        self.began = self.simulator.now()
        self.looks_at(self.exporter.scrape())

    def looks_at(self, scrape: Scrape) -> None:
        """Compare the counters with their earlier values."""
        now = Counter({name: int(value) for name, value in scrape.transitions().items()})
        assert not self.counted - now, f"counters fell from {self.counted} to {now}"
        self.counted = now

    def dies(self, pause: float | None = None) -> None:
        """Let it live for a moment, or for so many seconds, and kill it."""
        assert self.exporter
        if pause is None:
            pause = self.chance.choice([self.chance.uniform(0, 0.2), self.chance.uniform(0, 1.2)])
        until = self.simulator.now() + pause
        if self.chance.random() < 0.3:
            self.looks_at(self.exporter.scrape())
        eventually(lambda: self.simulator.now() >= until, "the moment")
        self.exporter.kill()
        self.lives.append((self.began, self.simulator.now()))
        self.kills += 1
        self.record.takes_note()

    def over(self) -> bool:
        """Whether every event of the scenario has come and gone."""
        events = [
            each for each in self.simulator.record if each.what in {What.COMPLETED, What.CANCELLED}
        ]
        return len(events) >= len(STORY.events) * self.rounds

    def plays(self) -> None:
        """Begin the scenario anew."""
        self.simulator.play(STORY)
        self.rounds += 1

    def ends(self) -> Scrape:
        """Let the last life see the end of the story, and return its metrics."""
        self.starts()
        exporter = self.exporter
        assert exporter
        eventually(self.over, "the end of the story", seconds=60)
        exporter.shows(
            "no current event", lambda s: s.value("up") == 1 and not s.series("event_info")
        )
        at_least = self.simulator.now()
        eventually(
            lambda: self.simulator.requests[-1].at > at_least + POLL_SECONDS, "one more poll"
        )
        self.record.takes_note()
        self.lives.append((self.began, self.simulator.now()))
        scrape = exporter.scrape()
        self.looks_at(scrape)
        exporter.kill()
        return scrape

    @property
    def surely_taken_in(self) -> list[float]:
        """The polls whose answer was taken in: the same process has polled again after them."""
        lives = [
            [at for at in self.record.polls if begin <= at <= end] for begin, end in self.lives
        ]
        return [at for polls in lives for at in polls[:-1]]


def run(order: Order) -> Row:
    """After any number of kills, no observable transition is lost or counted twice, and no file is
    damaged.
    """
    kills = order.pick(200, 12)
    journal = order.folder / "state"
    # A poll that is throttled is not taken in, and exporters that start anew every moment would be.
    with Simulator(STORY, requests_per_second=1000) as simulator, Crew(order.folder) as crew:
        ordeal = Ordeal(simulator, Record(simulator), journal, crew, order.chance)
        ordeal.plays()
        while ordeal.kills < kills:
            ordeal.starts()
            ordeal.dies()
            if ordeal.over() and ordeal.kills < kills:
                ordeal.plays()
            if ordeal.kills % 20 == 0:
                order.say(f"{ordeal.kills} kills, {sum(ordeal.counted.values())} transitions")
        scrape = ordeal.ends()
    rows = transitions_in(journal)
    check_file(journal)
    check_counters(rows, scrape)
    check_rows(rows)
    check_truth(rows, ordeal.record.truth, Polls(ordeal.record.polls, ordeal.surely_taken_in))
    lost = sum(transition == "lost" for _, transition in rows)
    return Row(
        "kills",
        f"{kills} SIGKILLs at random moments of {len(ordeal.record.truth)} events, seed"
        f" {order.seed}",
        f"{len(rows)} transitions, none twice, none missing of what was seen, one end for each"
        f" event, `/metrics` equal to the journal, `integrity_check` ok; {lost} events ended as"
        " `lost`, having left while nobody polled",
    )
