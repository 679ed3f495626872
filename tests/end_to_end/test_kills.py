"""SIGKILL at any moment of a lifecycle: the journal, the counters and what truly happened agree in the end.

``KILLS`` and ``SEED`` of the environment make the loop longer, and repeat a run that failed: ``scripts/torture-kills``.
"""

import os
import random
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.journal_file import read_only
from azure_scheduled_events_exporter.simulator import Simulator, What, parse
from programs import COMMAND, Exporter, Scrape, environment, eventually

Start = Callable[..., Exporter]
Row = tuple[str, str]
ENDS = {"completed", "cancelled", "lost"}
POLL = 0.3  # seconds; IMDS admits five requests a second
MARGIN = 0.25  # seconds that an answer may be older or younger than the arrival of its request

# Every way that an event can go, all at once, in half a minute; phases short enough that some of them meet no poll.
STORY = parse(
    """
    description: Everything that can happen, at once.
    vms: [{name: vm_0}, {name: vm_1}]
    events:
      - {type: Freeze, announced_at: 1s, notice: 5s, started_for: 4s}
      - {type: Reboot, announced_at: 2s, notice: 9s, started_for: 300ms, resources: [vm_0]}
      - {type: Redeploy, source: User, announced_at: 2s, notice: 3s, started_for: 6s, resources: [vm_1]}
      - {type: Preempt, announced_at: 3s, notice: 400ms, started_for: 300ms}
      - {type: Reboot, announced_at: 4s, starts: at once, started_for: 5s}
      - {type: Freeze, announced_at: 1s, notice: 30s, rescheduled_at: 4s, new_notice: 20s, cancelled_at: 10s}
      - {type: Terminate, announced_at: 5s, notice: 12s, cancelled_at: 9s}
      - {type: Freeze, announced_at: 6s, notice: 4s, started_for: 2s}
    """,
    "STORY",
    "story",
)


@dataclass
class Truth:
    """What the simulator says about one event."""

    moments: dict[What, float] = field(default_factory=dict)

    @property
    def shown(self) -> tuple[float, float]:
        """From when to when it stood in the document."""
        end = self.moments.get(What.COMPLETED, self.moments.get(What.CANCELLED, float("inf")))
        return self.moments[What.ANNOUNCED], end

    @property
    def started(self) -> tuple[float, float]:
        """From when to when it stood there as Started; never, if it did not."""
        begin = self.moments.get(What.STARTED, float("inf"))
        return begin, self.moments.get(What.COMPLETED, begin)


@dataclass
class Ordeal:
    """An exporter that is killed again and again while the simulator plays."""

    simulator: Simulator
    journal: Path
    start_exporter: Start
    chance: random.Random
    exporter: Exporter | None = None
    lives: list[tuple[float, float]] = field(default_factory=list)
    counted: Counter[str] = field(default_factory=Counter)
    kills: int = 0
    truth: dict[str, Truth] = field(default_factory=dict)
    polls: list[float] = field(default_factory=list)
    began: float = 0.0
    rounds: int = 0

    def starts(self) -> None:
        """Start it again; no counter may be less than before."""
        self.began = self.simulator.now()
        self.exporter = self.start_exporter(
            self.simulator.url, "--poll.interval", f"{POLL}s", "--instance.name", "vm_0", "--journal.path",
            str(self.journal),
        )  # fmt: skip
        self.looks_at(self.exporter.scrape())

    def looks_at(self, scrape: Scrape) -> None:
        """Compare the counters with what they were."""
        now = Counter({name: int(value) for name, value in scrape.transitions().items()})
        assert not self.counted - now, f"counters fell from {self.counted} to {now}"
        self.counted = now

    def dies(self) -> None:
        """Let it live for a moment, and kill it."""
        assert self.exporter
        pause = self.chance.choice([self.chance.uniform(0, 0.2), self.chance.uniform(0, 1.2)])
        until = self.simulator.now() + pause
        if self.chance.random() < 0.3:
            self.looks_at(self.exporter.scrape())
        eventually(lambda: self.simulator.now() >= until, "the moment")
        self.exporter.kill()
        self.lives.append((self.began, self.simulator.now()))
        self.kills += 1
        self.takes_note()

    def takes_note(self) -> None:
        """Keep what the simulator knows: it forgets what is old."""
        for happening in self.simulator.record:
            self.truth.setdefault(happening.event_id, Truth()).moments.setdefault(happening.what, happening.at)
        last = self.polls[-1] if self.polls else 0.0
        self.polls += [
            seen.at for seen in self.simulator.requests if seen.path.endswith("scheduledevents") and seen.at > last
        ]

    def over(self) -> bool:
        """Whether every event of the scenario has come and gone."""
        events = [each for each in self.simulator.record if each.what in {What.COMPLETED, What.CANCELLED}]
        return len(events) >= len(STORY.events) * self.rounds

    def plays(self) -> None:
        """Begin the scenario anew."""
        self.simulator.play(STORY)
        self.rounds += 1

    @property
    def surely_taken_in(self) -> list[float]:
        """The polls whose answer was taken in: the same process has polled again after them."""
        lives = [[at for at in self.polls if begin <= at <= end] for begin, end in self.lives]
        return [at for polls in lives for at in polls[:-1]]


def polled(polls: Sequence[float], begin: float, end: float, margin: float) -> bool:
    """Whether any poll fell between ``begin`` and ``end``, each ``margin`` further in."""
    return any(begin + margin < at < end - margin for at in polls)


def test_kills(start_exporter: Start, tmp_path: Path) -> None:
    """However often it is killed, nothing is lost that it can have seen, nothing counted twice, nothing damaged."""
    seed = int(os.environ.get("SEED", "0")) or random.randrange(1, 1 << 32)
    kills = int(os.environ.get("KILLS", "25"))
    print(f"SEED={seed} KILLS={kills}")  # noqa: T201 - pytest shows it with a failure, so that one can repeat it
    with Simulator(STORY) as simulator:
        ordeal = Ordeal(simulator, tmp_path / "state", start_exporter, random.Random(seed))
        ordeal.plays()
        while ordeal.kills < kills:
            ordeal.starts()
            ordeal.dies()
            if ordeal.over() and ordeal.kills < kills:
                ordeal.plays()
        ordeal.starts()
        exporter = ordeal.exporter
        assert exporter
        eventually(ordeal.over, "the end of the story", seconds=60)
        exporter.shows("no current event", lambda s: s.value("up") == 1 and not s.series("event_info"))
        at_least = simulator.now()
        eventually(lambda: simulator.requests[-1].at > at_least + POLL, "one more poll")
        ordeal.takes_note()
        ordeal.lives.append((ordeal.began, simulator.now()))
        scrape = exporter.scrape()
        ordeal.looks_at(scrape)
        exporter.kill()
    rows = [(str(record["event_id"]), str(record["transition"])) for _, record in read_only(ordeal.journal).told()]
    check_file(ordeal.journal)
    check_counters(rows, scrape)
    check_rows(rows)
    check_truth(rows, ordeal)
    lost = sum(transition == "lost" for _, transition in rows)
    print(  # noqa: T201 - the figures of the long run
        f"{ordeal.kills} kills, {len(ordeal.truth)} events, {len(ordeal.polls)} polls, {len(rows)} transitions, "
        f"{lost} ends told as lost"
    )


def check_file(journal: Path) -> None:
    """The file is sound, and never was set aside."""
    assert sorted(path.name for path in journal.iterdir() if "set-aside" in path.name) == []
    with closing(sqlite3.connect(journal / "journal.sqlite")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def check_counters(rows: Sequence[Row], scrape: Scrape) -> None:
    """What Prometheus sees is what the journal holds."""
    assert scrape.transitions() == Counter(transition for _, transition in rows)
    assert scrape.value("journal_up") == 1
    assert scrape.value("journal_errors_total") == 0


def check_rows(rows: Sequence[Row]) -> None:
    """Each event has one beginning, one end, nothing twice, and nothing out of order."""
    order = ["detected", "rescheduled", "approved", "started", "completed", "cancelled", "lost"]
    twice = [row for row, count in Counter(rows).items() if count > 1]
    assert twice == [], "transitions told more than once"
    by_event: dict[str, list[str]] = {}
    for event_id, transition in rows:
        by_event.setdefault(event_id, []).append(transition)
    for event_id, transitions in by_event.items():
        assert transitions[0] == "detected", (event_id, transitions)
        assert transitions == sorted(transitions, key=order.index), (event_id, transitions)
        assert len(ENDS.intersection(transitions)) == 1, (event_id, transitions)


def check_truth(rows: Sequence[Row], ordeal: Ordeal) -> None:
    """What is told happened, and what can have been seen is told."""
    told = set(rows)
    assert {event_id for event_id, _ in rows} <= ordeal.truth.keys()
    for event_id, truth in ordeal.truth.items():
        known = {transition for one, transition in told if one == event_id}
        what = (event_id, known, truth.moments)
        if polled(ordeal.surely_taken_in, *truth.shown, MARGIN):
            assert "detected" in known, what
        elif not polled(ordeal.polls, *truth.shown, -MARGIN):
            assert known == set(), what
        if polled(ordeal.surely_taken_in, *truth.started, MARGIN):
            assert {"started", "completed"} <= known, what
        if "started" in known:
            assert What.STARTED in truth.moments, what
        if "completed" in known:
            assert "started" in known, what
            assert What.COMPLETED in truth.moments, what
        if "cancelled" in known:
            assert What.CANCELLED in truth.moments, what
        if "rescheduled" in known:
            assert What.RESCHEDULED in truth.moments, what


class TestLock:
    """One journal, one writer, over real processes."""

    def test_a_second_exporter_is_refused(self, start_exporter: Start, tmp_path: Path) -> None:
        """A second exporter on the same journal ends with one line that says what to do; the first goes on."""
        with Simulator() as simulator:
            journal = str(tmp_path / "state")
            first = start_exporter(simulator.url, "--journal.path", journal)
            listen = ["--web.listen-address", "127.0.0.1:0"]
            second = subprocess.run(
                [COMMAND, "run", "--imds.endpoint", simulator.url, *listen, "--journal.path", journal],
                capture_output=True,
                text=True,
                env=environment(),
                timeout=60,
                check=False,
            )
            assert second.returncode == 1
            (line,) = second.stderr.splitlines()
            assert "another exporter writes the journal" in line
            assert journal in line
            assert "--journal.path" in line
            assert first.scrape().value("journal_up") == 1

    def test_a_kill_frees_the_journal(self, start_exporter: Start, tmp_path: Path) -> None:
        """After a SIGKILL the next exporter takes the journal at once."""
        with Simulator() as simulator:
            flags = [simulator.url, "--journal.path", str(tmp_path / "state")]
            start_exporter(*flags).kill()
            start_exporter(*flags).shows("the journal", lambda scrape: scrape.value("journal_up") == 1)


def test_a_disk_that_comes_late(start_exporter: Start, tmp_path: Path) -> None:
    """An exporter whose journal cannot be written runs, says so, and takes the disk when it can."""
    (tmp_path / "state").write_text("in the way")
    with Simulator() as simulator:
        simulator.set_document(
            [{"EventId": "A", "EventStatus": "Started", "EventType": "Freeze", "Resources": ["vmss_0"]}]
        )
        path = tmp_path / "state" / "deep" / "journal.sqlite"
        exporter = start_exporter(simulator.url, "--poll.interval", "300ms", "--journal.path", str(path))
        exporter.shows("the event", lambda scrape: scrape.transitions() == {"detected": 1, "started": 1})
        scrape = exporter.scrape()
        assert scrape.value("journal_up") == 0
        assert scrape.value("journal_errors_total") == pytest.approx(1, abs=1)
        (tmp_path / "state").unlink()
        exporter.shows("the disk taken", lambda scrape: scrape.value("journal_up") == 1)
        assert exporter.scrape().transitions() == {"detected": 1, "started": 1}
        exporter.kill()
        again = start_exporter(simulator.url, "--journal.path", str(path))
        assert again.scrape().transitions() == {"detected": 1, "started": 1}
