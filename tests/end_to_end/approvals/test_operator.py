"""The command ``approve``: an operator on the VM lets events begin, beside a running exporter or without one."""

import json
import os
import pty
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from email.utils import formatdate
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.journal.files import read_only, writable
from azure_scheduled_events_exporter.simulator import PlannedEvent, Scenario, Simulator, VirtualMachine, What
from support.events.gate import Gate, Way
from support.programs import COMMAND, PATIENCE, Exporter, environment, eventually, fetch

VMS = tuple(VirtualMachine(f"vmss_{number}", scale_set="vmss") for number in range(3))
SHOWN = "Approving lets this begin now, for every VM in Resources: "
PROGRAM = "azure-scheduled-events-exporter"
NOBODY = 65534


def group(approval_delay: float = 3600.0) -> Scenario:
    """Return a scenario with a freeze of the first two VMs, a reboot of the first and one of the third."""
    events = [
        PlannedEvent("Freeze", ("vmss_0", "vmss_1"), announced_at=0.0, approval_delay=approval_delay),
        PlannedEvent("Reboot", ("vmss_0",), announced_at=0.0, approval_delay=approval_delay),
        PlannedEvent("Redeploy", ("vmss_2",), announced_at=0.0, approval_delay=approval_delay),
    ]
    return Scenario("group", "Three events.", VMS, tuple(events))


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    """Return a simulator of the group; nothing begins for an hour after its approval."""
    with Simulator(group()) as simulator:
        yield simulator


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Return the folder of the journal."""
    return tmp_path / "state"


def event_ids(simulator: Simulator) -> dict[str, str]:
    """Return the EventIds by type."""
    happened = eventually(lambda: [h for h in simulator.record if h.what is What.ANNOUNCED], "the announcements")
    return {happening.event_type: happening.event_id for happening in happened}


def approved(simulator: Simulator) -> list[tuple[str, str]]:
    """Return the type of each event that was approved, and the VM that did it."""
    return [(h.event_type, h.vm) for h in simulator.record if h.what is What.APPROVED]


def approve(url: str, state: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command without a terminal."""
    return subprocess.run(
        [COMMAND, "approve", "--imds.endpoint", url, "--journal.path", str(state), *arguments],
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env=environment(LOGNAME="ada"),
        timeout=2 * PATIENCE,
    )


def a_second_later(simulator: Simulator) -> None:
    """Wait until IMDS has forgotten the requests so far: it would throttle two commands together."""
    asked = simulator.now()
    eventually(lambda: simulator.now() > asked + 1, "a second later")


def start(start_exporter: Callable[..., Exporter], url: str, state: Path, *flags: str) -> Exporter:
    """Return an exporter that has seen the events."""
    exporter = start_exporter(url, "--poll.interval", "250ms", "--journal.path", str(state), *flags)
    exporter.shows("the events", lambda scrape: scrape.total("event_info") == 3)
    return exporter


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
    assert f"event_ids={event_id} approved_by=operator who=ada resources=vmss_0,vmss_1" in line
    events = json.loads(fetch(f"{exporter.url}/api/v1/events").body)["events"]
    assert {event["event_id"]: event["approved_by"] for event in events}[event_id] == "operator"
    # It is the exporter that sent it: over the poller's own connection, within its budget.
    assert len([seen for seen in simulator.requests if seen.method == "POST"]) == 1


def test_all_mine(simulator: Simulator, state: Path, start_exporter: Callable[..., Exporter]) -> None:
    """``--all-mine`` approves what waits on this VM, in one request; another VM's event has to be named."""
    exporter = start(start_exporter, simulator.url, state)
    done = approve(simulator.url, state, "--all-mine", "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{SHOWN}vmss_0, vmss_1\n" in done.stdout
    assert sorted(approved(simulator)) == [("Freeze", "vmss_0"), ("Reboot", "vmss_0")]
    exporter.shows("approved", lambda scrape: scrape.total("event_approved") == 2)
    assert exporter.scrape().value("approval_requests_total", outcome="accepted") == 1
    again = approve(simulator.url, state, "--all-mine", "--yes")
    assert (again.returncode, again.stderr) == (1, f"{PROGRAM}: no event of this VM waits for an approval\n")
    done = approve(simulator.url, state, event_ids(simulator)["Redeploy"], "--yes")
    assert done.returncode == 0
    assert f"{SHOWN}vmss_2\n" in done.stdout
    exporter.shows("approved", lambda scrape: scrape.total("event_approved", scope="peer") == 1)


def test_without_an_exporter(simulator: Simulator, state: Path, start_exporter: Callable[..., Exporter]) -> None:
    """With no exporter running the command asks IMDS itself, and the exporter that starts next knows of it."""
    ids = event_ids(simulator)
    done = approve(simulator.url, state, ids["Reboot"], "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == f"{ids['Reboot']}: accepted"
    assert approved(simulator) == [("Reboot", "vmss_0")]
    exporter = start(start_exporter, simulator.url, state)
    scrape = exporter.scrape()
    assert scrape.value("event_approved", event_id=ids["Reboot"]) == 1
    assert scrape.value("approval_latency_seconds_count", event_type="Reboot", approved_by="operator") == 1
    assert scrape.transitions(scope="self") == {"detected": 2, "approved": 1}
    assert len([seen for seen in simulator.requests if seen.method == "POST"]) == 1


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
    assert (done.returncode, done.stderr) == (2, f"{PROGRAM}: approve: there is nobody to ask: say --yes\n")
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


def on_terminal(
    url: str, state: Path, answer: bytes, meanwhile: Callable[[], object] = lambda: None
) -> tuple[int, bytes]:
    """Run ``approve --all-mine`` on a terminal, type ``answer``; return its status and output."""
    master, terminal = pty.openpty()
    process = subprocess.Popen(
        [COMMAND, "approve", "--imds.endpoint", url, "--journal.path", str(state), "--all-mine"],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env=environment(TERM="dumb"),
    )
    os.close(terminal)
    said = b""
    try:
        while b"[y/N] " not in said:
            assert select.select([master], [], [], PATIENCE)[0], said
            said += os.read(master, 4096)
        meanwhile()
        os.write(master, answer)
        return process.wait(PATIENCE), said + _rest(master)
    finally:
        process.kill()
        process.wait(PATIENCE)
        os.close(master)


def _rest(master: int) -> bytes:
    """What a terminal still holds once its program has ended."""
    try:
        return os.read(master, 65536)
    except OSError:
        return b""


@pytest.mark.parametrize("running", [True, False])
def test_imds_refuses(
    running: bool,  # noqa: FBT001 - pytest hands it in by name
    simulator: Simulator,
    state: Path,
    start_exporter: Callable[..., Exporter],
) -> None:
    """A refusal is printed with the answer of IMDS; nothing is counted as approved or sent twice."""
    with Gate(simulator.url, 500) as gate:
        exporter = start(start_exporter, gate.url, state) if running else None
        event_id = event_ids(simulator)["Reboot"]
        done = approve(gate.url, state, event_id, "--yes")
        assert done.returncode == 1
        assert done.stdout.splitlines()[-1] == f"{event_id}: approval refused: {gate.url} answered 500: not today"
        assert done.stderr == ""
        gate.treat(Way.PASS)
        exporter = exporter or start(start_exporter, gate.url, state)
        polls = exporter.scrape().value("polls_total", outcome="ok") or 0
        exporter.shows("polls", lambda s: (s.value("polls_total", outcome="ok") or 0) > polls + 6)
        assert len(gate.posts) == 1
        assert exporter.scrape().total("event_approved") == 0
        assert exporter.scrape().value("approval_requests_total", outcome="rejected") == (1 if running else 0)


@pytest.mark.parametrize("running", [True, False])
def test_imds_throttles(
    running: bool,  # noqa: FBT001 - pytest hands it in by name
    simulator: Simulator,
    state: Path,
    start_exporter: Callable[..., Exporter],
) -> None:
    """After a 429, the request is sent again until IMDS answers, and the command waits for that."""
    with Gate(simulator.url, 429, Way.PASS) as gate:
        exporter = start(start_exporter, gate.url, state) if running else None
        event_id = event_ids(simulator)["Reboot"]
        done = approve(gate.url, state, event_id, "--yes")
        assert (done.returncode, done.stdout.splitlines()[-1]) == (0, f"{event_id}: accepted"), done.stderr
        assert len(gate.posts) == 2
        exporter = exporter or start(start_exporter, gate.url, state)
        assert exporter.scrape().transitions(event_type="Reboot")["approved"] == 1


def test_no_answer(simulator: Simulator, state: Path, start_exporter: Callable[..., Exporter]) -> None:
    """If no answer comes, the command reports that, and not a refusal."""
    with Gate(simulator.url, Way.HANG) as gate:
        exporter = start(start_exporter, gate.url, state, "--imds.timeout", "500ms")
        event_id = event_ids(simulator)["Reboot"]
        done = approve(gate.url, state, event_id, "--yes")
        assert done.returncode == 1
        assert done.stdout.splitlines()[-1] == (
            f"{event_id}: approval without an answer: no whole answer from {gate.url} within 0.5 s"
        )
        assert exporter.scrape().value("approval_requests_total", outcome="error") == 1


@pytest.mark.parametrize("asked", [False, True])
def test_imds_is_away(
    asked: bool,  # noqa: FBT001 - pytest hands it in by name
    state: Path,
    simulator: Simulator,
    start_exporter: Callable[..., Exporter],
) -> None:
    """After the command has reported a failure, no approval is sent once IMDS is back."""
    event_ids(simulator)
    if asked:
        status, told = on_terminal(simulator.url, state, b"y\n", lambda: simulator.inject("503"))
        said = told.decode()
    else:
        simulator.inject("503")
        done = approve(simulator.url, state, "--all-mine", "--yes")
        status, said = done.returncode, done.stderr
    assert status == 1
    assert "answered 503" in said
    simulator.heal()
    a_second_later(simulator)
    exporter = start(start_exporter, simulator.url, state)
    exporter.shows("polls", lambda s: (s.value("polls_total", outcome="ok") or 0) > 5)
    assert not approved(simulator)


@pytest.mark.parametrize("running", [True, False])
def test_already_begun(
    running: bool,  # noqa: FBT001 - pytest hands it in by name
    state: Path,
    start_exporter: Callable[..., Exporter],
) -> None:
    """An event that has started or is approved needs no request; the result says which of both."""
    with Simulator(group(approval_delay=0)) as simulator:
        if running:
            exporter = start(start_exporter, simulator.url, state)
        ids = event_ids(simulator)
        assert approve(simulator.url, state, ids["Reboot"], "--yes").returncode == 0
        if running:
            exporter.shows("started", lambda scrape: scrape.total("started", scope="self") == 1)
        a_second_later(simulator)
        done = approve(simulator.url, state, ids["Reboot"], ids["Freeze"], "--yes")
        assert done.returncode == 1
        assert done.stdout.splitlines()[-2:] == [
            f"{ids['Reboot']}: it has started already",
            f"{ids['Freeze']}: accepted",
        ]
    with Simulator(group()) as simulator:
        ids = event_ids(simulator)
        assert approve(simulator.url, state / "other", ids["Reboot"], "--yes").returncode == 0
        a_second_later(simulator)
        done = approve(simulator.url, state / "other", ids["Reboot"], "--yes")
        assert done.returncode == 1
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


def test_operators_wish_survives_a_kill(state: Path, start_exporter: Callable[..., Exporter]) -> None:
    """A wish whose request was under way at a kill is fulfilled after it, and is still the operator's."""
    with ExitStack() as stack:
        simulator = stack.enter_context(Simulator(group()))
        gate = stack.enter_context(Gate(simulator.url, Way.HANG, Way.PASS))
        exporter = start(start_exporter, gate.url, state)
        event_id = event_ids(simulator)["Reboot"]
        command = [COMMAND, "approve", "--imds.endpoint", gate.url, "--journal.path", str(state), event_id, "--yes"]
        operator = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment())
        eventually(lambda: gate.posts, "the approval")
        exporter.kill()
        again = start(start_exporter, gate.url, state)
        said, _ = operator.communicate(timeout=2 * PATIENCE)
        assert said.splitlines()[-1] == f"{event_id}: accepted"
        assert operator.returncode == 0
        assert again.scrape().value("approval_latency_seconds_count", approved_by="operator") == 1
        assert approved(simulator) == [("Reboot", "vmss_0")]


def queued(state: Path) -> list[str]:
    """Return the EventIds of the approval requests that have no result."""
    with closing(read_only(state)) as store:
        return [request.event_id for request in store.requests.open()]


@contextmanager
def stopped(exporter: Exporter) -> Iterator[None]:
    """Stop the exporter's process during the block."""
    exporter.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        exporter.process.send_signal(signal.SIGCONT)


def nothing_was_sent(simulator: Simulator, exporter: Exporter) -> None:
    """Let the exporter poll a while, and see that it has asked for nothing."""
    polls = exporter.scrape().value("polls_total", outcome="ok") or 0
    exporter.shows("polls", lambda s: (s.value("polls_total", outcome="ok") or 0) > polls + 4)
    assert [seen for seen in simulator.requests if seen.method == "POST"] == []


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_request_is_withdrawn(
    number: int, status: int, simulator: Simulator, state: Path, start_exporter: Callable[..., Exporter]
) -> None:
    """``approve`` that ends before its request was sent withdraws it, and the exporter never sends it."""
    exporter = start(start_exporter, simulator.url, state)
    event_id = event_ids(simulator)["Reboot"]
    command = [COMMAND, "approve", "--imds.endpoint", simulator.url, "--journal.path", str(state), event_id, "--yes"]
    with stopped(exporter):
        operator = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment())
        eventually(lambda: queued(state) == [event_id], "the request")
        operator.send_signal(number)
        said, _ = operator.communicate(timeout=2 * PATIENCE)
        assert operator.returncode == status
        assert said.splitlines()[-1] == f"{event_id}: withdrawn before it was sent"
        assert queued(state) == []
    nothing_was_sent(simulator, exporter)


def test_requests_expire(simulator: Simulator, state: Path, start_exporter: Callable[..., Exporter]) -> None:
    """A request that a killed ``approve`` left behind is not fulfilled once its operator would have given up."""
    exporter = start(start_exporter, simulator.url, state)
    event_id = event_ids(simulator)["Reboot"]
    now = time.time()
    with closing(writable(state)) as store:
        store.requests.add({event_id: None}, "ada", now - 60, now - 30)
    eventually(lambda: queued(state) == [], "a result")
    nothing_was_sent(simulator, exporter)


def test_requests_hold_for_what_was_shown(state: Path, start_exporter: Callable[..., Exporter]) -> None:
    """An event whose NotBefore has moved since the operator saw it is not approved, and the operator learns why."""
    with Simulator(Scenario("quiet", "Nothing happens.", VMS, ())) as simulator:
        moments = [formatdate(time.time() + hours * 3600, usegmt=True) for hours in (1, 2)]
        event: dict[str, object] = {
            "EventId": "MOVED",
            "EventType": "Reboot",
            "EventStatus": "Scheduled",
            "EventSource": "Platform",
        }
        event |= {"ResourceType": "VirtualMachine", "Resources": ["vmss_0"], "Description": ""}
        simulator.set_document([{**event, "NotBefore": moments[0], "DurationInSeconds": -1}])
        exporter = start_exporter(simulator.url, "--poll.interval", "250ms", "--journal.path", str(state))
        exporter.shows("the event", lambda scrape: scrape.total("event_info") == 1)
        command = [COMMAND, "approve", "--imds.endpoint", simulator.url, "--journal.path", str(state), "MOVED", "--yes"]
        with stopped(exporter):
            operator = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment())
            eventually(lambda: queued(state) == ["MOVED"], "the request")
            simulator.set_document([{**event, "NotBefore": moments[1], "DurationInSeconds": -1}])
        said, _ = operator.communicate(timeout=2 * PATIENCE)
        assert operator.returncode == 1
        assert said.splitlines()[-1].startswith("MOVED: not approved: NotBefore was ")
        nothing_was_sent(simulator, exporter)


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
