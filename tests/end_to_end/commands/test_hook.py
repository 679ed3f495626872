"""The command ``hook`` beside a simulated metadata service: what its script gets, when it ends,
what is recorded.
"""

import json
import os
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from pathlib import Path

import psutil
import pytest

from azure_scheduled_events_exporter.commands.hook.runs import state_file
from azure_scheduled_events_exporter.simulator import Scenario, Simulator, VirtualMachine
from support.commands import assert_one_line, command
from support.events.gate import Gate, Way
from support.events.imds_bodies import entry
from support.monitoring.collector import Collector
from support.programs import COMMAND, Exporter, Program, environment, eventually
from trials.clock import WallClock

VMS = (VirtualMachine("vm_0"), VirtualMachine("vm_1"), VirtualMachine("vm_2"))
SCRIPT = """#!/bin/sh
echo "$1 $EVENT_ID $EVENT_TYPE $EVENT_KIND $EVENT_PHASE $EVENT_VM_NAME $EVENT_RESOURCES" >>"{log}"
"""
Start = Callable[..., Program]


@pytest.fixture
def imds() -> Iterator[Simulator]:
    """Return a simulator of three VMs without events."""
    with Simulator(Scenario("quiet", "Nothing happens.", VMS, ())) as simulator:
        yield simulator


@pytest.fixture
def hook(imds: Simulator, tmp_path: Path) -> Iterator[Start]:
    """Start hooks, ``hook(*options, script="exit 1", vm="vm_0")``, that end with the test;
    ``script`` is added.
    """
    started: list[Program] = []

    def start(
        *options: str, script: str = "", vm: str = "vm_0", endpoint: str = "", **env: str
    ) -> Program:
        path = tmp_path / f"{vm}.sh"
        path.write_text(SCRIPT.format(log=tmp_path / f"{vm}.log") + script + "\n")
        path.chmod(0o755)
        url = f"{endpoint or imds.url}/vm/{vm}"
        flags = ("--imds.endpoint", url, "--journal.path", str(tmp_path / vm))
        output = tmp_path / f"hook-{len(started)}.log"
        arguments = [COMMAND, "hook", *flags, "--poll.interval", "300ms", *options, "--", str(path)]
        program = Program(arguments, output, **environment(**env))
        started.append(program)
        return program.__enter__()

    yield start
    for program in started:
        if program.process.poll() is None:
            program.terminate()


@pytest.fixture
def exporter(imds: Simulator, start_exporter: Callable[..., Exporter], tmp_path: Path) -> Exporter:
    """Return the exporter of the first VM."""
    return start_exporter(
        f"{imds.url}/vm/vm_0", "--journal.path", str(tmp_path / "vm_0"), "--poll.interval", "300ms"
    )


def event(name: str = "A", *, notice: float = 60.0, **values: object) -> dict[str, object]:
    """Return a Reboot of the first VM."""
    shown = entry(EventId=name, NotBefore=formatdate(time.time() + notice, usegmt=True))
    return {**shown, **values}


def approvals(imds: Simulator) -> int:
    """Return how many requests to approve the metadata service got."""
    return sum(request.method == "POST" for request in imds.requests)


def lines(tmp_path: Path, vm: str = "vm_0") -> list[str]:
    """Return the phase and the event of each start of a VM's script."""
    path = tmp_path / f"{vm}.log"
    return (
        [" ".join(line.split()[:2]) for line in path.read_text().splitlines()]
        if path.exists()
        else []
    )


def outcomes(tmp_path: Path, vm: str = "vm_0") -> list[tuple[str, str]]:
    """Return phase and outcome of each run that ``history`` shows, of all events."""
    done = command("history", "--json", "--journal.path", str(tmp_path / vm))
    runs = [run for each in json.loads(done.stdout or "[]") for run in each["hook_runs"]]
    return [
        (run["phase"], run["outcome"]) for run in sorted(runs, key=lambda run: str(run["started"]))
    ]


def test_prepares_and_recovers_beside_an_exporter(
    imds: Simulator, exporter: Exporter, hook: Start, tmp_path: Path
) -> None:
    """The script runs once with ``prepare`` and once with ``recover``; metrics and history of the
    exporter show it.
    """
    hook("--approve", "own")
    imds.set_document([event()])
    eventually(lambda: approvals(imds), "an approval after the preparation")
    assert (tmp_path / "vm_0.log").read_text() == "prepare A Reboot announced prepare vm_0 vm_0\n"
    imds.set_document([])
    eventually(lambda: lines(tmp_path) == ["prepare A", "recover A"], "the recovery")
    count = "hook_runs_total"
    exporter.shows("both runs", lambda scrape: scrape.total(count, outcome="ok") == 2)
    assert exporter.scrape().total("hook_seconds_left_count", event_type="Reboot") == 1
    assert outcomes(tmp_path) == [("prepare", "ok"), ("recover", "ok")]


def test_trace(
    imds: Simulator, start_exporter: Callable[..., Exporter], hook: Start, tmp_path: Path
) -> None:
    """A run is a span ``hook`` in the trace of its event."""
    with Collector() as collector:
        flags = ("--journal.path", str(tmp_path / "vm_0"), "--otlp.endpoint", collector.url)
        start_exporter(f"{imds.url}/vm/vm_0", *flags, "--poll.interval", "300ms").wait_for_line(
            "name is known"
        )
        hook().wait_for_line("name is known")
        imds.set_document([event()])
        spans = collector.wait_for("detected", "hook")
        assert spans["hook"].attributes["azure.scheduled_event.hook.outcome"] == "ok"
        assert spans["hook"].parent_id == spans["detected"].parent_id


@pytest.mark.parametrize(
    ("event_type", "script", "notice", "outcome"),
    [
        ("Reboot", "exit 3", 60.0, "failed"),
        ("Preempt", "sleep 60 & sleep 60", 8.0, "timeout"),
        ("Preempt", "", 30.0, "ok"),
    ],
    ids=["fails", "hangs", "eviction"],
)
def test_what_is_not_approved(
    imds: Simulator,
    exporter: Exporter,
    hook: Start,
    tmp_path: Path,
    event_type: str,
    script: str,
    notice: float,
    outcome: str,
) -> None:
    """A failure and an eviction are not approved; what hangs ends with its children; metrics say
    so.
    """
    started = hook("--approve", "own", script=f'echo $$ >"{tmp_path}/pid"; {script}')
    started.wait_for_line("name is known")
    imds.set_document([event(notice=notice, EventType=event_type)])
    exporter.shows(
        outcome,
        lambda scrape: scrape.total("hook_runs_total", phase="prepare", outcome=outcome) >= 1,
    )
    assert not approvals(imds)
    group = int((tmp_path / "pid").read_text())
    assert not [each for each in psutil.process_iter() if _is_of(each, group)]


def _is_of(process: psutil.Process, group: int) -> bool:
    """Return whether a process of the group still runs."""
    try:
        return os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.Error, OSError):
        return False


def test_two_events_at_once(imds: Simulator, hook: Start, tmp_path: Path) -> None:
    """Without an exporter the hook polls itself; it prepares for each event and recovers once,
    after the last one.

    An advisory starts nothing, and nothing is approved without ``--approve``.
    """
    hook()
    imds.set_document([event("C", EventStatus="Advisory"), event("A"), event("B")])
    eventually(lambda: sorted(lines(tmp_path)) == ["prepare A", "prepare B"], "both preparations")
    imds.set_document([event("B")])
    imds.set_document([])
    eventually(lambda: len(lines(tmp_path)) == 3, "the recovery")
    assert lines(tmp_path)[2].startswith("recover")
    assert not approvals(imds)


def test_killed_in_the_middle(imds: Simulator, hook: Start, tmp_path: Path) -> None:
    """A hook that is killed starts again: what it left ends, the script runs again, and recovers
    after a reboot.
    """
    first = hook(script=f'[ -e "{tmp_path}/second" ] || exec sleep 60')
    imds.set_document([event()])
    eventually(lambda: lines(tmp_path) == ["prepare A"], "the first run")
    first.kill()
    (tmp_path / "second").touch()
    second = hook(script=f'[ -e "{tmp_path}/third" ] || exec sleep 60')
    eventually(lambda: lines(tmp_path) == ["prepare A"] * 2, "the second run")
    second.kill()
    imds.set_document([])  # the VM has rebooted, and the event is over
    (tmp_path / "third").touch()
    hook()
    eventually(lambda: lines(tmp_path) == ["prepare A", "prepare A", "recover A"], "the recovery")
    folder = tmp_path / "vm_0"
    stored = json.loads(state_file(folder, str(tmp_path / "vm_0.sh")).read_text())["unsent"]
    runs = [json.loads(text) for text in stored]
    assert [run["outcome"] for run in runs if run["phase"] == "prepare"] == ["failed"]


def test_prepares_without_a_journal(imds: Simulator, hook: Start, tmp_path: Path) -> None:
    """Neither a disk that fails nor an entry that cannot be read keeps another event from the
    script.
    """
    (tmp_path / "file").touch()
    imds.serve_body(json.dumps({"DocumentIncarnation": 1, "Events": [{}, event()]}).encode())
    hook("--journal.path", str(tmp_path / "file" / "journal"))
    eventually(lambda: lines(tmp_path) == ["prepare A"], "the preparation")


def test_too_late(imds: Simulator, exporter: Exporter, hook: Start, tmp_path: Path) -> None:
    """An event that began while the hook was gone is not prepared for: the series of the alert
    HookFailed counts it.
    """
    first = hook(script="exec sleep 60")
    imds.set_document([event()])
    eventually(lambda: lines(tmp_path) == ["prepare A"], "the first run")
    first.kill()
    imds.set_document([event(EventStatus="Started")])
    hook()
    exporter.shows(
        "it",
        lambda scrape: scrape.total("hook_runs_total", phase="prepare", outcome="too_late") == 1,
    )
    assert lines(tmp_path) == ["prepare A"]
    assert "run begins" not in (tmp_path / "hook-1.log").read_text()


def test_an_event_of_two_vms(imds: Simulator, hook: Start, tmp_path: Path) -> None:
    """An event that affects another VM too is prepared for, and not approved: the log says why."""
    started = hook("--approve", "own")
    imds.set_document([event(Resources=["vm_0", "vm_1"])])
    started.wait_for_line("does not approve: the event has other VMs")
    assert lines(tmp_path) == ["prepare A"]
    assert not approvals(imds)


def test_an_approval_counts_as_the_hook_s(imds: Simulator, exporter: Exporter, hook: Start) -> None:
    """The exporter counts, logs and keeps who approved: the hook, with the name of its script."""
    hook("--approve", "own").wait_for_line("name is known")
    imds.set_document([event()])
    exporter.shows("it", lambda scrape: scrape.total("event_approved") == 1)
    count = exporter.scrape().value("approval_latency_seconds_count", approved_by="hook")
    assert count == 1
    (line,) = exporter.lines('msg="approval accepted"')
    assert "approved_by=hook who=vm_0.sh" in line


def test_recovers_without_the_journal(
    imds: Simulator, exporter: Exporter, hook: Start, tmp_path: Path
) -> None:
    """What a hook prepared for is recovered, although the journal was renamed and it restarted."""
    first = hook()
    imds.set_document([event()])
    eventually(lambda: outcomes(tmp_path) == [("prepare", "ok")], "the preparation in the journal")
    first.kill()
    exporter.kill()
    for path in (tmp_path / "vm_0").glob("journal.sqlite*"):
        if ".hook-" not in path.name:
            path.unlink()
    imds.set_document([])
    hook()
    eventually(lambda: lines(tmp_path) == ["prepare A", "recover A"], "the recovery")


def test_one_document_without_the_event(imds: Simulator, hook: Start, tmp_path: Path) -> None:
    """A document that lacks the event for a moment recovers nothing, and prepares nothing again."""
    started = hook()
    started.wait_for_line("name is known")
    imds.set_document([event()])
    eventually(lambda: lines(tmp_path) == ["prepare A"], "the preparation")
    asked = polls(imds)
    eventually(lambda: polls(imds) >= asked + 4, "documents that show it")
    imds.set_document([])
    asked = polls(imds)
    eventually(lambda: polls(imds) > asked, "one document without it")
    imds.set_document([event(), event("B")])
    eventually(lambda: "prepare B" in lines(tmp_path), "the preparation of another event")
    assert lines(tmp_path) == ["prepare A", "prepare B"]


def polls(imds: Simulator) -> int:
    """Return how many documents were asked for."""
    return sum("scheduledevents" in request.path for request in imds.requests)


def test_a_wrong_clock(imds: Simulator, tmp_path: Path) -> None:
    """The notice is measured by the clock of IMDS: a VM whose clock is ahead is not too late."""
    clock = WallClock(tmp_path / "faketime")
    clock.set(60)
    script = tmp_path / "script"
    script.write_text(SCRIPT.format(log=tmp_path / "vm_0.log"))
    script.chmod(0o755)
    flags = ("--imds.endpoint", f"{imds.url}/vm/vm_0", "--journal.path", str(tmp_path / "vm_0"))
    imds.set_document([event(notice=40, EventType="Preempt")])
    arguments = [COMMAND, "hook", *flags, "--", str(script)]
    with Program(arguments, tmp_path / "hook.log", **environment(**clock.environment)) as hook:
        eventually(lambda: lines(tmp_path) == ["prepare A"], "the preparation")
        left = float(hook.wait_for_line(r"outcome=ok seconds_left=([\d.]+)")[1])
        hook.terminate()
    assert 0 < left < 40


def test_a_locale_without_the_letters(imds: Simulator, hook: Start, tmp_path: Path) -> None:
    """A text that the locale cannot encode, or no variable can hold, reaches the script."""
    description = "Wartung 日本 " + "x" * 200_000
    shown = f'printf %s "$EVENT_DESCRIPTION" >"{tmp_path}/said"'
    hook(script=shown, PYTHONUTF8="0", PYTHONCOERCECLOCALE="0", LC_ALL="C")
    imds.set_document([event(Description=description)])
    eventually(lambda: (tmp_path / "said").exists() and len(read(tmp_path / "said")), "the script")
    assert read(tmp_path / "said")[:12] == "Wartung 日本 x"


def read(path: Path) -> str:
    """Return the text of a file."""
    return path.read_text(encoding="utf-8")


def test_many_events(imds: Simulator, hook: Start, tmp_path: Path) -> None:
    """At most ten scripts run at once; the others begin when these have ended."""
    wait = f'while [ ! -e "{tmp_path}/go" ]; do sleep 0.05; done'
    hook(script=wait)
    imds.set_document([event(f"E{number}") for number in range(12)])
    eventually(lambda: len(lines(tmp_path)) == 10, "ten scripts")
    asked = polls(imds)
    eventually(lambda: polls(imds) > asked + 3, "more documents")
    assert len(lines(tmp_path)) == 10
    (tmp_path / "go").touch()
    eventually(lambda: len(lines(tmp_path)) == 12, "the others")


def test_its_approval_ends_with_it(imds: Simulator, hook: Start) -> None:
    """The command that approves does not outlive the hook."""
    with Gate(imds.url, Way.HANG) as gate:
        started = hook("--approve", "own", endpoint=gate.url)
        imds.set_document([event()])
        eventually(lambda: gate.posts, "an approval without an answer")
        [child] = psutil.Process(started.process.pid).children()
        started.terminate()
        assert not child.is_running()


def test_root_follows_no_link(imds: Simulator, hook: Start, tmp_path: Path) -> None:
    """The user of the exporter cannot make root's hook write to a file of root through a link."""
    assert os.geteuid() == 0, "this test needs root, to make a folder of somebody else"
    folder = tmp_path / "vm_0"
    folder.mkdir(mode=0o700)
    target = tmp_path / "target"
    target.mkdir(mode=0o755)
    path = state_file(folder, str(tmp_path / "vm_0.sh"))
    for name in (path.name, path.with_suffix(".new").name, f"{path.name}.lock", "journal.sqlite"):
        (folder / name).symlink_to(target / name)
    os.chown(folder, 65534, 65534)
    hook()
    imds.set_document([event()])
    eventually(lambda: lines(tmp_path) == ["prepare A"], "the preparation")
    assert list(target.iterdir()) == []


def test_mistakes(tmp_path: Path, hook: Start) -> None:
    """A mistake is one line, and a second hook of the same script is refused."""
    for words, said in (
        (("--kinds", "anounced", "--", "true"), "unknown kind 'anounced'"),
        (("--lead", "soon", "--", "true"), "--lead"),
        (("--kinds", "", "--", "true"), "unknown kind ''"),
        (("--types", "", "--", "true"), "unknown event type ''"),
        (("--approve", "all", "--", "true"), "--approve"),
        (("--", str(tmp_path / "nothing")), "does not exist"),
        ((), "name the command to run behind --"),
        (
            ("--types", "Premept", "--", "true"),
            "unknown event type 'premept': choose from Freeze, ",
        ),
    ):
        assert_one_line(command("hook", "--journal.path", str(tmp_path / "j"), *words), 2, said)
    other = tmp_path / "notes.txt"
    other.write_text("another program's file\n" * 100)
    refused = command(
        "hook", "--journal.path", str(other), "--imds.endpoint", "http://127.0.0.1:9", "--", "true"
    )
    assert_one_line(refused, 1, "cannot be used as --journal.path")
    assert other.exists()
    first = hook()
    first.wait_for_line("name is known")
    second = hook()
    second.wait_for_line("another hook")
    assert second.process.wait(10) == 1
