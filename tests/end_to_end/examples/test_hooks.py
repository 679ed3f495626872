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
def test_unit(hook: str, tmp_path: Path) -> None:
    """Systemd takes each unit, which is always restarted, and has a folder for state exactly if
    its script keeps some.
    """
    text = (EXAMPLES / f"{hook}.service").read_text()
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign] # systemd's keys have capitals
    unit.read_string(text)
    assert unit["Service"]["Restart"] == "always"
    keeps_state = "STATE_DIRECTORY" in (EXAMPLES / hook).read_text()
    has_state_folder = unit["Service"].get("StateDirectory") == hook
    assert has_state_folder == keeps_state
    assert unit["Install"]["WantedBy"] == "multi-user.target"
    # systemd checks that the programs exist, so the copy names them where they are here.
    copy = tmp_path / f"{hook}.service"
    copy.write_text(text.replace(LIBRARY, str(EXAMPLES)).replace(INSTALLED, COMMAND))
    verify = ["systemd-analyze", "verify", str(copy)]
    done = subprocess.run(verify, check=False, capture_output=True, text=True)
    assert [line for line in done.stderr.splitlines() if hook in line] == []


@pytest.mark.parametrize("hook", HOOKS)
def test_script(hook: str) -> None:
    """Each script is plain sh, and refuses any word but those of the two phases."""
    assert (EXAMPLES / hook).read_text().startswith("#!/bin/sh\n")
    subprocess.run([shutil.which("dash") or "sh", "-n", EXAMPLES / hook], check=True)
    other_word = [str(EXAMPLES / hook), "destroy"]
    done = subprocess.run(other_word, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, f"usage: {EXAMPLES / hook} prepare|recover\n")


def az(verb: str) -> str:
    """Return how the hook calls ``az`` to ``add`` its VM to the pool or to ``remove`` it."""
    return (
        f"az network nic ip-config address-pool {verb} --output none --ip-config-name ipconfig1"
        " --lb-name web --address-pool web-vms --resource-group production --nic-name web-0-nic"
    )


def test_load_balancer_drain(stage: Stage) -> None:
    """A VM that is in no pool is left alone. One that is in a pool leaves it and is added again,
    once each, however often the hook runs.
    """
    pool = "/providers/Microsoft.Network/loadBalancers/WEB/backendAddressPools/web-vms"

    def calls(phase: str) -> list[str]:
        """Run the hook; return its calls, but for the question in which pools the VM is."""
        ran = stage.hook("load-balancer-drain", phase, DRAIN_SECONDS="0")
        return [call for call in ran.calls if " show " not in call]

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

    def changes(phase: str) -> list[str]:
        """Run the hook; return its calls but for the first, which asks about the node."""
        (_asks, *others) = stage.hook("kubectl-drain", phase, NODE="n").calls
        return others

    assert changes("prepare") == [f"{mark} --overwrite azure-scheduled-events/cordoned=true", drain]
    stage.answers({"*unschedulable*": (0, "true")})
    assert changes("prepare") == [drain], "an operator had cordoned it: nothing is marked"
    recovery = stage.hook("kubectl-drain", "recover", NODE="n")
    assert recovery.output == "node n is not cordoned for an event, so it stays as it is\n"
    assert (recovery.status, len(recovery.calls)) == (0, 1), "it only asks about the node"
    stage.answers({"kubectl get*annotations*": (0, "true")})
    assert changes("recover") == [
        "kubectl uncordon n --request-timeout=30s",
        f"{mark} --overwrite azure-scheduled-events/cordoned-",
    ]


def test_checkpoint_before_eviction(stage: Stage) -> None:
    """Work is saved before an eviction; if it is cancelled, the worker goes on; one that does not
    run is left alone.
    """
    stage.answers({"systemctl is-active*": (3, "")})
    asks_only = stage.hook("checkpoint-before-eviction", "prepare").calls
    assert len(asks_only) == 1, "the worker does not run: neither stopped nor saved"
    stage.answers({})
    blob = "https://example.blob.core.windows.net/checkpoints/batch-worker"
    save = f"azcopy copy /var/lib/batch-worker/checkpoint {blob} --overwrite=true"
    (_asks, *stops_and_saves) = stage.hook("checkpoint-before-eviction", "prepare").calls
    assert stops_and_saves == ["systemctl stop batch-worker.service", save]
    starts = stage.hook("checkpoint-before-eviction", "recover").calls
    assert starts == ["systemctl start batch-worker.service"]
    again = stage.hook("checkpoint-before-eviction", "recover")
    assert again == (0, [], ""), "it was started already"


def test_load_balancer_admin_state(stage: Stage) -> None:
    """The state is Down during an event and the probe's again after it; another's Down stays."""
    quick = {"DRAIN_SECONDS": "0"}
    stage.answers({"az*show*": (0, "Down")})
    ran = stage.hook("load-balancer-admin-state", "prepare", **quick)
    assert ran.output == "the state is Down already, and stays so\n"
    assert (ran.status, len(ran.calls)) == (0, 1), "it only asks for the state"
    recovery = stage.hook("load-balancer-admin-state", "recover")
    assert recovery == (0, [], ""), "another's Down stays"
    stage.answers({"az*show*": (0, "None")})
    (_asks, down) = stage.hook("load-balancer-admin-state", "prepare", **quick).calls
    assert down == (
        "az network lb address-pool address update --output none --admin-state Down"
        " --resource-group production --lb-name web --pool-name web-vms --name web-0"
    )
    stage.answers({"az*show*": (0, "Down")})
    (_asks, down_again) = stage.hook("load-balancer-admin-state", "prepare", **quick).calls
    assert down_again == down, "this Down is ours, also the second time"
    (up,) = stage.hook("load-balancer-admin-state", "recover").calls
    assert up == down.replace("Down", "None")
    again = stage.hook("load-balancer-admin-state", "recover")
    assert again == (0, [], ""), "it is the probe's again already"


def test_pacemaker(stage: Stage) -> None:
    """The node's health is red until the event is over, and resources have time to move."""
    stage.answers({"crm_node*": (0, "vm-0")})
    health = "crm_attribute --node vm-0 --name #health-azure-event --lifetime reboot --update"
    who = "crm_node --name"
    moved = "crm_resource --wait --timeout=60s"
    assert stage.hook("pacemaker-node-health", "prepare") == (0, [who, f"{health} red", moved], "")
    assert stage.hook("pacemaker-node-health", "recover") == (0, [who, f"{health} green"], "")
    timed_out = 124
    stage.answers({"crm_node*": (0, "vm-0"), "crm_resource*": (timed_out, "")})
    ran = stage.hook("pacemaker-node-health", "prepare")
    assert ran.status == timed_out, "resources are still here"
