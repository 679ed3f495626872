"""The hooks of deploy/examples, and the drains of docs/approvals.md: what they call around an event."""

import subprocess

import pytest

from deploy.stack.free_port import free_port
from support.events.gate import Gate, Treatment, Way
from support.example_scripts import EXAMPLES, Stage, blocks, reads_journal, scenario
from support.programs import PATIENCE, eventually


def az(what: str) -> str:
    """Return how the load balancer's program is called, with the settings of the unit."""
    return (
        f"az network nic ip-config address-pool {what} --output none --ip-config-name ipconfig1 --lb-name web "
        "--address-pool web-vms --resource-group production --nic-name web-0-nic"
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
    script = stage.unit("kubectl-drain", NODE="aks-pool1-vmss000000")
    stage.simulator.play(scenario("Freeze", notice=1, started_for=600))
    exporter.shows("its start", lambda scrape: scrape.total("transitions_total", transition="started") == 1)
    stage.simulator.set_document([])
    exporter.shows("its end", lambda scrape: scrape.total("transitions_total", transition="completed") == 1)
    stage.simulator.play(scenario("Redeploy"))
    drain = "kubectl drain aks-pool1-vmss000000 --ignore-daemonsets --delete-emptydir-data --timeout=5m"
    uncordon = "kubectl uncordon aks-pool1-vmss000000 --request-timeout=30s"
    eventually(lambda: stage.calls == [drain, uncordon], "drain and uncordon")
    assert stage.approved == ["Redeploy"]
    assert script.process.poll() is None


def test_kubectl_drain_of_a_cordoned_node(stage: Stage) -> None:
    """A node that an operator had cordoned before the event stays cordoned after it."""
    stage.exporter()
    stage.cordon()
    script = stage.unit("kubectl-drain", NODE="node")
    stage.simulator.play(scenario("Reboot"))
    said = "node node is not cordoned for an event, so it stays as it is"
    eventually(lambda: said in script.output.read_text(), "it says so")
    assert [call.split()[1] for call in stage.calls] == ["drain"]


def test_a_drain_that_is_run_twice(stage: Stage) -> None:
    """A VM that left the pool at a first try, which failed later, waits again at the second, and is added once."""
    for what in ("prepare", "prepare", "recover", "recover"):
        script = stage.hook("load-balancer-drain", what, DRAIN_SECONDS="0")
        assert script.process.wait(PATIENCE) == 0, script.output.read_text()
    assert stage.calls == [az("remove"), az("add")]


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


@pytest.mark.parametrize(
    ("treatment", "undone"), [(Way.LATE, False), (500, False), (409, True)], ids=["no answer", "failed", "refused"]
)
def test_drain_that_is_undone(treatment: Treatment, undone: bool, stage: Stage) -> None:  # noqa: FBT001 - pytest hands it in by name
    """The line of the page undoes its drain only if the event is certainly not approved."""
    (text,) = [block for block in blocks("sh") if "undrain" in block]
    stage.simulator.play(scenario("Reboot", started_for=60))
    announced = [h.event_id for h in eventually(lambda: stage.simulator.record, "the announcement")]
    with Gate(stage.simulator.url, treatment, Way.PASS) as gate:
        flags = {"AZURE_SCHEDULED_EVENTS_IMDS_ENDPOINT": gate.url, "AZURE_SCHEDULED_EVENTS_IMDS_TIMEOUT": "5s"}
        script = stage.run("sh", "-c", text, EVENT_ID=announced[0], **flags)
        assert script.process.wait(PATIENCE) == 0
    assert stage.calls == ["drain ", "undrain "][: 1 + undone], script.output.read_text()
    assert stage.approved == (["Reboot"] if treatment is Way.LATE else [])


SWITCHOVER = "patronictl -c /etc/patroni/config.yml switchover main --leader db-0 --force"


def test_patroni_switches_over(stage: Stage) -> None:
    """Before a Reboot the leader role is moved to another VM, and then the event is approved."""
    stage.exporter()
    stage.unit("patroni-switchover", PATRONI_API=stage.patroni(leader=True))
    stage.simulator.play(scenario("Reboot"))
    eventually(lambda: stage.approved == ["Reboot"], "the approval")
    assert stage.calls == [SWITCHOVER]


def test_patroni_refuses_the_switchover(stage: Stage) -> None:
    """If Patroni refuses, which patronictl does not show in its exit status, nothing is approved."""
    stage.exporter()
    stage.broken(on=True)
    script = stage.unit("patroni-switchover", PATRONI_API=stage.patroni(leader=True), SWITCHOVER_TIMEOUT="1")
    stage.simulator.play(scenario("Reboot"))
    failure = "this VM is still the leader 1 s after the switchover"
    eventually(lambda: script.output.read_text().count(failure) == 2, "a second try")
    assert set(stage.calls) == {SWITCHOVER}
    assert not stage.approved


def prepare(stage: Stage, api: str) -> tuple[int, str]:
    """Return the exit status and the output of the hook before a Reboot."""
    about = {"EVENT_TYPE": "Reboot", "EVENT_DURATION_SECONDS": "", "CLUSTER": "main", "MEMBER": "db-0"}
    hook = [str(EXAMPLES / "patroni-switchover"), "prepare"]
    env = {**stage.environment, **about, "PATRONI_API": api}
    done = subprocess.run(hook, env=env, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


def test_patroni_replica(stage: Stage) -> None:
    """A replica needs no switchover; without an answer of Patroni's API the hook fails."""
    status, output = prepare(stage, f"http://127.0.0.1:{free_port()}")
    assert (status, "answered 000 to /primary (000: no answer)" in output) == (1, True)
    assert prepare(stage, stage.patroni(leader=False)) == (0, "this VM is not the leader: no switchover\n")
    assert not stage.calls
