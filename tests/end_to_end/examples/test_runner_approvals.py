"""What the runner ``prepare-and-recover`` approves: which events, together with which VMs, and how often it tries."""

from pathlib import Path

from support.events.gate import Gate, Way
from support.example_scripts import EXAMPLES, Stage, placed, scenario, verbs
from support.programs import eventually


def test_shared_event_is_not_approved(stage: Stage) -> None:
    """One VM that is ready does not start an event of two VMs, except with `--approve=any`."""
    stage.exporter()
    script = stage.unit("kubectl-drain", NODE="node")
    both = ("vmss_0", "vmss_1")
    stage.simulator.play(scenario("Reboot", resources=both))
    eventually(lambda: "also affects other VMs: vmss_0, vmss_1" in script.output.read_text(), "the reason")
    eventually(lambda: stage.handled >= 1, "the line is handled")
    assert stage.calls[-1].startswith("kubectl drain")
    assert not stage.approved
    script.kill()
    stage.run(str(EXAMPLES / "prepare-and-recover"), "--approve=any", str(EXAMPLES / "kubectl-drain"), NODE="node")
    stage.simulator.play(scenario("Redeploy", resources=both))
    eventually(lambda: stage.approved == ["Redeploy"], "the approval")


def test_shared_event_waits_for_all(stage: Stage, tmp_path: Path) -> None:
    """With a shared folder of marks, the last VM to be ready approves an event of two VMs."""
    stage.exporter()
    marks = tmp_path / "marks"
    runner = (str(EXAMPLES / "prepare-and-recover"), "--approve=all", "--marks", str(marks))
    first = stage.run(*runner, str(EXAMPLES / "kubectl-drain"), NODE="first")
    stage.simulator.play(scenario("Reboot", resources=("vmss_0", "vmss_1")))
    eventually(lambda: "waits for vmss_1" in first.output.read_text(), "the first one waits")
    assert not stage.approved
    (tmp_path / "second").mkdir()
    second = {
        "STATE_DIRECTORY": str(tmp_path / "second"),
        "AZURE_SCHEDULED_EVENTS_JOURNAL_PATH": str(tmp_path / "second"),
        "AZURE_SCHEDULED_EVENTS_IMDS_ENDPOINT": stage.simulator.vm_url("vmss_1"),
        "AZURE_SCHEDULED_EVENTS_POLL_INTERVAL": "1s",  # its commands share the five requests a second of this VM
    }
    stage.run(*runner, str(EXAMPLES / "kubectl-drain"), NODE="second", **second)
    eventually(lambda: stage.approved == ["Reboot"], "the last one approves")
    eventually(lambda: "kubectl uncordon first --request-timeout=30s" in stage.calls, "recovery")
    eventually(lambda: not [mark for mark in marks.rglob("*") if mark.is_file()], "no mark is left")


def test_deletion_is_not_approved(stage: Stage) -> None:
    """A Terminate is prepared for, and keeps its whole notice."""
    stage.exporter()
    script = stage.unit("kubectl-drain", NODE="node")
    stage.simulator.play(scenario("Terminate"))
    eventually(lambda: "deletes this VM" in script.output.read_text(), "the reason")
    assert stage.calls[-1].startswith("kubectl drain")
    assert not stage.approved


def test_resources_change_during_the_drain(stage: Stage) -> None:
    """An event that names other VMs only, or more than before, when the drain is done is not approved for them."""
    exporter = stage.exporter()
    stage.slow(on=True)
    runner = (str(EXAMPLES / "prepare-and-recover"), "--approve", str(EXAMPLES / "kubectl-drain"))
    script = stage.run(*runner, NODE="node")
    stage.simulator.set_document(placed("Scheduled", "vmss_0"))
    eventually(lambda: verbs(stage) == ["drain"], "the drain")
    stage.simulator.set_document(placed("Scheduled", "vmss_0", "vmss_1"))
    exporter.shows("two VMs", lambda scrape: scrape.total("event_resources") == 2)
    stage.slow(on=False)
    refusal = "not approved: BOTH also affects other VMs: vmss_0, vmss_1"
    eventually(lambda: refusal in script.output.read_text(), "the refusal")
    assert not stage.approved


def test_approval_without_an_answer(stage: Stage) -> None:
    """An approval that IMDS does not answer is sent again: the VM is drained, and NotBefore may be days ahead."""
    with Gate(stage.simulator.url, Way.HANG, Way.PASS) as gate:
        stage.exporter(gate.url)
        stage.unit("kubectl-drain", NODE="node")
        stage.simulator.play(scenario("Reboot"))
        eventually(lambda: stage.approved == ["Reboot"], "the second approval")
