"""What each hook of deploy/examples calls before an event and after it."""

import configparser
import shutil
import subprocess
from pathlib import Path

import pytest

from support.events.hook_stage import (
    EXAMPLES,
    INSTALLED,
    LIBRARY,
    Stage,
)
from support.programs import COMMAND

HOOKS = (
    "load-balancer-drain",
    "kubectl-drain",
    "checkpoint-before-eviction",
    "patroni-switchover",
    "mysql-switchover",
    "load-balancer-admin-state",
    "pacemaker-node-health",
    "cloudnative-pg-switchover",
    "redis-sentinel-failover",
)


@pytest.mark.parametrize("hook", HOOKS)
def test_files(hook: str, tmp_path: Path) -> None:
    """Each unit is one that systemd takes and runs what lies beside it, which is plain sh and
    refuses other words.
    """
    text = (EXAMPLES / f"{hook}.service").read_text()
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign] # systemd's keys have capitals
    unit.read_string(text)
    keeps_state = "STATE_DIRECTORY" in (EXAMPLES / hook).read_text()
    assert (unit["Service"]["Restart"], unit["Service"].get("StateDirectory") == hook) == (
        "always",
        keeps_state,
    )
    assert unit["Install"]["WantedBy"] == "multi-user.target"
    copy = tmp_path / f"{hook}.service"
    copy.write_text(text.replace(LIBRARY, str(EXAMPLES)).replace(INSTALLED, COMMAND))
    verify = ["systemd-analyze", "verify", str(copy)]
    done = subprocess.run(verify, check=False, capture_output=True, text=True)
    assert [line for line in done.stderr.splitlines() if hook in line] == []
    assert (EXAMPLES / hook).read_text().startswith("#!/bin/sh\n")
    subprocess.run([shutil.which("dash") or "sh", "-n", EXAMPLES / hook], check=True)
    done = subprocess.run([EXAMPLES / hook, "destroy"], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, f"usage: {EXAMPLES / hook} prepare|recover\n")


def az(what: str) -> str:
    """Return how the load balancer's program is called, with the settings of the unit."""
    return (
        f"az network nic ip-config address-pool {what} --output none --ip-config-name ipconfig1"
        " --lb-name web --address-pool web-vms --resource-group production --nic-name web-0-nic"
    )


def test_load_balancer_drain(stage: Stage) -> None:
    """A VM in the pool leaves it and is added again, once each, however often the hook runs;
    another stays out.
    """
    pool = "/providers/Microsoft.Network/loadBalancers/WEB/backendAddressPools/web-vms"

    def calls(phase: str) -> list[str]:
        """Run the hook; return its calls, but for the question in which pools the VM is."""
        _, made, _ = stage.hook("load-balancer-drain", phase, DRAIN_SECONDS="0")
        return [call for call in made if " show " not in call]

    assert calls("prepare") == [], "it is in no pool"
    stage.answers({"az*show*": (0, pool)})
    assert calls("prepare") == [az("remove")]
    stage.answers({})
    assert calls("prepare") == [], "it is out already"
    assert calls("recover") == [az("add")]
    assert calls("recover") == [], "it is back already"


def test_kubectl_drain(stage: Stage) -> None:
    """The node is drained and takes pods again afterwards, unless an operator had cordoned it
    before.
    """
    drain = "kubectl drain n --ignore-daemonsets --delete-emptydir-data --timeout=5m"
    mark = "kubectl annotate node n --request-timeout=30s"
    assert stage.hook("kubectl-drain", "prepare", NODE="n")[1][1:] == [
        f"{mark} --overwrite azure-scheduled-events/cordoned=true",
        drain,
    ]
    stage.answers({"*unschedulable*": (0, "true")})
    assert stage.hook("kubectl-drain", "prepare", NODE="n")[1][1:] == [drain]
    said = "node n is not cordoned for an event, so it stays as it is\n"
    status, calls, output = stage.hook("kubectl-drain", "recover", NODE="n")
    assert (status, len(calls), output) == (0, 1, said)
    stage.answers({"kubectl get*annotations*": (0, "true")})
    assert stage.hook("kubectl-drain", "recover", NODE="n")[1][1:] == [
        "kubectl uncordon n --request-timeout=30s",
        f"{mark} --overwrite azure-scheduled-events/cordoned-",
    ]


def test_checkpoint_before_eviction(stage: Stage) -> None:
    """Work is saved before an eviction; if it is cancelled, the worker goes on; one that does not
    run is left alone.
    """
    stage.answers({"systemctl is-active*": (3, "")})
    assert len(stage.hook("checkpoint-before-eviction", "prepare")[1]) == 1
    stage.answers({})
    blob = "https://example.blob.core.windows.net/checkpoints/batch-worker"
    saved = [f"azcopy copy /var/lib/batch-worker/checkpoint {blob} --overwrite=true"]
    (_asks, *stops_and_saves) = stage.hook("checkpoint-before-eviction", "prepare")[1]
    assert stops_and_saves == ["systemctl stop batch-worker.service", *saved]
    starts = stage.hook("checkpoint-before-eviction", "recover")[1]
    assert starts == ["systemctl start batch-worker.service"]
    assert stage.hook("checkpoint-before-eviction", "recover") == (0, [], "")


def test_load_balancer_admin_state(stage: Stage) -> None:
    """The state is Down during an event and the probe's again after it; another's Down stays."""
    quick = {"DRAIN_SECONDS": "0"}
    stage.answers({"az*show*": (0, "Down")})
    status, calls, said = stage.hook("load-balancer-admin-state", "prepare", **quick)
    assert (status, len(calls), said) == (0, 1, "the state is Down already, and stays so\n")
    assert stage.hook("load-balancer-admin-state", "recover") == (0, [], "")
    stage.answers({"az*show*": (0, "None")})
    (_, down) = stage.hook("load-balancer-admin-state", "prepare", **quick)[1]
    assert down == (
        "az network lb address-pool address update --output none --admin-state Down"
        " --resource-group production --lb-name web --pool-name web-vms --name web-0"
    )
    stage.answers({"az*show*": (0, "Down")})
    calls = stage.hook("load-balancer-admin-state", "prepare", **quick)[1]
    assert len(calls) == 2, "it is ours, also the second time"
    (up,) = stage.hook("load-balancer-admin-state", "recover")[1]
    assert up == down.replace("Down", "None")
    assert stage.hook("load-balancer-admin-state", "recover") == (0, [], "")


def test_pacemaker(stage: Stage) -> None:
    """The node's health is red until the event is over, and resources have time to move."""
    stage.answers({"crm_node*": (0, "vm-0")})
    health = "crm_attribute --node vm-0 --name #health-azure-event --lifetime reboot --update"
    who = "crm_node --name"
    moved = "crm_resource --wait --timeout=60s"
    assert stage.hook("pacemaker-node-health", "prepare") == (0, [who, f"{health} red", moved], "")
    assert stage.hook("pacemaker-node-health", "recover") == (0, [who, f"{health} green"], "")
    stage.answers({"crm_node*": (0, "vm-0"), "crm_resource*": (124, "")})
    assert stage.hook("pacemaker-node-health", "prepare")[0] == 124, "resources are still here"
