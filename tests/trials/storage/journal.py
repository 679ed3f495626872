"""The journal under an adversary: logs removed, locked, the exporter killed, a wrong clock, approve
interrupted.
"""

import json
import random
import signal
import sqlite3
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from azure_scheduled_events_exporter.journal.access import read_only
from azure_scheduled_events_exporter.simulator import Simulator, What
from support.events.approve_command import command_line
from support.programs import COMMAND, PATIENCE, Program, environment, eventually
from trials.clock import WallClock
from trials.storage.disk import NAMES, STEPS, Round
from trials.trial import POLL, QUIET, Crew, Order, Row, passes, polls_on
from trials.truth import Transition, by_event, check_rows, transitions_in

AHEAD_SECONDS = 100 * 86_400
Line = dict[str, object]
"""What a follower prints."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)


class Follower(Program):
    """``events --follow``; it is restarted behind the last line that it has printed, if it is one
    with ``since``.
    """

    def __init__(self, url: str, folder: Path, output: Path, *since: str) -> None:
        command = [
            COMMAND,
            "events",
            "--follow",
            "--imds.endpoint",
            url,
            "--journal.path",
            str(folder),
        ]
        super().__init__([*command, *POLL, "--instance.name", "vmss_0", *since], output)

    @property
    def lines(self) -> list[Line]:  # type: ignore[override] # of JSON, not of the log
        """The lines so far, those that are whole."""
        whole = self.log.splitlines(keepends=True)
        return [json.loads(line) for line in whole if line.startswith("{") and line.endswith("\n")]

    def reads(self) -> bool:
        """Whether it has the journal open: from then on it must print what happens."""
        folder = Path(f"/proc/{self.process.pid}/fd")
        return any(
            "journal.sqlite" in str(link.readlink())
            for link in folder.iterdir()
            if link.is_symlink()
        )


@dataclass
class Stage:
    """One exporter, its journal, and two followers that see all of it: one from its start, one from
    its last line on.

    Attributes:
        lines: what the earlier processes of the second follower have printed.
        following: what the document shows next.
    """

    order: Order
    stack: ExitStack
    crew: Crew
    simulator: Simulator
    folder: Path
    around: Round
    environment: Mapping[str, str] = field(default_factory=dict)
    followers: list[Follower] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    following: Mapping[str, str] = field(default_factory=dict)
    restarts: int = 0

    @property
    def file(self) -> Path:
        """The journal."""
        return self.folder / "journal.sqlite"

    def starts(self) -> None:
        """Start the exporter (again)."""
        flags = (*POLL, "--instance.name", "vmss_0", "--journal.path", str(self.folder))
        self.around.exporter = self.crew.start(self.simulator.url, *flags, **self.environment)
        self.around.exporter.shows("a poll", lambda now: now.value("up") == 1)

    def follows(self, *since: str) -> None:
        """Start a follower."""
        output = self.order.folder / f"follower-{len(list(self.order.folder.glob('follower-*')))}"
        self.followers.append(
            self.stack.enter_context(Follower(self.simulator.url, self.folder, output, *since))
        )

    def follower_restarts(self) -> None:
        """End the follower that keeps its place, and start it behind the last line that it has
        handled.
        """
        old = self.followers.pop()
        old.kill()
        self.lines += old.lines
        self.restarts += 1
        self.follows("--since", str(self.lines[-1]["cursor"]) if self.lines else "0")

    def agree(self) -> None:
        """IMDS, metrics, journal and followers have each transition once, and those of one event in
        the same order.
        """
        self.around.exporter.shows("the journal on disk", lambda now: now.value("journal_up") == 1)
        rows = transitions_in(self.folder)
        check_rows(rows)
        assert Counter(transition for _, transition in rows) == self.around.expected, (
            f"the journal: {rows[-12:]}, {self.around.expected}"
        )
        assert Counter(self.around.exporter.scrape().transitions()) == self.around.expected, (
            "/metrics"
        )
        approved = {each.event_id for each in self.simulator.record if each.what is What.APPROVED}
        assert approved_here(self.folder) == approved, "what IMDS was asked to start"
        whole, kept = self.followers
        until = time.monotonic() + PATIENCE
        while len(whole.lines) < len(rows) and time.monotonic() < until:
            passes(0.05)
        check_lines("the follower", whole.lines, rows)
        while len(self.lines) + len(kept.lines) < len(rows) and time.monotonic() < until:
            passes(0.05)
        check_lines("the restarted follower", [*self.lines, *kept.lines], rows)


def approved_here(folder: Path) -> set[str]:
    """Return the events that the journal says to be approved by an operator here."""
    with closing(read_only(folder)) as store:
        records = [record for _, record in store.transitions(0, -1)]
    return {
        str(record["event_id"])
        for record in records
        if record["transition"] == "approved" and record["approved_by"] == "operator"
    }


def check_lines(who: str, lines: Sequence[Line], rows: Sequence[Transition]) -> None:
    """A follower has printed each transition once, in the order of each event, and numbers in their
    order.
    """
    printed = by_event([(str(line["event_id"]), str(line["transition"])) for line in lines])
    wanted = by_event(rows)
    differ = {name: (printed.get(name), wanted.get(name)) for name in printed | wanted}
    assert printed == wanted, (
        f"{who}: {[(name, *both) for name, both in differ.items() if both[0] != both[1]]}"
    )
    numbers = [int(str(line["seq"])) for line in lines]
    assert numbers == sorted(set(numbers)), f"{who}: numbers {numbers}"


@contextmanager
def logs_removed(stage: Stage) -> Iterator[None]:
    """Remove the write-ahead log and its index."""
    for suffix in ("-wal", "-shm"):
        Path(f"{stage.file}{suffix}").unlink(missing_ok=True)
    yield


@contextmanager
def locked_file(journal: Path) -> Iterator[None]:
    """Hold the lock of the database, as a backup does."""
    with closing(sqlite3.connect(journal, isolation_level=None, timeout=30)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        yield


@contextmanager
def locked(stage: Stage) -> Iterator[None]:
    """Hold the lock of the database from another connection."""
    with locked_file(stage.file):
        yield


@contextmanager
def clock_ahead(stage: Stage) -> Iterator[None]:
    """Kill the exporter, and let it run for a while with a clock that is 100 days ahead."""
    clock = WallClock(stage.order.folder / "faketime")
    clock.set(AHEAD_SECONDS)
    stage.around.exporter.kill()
    stage.environment = clock.environment
    stage.starts()
    polls_on(stage.around.exporter, 3)
    stage.around.exporter.kill()
    stage.environment = {}
    stage.starts()
    yield


@contextmanager
def killed(stage: Stage) -> Iterator[None]:
    """Kill the exporter, and start it after a while in which the document may change."""
    stage.around.exporter.kill()
    called_off = [name for name, status in stage.around.shown.items() if status == "Scheduled"]
    if random.random() < 0.5 and all(name in stage.following for name in called_off):
        stage.around.shows(stage.following)
    passes(random.uniform(0, 3))
    stage.starts()
    yield


@contextmanager
def approve_interrupted(stage: Stage) -> Iterator[None]:
    """Ask for an approval and end ``approve`` at a random moment: what it reports is what IMDS was
    asked.
    """
    name = f"{stage.around.names['A']}-X"
    stage.around.names = {**stage.around.names, "X": name}
    stage.around.steps({**stage.around.shown, "X": "Scheduled"})
    command = command_line(stage.simulator.url, stage.folder, name, "--yes")
    number = random.choice(SIGNALS)
    output = subprocess.PIPE
    with subprocess.Popen(command, stdout=output, stderr=output, env=environment()) as process:
        passes(random.uniform(0.3, 2.5))
        process.send_signal(number)
        process.wait(2 * PATIENCE)
    polls_on(stage.around.exporter, 3)
    asked = stage.around.exporter.scrape().series("event_approved", event_id=name)
    approved = [value for _, value in asked] == [1.0]
    if number is not signal.SIGKILL:
        assert approved == (process.returncode == 0), process.returncode
    stage.around.expected["approved"] += approved
    stage.around.steps({key: status for key, status in stage.around.shown.items() if key != "X"})
    yield


TROUBLES: Mapping[str, Callable[[Stage], object]] = {
    each.__name__: each
    for each in (
        logs_removed,
        locked,
        clock_ahead,
        killed,
        approve_interrupted,
    )
}


def suffers(stage: Stage, kind: str, number: int) -> None:
    """Go through one round: three events, and one trouble from a random step to a later one."""
    chance = stage.order.chance
    stage.around.names = {name: f"{kind}-{number}-{name}".upper() for name in NAMES}
    begin = chance.randrange(1, len(STEPS) - 1)
    end = chance.randrange(begin + 1, len(STEPS))
    with ExitStack() as trouble:
        for step, document in enumerate(STEPS):
            stage.following = document
            if step == begin:
                trouble.enter_context(TROUBLES[kind](stage))  # type: ignore[arg-type] # a context manager
            if step == end:
                polls_on(stage.around.exporter, 2)
                trouble.close()
            stage.around.steps(document)
            if chance.random() < 0.1:
                stage.follower_restarts()
    polls_on(stage.around.exporter, 2)
    stage.agree()


def run(order: Order) -> Row:
    """Go through rounds of every trouble with one journal, and restart at the end."""
    random.seed(order.seed)
    rounds = order.pick(200, len(TROUBLES))
    kinds = list(TROUBLES)
    with ExitStack() as stack:
        simulator = stack.enter_context(Simulator(QUIET))
        crew = stack.enter_context(Crew(order.folder / "logs"))
        folder = order.folder / "state"
        exporter = crew.start(
            simulator.url, *POLL, "--instance.name", "vmss_0", "--journal.path", str(folder)
        )
        exporter.shows("a poll", lambda now: now.value("up") == 1)
        stage = Stage(order, stack, crew, simulator, folder, Round(simulator, exporter, {}))
        stage.follows()
        eventually(stage.followers[0].reads, "the follower reads the journal")
        stage.follows("--since", "0")
        counts = Counter(kinds[number % len(kinds)] for number in range(rounds))
        for number in range(rounds):
            suffers(stage, kinds[number % len(kinds)], number)
            if number % 20 == 19:
                order.say(f"{number + 1} rounds, {sum(stage.around.expected.values())} transitions")
        stage.around.exporter.kill()
        stage.starts()
        stage.agree()
        total = sum(stage.around.expected.values())
    what = ", ".join(kind.replace("_", " ") for kind in counts)
    return Row(
        "journal",
        f"{rounds} rounds with one journal, each with a trouble during an event ({what}), seed"
        f" {order.seed}",
        f"{total} transitions, each once in the journal, in `/metrics` and in the output of a"
        " follower, in order, also after a restart at the end; the same for a follower that was"
        f" restarted {stage.restarts} times with its last cursor; {len(approved_here(folder))}"
        " approvals accepted by IMDS, the same in the journal",
    )
