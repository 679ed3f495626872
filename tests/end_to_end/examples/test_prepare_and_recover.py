"""The runner ``prepare-and-recover``: kills, failures, when it prepares, and what it tells a hook."""

import json
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from support.events.follower import event
from support.example_scripts import EXAMPLES, Stage, placed, scenario, verbs
from support.programs import COMMAND, PATIENCE, eventually


def test_killed_while_it_drains(stage: Stage) -> None:
    """Killed during a drain, together with the exporter, the script drains again, then approves, and recovers."""
    exporter = stage.exporter()
    stage.slow(on=True)
    script = stage.unit("kubectl-drain", NODE="node")
    stage.simulator.play(scenario("Reboot"))
    eventually(lambda: len(stage.calls) == 1, "the drain")
    script.kill()
    exporter.kill()
    assert not stage.approved
    stage.slow(on=False)
    stage.exporter()
    stage.unit("kubectl-drain", NODE="node")
    eventually(lambda: verbs(stage)[-1:] == ["uncordon"], "recovery")
    assert verbs(stage) == ["drain", "drain", "uncordon"]
    assert stage.approved == ["Reboot"]


def test_away_at_the_end(stage: Stage) -> None:
    """A script that was killed while the event went on, as by the reboot itself, recovers when it is back, once."""
    exporter = stage.exporter()
    script = stage.unit("kubectl-drain", NODE="node")
    stage.simulator.play(scenario("Reboot", started_for=3))
    eventually(lambda: stage.is_idle, "the drain is noted as done")
    script.kill()
    exporter.shows("its end", lambda scrape: scrape.total("transitions_total", transition="completed") == 1)
    script = stage.unit("kubectl-drain", NODE="node")
    eventually(lambda: [call.split()[1] for call in stage.calls] == ["drain", "uncordon"], "recovery")
    script.kill()
    # Begun anew without its state, it takes what is over for history.
    (stage.file.parent / "state.json").unlink()
    stage.unit("kubectl-drain", NODE="node")
    stage.simulator.play(scenario("Redeploy"))
    eventually(lambda: len(stage.calls) == 4, "the next event")
    assert [call.split()[1] for call in stage.calls] == ["drain", "uncordon", "drain", "uncordon"]
    assert stage.approved == ["Reboot", "Redeploy"]


@pytest.mark.parametrize(
    ("trap", "calls"), [("echo cleaned >> $CALLS; exit", ["began", "cleaned"]), ("", ["began"])], ids=["ends", "hangs"]
)
def test_stopped_while_a_hook_runs(trap: str, calls: list[str], stage: Stage) -> None:
    """A runner that is stopped passes the signal to its hook, waits a limited time for it, and leaves none behind."""
    folder = stage.file.parent
    hook, runner = folder / "hook", folder / "runner"
    hook.write_text(
        f"#!/bin/sh\ntrap '{trap}' TERM\necho $$ > $CALLS.pid\necho began >> $CALLS\nwhile :; do sleep 0.1; done\n"
    )
    text = (EXAMPLES / "prepare-and-recover").read_text()
    assert text.count("HOOK_SECONDS = 60") == 1
    runner.write_text(text.replace("HOOK_SECONDS = 60", "HOOK_SECONDS = 1") if not trap else text)
    for program in (hook, runner):
        program.chmod(0o755)
    stage.exporter()
    script = stage.run(str(runner), str(hook))
    stage.simulator.play(scenario("Reboot"))
    eventually(lambda: stage.calls == ["began"], "the hook")
    script.process.send_signal(signal.SIGTERM)
    assert script.process.wait(PATIENCE) == 0, script.output.read_text()
    assert stage.calls == calls
    assert not psutil.pid_exists(int((folder / "calls.pid").read_text()))
    (task,) = json.loads((folder / "state.json").read_text())["todo"].values()
    assert task["do"] == "prepare"


def test_hook_that_takes_too_long(stage: Stage) -> None:
    """A hook that exceeds its time limit is ended with all that it has started, and is run again."""
    hook = stage.file.parent / "hook"
    hook.write_text("#!/bin/sh\necho began >> $CALLS\nsleep 600 &\necho $! >> $CALLS.pids\nwait\n")
    hook.chmod(0o755)
    stage.exporter()
    stage.run(str(EXAMPLES / "prepare-and-recover"), "--hook-timeout", "1", str(hook))
    stage.simulator.play(scenario("Reboot"))
    eventually(lambda: len(stage.calls) >= 2, "the hook runs again")
    first, *_ = (stage.file.parent / "calls.pids").read_text().split()
    eventually(lambda: not psutil.pid_exists(int(first)), "the first run's child has ended")


def test_drain_that_fails(stage: Stage) -> None:
    """A drain that fails approves nothing, and is tried again."""
    stage.exporter()
    stage.broken(on=True)
    script = stage.unit("kubectl-drain", NODE="node")
    stage.simulator.play(scenario("Reboot"))
    failure = f"prepare-and-recover: {EXAMPLES / 'kubectl-drain'} prepare failed with 1; it is tried again"
    eventually(lambda: failure in script.output.read_text().splitlines(), "the failure")
    assert not stage.approved
    stage.broken(on=False)
    eventually(lambda: verbs(stage)[-1:] == ["uncordon"], "recovery")
    assert verbs(stage) == ["drain", "drain", "uncordon"]
    assert stage.approved == ["Reboot"]


def test_unreadable_state(stage: Stage) -> None:
    """A state file that a power cut left empty is reported, replaced, and recovered from once."""
    state = stage.file.parent / "state.json"
    state.write_text("\0" * 40)
    stage.cordon(for_an_event=True)
    stage.exporter()
    script = stage.unit("kubectl-drain", NODE="node")
    eventually(lambda: verbs(stage) == ["uncordon"], "recovery")
    eventually(lambda: '"open": []' in state.read_text(), "a new state")  # replaced as a whole
    assert f"{state} cannot be read, so recover is run once" in script.output.read_text()


def test_runner_started_after_the_event(stage: Stage) -> None:
    """A drain that the reboot itself has interrupted is not run again once the event has started."""
    exporter = stage.exporter()
    stage.slow(on=True)
    script = stage.unit("kubectl-drain", NODE="node")
    stage.simulator.play(scenario("Reboot", started_for=60))
    eventually(lambda: verbs(stage) == ["drain"], "the drain")
    subprocess.run([COMMAND, "approve", "--all-mine", "--yes"], env=stage.environment, check=True, capture_output=True)
    exporter.shows("its start", lambda scrape: scrape.total("transitions_total", transition="started") == 1)
    script.kill()
    stage.slow(on=False)
    stage.unit("kubectl-drain", NODE="node")
    eventually(lambda: stage.handled >= 2, "both lines are handled")
    assert verbs(stage) == ["drain"]
    stage.simulator.set_document([])
    eventually(lambda: verbs(stage) == ["drain", "uncordon"], "recovery")


def test_hook_knows_the_event(stage: Stage, tmp_path: Path) -> None:
    """Every field of the event is in the environment of the hook."""
    hook = tmp_path / "hook"
    hook.write_text('#!/bin/sh\nenv | grep ^EVENT_ | sort > "$CALLS"\n')
    hook.chmod(0o755)
    stage.exporter()
    stage.run(str(EXAMPLES / "prepare-and-recover"), str(hook))
    stage.simulator.play(scenario("Freeze", duration=5, resources=("vmss_0", "vmss_1")))
    told = dict(line.split("=", 1) for line in eventually(lambda: stage.calls, "the hook"))
    assert told["EVENT_TYPE"] == "Freeze"
    assert told["EVENT_SOURCE"] == "Platform"
    assert told["EVENT_STATE"] == "Scheduled"
    assert told["EVENT_SCOPE"] == "self"
    assert told["EVENT_RESOURCES"] == "vmss_0,vmss_1"
    assert float(told["EVENT_DURATION_SECONDS"]) == 5
    assert float(told["EVENT_NOTICE_SECONDS"]) > 800
    assert told["EVENT_NOT_BEFORE"].endswith("Z")
    assert told["EVENT_OUTCOME"] == ""


def test_an_event_that_is_far_away(stage: Stage) -> None:
    """An event that is not approved here is prepared for shortly before NotBefore, not when it is announced."""
    stage.exporter()
    script = stage.run(str(EXAMPLES / "prepare-and-recover"), str(EXAMPLES / "kubectl-drain"), NODE="node")
    stage.simulator.set_document(placed("Scheduled", "vmss_0"))
    said = "BOTH is prepared for 900 s before 2072-04-11T22:26:58Z\n"
    eventually(lambda: script.output.read_text() == said, "it says when")
    stage.simulator.play(scenario("Preempt", notice=30))
    eventually(lambda: verbs(stage) == ["drain"], "the drain for an event that is near")


def test_one_event_does_not_block_another(stage: Stage, tmp_path: Path) -> None:
    """While the hook fails or hangs for one event, it runs for another one."""
    hook = tmp_path / "hook"
    hook.write_text('#!/bin/sh\n[ $EVENT_TYPE = Reboot ] || exec sleep 60\necho "$EVENT_TYPE $1" >> "$CALLS"\n')
    hook.chmod(0o755)
    stage.exporter()
    script = stage.run(str(EXAMPLES / "prepare-and-recover"), "--hook-timeout=0.5", "--lead=1e12", str(hook))
    hanging = event("HANGS", "Scheduled", kind="Redeploy")
    stage.simulator.set_document([hanging])
    eventually(lambda: "prepare did not end within 0.5 s; it is tried again" in script.output.read_text(), "the limit")
    stage.simulator.set_document([hanging, event("WORKS", "Scheduled")])
    eventually(lambda: "Reboot prepare" in stage.calls, "the other event")
