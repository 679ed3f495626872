"""The command ``hook`` beside a simulated metadata service: what its script gets, when it ends,
what is approved and recorded.
"""

import os
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from azure_scheduled_events_exporter.commands.hook.plan import MOST_AT_ONCE
from azure_scheduled_events_exporter.commands.hook.view import GONE_DOCUMENTS
from azure_scheduled_events_exporter.simulator import Simulator
from support.events.gate import Gate, Way
from support.events.hooked_vm import Start, approvals, event, outcomes, polls, script_starts
from support.monitoring.collector import Collector
from support.programs import Exporter, eventually


def test_prepares_and_recovers_beside_an_exporter(
    imds: Simulator, exporter: Exporter, hook: Start, tmp_path: Path
) -> None:
    """The script runs once with ``prepare`` and once with ``recover``; metrics and history of the
    exporter show it.
    """
    hook("--approve", "own", script=f'echo "$EVENT_OUTCOME" >"{tmp_path}/outcome"')
    imds.set_document([event()])
    eventually(lambda: approvals(imds), "an approval after the preparation")
    # The argument, and the variables that SCRIPT of `hooked_vm` writes behind it.
    assert (tmp_path / "vm_0.log").read_text() == "prepare A Reboot announced prepare vm_0 vm_0\n"
    imds.set_document([])  # before the event was Started, so it was cancelled
    eventually(lambda: script_starts(tmp_path) == ["prepare A", "recover A"], "the recovery")
    count = "hook_runs_total"
    exporter.shows("both runs", lambda scrape: scrape.total(count, outcome="ok") == 2)
    left = exporter.scrape().total("hook_seconds_left_count", event_type="Reboot")
    assert left == 1, "the preparation's; a recovery has no time limit"
    assert outcomes(tmp_path) == [("prepare", "ok"), ("recover", "ok")]
    assert (tmp_path / "outcome").read_text() == "cancelled\n"


def test_trace(
    imds: Simulator, start_exporter: Callable[..., Exporter], hook: Start, tmp_path: Path
) -> None:
    """A run of the script is a span ``hook`` in the trace of its event, beside the transitions."""
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
    ("event_type", "script", "notice", "outcome", "line"),
    [
        ("Reboot", "exit 3", 60.0, "failed", "level=warning .*run ended.* exit_status=3"),
        (
            "Reboot",
            "sleep 60 & sleep 60",
            8.0,  # so short a notice that the script is stopped after some seconds
            "timeout",
            "level=warning .*run ended.* signal=SIGTERM",
        ),
        ("Preempt", "", 30.0, "ok", "level=info .*run ended.* exit_status=0"),
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
    line: str,
) -> None:
    """Nothing is approved after a script that fails or hangs, nor for an eviction. A script that
    hangs is stopped with its children. Metrics and log have the outcome of each run.
    """
    started = hook("--approve", "own", script=f'echo $$ >"{tmp_path}/pid"; {script}')
    started.wait_for_line("name is known")
    imds.set_document([event(notice=notice, EventType=event_type)])
    exporter.shows(
        outcome,
        lambda scrape: scrape.total("hook_runs_total", phase="prepare", outcome=outcome) >= 1,
    )
    started.wait_for_line(line)
    # An approval would begin at the next poll of the hook. The exporter polls just as often.
    before = polls(imds)
    eventually(lambda: polls(imds) > before + 5, "polls of both")
    assert not psutil.Process(started.process.pid).children(), "no command that approves runs"
    assert not approvals(imds)
    group = int((tmp_path / "pid").read_text())  # a script leads a process group of its own
    assert not [each for each in psutil.process_iter() if _runs_in_group(each, group)]


def _runs_in_group(process: psutil.Process, group: int) -> bool:
    """Return whether a process of the group still runs."""
    try:
        return os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.Error, OSError):
        return False


def test_a_script_that_is_stopped_tidies_up(
    imds: Simulator, exporter: Exporter, hook: Start, tmp_path: Path
) -> None:
    """A script that takes too long gets SIGTERM before NotBefore, and time to end by itself."""
    tidies = f"trap 'sleep 0.5; touch \"{tmp_path}/tidy\"; exit' TERM; sleep 60 & wait"
    hook(script=tidies).wait_for_line("name is known")
    imds.set_document([event(notice=10)])
    exporter.shows("its end", lambda scrape: scrape.total("hook_runs_total", outcome="timeout"))
    assert (tmp_path / "tidy").exists()


def test_two_events_at_once(imds: Simulator, hook: Start, tmp_path: Path) -> None:
    """Without an exporter the hook polls itself; it prepares for each event and recovers once,
    after the last one.

    An advisory starts nothing, and nothing is approved without ``--approve``.
    """
    started = hook()
    imds.set_document([event("C", EventStatus="Advisory"), event("A"), event("B")])
    eventually(
        lambda: sorted(script_starts(tmp_path)) == ["prepare A", "prepare B"], "both preparations"
    )
    imds.set_document([event("B")])
    wait_until_the_document_is_read(imds, times=GONE_DOCUMENTS)
    assert len(script_starts(tmp_path)) == 2, "A is over, and B is not: no recovery yet"
    imds.set_document([])
    eventually(lambda: len(script_starts(tmp_path)) == 3, "the recovery")
    *_, last = script_starts(tmp_path)
    assert last.startswith("recover")
    started.wait_for_line("does not prepare for this event.*event_id=C .*its kind advisory is not")
    assert not approvals(imds)


def test_an_event_of_two_vms(imds: Simulator, hook: Start, tmp_path: Path) -> None:
    """An event that affects another VM too is prepared for, and not approved: the log says why."""
    started = hook("--approve", "own")
    imds.set_document([event(Resources=["vm_0", "vm_1"])])
    started.wait_for_line("does not approve.*event_id=A.*the event has other VMs")
    assert script_starts(tmp_path) == ["prepare A"]
    assert not approvals(imds)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"Resources": ["vm_0", "vm_1"]}, "the event has other VMs"),
        ({"EventType": "Terminate"}, "a hook approves no event that deletes the VM"),
        ({"EventType": "Redeploy"}, "EventType was Reboot when you confirmed and is Redeploy"),
    ],
)
def test_an_event_that_changes_after_its_preparation(
    imds: Simulator, hook: Start, tmp_path: Path, change: dict[str, object], reason: str
) -> None:
    """What a document shows just before the approval decides: the hook has prepared another event.

    ``change`` comes when the script ends, before the command that approves has asked IMDS.
    """
    announced = event()
    script = f'while [ ! -e "{tmp_path}/go" ]; do sleep 0.02; done'
    # So rare a poll that the hook itself does not see the change before it approves.
    started = hook("--approve", "own", "--poll.interval", "60s", script=script)
    imds.set_document([announced])
    eventually(lambda: script_starts(tmp_path) == ["prepare A"], "the preparation")
    imds.set_document([{**announced, **change}])
    (tmp_path / "go").touch()
    started.wait_for_line(f"A: not approved: .*{reason}")
    assert not approvals(imds)


def test_an_event_that_comes_while_it_recovers(
    imds: Simulator, hook: Start, tmp_path: Path
) -> None:
    """A new event stops the recovery. Then the script prepares for this event, which is approved,
    and recovers once more when it is over.
    """
    log = tmp_path / "vm_0.log"
    # The recovery does not end by itself, unless the file ``ends`` exists.
    waits = f"""if [ "$1" = recover ] && [ ! -e "{tmp_path}/ends" ]
then trap 'echo "stopped A" >>"{log}"; exit' TERM; sleep 60 & wait; fi"""
    started = hook("--approve", "own", script=waits)
    imds.set_document([event("A")])
    eventually(lambda: approvals(imds) == 1, "the approval of A")
    imds.set_document([])
    eventually(lambda: script_starts(tmp_path) == ["prepare A", "recover A"], "the recovery")
    imds.set_document([event("B")])
    eventually(lambda: approvals(imds) == 2, "the approval of B")
    assert script_starts(tmp_path) == ["prepare A", "recover A", "stopped A", "prepare B"]
    started.wait_for_line("hook interrupts recover, because an event comes.*event_id=A")
    (tmp_path / "ends").touch()
    imds.set_document([])
    started.wait_for_line("run ended.* phase=recover .*outcome=ok")
    *_, last = script_starts(tmp_path)
    assert last == "recover B"


def test_the_hook_is_the_approver(imds: Simulator, exporter: Exporter, hook: Start) -> None:
    """The exporter counts, logs and keeps who approved: the hook, with the name of its script. The
    log of the hook, which polls by itself, names no other approver.
    """
    started = hook("--approve", "own")
    started.wait_for_line("name is known")
    imds.set_document([event()])
    exporter.shows("the approval", lambda scrape: scrape.total("event_approved") == 1)
    count = exporter.scrape().value("approval_latency_seconds_count", approved_by="hook")
    assert count == 1
    (line,) = exporter.lines('msg="approval accepted"')
    assert "approved_by=hook who=vm_0.sh" in line
    imds.set_document([event(EventStatus="Started", NotBefore="")])
    started.wait_for_line('msg="event started"')
    assert started.lines('msg="event approved"')
    assert not started.lines("approved_by")


def test_many_events(imds: Simulator, hook: Start, tmp_path: Path) -> None:
    """At most ten scripts run at once; the others begin when these have ended."""
    wait = f'while [ ! -e "{tmp_path}/go" ]; do sleep 0.05; done'
    hook(script=wait)
    events = MOST_AT_ONCE + 2
    imds.set_document([event(f"E{number}") for number in range(events)])
    eventually(lambda: len(script_starts(tmp_path)) == MOST_AT_ONCE, "ten scripts")
    wait_until_the_document_is_read(imds)
    assert len(script_starts(tmp_path)) == MOST_AT_ONCE, "still"
    (tmp_path / "go").touch()
    eventually(lambda: len(script_starts(tmp_path)) == events, "the others")


def test_the_command_that_approves_ends_with_the_hook(imds: Simulator, hook: Start) -> None:
    """The hook approves by a command of its own, which does not outlive it."""
    with Gate(imds.url, Way.HANG) as gate:
        started = hook("--approve", "own", endpoint=gate.url)
        imds.set_document([event()])
        eventually(lambda: gate.posts, "an approval without an answer")
        [child] = psutil.Process(started.process.pid).children()
        started.terminate()
        assert not child.is_running()


def test_its_scripts_end_with_it(imds: Simulator, hook: Start, tmp_path: Path) -> None:
    """A script that runs when the hook is stopped gets SIGTERM, and time to end by itself."""
    tidies = f"""trap 'touch "{tmp_path}/tidy"; exit' TERM
touch "{tmp_path}/begun"; sleep 60 & wait"""
    started = hook(script=tidies)
    imds.set_document([event()])
    eventually((tmp_path / "begun").exists, "the script")
    started.terminate()
    assert (tmp_path / "tidy").exists()
    assert len(started.lines("hook ends and interrupts its run")) == 1


def test_why_nothing_is_prepared(imds: Simulator, hook: Start, tmp_path: Path) -> None:
    """The log says once why nothing is prepared for an event, and again when an event that was gone
    comes back.
    """
    started = hook("--instance.name", "vm_0")
    harmless = event(EventType="Freeze", DurationInSeconds=5)
    imds.set_document([harmless])
    started.wait_for_line("hook does not prepare for this event.*its kind harmless is not among")
    wait_until_the_document_is_read(imds)
    imds.set_document([])
    wait_until_the_document_is_read(imds)
    said = "hook does not prepare for this event"
    assert len(started.lines(said)) == 1
    imds.set_document([harmless])
    eventually(lambda: len(started.lines(said)) == 2, "the reason again")
    assert script_starts(tmp_path) == []


def wait_until_the_document_is_read(imds: Simulator, times: int = 1) -> None:
    """Wait until the hook has read what the metadata service shows now, ``times`` times. The answer
    to a poll has been read when the next poll comes.
    """
    before = polls(imds)
    eventually(lambda: polls(imds) > before + times, "more polls")
