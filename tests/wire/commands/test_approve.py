"""The command ``approve`` beside a running exporter and without one: what it asks, sends and
prints.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.commands.cli import main
from azure_scheduled_events_exporter.journal.disk.lock import has_writer
from azure_scheduled_events_exporter.simulator import Simulator
from support.commands import assert_one_line
from support.events.approve_command import (
    BEGINS_NOW_FOR,
    DELETES_NOW,
    PROGRAM,
    approve,
    approved,
    begin,
    command_line,
    event_ids,
    group,
    on_terminal,
    start,
    wait_a_second,
    warning_of_no_exporter,
)
from support.events.follower import event
from support.events.journal_contents import history, vm
from support.events.journal_recorder import set_aside
from support.programs import PATIENCE, Exporter, environment, eventually, fetch

NOBODY = 65534
"""The uid and gid of the account ``nobody``."""


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    """Return a simulator of the group; nothing begins for an hour after its approval."""
    with Simulator(group()) as simulator:
        yield simulator


def test_beside_a_running_exporter(
    simulator: Simulator, state: Path, start_exporter: Callable[..., Exporter]
) -> None:
    """The request is shown, sent by the running exporter, counted as the operator's, and its result
    printed.
    """
    exporter = start(start_exporter, simulator.url, state)
    event_id = event_ids(simulator)["Freeze"]
    done = approve(simulator.url, state, event_id.lower(), "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    head, row, vms, result = done.stdout.splitlines()
    assert head.split()[:2] == ["EventId", "Type"]
    assert row.split()[:3] == [event_id, "Freeze", "Scheduled"]
    assert vms == f"{BEGINS_NOW_FOR}vmss_0, vmss_1"
    assert result == f"{event_id}: accepted"
    assert approved(simulator) == [("Freeze", "vmss_0")], "by the VM of the exporter"
    exporter.shows("approved", lambda scrape: scrape.total("event_approved") == 1)
    scrape = exporter.scrape()
    assert (
        scrape.value("approval_latency_seconds_count", event_type="Freeze", approved_by="operator")
        == 1
    )
    assert scrape.value("approval_requests_total", outcome="accepted") == 1
    # Two of the group's three events are of this VM.
    assert scrape.transitions(scope="self") == {"detected": 2, "approved": 1}
    (line,) = exporter.lines('msg="approval accepted"')
    # `approve` ran as the user ada with sudo.
    assert (
        f"event_id={event_id} event_type=Freeze approved_by=operator who=ada"
        " resources=vmss_0,vmss_1" in line
    )
    events = json.loads(fetch(f"{exporter.url}/api/v1/events").body)["events"]
    approvers = {event["event_id"]: event["approved_by"] for event in events}
    assert approvers[event_id] == "operator"
    posts = [seen for seen in simulator.requests if seen.method == "POST"]
    assert len(posts) == 1, "the exporter has sent it, and the command has not"


def test_all_mine(
    simulator: Simulator, state: Path, start_exporter: Callable[..., Exporter]
) -> None:
    """``--all-mine`` approves the events of this VM that wait, each once. An event of another VM
    alone is approved only by its id.
    """
    exporter = start(start_exporter, simulator.url, state)
    done = approve(simulator.url, state, "--all-mine", "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{BEGINS_NOW_FOR}vmss_0, vmss_1\n" in done.stdout
    assert sorted(approved(simulator)) == [("Freeze", "vmss_0"), ("Reboot", "vmss_0")]
    exporter.shows("approved", lambda scrape: scrape.total("event_approved") == 2)
    assert exporter.scrape().value("approval_requests_total", outcome="accepted") == 2
    again = approve(simulator.url, state, "--all-mine", "--yes")
    assert (again.returncode, again.stderr) == (0, "")
    ids = event_ids(simulator)
    already = {f"{ids[kind]}: it is approved already, by operator" for kind in ("Freeze", "Reboot")}
    last_two_lines = set(again.stdout.splitlines()[-2:])
    assert last_two_lines == already
    assert BEGINS_NOW_FOR not in again.stdout
    done = approve(simulator.url, state, event_ids(simulator)["Redeploy"], "--yes")
    assert done.returncode == 0
    assert f"{BEGINS_NOW_FOR}vmss_2\n" in done.stdout
    exporter.shows("approved", lambda scrape: scrape.total("event_approved", scope="peer") == 1)


def test_a_file_that_is_no_journal(simulator: Simulator, tmp_path: Path) -> None:
    """``approve`` with the name of another file is refused in one line, and the file stays where it
    is.
    """
    file = tmp_path / "hosts.txt"
    file.write_text("127.0.0.1 localhost\n" * 100)
    done = approve(simulator.url, file, "--all-mine", "--yes")
    assert_one_line(done, 1, f"{file} cannot be used as --journal.path: file is not a database")
    assert [path.name for path in tmp_path.iterdir()] == ["hosts.txt"]
    assert approved(simulator) == []


def test_the_journal_of_another_vm(
    simulator: Simulator, state: Path, start_exporter: Callable[..., Exporter]
) -> None:
    """With the journal of another VM, as in a rehearsal that names the real journal, ``approve`` is
    refused in one line: nothing is approved, and the journal stays as it was.
    """
    # An exporter of the VM vmss_0 has made the journal.
    start(start_exporter, simulator.url, state).terminate()
    before = history(state)
    with Simulator(vm(1)) as other:
        other.set_document([event("A")])
        done = approve(other.url, state, "A", "--yes")
        assert [seen for seen in other.requests if seen.method == "POST"] == []
    assert_one_line(done, 1, f"the journal {state / 'journal.sqlite'} cannot be used (it belongs")
    assert "--journal.path" in done.stderr
    assert set_aside(state) == []
    assert history(state) == before


def test_without_an_exporter(
    simulator: Simulator, state: Path, start_exporter: Callable[..., Exporter]
) -> None:
    """The command says that no exporter runs with its journal, and sends the approval of the named
    event, and of no other, itself; the next exporter knows of it. Beside an exporter that has
    another journal, the command says the same, before its question on a terminal.
    """
    ids = event_ids(simulator)
    done = approve(simulator.url, state, ids["Reboot"], "--yes", "--approval.policy", "documented")
    assert (done.returncode, done.stderr) == (0, warning_of_no_exporter(state))
    assert done.stdout.splitlines()[-1] == f"{ids['Reboot']}: accepted"
    assert approved(simulator) == [("Reboot", "vmss_0")], "nothing that the policy would add"
    exporter = start(start_exporter, simulator.url, state)
    scrape = exporter.scrape()
    assert scrape.value("event_approved", event_id=ids["Reboot"]) == 1
    assert (
        scrape.value("approval_latency_seconds_count", event_type="Reboot", approved_by="operator")
        == 1
    )
    assert scrape.transitions(scope="self") == {"detected": 2, "approved": 1}
    assert len([seen for seen in simulator.requests if seen.method == "POST"]) == 1
    status, said = on_terminal(simulator.url, state / "other", b"n\n")
    assert status == 1
    line = warning_of_no_exporter(state / "other").strip()
    assert line in said.decode().partition("Approve? [y/N]")[0].splitlines(), (
        "said before the question"
    )


def test_an_exporter_starts_while_imds_hangs(
    simulator: Simulator, state: Path, start_exporter: Callable[..., Exporter]
) -> None:
    """While the command waits for the first answer of IMDS, it keeps no exporter from starting."""
    simulator.inject("timeout")
    operator = begin(simulator.url, state, "any")
    eventually(lambda: simulator.requests, "the command has asked IMDS")
    exporter = start_exporter(simulator.url, "--journal.path", str(state))
    exporter.shows("the journal on disk", lambda scrape: scrape.value("journal_up") == 1)
    assert operator.poll() is None, "the command still waits"
    operator.terminate()
    operator.communicate(timeout=PATIENCE)
    assert operator.returncode == 128 + signal.SIGTERM


def test_a_reader_that_stands_still(simulator: Simulator, state: Path) -> None:
    """While nobody reads what the command says, it approves all the same, and is an exporter no
    longer than that takes.
    """
    read_end, write_end = os.pipe()
    fill(write_end)
    event_id = event_ids(simulator)["Reboot"]
    operator = subprocess.Popen(
        command_line(simulator.url, state, event_id, "--yes"),
        stdout=write_end,
        stderr=write_end,
        env=environment(),
    )
    os.close(write_end)
    eventually(lambda: approved(simulator) == [("Reboot", "vmss_0")], "the approval")
    eventually(lambda: not has_writer(state), "another exporter could start")
    assert operator.poll() is None, "its output waits for a reader"
    os.close(read_end)
    assert operator.wait(PATIENCE) == 0


def fill(pipe: int) -> None:
    """Write to a pipe until it has no more room."""
    os.set_blocking(pipe, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(pipe, bytes(4096))
    os.set_blocking(pipe, True)


def test_question(simulator: Simulator, state: Path) -> None:
    """On a terminal, ``--all-mine`` asks; anything but a yes, and the end of input, is a no."""
    end_of_input = b"\x04"
    for typed, is_yes in ((end_of_input, False), (b"n\n", False), (b"YES\n", True)):
        status, said = on_terminal(simulator.url, state, typed)
        assert status == (0 if is_yes else 1), said
        assert bool(approved(simulator)) is is_yes, said
        assert b"Traceback" not in said
        # A table would be wider than a terminal, so each event is a list of its fields.
        assert b"\nNotBefore: " in said
        wait_a_second(simulator)  # or IMDS would throttle the next command


def test_deletions_are_named(simulator: Simulator, state: Path) -> None:
    """What is shown before the question names the VMs that are gone afterwards. A line break in the
    name of a VM makes no line of its own.
    """
    simulator.set_document(
        [
            event("A") | {"EventType": "Preempt", "Resources": ["vmss_0"]},
            event("B") | {"EventType": "Terminate", "Resources": ["vmss_0", "vmss_1\n"]},
            event("C") | {"EventType": "Freeze", "Resources": ["vmss_2"]},
        ]
    )
    done = approve(simulator.url, state, "A", "B", "C")
    assert done.returncode == 2, "nobody can be asked"
    assert done.stdout.splitlines()[-2:] == [
        f"{BEGINS_NOW_FOR}vmss_0, vmss_1\\n, vmss_2",
        f"{DELETES_NOW}vmss_0 (Preempt), vmss_0 (Terminate), vmss_1\\n (Terminate)",
    ]


def test_nothing_is_sent(
    simulator: Simulator, state: Path, start_exporter: Callable[..., Exporter]
) -> None:
    """With an id that is no current event, or with nobody to ask and no ``--yes``, nothing at all
    is approved.
    """
    start(start_exporter, simulator.url, state)
    event_id = event_ids(simulator)["Freeze"]
    done = approve(simulator.url, state, event_id, "no-such-event", "--yes")
    assert done.returncode == 1
    assert (
        done.stderr
        == f"{PROGRAM}: no current event has the id no-such-event: see {PROGRAM} events\n"
    )
    done = approve(simulator.url, state, event_id)
    assert done.returncode == 2
    assert done.stderr == f"{PROGRAM}: approve: standard input is not a terminal: add --yes\n"
    assert f"{BEGINS_NOW_FOR}vmss_0, vmss_1\n" in done.stdout
    assert not approved(simulator)


NO_SELECTION = "approve: give EventIds, or --all-mine"
NOT_SHARED = "--journal.path: 'memory' cannot be shared: name the journal of the running exporter"


@pytest.mark.parametrize(
    ("selection", "journal", "complaint"),
    [
        pytest.param((), "state", NO_SELECTION, id="neither"),
        pytest.param(("id", "--all-mine"), "state", NO_SELECTION, id="both"),
        pytest.param(("id",), "memory", NOT_SHARED, id="no shared journal"),
    ],
)
def test_usage(
    selection: tuple[str, ...], journal: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A command that makes no sense is refused before IMDS is asked."""
    flags = ("--imds.endpoint", "http://127.0.0.1:9", "--journal.path", journal)
    assert main(("approve", *selection, *flags)) == 2
    assert capsys.readouterr().err == f"{PROGRAM}: {complaint}\n"


def test_already_begun(state: Path, start_exporter: Callable[..., Exporter]) -> None:
    """An event that has started needs no request: success, and the result says so.

    In this group, events start as soon as they are approved.
    """
    with Simulator(group(approval_delay=0)) as simulator:
        exporter = start(start_exporter, simulator.url, state)
        ids = event_ids(simulator)
        assert approve(simulator.url, state, ids["Reboot"], "--yes").returncode == 0
        exporter.shows("started", lambda scrape: scrape.total("started", scope="self") == 1)
        wait_a_second(simulator)  # or IMDS would throttle the next command
        done = approve(simulator.url, state, ids["Reboot"], ids["Freeze"], "--yes")
        assert done.returncode == 0
        assert done.stdout.splitlines()[-2:] == [
            f"{ids['Reboot']}: it has started already",
            f"{ids['Freeze']}: accepted",
        ]


COMMAND_AS_NOBODY = f"""
import encodings.ascii, encodings.idna, encodings.latin_1, os, sys
from azure_scheduled_events_exporter.commands import cli, events
from azure_scheduled_events_exporter.commands.approve import command
from azure_scheduled_events_exporter.tracing import otlp
os.setgroups([])
os.setgid({NOBODY})
os.setuid({NOBODY})
sys.exit(cli.main(sys.argv[1:]))
"""
"""Becomes the user nobody after it has imported everything, since not every folder on the way to
the command and its modules is open to all.
"""


def test_needs_write_access(simulator: Simulator, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A user who cannot write the journal approves nothing, and gets the reason."""
    assert os.geteuid() == 0, "this test needs root, to be somebody else for a moment"
    state = tmp_path_factory.mktemp("owned") / "state"
    state.mkdir(mode=0o700)
    flags = ("--imds.endpoint", simulator.url, "--journal.path", str(state))
    done = subprocess.run(
        [sys.executable, "-c", COMMAND_AS_NOBODY, "approve", *flags, "--all-mine", "--yes"],
        check=False,
        capture_output=True,
        text=True,
        env=environment(),
        timeout=2 * PATIENCE,
    )
    assert done.returncode == 1, done.stderr
    assert done.stderr == (
        f"{PROGRAM}: approve: the user nobody may not write the journal {state}/journal.sqlite:"
        " run approve as root, or as the exporter's user\n"
    )
    assert done.stdout == ""
    assert not simulator.requests


def test_root_follows_no_link(simulator: Simulator, tmp_path: Path) -> None:
    """The user of the exporter cannot make root write to a file of root through a link."""
    assert os.geteuid() == 0, "this test needs root, to make a folder of somebody else"
    target = tmp_path / "target"
    target.mkdir(mode=0o755)
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    for name in ("journal.sqlite", "journal.sqlite.documents", "journal.sqlite.lock"):
        (folder / name).symlink_to(target / name)
    os.chown(folder, NOBODY, NOBODY)
    approve(simulator.url, folder, event_ids(simulator)["Reboot"], "--yes")
    assert list(target.iterdir()) == []
    assert approved(simulator) == []


def test_no_event_id_forges_a_result(simulator: Simulator, state: Path) -> None:
    """A line break in an EventId is printed as an escape, so that it makes no line of its own.

    EventIds are shown in upper case.
    """
    simulator.set_document([event("A\nB: accepted")])
    done = approve(simulator.url, state, "--all-mine", "--yes")
    assert done.stdout.splitlines()[-1] == "A\\nB: ACCEPTED: accepted"
