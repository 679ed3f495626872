"""A very long history: it is streamed to followers, and no work on it keeps the exporter from
polling for long.
"""

import json
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path

from azure_scheduled_events_exporter.simulator import Simulator
from support.programs import COMMAND, Exporter, environment, eventually
from trials.storage.disk import Round
from trials.storage.journal import locked_file
from trials.trial import POLL, POLL_SECONDS, QUIET, Crew, Order, Row

MEMORY_MIB = 64
GAP_SECONDS = 10.0


def fill(path: Path, count: int) -> None:
    """Repeat the first transition of a journal ``count`` times, each with an EventId of its own in
    what is printed.
    """
    with closing(sqlite3.connect(path)) as connection, connection:
        wall, record = connection.execute("SELECT wall, record FROM transitions").fetchone()
        connection.executemany(
            "INSERT INTO transitions (wall, record) VALUES (?, ?)",
            ((wall, record.replace('"A"', f'"N{number}"')) for number in range(count)),
        )
        statistics = json.loads(connection.execute("SELECT statistics FROM state").fetchone()[0])
        statistics["transitions"] = [
            [key, counted * (count + 1)] for key, counted in statistics["transitions"]
        ]
        connection.execute(
            "UPDATE state SET statistics = ?, last_number = ?", (json.dumps(statistics), count + 1)
        )


def streamed(url: str, folder: Path, lines: int) -> float:
    """Follow from the beginning until so many lines have come; return the most memory that took, in
    MiB.
    """
    command = [
        COMMAND,
        "events",
        "--follow",
        "--since",
        "0",
        "--imds.endpoint",
        url,
        "--journal.path",
        str(folder),
    ]
    with subprocess.Popen([*command, *POLL], stdout=subprocess.PIPE, env=environment()) as process:
        try:
            assert process.stdout is not None
            for _ in range(lines):
                assert process.stdout.readline()
            status = Path(f"/proc/{process.pid}/status").read_text().splitlines()
            return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024
        finally:
            process.kill()


@contextmanager
def gap(simulator: Simulator) -> Iterator[list[float]]:
    """Measure the longest time between two polls within the block."""
    began = simulator.now()
    found = [0.0]
    yield found
    polls = [
        each.at
        for each in simulator.requests
        if each.path.endswith("scheduledevents") and each.at >= began
    ]
    found[0] = max(later - earlier for earlier, later in pairwise([began, *polls, simulator.now()]))


def polls_beside(
    simulator: Simulator, exporter: Exporter, journal: Path, around: Round
) -> tuple[float, float]:
    """Return the longest times between two polls while files are removed and the disk hangs.

    In seconds.
    """
    with gap(simulator) as removed:
        for path in journal.parent.iterdir():
            path.unlink(missing_ok=True)
        eventually(journal.exists, "the journal written again")
        exporter.shows("it on disk", lambda now: now.value("journal_errors_total") == 1)
    with gap(simulator) as away:
        with locked_file(journal):
            around.shows({"A": "Scheduled", "B": "Scheduled"})
            exporter.shows("the disk away", lambda now: now.value("journal_up") == 0)
        exporter.shows("the disk back", lambda now: now.value("journal_up") == 1)
    return removed[0], away[0]


def run(order: Order) -> Row:
    """Make a long history, read it, and lose and regain the disk with it."""
    count = order.pick(100_000, 30_000)
    folder = order.folder / "state"
    flags = (*POLL, "--instance.name", "vmss_0", "--journal.path", str(folder))
    with Simulator(QUIET) as simulator, Crew(order.folder / "logs") as crew:
        exporter = crew.start(simulator.url, *flags)
        around = Round(simulator, exporter, {"A": "A", "B": "B"})
        around.steps({"A": "Scheduled"})
        exporter.kill()
        fill(folder / "journal.sqlite", count)
        order.say(f"{count} transitions")
        began = time.monotonic()
        around.exporter = exporter = crew.start(simulator.url, *flags)
        ready = time.monotonic() - began
        exporter.shows("all of it", lambda now: now.transitions() == {"detected": count + 1})
        memory = streamed(simulator.url, folder, count + 1)
        order.say(f"{memory:.0f} MiB")
        removed, away = polls_beside(simulator, exporter, folder / "journal.sqlite", around)
        exporter.shows("one more", lambda now: now.transitions() == {"detected": count + 2})
    assert memory < MEMORY_MIB, f"a follower took {memory:.0f} MiB"
    assert max(removed, away) < GAP_SECONDS, (removed, away)
    return Row(
        "history",
        f"{count:,} transitions in the journal: an exporter starts, a follower reads all of them,"
        " the files are removed, the disk is locked and free again",
        f"{ready:.1f} s to the first `/metrics`; the follower took at most {memory:.0f} MiB; at"
        f" most {removed:.1f} s between two polls while the files were written again, {away:.1f} s"
        f" when the disk came back (poll interval {POLL_SECONDS:g} s), nothing lost",
    )
