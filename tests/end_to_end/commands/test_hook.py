"""The command ``hook`` beside a simulated metadata service: what its script gets, when it ends,
what is recorded.
"""

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from email.utils import formatdate
from pathlib import Path

import psutil
import pytest

from azure_scheduled_events_exporter.journal.file import read_only
from azure_scheduled_events_exporter.simulator import Scenario, Simulator, VirtualMachine
from support.commands import assert_one_line, command
from support.events.imds_bodies import entry
from support.monitoring.collector import Collector
from support.programs import COMMAND, Exporter, Program, environment, eventually

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

    def start(*options: str, script: str = "", vm: str = "vm_0") -> Program:
        path = tmp_path / f"{vm}.sh"
        path.write_text(SCRIPT.format(log=tmp_path / f"{vm}.log") + script + "\n")
        path.chmod(0o755)
        flags = ("--imds.endpoint", f"{imds.url}/vm/{vm}", "--journal.path", str(tmp_path / vm))
        output = tmp_path / f"hook-{len(started)}.log"
        arguments = [COMMAND, "hook", *flags, "--poll.interval", "300ms", *options, "--", str(path)]
        program = Program(arguments, output, **environment())
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
    with closing(read_only(tmp_path / "vm_0")) as store:
        interrupted = [run.outcome for run in store.hook_runs() if run.phase == "prepare"]
    assert interrupted == ["failed"]


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


def test_an_event_of_three_vms(imds: Simulator, hook: Start, tmp_path: Path) -> None:
    """With --approve all, an event is approved when all its VMs have prepared; with own, the log
    says why it waits.
    """
    options = ("--approve", "all", "--marks", str(tmp_path / "marks"))
    for vm in ("vm_0", "vm_1"):
        hook(*options, vm=vm)
    own = hook("--approve", "own", vm="vm_2")
    imds.set_document([event(Resources=["vm_0", "vm_1", "vm_2"])])
    marks = tmp_path / "marks" / "A"
    eventually(lambda: marks.exists() and len(list(marks.iterdir())) == 2, "marks of two VMs")
    own.wait_for_line("does not approve: the event has other VMs")
    own.kill()
    assert not approvals(imds)
    hook(*options, vm="vm_2")
    eventually(lambda: approvals(imds), "an approval")


def test_mistakes(tmp_path: Path, hook: Start) -> None:
    """A mistake is one line, and a second hook of the same script is refused."""
    for words, said in (
        (("--kinds", "anounced", "--", "true"), "unknown kind 'anounced'"),
        (("--lead", "soon", "--", "true"), "--lead"),
        (("--approve", "all", "--", "true"), "--marks"),
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
