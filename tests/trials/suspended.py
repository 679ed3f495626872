"""The process is stopped during a Freeze: afterwards it polls at its interval, and reports what happened meanwhile."""

import os
import signal
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path

from azure_scheduled_events_exporter.simulator import Simulator
from support.programs import Answer, Exporter, Scrape, eventually, fetch
from trials.trial import QUIET, Crew, Order, Row, Watch, lives, passes
from trials.truth import check_file, check_rows, told

NOT_BEFORE = formatdate(time.time() + 7200, usegmt=True)
PEOPLE_AT_THE_DOOR = 5
POLL_SECONDS = 1.0  # the default
AFTER_SECONDS = 3.0
BUSY_SECONDS = 15.0  # by which a busy machine may come late
RESOLUTION_SECONDS = 1.0


@dataclass(frozen=True)
class Stop:
    """How long it was stopped, how long it reports, and how often it polled right after, in how many seconds."""

    seconds: float
    told: float
    polls_after: int
    answered: int


def event(name: str, kind: str, status: str) -> dict[str, object]:
    """Return an event of this VM that starts before its NotBefore."""
    return {
        "EventId": name,
        "EventType": kind,
        "EventStatus": status,
        "Resources": ["vmss_0"],
        "NotBefore": NOT_BEFORE if status == "Scheduled" else "",
        "EventSource": "Platform",
        "DurationInSeconds": 5,
    }


def stands_still(exporter: Exporter, seconds: float, simulator: Simulator) -> tuple[float, float, Sequence[Answer]]:
    """Stop the process in mid Freeze; return for how long, when it woke by the simulator, and answers asked meanwhile.

    While it stands still one event ends, one begins, and one is announced.
    """
    stat = Path(f"/proc/{exporter.process.pid}/stat")
    os.kill(exporter.process.pid, signal.SIGSTOP)
    try:
        eventually(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", "the stop")
        begun = time.monotonic()
        simulator.set_document([event("B", "Reboot", "Started"), event("C", "Redeploy", "Scheduled")])
        passes(max(0.0, seconds - 1))
        with ThreadPoolExecutor(PEOPLE_AT_THE_DOOR) as pool:
            asked = [pool.submit(fetch, f"{exporter.url}/metrics") for _ in range(PEOPLE_AT_THE_DOOR)]
            passes(begun + seconds - time.monotonic())
            record_pause = time.monotonic() - begun
            woke = simulator.now()
            os.kill(exporter.process.pid, signal.SIGCONT)
            return record_pause, woke, [each.result() for each in asked]
    finally:
        os.kill(exporter.process.pid, signal.SIGCONT)


def once(seconds: float, folder: Path) -> Stop:
    """Stop one exporter once."""
    journal = folder / "state"
    with Simulator(QUIET) as simulator, Crew(folder) as crew:
        flags = ("--instance.name", "vmss_0", "--journal.path", str(journal))
        exporter = crew.start(simulator.url, *flags)
        exporter.shows("a poll", lambda now: now.value("up") == 1)
        simulator.set_document([event("A", "Freeze", "Scheduled"), event("B", "Reboot", "Scheduled")])
        shows(exporter, detected=2)
        simulator.set_document([event("A", "Freeze", "Started"), event("B", "Reboot", "Scheduled")])
        shows(exporter, detected=2, approved=1, started=1)
        record_pause, woke, answers = stands_still(exporter, seconds, simulator)
        assert [answer.status for answer in answers] == [200] * PEOPLE_AT_THE_DOOR, "a scrape was not answered"
        with Watch(exporter) as watch:
            shows(exporter, detected=3, approved=2, started=2, completed=1)
            eventually(lambda: simulator.now() > woke + AFTER_SECONDS, "what comes after")
            after = [each.at for each in simulator.requests if woke < each.at <= woke + AFTER_SECONDS]
            # One may have been under way, and the one that was due comes at once.
            assert len(after) <= AFTER_SECONDS / POLL_SECONDS + 2, "polls that were missed were made up for"
            assert max(sum(at <= other < at + 1 for other in after) for at in after) <= 5, after
            simulator.set_document([])
            scrape = shows(exporter, detected=3, approved=2, started=2, completed=2, cancelled=1)
        lives(exporter)
        exporter.kill()
    check_rows(told(journal))
    check_file(journal)
    pause = scrape.value("observed_pause_seconds_sum", event_type="Freeze")
    assert scrape.value("observed_pause_seconds_count", event_type="Freeze") == 1
    assert pause is not None
    assert record_pause - RESOLUTION_SECONDS <= pause <= record_pause + BUSY_SECONDS, (pause, record_pause)
    return Stop(record_pause, pause, len(after), watch.answered + len(answers))


def shows(exporter: Exporter, **transitions: int) -> Scrape:
    """Return the metrics once exactly these transitions have been reported."""
    scrape = exporter.shows(f"{transitions}", lambda now: now if now.transitions() == transitions else None)
    assert scrape
    return scrape


def run(order: Order) -> Row:
    """Stop several exporters, each once, all at the same time."""
    lengths = [4.0] if order.short else [10.0, 60.0]
    with ThreadPoolExecutor(len(lengths)) as pool:
        stops = list(pool.map(lambda seconds: once(seconds, order.folder / f"{seconds:g}"), lengths))
    said = ", ".join(f"{stop.told:.2f} s measured of {stop.seconds:.2f} s" for stop in stops)
    polls = " and ".join(str(stop.polls_after) for stop in stops)
    return Row(
        "suspended",
        f"SIGSTOP in mid Freeze for {' and for '.join(f'{seconds:g} s' for seconds in lengths)}; meanwhile the Freeze "
        "ends, a Reboot begins, and a Redeploy is announced",
        f"all of it reported once, afterwards; `observed_pause_seconds`: {said}; {polls} polls in the "
        f"{AFTER_SECONDS:g} s after it, one every {POLL_SECONDS:g} s; {sum(stop.answered for stop in stops)} scrapes, "
        "all answered, also those sent while it was suspended",
    )
