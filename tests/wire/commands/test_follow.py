"""``events --follow``: every transition as one line, at once, once, and without a gap over kills
and restarts.
"""

import itertools
import json
import re
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.simulator import Scenario, Simulator, VirtualMachine
from support.events.follower import FAST, Follower, event, wait_until_it_follows
from support.events.gate import Nameless
from support.monitoring.collector import Collector
from support.programs import COMMAND, PATIENCE, Exporter, environment, eventually
from support.servers.http_peer import Peer

VMS = (VirtualMachine("vmss_0", scale_set="vmss"), VirtualMachine("vmss_1", scale_set="vmss"))
QUIET = Scenario("quiet", "Nothing happens.", VMS, ())
LATER = "Mon, 11 Apr 2072 23:26:58 GMT"
"""An hour after the NotBefore of an event without another one."""


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    """Return a simulator whose events are placed by hand."""
    with Simulator(QUIET) as simulator:
        yield simulator


@pytest.fixture
def follow(simulator: Simulator, state: Path, tmp_path: Path) -> Iterator[Callable[..., Follower]]:
    """Start followers, ``follow(*flags)``, that end with the test."""
    with ExitStack() as stack:
        numbers = itertools.count()

        def start(*flags: str) -> Follower:
            return stack.enter_context(
                Follower(simulator.url, state, tmp_path / f"follower-{next(numbers)}", *flags)
            )

        yield start


@pytest.fixture
def run_exporter(
    simulator: Simulator, state: Path, start_exporter: Callable[..., Exporter]
) -> Callable[..., Exporter]:
    """Start exporters that keep a journal, and wait until each has seen IMDS."""

    def start(*flags: str) -> Exporter:
        exporter = start_exporter(simulator.url, *FAST, "--journal.path", str(state), *flags)
        exporter.shows("IMDS", lambda scrape: scrape.value("up"))
        return exporter

    return start


def test_blind_follower_says_so(follow: Callable[..., Follower], simulator: Simulator) -> None:
    """Silence means that nothing happens: a follower that cannot ask IMDS itself warns of it."""
    simulator.inject("500")
    follower = follow()
    follower.wait_for_line("IMDS poll failed")
    assert follower.printed == []


@pytest.mark.parametrize("path", ["state", "memory"])
def test_a_follower_reports_to_nobody(path: str, simulator: Simulator, tmp_path: Path) -> None:
    """A follower that asks IMDS itself prints. It does not approve, push alerts or send spans, even
    if an exporter with the same settings would.
    """
    place = path if path == "memory" else tmp_path / path
    flags = ("--instance.name", "vmss_0", "--approval.policy", "documented")
    with Peer() as alertmanager, Collector() as collector:
        settings = {
            "AZURE_SCHEDULED_EVENTS_ALERTMANAGER_URL": alertmanager.url,
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        }
        with Follower(simulator.url, place, tmp_path / "follower", *flags, **settings) as follower:
            simulator.set_document([event("NEW") | {"EventSource": "User"}])
            follower.wait_for(("NEW", "detected"))
            simulator.set_document([])
            follower.wait_for(("NEW", "detected"), ("NEW", "cancelled"))
        assert (alertmanager.requests, collector.received) == ([], [])
    assert not [seen for seen in simulator.requests if seen.method == "POST"]


def test_every_transition(
    simulator: Simulator, run_exporter: Callable[..., Exporter], follow: Callable[..., Follower]
) -> None:
    """Every transition is one line of JSON with a growing seq, and no transition from before the
    start is printed.
    """
    simulator.set_document([event("OLD")])
    exporter = run_exporter()
    exporter.shows("the old event", lambda scrape: scrape.total("pending", scope="self") == 1)
    follower = follow()
    wait_until_it_follows(follower)
    simulator.set_document([event("OLD"), event("NEW")])
    follower.wait_for(("NEW", "detected"))
    simulator.set_document([event("OLD"), event("NEW", not_before=LATER)])
    follower.wait_for(("NEW", "detected"), ("NEW", "rescheduled"))
    simulator.set_document([event("OLD"), event("NEW", "Started")])
    follower.wait_for(
        ("NEW", "detected"), ("NEW", "rescheduled"), ("NEW", "approved"), ("NEW", "started")
    )
    simulator.set_document([event("OLD")])
    eventually(lambda: len(follower.printed) == 5, "the end")
    assert [line["seq"] for line in follower.printed] == [2, 3, 4, 5, 6], "1 is the old event's"
    detected, rescheduled, _approved, _started, completed = follower.printed
    assert detected["outcome"] is None
    assert detected["not_before"] == "2072-04-11T22:26:58Z"
    assert rescheduled["not_before"] == "2072-04-11T23:26:58Z"
    assert completed["transition"] == completed["outcome"] == "completed"
    assert completed["scope"] == "self"
    assert completed["resources"] == ["vmss_0"]
    assert completed["approved_by"] == "external"


def test_mine_before_the_name(
    simulator: Simulator,
    state: Path,
    start_exporter: Callable[..., Exporter],
    follow: Callable[..., Follower],
) -> None:
    """Until the VM's name is known, ``--mine`` hides nothing; then it leaves out the events of
    other VMs.
    """
    with Nameless(simulator.url) as gate:
        exporter = start_exporter(gate.url, *FAST, "--journal.path", str(state))
        exporter.shows("IMDS", lambda scrape: scrape.value("up"))
        mine = follow("--mine")
        wait_until_it_follows(mine)
        simulator.set_document([event("MINE")])
        mine.wait_for(("MINE", "detected"))
        [detected] = mine.printed
        assert (detected["scope"], detected["mine"]) == ("unknown", False)
        gate.named = True
        exporter.shows("the name", lambda scrape: scrape.total("pending", scope="self") == 1)
        simulator.set_document([event("MINE"), event("THEIRS", vm="vmss_1")])
        exporter.shows("both", lambda scrape: scrape.total("event_info") == 2)
        simulator.set_document([event("MINE", "Started"), event("THEIRS", vm="vmss_1")])
        # These are all lines: there is none of THEIRS, which was detected before MINE started.
        mine.wait_for(("MINE", "detected"), ("MINE", "approved"), ("MINE", "started"))


def test_since(
    simulator: Simulator,
    state: Path,
    run_exporter: Callable[..., Exporter],
    follow: Callable[..., Follower],
) -> None:
    """``--since`` begins right behind the line that was handled last, over kills of exporter and
    follower.
    """
    exporter = run_exporter()
    follower = follow("--since", "0")
    simulator.set_document([event("A")])
    follower.wait_for(("A", "detected"))
    handled = follower.printed[-1]["seq"]
    follower.kill()
    simulator.set_document([event("A", "Started")])
    exporter.shows("started", lambda scrape: scrape.total("started") == 1)
    exporter.kill()
    simulator.set_document([event("A", "Started"), event("B")])
    run_exporter().shows("both", lambda scrape: scrape.total("event_info") == 2)
    again = follow("--since", str(handled))
    again.wait_for(("A", "approved"), ("A", "started"), ("B", "detected"))
    assert [line["seq"] for line in again.printed] == [handled + 1, handled + 2, handled + 3]
    from_the_beginning = follow("--since", "0", "--mine")
    from_the_beginning.wait_for(
        ("A", "detected"), ("A", "approved"), ("A", "started"), ("B", "detected")
    )
    assert not list(state.glob("*.set-aside*")), "no kill has damaged the journal"


def test_follower_outlives_the_exporter(
    simulator: Simulator, run_exporter: Callable[..., Exporter], follow: Callable[..., Follower]
) -> None:
    """A follower reads on in the journal of the next exporter, and says while none runs that it
    waits for one.
    """
    exporter = run_exporter()
    follower = follow()
    wait_until_it_follows(follower)
    simulator.set_document([event("A")])
    follower.wait_for(("A", "detected"))
    exporter.kill()
    follower.wait_for_line("no exporter writes the journal: waiting for one")
    simulator.set_document([event("A"), event("B")])
    run_exporter().shows("both", lambda scrape: scrape.total("event_info") == 2)
    follower.wait_for(("A", "detected"), ("B", "detected"))
    assert [line["seq"] for line in follower.printed] == [1, 2]


def test_removed_logs_repeat_nothing(
    simulator: Simulator,
    state: Path,
    run_exporter: Callable[..., Exporter],
    follow: Callable[..., Follower],
) -> None:
    """If the journal's -wal file is removed under an exporter, a follower prints no line again."""
    simulator.set_document([event("A")])
    run_exporter().terminate()  # which moves the lines from the -wal file to the journal
    exporter = run_exporter()
    follower = follow("--since", "0")
    simulator.set_document([event("A"), event("B")])
    follower.wait_for(("A", "detected"), ("B", "detected"))
    for end in ("-wal", "-shm"):
        (state / f"journal.sqlite{end}").unlink()
    exporter.wait_for_line("journal is on disk again")
    simulator.set_document([event("A"), event("B"), event("C")])
    follower.wait_for(("A", "detected"), ("B", "detected"), ("C", "detected"))


def test_a_damaged_transition(
    simulator: Simulator, state: Path, run_exporter: Callable[..., Exporter]
) -> None:
    """A follower that cannot read a transition ends with an error: waiting looks like silence."""
    simulator.set_document([event("A")])
    exporter = run_exporter()
    exporter.shows("A", lambda scrape: scrape.total("event_info") == 1)
    with closing(sqlite3.connect(state / "journal.sqlite")) as journal, journal:
        journal.execute("UPDATE transitions SET record = '{'")
    command = [COMMAND, "events", "--follow", "--since", "0", "--journal.path", str(state)]
    done = subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 1
    assert "cannot read the journal: a row does not hold JSON" in done.stderr


def test_ends_quietly_on_sigterm(
    run_exporter: Callable[..., Exporter], follow: Callable[..., Follower]
) -> None:
    """A follower says where it begins, and ends without a further word on SIGTERM."""
    run_exporter()
    follower = follow()
    wait_until_it_follows(follower)
    follower.terminate()
    assert re.fullmatch(r"following the journal from [0-9a-f]+:0 on\n", follower.log)


def test_ends_quietly_with_its_reader(
    simulator: Simulator, state: Path, run_exporter: Callable[..., Exporter]
) -> None:
    """A follower whose reader has closed the pipe ends at the next line, with success and without a
    word.
    """
    run_exporter()
    simulator.set_document([event("A")])
    flags = ("--since", "0", "--imds.endpoint", simulator.url, "--journal.path", str(state))
    with subprocess.Popen(
        [COMMAND, "events", "--follow", *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    ) as follower:
        try:
            assert follower.stdout
            assert follower.stderr
            assert json.loads(follower.stdout.readline())["seq"] == 1
            follower.stdout.close()
            simulator.set_document([event("A"), event("B")])
            assert follower.wait(PATIENCE) == 0
            assert follower.stderr.read() == b""
        finally:
            follower.kill()
