"""The runner ``prepare-and-recover`` with hooks of several events: which run at the same time, and which wait."""

from pathlib import Path

from support.events.follower import event
from support.example_scripts import EXAMPLES, Stage, two_hooks
from support.programs import eventually


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
