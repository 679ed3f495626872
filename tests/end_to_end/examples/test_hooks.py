"""The hooks of deploy/examples, and the shortest drain of docs/approvals.md: what they call around an event."""

import json
import subprocess

import pytest

from support.example_scripts import EXAMPLES, Stage, blocks, reads_journal, scenario
from support.programs import eventually


def az(what: str) -> str:
    """Return how the load balancer's program is called, with the settings of the unit."""
    return (
        f"az network nic ip-config address-pool {what} --output none --resource-group production --nic-name web-0-nic "
        "--ip-config-name ipconfig1 --lb-name web --address-pool web-vms"
    )


def test_load_balancer_drain(stage: Stage) -> None:
    """The VM leaves the pool, the event is approved when the drain has ended and not before, and the VM comes back."""
    exporter = stage.exporter()
    stage.slow(on=True)
    stage.unit("load-balancer-drain", DRAIN_SECONDS="0")
    stage.simulator.play(scenario("Reboot"))
    eventually(lambda: stage.calls == [az("remove")], "the VM leaves the pool")
    polls = exporter.scrape().total("polls_total")
    exporter.shows("more polls", lambda scrape: scrape.total("polls_total") > polls + 4)
    assert not stage.approved
    stage.slow(on=False)
    eventually(lambda: stage.approved == ["Reboot"], "the approval")
    eventually(lambda: stage.calls == [az("remove"), az("add")], "the VM comes back")
    exporter.shows("the operator", lambda s: s.total("approval_latency_seconds_count", approved_by="operator") == 1)
    assert exporter.scrape().transitions() == {"detected": 1, "approved": 1, "started": 1, "completed": 1}


def test_kubectl_drain(stage: Stage) -> None:
    """The node is drained, the event approved, and the node takes pods again at the end; a freeze is let pass."""
    exporter = stage.exporter()
    state = stage.file.parent / "state.json"
    state.write_text('{"seq": 0, "open": []}')  # of an earlier version
    script = stage.unit("kubectl-drain", NODE="aks-pool1-vmss000000")
    stage.simulator.play(scenario("Freeze", notice=1, started_for=0.5))
    exporter.shows("its end", lambda scrape: scrape.total("transitions_total", transition="completed") == 1)
    stage.simulator.play(scenario("Redeploy"))
    drain = "kubectl drain aks-pool1-vmss000000 --ignore-daemonsets --delete-emptydir-data --timeout=5m"
    eventually(lambda: stage.calls == [drain, "kubectl uncordon aks-pool1-vmss000000"], "drain and uncordon")
    assert stage.approved == ["Redeploy"]
    assert script.process.poll() is None
    # What it keeps is the last line that it has handled, and what is still to be recovered from.
    eventually(lambda: json.loads(state.read_text())["open"] == [], "the state")
    assert json.loads(state.read_text()).keys() == {"cursor", "open"}


def test_checkpoint_before_eviction(stage: Stage) -> None:
    """Work is saved before an eviction, which is not approved; if it is cancelled, the worker continues."""
    stage.exporter()
    stage.unit("checkpoint-before-eviction")
    stage.simulator.play(scenario("Preempt", notice=60))
    blob = "https://example.blob.core.windows.net/checkpoints/batch-worker"
    saved = [
        "systemctl stop batch-worker.service",
        f"azcopy copy /var/lib/batch-worker/checkpoint {blob} --overwrite=true",
    ]
    eventually(lambda: stage.calls == saved, "the checkpoint")
    stage.simulator.set_document([])
    eventually(lambda: stage.calls == [*saved, "systemctl start batch-worker.service"], "the worker goes on")
    assert not stage.approved


def test_shortest_drain(stage: Stage) -> None:
    """The three lines of the page follow, drain and approve, in this order."""
    (text,) = [block for block in blocks("sh") if "--follow" in block]
    stage.exporter()
    stage.slow(on=True)
    script = stage.run("sh", "-c", text)
    eventually(lambda: reads_journal(script), "the script follows")
    stage.simulator.play(scenario("Reboot"))
    eventually(lambda: stage.calls == ["drain "], "the drain")
    assert not stage.approved
    stage.slow(on=False)
    eventually(lambda: stage.approved == ["Reboot"], "the approval")


SWITCHOVER = "patronictl -c /etc/patroni/config.yml switchover main --leader db-0 --force"
ASKED = "curl --silent --fail --output /dev/null http://127.0.0.1:8008/primary"


def test_patroni_switches_over(stage: Stage) -> None:
    """Before a Reboot the leader role is moved to another VM, and then the event is approved."""
    stage.exporter()
    stage.unit("patroni-switchover")
    stage.simulator.play(scenario("Reboot"))
    eventually(lambda: stage.approved == ["Reboot"], "the approval")
    assert stage.calls == [ASKED, SWITCHOVER]


@pytest.mark.parametrize(("duration", "calls"), [(5, []), (30, [ASKED, SWITCHOVER]), (-1, [ASKED, SWITCHOVER])])
def test_patroni_and_a_freeze(duration: int, calls: list[str], stage: Stage) -> None:
    """A short Freeze is left alone; a long one, or one of unknown length, is preceded by a switchover."""
    stage.exporter()
    stage.unit("patroni-switchover")
    stage.simulator.play(scenario("Freeze", duration=duration))
    eventually(lambda: stage.approved == ["Freeze"], "the approval")
    assert stage.calls == calls


def test_patroni_switchover_that_fails(stage: Stage) -> None:
    """Without a switchover, nothing is approved on the leader; a replica needs no switchover."""
    hook = str(EXAMPLES / "patroni-switchover")
    stage.broken(on=True)  # curl fails as well: this VM is not the leader
    settings = {
        **stage.environment,
        "EVENT_TYPE": "Reboot",
        "EVENT_DURATION_SECONDS": "",
        "CLUSTER": "c",
        "MEMBER": "m",
    }
    done = subprocess.run([hook, "prepare"], env=settings, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "this VM is not the leader: no switchover\n")
    (stage.file.parent / "bin" / "curl").write_text("#!/bin/sh\n")
    done = subprocess.run([hook, "prepare"], env=settings, check=False, capture_output=True, text=True)
    assert done.returncode == 1
