"""The command ``approve``: an operator on the VM lets events begin, beside a running exporter or without one."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.simulator import Simulator
from support.commands import assert_one_line
from support.events.approve_command import (
    FINAL,
    PROGRAM,
    SHOWN,
    a_second_later,
    approve,
    approved,
    event_ids,
    group,
    on_terminal,
    sends_itself,
    start,
)
from support.events.follower import event
from support.programs import COMMAND, PATIENCE, Exporter, environment, fetch

NOBODY = 65534
LATER = "Tue, 01 Jan 2097 00:00:00 GMT"


def test_beside_a_running_exporter(simulator: Simulator, state: Path, start_exporter: Callable[..., Exporter]) -> None:
    """The request is shown, sent by the running exporter, counted as the operator's, and its result printed."""
    exporter = start(start_exporter, simulator.url, state)
    event_id = event_ids(simulator)["Freeze"]
    done = approve(simulator.url, state, event_id.lower(), "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    head, row, shown, told = done.stdout.splitlines()
    assert head.split()[:2] == ["EventId", "Type"]
    assert row.split()[:3] == [event_id, "Freeze", "Scheduled"]
    assert shown == f"{SHOWN}vmss_0, vmss_1"
    assert told == f"{event_id}: accepted"
    assert approved(simulator) == [("Freeze", "vmss_0")]
    exporter.shows("approved", lambda scrape: scrape.total("event_approved") == 1)
    scrape = exporter.scrape()
    assert scrape.value("approval_latency_seconds_count", event_type="Freeze", approved_by="operator") == 1
    assert scrape.value("approval_requests_total", outcome="accepted") == 1
    assert scrape.transitions(scope="self") == {"detected": 2, "approved": 1}
    (line,) = exporter.lines('msg="approval accepted"')
    assert f"event_ids={event_id} event_types=Freeze approved_by=operator who=ada resources=vmss_0,vmss_1" in line
    events = json.loads(fetch(f"{exporter.url}/api/v1/events").body)["events"]
    assert {event["event_id"]: event["approved_by"] for event in events}[event_id] == "operator"
    # It is the exporter that sent it: over the poller's own connection, within its budget.
    assert len([seen for seen in simulator.requests if seen.method == "POST"]) == 1


def test_all_mine(simulator: Simulator, state: Path, start_exporter: Callable[..., Exporter]) -> None:
    """``--all-mine`` approves what waits on this VM, in one request, once; another VM's event has to be named."""
    exporter = start(start_exporter, simulator.url, state)
    done = approve(simulator.url, state, "--all-mine", "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{SHOWN}vmss_0, vmss_1\n" in done.stdout
    assert sorted(approved(simulator)) == [("Freeze", "vmss_0"), ("Reboot", "vmss_0")]
    exporter.shows("approved", lambda scrape: scrape.total("event_approved") == 2)
    assert exporter.scrape().value("approval_requests_total", outcome="accepted") == 1
    again = approve(simulator.url, state, "--all-mine", "--yes")
    assert (again.returncode, again.stderr) == (0, "")
    ids = event_ids(simulator)
    already = {f"{ids[kind]}: it is approved already, by operator" for kind in ("Freeze", "Reboot")}
    assert set(again.stdout.splitlines()[-2:]) == already
    assert SHOWN not in again.stdout
    done = approve(simulator.url, state, event_ids(simulator)["Redeploy"], "--yes")
    assert done.returncode == 0
    assert f"{SHOWN}vmss_2\n" in done.stdout
    exporter.shows("approved", lambda scrape: scrape.total("event_approved", scope="peer") == 1)


def test_all_mine_takes_what_was_postponed(
    simulator: Simulator, state: Path, start_exporter: Callable[..., Exporter]
) -> None:
    """An event whose NotBefore moves away after its approval waits again, and ``--all-mine`` approves it."""
    exporter = start(start_exporter, simulator.url, state)
    simulator.set_document([event("A")])
    exporter.shows("the event", lambda now: now.total("event_info") == 1)
    assert approve(simulator.url, state, "--all-mine", "--yes").stdout.splitlines()[-1] == "A: accepted"
    before = exporter.scrape().value("event_not_before_timestamp_seconds")
    simulator.set_document([event("A", not_before=LATER)])
    exporter.shows("postponed", lambda now: (now.value("event_not_before_timestamp_seconds") or 0) > (before or 0))
    assert approve(simulator.url, state, "--all-mine", "--yes").stdout.splitlines()[-1] == "A: accepted"


def test_names_from_outside(simulator: Simulator, state: Path) -> None:
    """A line break in the name of a VM cannot forge a line of what the operator is shown."""
    simulator.set_document([event("A") | {"Resources": ["vmss_0", "vmss_1\nvmss_2: unaffected"]}])
    done = approve(simulator.url, state, "A", "--yes")
    assert f"{SHOWN}vmss_0, vmss_1\\nvmss_2: unaffected" in done.stdout.splitlines()


def test_events_as_the_exporter_knows_them(
    simulator: Simulator, state: Path, tmp_path: Path, start_exporter: Callable[..., Exporter]
) -> None:
    """``events`` beside an exporter says what its API says: what is approved, and when a rule approves the others."""
    policy = tmp_path / "policy.yaml"
    policy.write_text("rules: [{name: drained, action: approve, after: 1h}]\n")
    flags = ("--approval.policy", str(policy))
    exporter = start(start_exporter, simulator.url, state, *flags, "--poll.interval", "1s")
    approve(simulator.url, state, event_ids(simulator)["Freeze"], "--yes")
    exporter.shows("approved", lambda scrape: scrape.total("event_approved") == 1)
    a_second_later(simulator)
    command = [COMMAND, "events", "--json", "--imds.endpoint", simulator.url, "--journal.path", str(state), *flags]
    said = subprocess.run(command, check=True, capture_output=True, env=environment(), timeout=PATIENCE).stdout
    pages = [json.loads(text)["events"] for text in (said, fetch(f"{exporter.url}/api/v1/events").body)]
    names = ("event_id", "approved", "approved_by", "approval", "approval_due")
    own, exporters = ([{name: event[name] for name in names} for event in page] for page in pages)
    assert own == exporters
    assert {event["approved_by"] for event in own} == {"operator", None}


def test_a_file_that_is_no_journal(simulator: Simulator, tmp_path: Path) -> None:
    """``approve`` with the name of another file is refused in one line, and the file stays where it is."""
    file = tmp_path / "hosts.txt"
    file.write_text("127.0.0.1 localhost\n" * 100)
    done = approve(simulator.url, file, "--all-mine", "--yes")
    assert_one_line(done, 1, f"{file} cannot be used as --journal.path: file is not a database")
    assert [path.name for path in tmp_path.iterdir()] == ["hosts.txt"]
    assert approved(simulator) == []


def test_login_name_in_another_encoding(
    simulator: Simulator, state: Path, start_exporter: Callable[..., Exporter]
) -> None:
    """An operator whose login name is not UTF-8 can approve; the log shows the name with an escape."""
    exporter = start(start_exporter, simulator.url, state)
    done = approve(simulator.url, state, event_ids(simulator)["Freeze"], "--yes", login=os.fsdecode(b"j\xfcrgen"))
    assert (done.returncode, done.stderr) == (0, "")
    (line,) = exporter.lines('msg="approval accepted"')
    assert r'who="j\\udcfcrgen"' in line


def test_deletions_are_named(simulator: Simulator, state: Path) -> None:
    """What is shown before the question names the VMs that are gone afterwards, and says that this is final."""
    events = [
        event("A") | {"EventType": "Preempt", "Resources": ["vmss_0"]},
        event("B") | {"EventType": "Terminate", "Resources": ["vmss_0", "vmss_1\n"]},
        event("C") | {"EventType": "Freeze", "Resources": ["vmss_2"]},
    ]
    simulator.set_document(events)
    done = approve(simulator.url, state, "A", "B", "C")
    assert done.returncode == 2, done
    assert done.stdout.splitlines()[-2:] == [
        f"{SHOWN}vmss_0, vmss_1\\n, vmss_2",
        f"{FINAL}vmss_0 (Preempt), vmss_0 (Terminate), vmss_1\\n (Terminate)",
    ]
    simulator.set_document(events[2:])
    a_second_later(simulator)
    assert FINAL not in approve(simulator.url, state, "C").stdout


def test_all_mine_asks_before_a_deletion(simulator: Simulator, state: Path) -> None:
    """``--all-mine`` on a VM that is to be evicted says so before it asks; its help does, too."""
    simulator.set_document([event("A") | {"EventType": "Preempt", "Resources": ["vmss_0"]}])
    status, said = on_terminal(simulator.url, state, b"n\n")
    assert status == 1
    assert f"{FINAL}vmss_0 (Preempt)\r\nApprove? [y/N] " in said.decode()
    said = subprocess.run([COMMAND, "approve", "--help"], capture_output=True, check=True, env=environment()).stdout
    assert "including Preempt and Terminate, which delete it." in " ".join(said.decode().split())


def test_without_an_exporter(simulator: Simulator, state: Path, start_exporter: Callable[..., Exporter]) -> None:
    """With no exporter running the command says so and asks IMDS itself; the exporter that starts next knows of it."""
    ids = event_ids(simulator)
    done = approve(simulator.url, state, ids["Reboot"], "--yes")
    assert (done.returncode, done.stderr) == (0, sends_itself(state))
    assert done.stdout.splitlines()[-1] == f"{ids['Reboot']}: accepted"
    assert approved(simulator) == [("Reboot", "vmss_0")]
    exporter = start(start_exporter, simulator.url, state)
    scrape = exporter.scrape()
    assert scrape.value("event_approved", event_id=ids["Reboot"]) == 1
    assert scrape.value("approval_latency_seconds_count", event_type="Reboot", approved_by="operator") == 1
    assert scrape.transitions(scope="self") == {"detected": 2, "approved": 1}
    assert len([seen for seen in simulator.requests if seen.method == "POST"]) == 1


def test_beside_an_exporter_with_another_journal(
    simulator: Simulator, state: Path, start_exporter: Callable[..., Exporter]
) -> None:
    """Beside an exporter of another user, the command says before its question how that exporter can send instead."""
    start(start_exporter, simulator.url, state)
    status, said = on_terminal(simulator.url, state / "other", b"n\n")
    assert status == 1
    line = sends_itself(state / "other", yes=False).strip()
    assert line in said.decode().partition("Approve? [y/N]")[0].splitlines()
    assert not approved(simulator)


def test_without_an_exporter_the_event_changes(simulator: Simulator, state: Path) -> None:
    """An event that becomes a deletion while the operator looks at it is not approved without an exporter either."""
    simulator.set_document([event("A", kind="Freeze")])

    def becomes_a_deletion() -> None:
        a_second_later(simulator)
        simulator.set_document([event("A", kind="Terminate")])

    status, said = on_terminal(simulator.url, state, b"y\n", becomes_a_deletion)
    assert "A: not approved: EventType was Freeze when you confirmed and is Terminate now; " in said.decode()
    assert status == 1
    assert not [seen for seen in simulator.requests if seen.method == "POST"]


def test_policy_is_not_the_operators(simulator: Simulator, state: Path) -> None:
    """The command sends what was asked of it, and nothing that the policy in its environment would add."""
    done = approve(simulator.url, state, event_ids(simulator)["Reboot"], "--yes", "--approval.policy", "documented")
    assert done.returncode == 0
    assert approved(simulator) == [("Reboot", "vmss_0")]


@pytest.mark.parametrize("running", [True, False])
def test_nothing_is_sent(
    running: bool,  # noqa: FBT001 - pytest hands it in by name
    simulator: Simulator,
    state: Path,
    start_exporter: Callable[..., Exporter],
) -> None:
    """With an id that is no current event, or with nobody to ask and no ``--yes``, nothing at all is approved."""
    if running:
        start(start_exporter, simulator.url, state)
    event_id = event_ids(simulator)["Freeze"]
    done = approve(simulator.url, state, event_id, "no-such-event", "--yes")
    assert done.returncode == 1
    assert done.stderr == f"{PROGRAM}: no current event has the id no-such-event: see {PROGRAM} events\n"
    done = approve(simulator.url, state, event_id)
    said = "" if running else sends_itself(state, yes=False)
    assert done.returncode == 2
    assert done.stderr == f"{said}{PROGRAM}: approve: standard input is not a terminal: add --yes\n"
    assert f"{SHOWN}vmss_0, vmss_1\n" in done.stdout
    assert not approved(simulator)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "approve: give EventIds, or --all-mine"),
        (("id", "--all-mine"), "approve: give EventIds, or --all-mine"),
        (
            ("id", "--journal.path", "memory"),
            "--journal.path: 'memory' cannot be shared: name the journal of the running exporter",
        ),
    ],
)
def test_usage(arguments: tuple[str, ...], complaint: str, state: Path) -> None:
    """A command that makes no sense is refused before IMDS is asked."""
    done = approve("http://127.0.0.1:9", state, *arguments)
    assert (done.returncode, done.stderr) == (2, f"{PROGRAM}: {complaint}\n")


@pytest.mark.parametrize("answer", ["y", "YES", "n", "", None])
def test_question(answer: str | None, simulator: Simulator, state: Path) -> None:
    """On a terminal the command asks, and takes only a yes for a yes; the end of input is a no."""
    status, said = on_terminal(simulator.url, state, b"\x04" if answer is None else f"{answer}\n".encode())
    yes = answer in {"y", "YES"}
    assert status == (0 if yes else 1)
    assert bool(approved(simulator)) is yes
    assert b"Traceback" not in said


@pytest.mark.parametrize("running", [True, False])
def test_already_begun(
    running: bool,  # noqa: FBT001 - pytest hands it in by name
    state: Path,
    start_exporter: Callable[..., Exporter],
) -> None:
    """An event that has started or is approved needs no request: success, and the result says which of both."""
    with Simulator(group(approval_delay=0)) as simulator:
        if running:
            exporter = start(start_exporter, simulator.url, state)
        ids = event_ids(simulator)
        assert approve(simulator.url, state, ids["Reboot"], "--yes").returncode == 0
        if running:
            exporter.shows("started", lambda scrape: scrape.total("started", scope="self") == 1)
        a_second_later(simulator)
        done = approve(simulator.url, state, ids["Reboot"], ids["Freeze"], "--yes")
        assert done.returncode == 0
        assert f"{SHOWN}vmss_0, vmss_1\n" in done.stdout
        assert done.stdout.splitlines()[-2:] == [
            f"{ids['Reboot']}: it has started already",
            f"{ids['Freeze']}: accepted",
        ]
    with Simulator(group()) as simulator:
        ids = event_ids(simulator)
        assert approve(simulator.url, state / "other", ids["Reboot"], "--yes").returncode == 0
        a_second_later(simulator)
        done = approve(simulator.url, state / "other", ids["Reboot"])
        assert done.returncode == 0
        assert SHOWN not in done.stdout  # there is nothing to confirm
        assert done.stderr == ""
        assert done.stdout.splitlines()[-1] == f"{ids['Reboot']}: it is approved already, by operator"


@pytest.mark.parametrize("running", [True, False])
def test_needs_write_access(
    running: bool,  # noqa: FBT001 - pytest hands it in by name
    simulator: Simulator,
    start_exporter: Callable[..., Exporter],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """A user who cannot write the journal approves nothing, with or without an exporter, and gets the reason."""
    if os.geteuid() != 0:
        pytest.fail("this test needs root, to be somebody else for a moment")
    state = tmp_path_factory.mktemp("owned") / "state"
    if running:
        start(start_exporter, simulator.url, state)
    else:
        state.mkdir(mode=0o700)
    # An interpreter that has become somebody else, since not every folder on the way to the command is open to all.
    code = (
        "import encodings.ascii, encodings.idna, encodings.latin_1, os, sys; "
        "from azure_scheduled_events_exporter.commands import approve, cli, events; "
        "from azure_scheduled_events_exporter.tracing import otlp; "
        f"os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY}); sys.exit(cli.main(sys.argv[1:]))"
    )
    done = subprocess.run(
        [
            *(str(Path(COMMAND).parent / "python"), "-c", code, "approve", "--imds.endpoint", simulator.url),
            *("--journal.path", str(state), "--all-mine", "--yes"),
        ],
        check=False,
        capture_output=True,
        text=True,
        env=environment(),
        timeout=2 * PATIENCE,
    )
    assert done.returncode == 1, done.stderr
    last = done.stderr.splitlines()[-1]
    assert last == f"{PROGRAM}: the journal {state} cannot be written, so nothing is sent: try as root"
    assert not approved(simulator)
    assert not [seen for seen in simulator.requests if seen.method == "POST"]


def test_a_question_keeps_no_exporter_from_starting(
    simulator: Simulator, state: Path, start_exporter: Callable[..., Exporter]
) -> None:
    """While the operator thinks, an exporter can start; the approval then goes through it."""
    event_ids(simulator)
    exporters: list[Exporter] = []
    status, said = on_terminal(
        simulator.url, state, b"y\n", lambda: exporters.append(start(start_exporter, simulator.url, state))
    )
    assert status == 0, said
    exporters[0].shows("approved", lambda scrape: scrape.total("event_approved") == 2)
    assert exporters[0].scrape().value("approval_requests_total", outcome="accepted") == 1
