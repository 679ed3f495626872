"""The units, hooks and roles of deploy/examples: as systemd, shells, and Kubernetes read them."""

import configparser
import os
import shutil
import subprocess
from pathlib import Path

import kubernetes_validate  # type: ignore[import-untyped]  # ships no types
import pytest
import yaml

from support.example_scripts import EXAMPLES, INSTALLED, LIBRARY
from support.programs import COMMAND

HOOKS = ("load-balancer-drain", "kubectl-drain", "checkpoint-before-eviction", "patroni-switchover")


@pytest.mark.parametrize("hook", HOOKS)
def test_unit(hook: str, tmp_path: Path) -> None:
    """Each systemd unit is one that systemd takes, runs what lies beside it, and comes back whenever it ends."""
    text = (EXAMPLES / f"{hook}.service").read_text()
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign] # systemd's keys have capitals
    unit.read_string(text)
    assert unit["Service"]["Restart"] == "always"
    assert unit["Service"]["StateDirectory"] == hook
    assert unit["Install"]["WantedBy"] == "multi-user.target"
    program, command, *_, run = unit["Service"]["ExecStart"].split()
    assert (program, command) == (INSTALLED, "hook")
    assert os.access(EXAMPLES / Path(run).relative_to(LIBRARY), os.X_OK)
    assert Path(run).name == hook
    assert "Environment=AZURE_SCHEDULED_EVENTS_JOURNAL_PATH=/var/lib/azure-scheduled-events-exporter\n" in text
    verify = shutil.which("systemd-analyze")
    if verify:
        copy = tmp_path / f"{hook}.service"
        copy.write_text(text.replace(LIBRARY, str(EXAMPLES)).replace(INSTALLED, COMMAND))
        done = subprocess.run([verify, "verify", str(copy)], check=False, capture_output=True, text=True)
        complaints = [line for line in done.stderr.splitlines() if hook in line]
        assert not complaints


@pytest.mark.parametrize("hook", HOOKS)
def test_hook_is_a_good_script(hook: str, tmp_path: Path) -> None:
    """Each hook is plain POSIX sh, and refuses what it does not know."""
    path = EXAMPLES / hook
    assert path.read_text().startswith("#!/bin/sh\n")
    if shutil.which("shellcheck"):
        subprocess.run(["shellcheck", str(path)], check=True)
    shell = shutil.which("dash") or "sh"
    subprocess.run([shell, "-n", str(path)], check=True)
    done = subprocess.run([str(path), "destroy"], check=False, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, f"usage: {path} prepare|recover\n")


def test_rights_to_drain() -> None:
    """Kubernetes takes the role of kubectl-drain, which allows to drain and to uncordon and nothing else."""
    objects = list(yaml.safe_load_all((EXAMPLES / "kubectl-drain-rbac.yaml").read_text()))
    for each in objects:
        kubernetes_validate.validate(each, "1.31", strict=True)
    [role] = [each for each in objects if each["kind"] == "ClusterRole"]
    assert {(name, verb) for rule in role["rules"] for name in rule["resources"] for verb in rule["verbs"]} == {
        *(("nodes", "get"), ("nodes", "patch"), ("pods", "get"), ("pods", "list")),
        *(("pods/eviction", "create"), ("daemonsets", "get")),
    }
