"""The runner ``prepare-and-recover`` with hooks of several events: which run at the same time, and which wait."""

import signal
from contextlib import suppress
from pathlib import Path

import psutil

from support.events.follower import event
from support.example_scripts import EXAMPLES, Stage, scenario, two_hooks
from support.programs import PATIENCE, eventually


def test_hooks_of_two_events_run_at_once(stage: Stage) -> None:
    """An eviction is prepared for, and ends, while the hook of a Reboot still runs, which is approved at its end."""
    long = Path(f"{stage.file}.Reboot.prepare")
    long.touch()
    stage.exporter()
    runner = (str(EXAMPLES / "prepare-and-recover"), "--approve", "--lead=1e12", str(two_hooks(stage)))
    script = stage.run(*runner)
    reboot = event("LONG", "Scheduled")
    stage.simulator.set_document([reboot])
    eventually(lambda: stage.calls == ["Reboot prepare"], "the drain")
    stage.simulator.set_document([reboot, event("SPOT", "Scheduled", kind="Preempt")])
    eventually(lambda: stage.calls[1:] == ["Preempt prepare", "Preempt prepare done"], "the eviction's hook")
    eventually(lambda: "Preempt SPOT deletes this VM" in script.output.read_text(), "what follows the eviction's hook")
    assert not stage.approved
    long.unlink()
    eventually(lambda: stage.approved == ["Reboot"], "the approval")
    assert stage.calls[3:] == ["Reboot prepare done"]


def test_recovery_waits_for_its_own_preparation(stage: Stage) -> None:
    """An event that is over while its hook prepares is recovered from when the hook has ended, not beside it."""
    long = Path(f"{stage.file}.Reboot.prepare")
    long.touch()
    exporter = stage.exporter()
    stage.run(str(EXAMPLES / "prepare-and-recover"), "--lead=1e12", str(two_hooks(stage)))
    stage.simulator.set_document([event("LONG", "Scheduled")])
    eventually(lambda: stage.calls == ["Reboot prepare"], "the drain")
    stage.simulator.set_document([])
    exporter.shows("its end", lambda scrape: scrape.total("transitions_total", transition="cancelled") == 1)
    eventually(lambda: stage.handled >= 2, "the line is handled")
    assert stage.calls == ["Reboot prepare"]
    long.unlink()
    eventually(lambda: len(stage.calls) == 4, "recovery")
    assert stage.calls[1:] == ["Reboot prepare done", "Reboot recover", "Reboot recover done"]


def test_preparation_waits_for_a_recovery(stage: Stage) -> None:
    """An event that is announced while the VM recovers from another one is prepared for right after that."""
    long = Path(f"{stage.file}.Reboot.recover")
    long.touch()
    stage.exporter()
    stage.run(str(EXAMPLES / "prepare-and-recover"), "--lead=1e12", str(two_hooks(stage)))
    stage.simulator.set_document([event("OLD", "Scheduled")])
    eventually(lambda: stage.calls == ["Reboot prepare", "Reboot prepare done"], "the drain")
    stage.simulator.set_document([])
    eventually(lambda: stage.calls[2:] == ["Reboot recover"], "recovery")
    stage.simulator.set_document([event("SPOT", "Scheduled", kind="Preempt")])
    eventually(lambda: stage.handled >= 3, "the line is handled")
    assert stage.calls[2:] == ["Reboot recover"]
    long.unlink()
    eventually(lambda: len(stage.calls) == 6, "the eviction's hook")
    assert stage.calls[3:] == ["Reboot recover done", "Preempt prepare", "Preempt prepare done"]


def test_follower_ends_while_a_hook_runs(stage: Stage) -> None:
    """A hook that runs when the follower ends is finished, and its event approved, before the runner ends."""
    long = Path(f"{stage.file}.Reboot.prepare")
    long.touch()
    stage.exporter()
    script = stage.run(str(EXAMPLES / "prepare-and-recover"), "--approve", str(two_hooks(stage)))
    stage.simulator.play(scenario("Reboot", started_for=60))
    eventually(lambda: stage.calls == ["Reboot prepare"], "the drain")
    runner = psutil.Process(script.process.pid)

    def has_ended() -> bool:
        for each in runner.children():
            with suppress(psutil.NoSuchProcess):
                if "--follow" in each.cmdline():
                    each.kill()
        return script.process.poll() is not None

    assert not has_ended()
    long.unlink()
    eventually(lambda: stage.approved == ["Reboot"], "the approval")
    eventually(has_ended, "the end of the runner")  # on a slow machine, another follower has begun meanwhile
    assert script.process.returncode == 1
    assert "events --follow has ended" in script.output.read_text()
    assert stage.calls == ["Reboot prepare", "Reboot prepare done"]


def test_stopped_while_two_hooks_run(stage: Stage) -> None:
    """A runner that is stopped while hooks of two events run ends both at the same time, each within its seconds."""
    folder = stage.file.parent
    hook, runner = folder / "hook", folder / "runner"
    hook.write_text("#!/bin/sh\ntrap '' TERM\necho $$ >> $CALLS\nwhile :; do sleep 0.1; done\n")
    runner.write_text((EXAMPLES / "prepare-and-recover").read_text().replace("HOOK_SECONDS = 60", "HOOK_SECONDS = 2"))
    for program in (hook, runner):
        program.chmod(0o755)
    stage.exporter()
    script = stage.run(str(runner), "--lead=1e12", str(hook))
    stage.simulator.set_document([event("ONE", "Scheduled"), event("TWO", "Scheduled", kind="Redeploy")])
    eventually(lambda: len(stage.calls) == 2, "both hooks")
    script.process.send_signal(signal.SIGTERM)
    assert script.process.wait(PATIENCE) == 0, script.output.read_text()
    assert not [number for number in stage.calls if psutil.pid_exists(int(number))]
