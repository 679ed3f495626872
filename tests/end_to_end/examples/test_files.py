"""The units, hooks and roles of deploy/examples: as systemd, shells, Kubernetes and PowerShell read them."""

import configparser
import os
import re
import shutil
import subprocess
from pathlib import Path

import kubernetes_validate  # type: ignore[import-untyped]  # ships no types
import pytest
import tree_sitter
import tree_sitter_powershell
import yaml

from azure_scheduled_events_exporter.core.event_types import EventType
from support.example_scripts import EXAMPLES, LIBRARY

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
    runner, *_, run = unit["Service"]["ExecStart"].split()
    for program in (runner, run):
        assert os.access(EXAMPLES / Path(program).relative_to(LIBRARY), os.X_OK)
    assert Path(run).name == hook
    assert "Environment=AZURE_SCHEDULED_EVENTS_JOURNAL_PATH=/var/lib/azure-scheduled-events-exporter\n" in text
    verify = shutil.which("systemd-analyze")
    if verify:
        copy = tmp_path / f"{hook}.service"
        copy.write_text(text.replace(LIBRARY, str(EXAMPLES)))
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


def test_powershell_runner() -> None:
    """PowerShell's grammar reads the runner for Windows, which knows the same transitions and deletions."""
    text = (EXAMPLES / "prepare-and-recover.ps1").read_text()
    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_powershell.language()))
    assert not parser.parse(text.encode()).root_node.has_error
    assert parser.parse(text.replace("finally {", "finally {{").encode()).root_node.has_error
    for word in ("detected", "returned", "events --follow --mine --since", "history --json"):
        assert word in text


def test_powershell_runner_approves_by_the_newest_state() -> None:
    """The runner for Windows asks again after the hook, and approves in no mode an event that does not name this VM."""
    text = (EXAMPLES / "prepare-and-recover.ps1").read_text()
    assert re.search(
        r"Invoke-Hook 'prepare' \$now\n\s*\$now = Get-Ahead \$record\b.*\n\s*if \(\$now -and \(Test-Approval \$now\)\)",
        text,
    )
    decides = text.partition("function Test-Approval")[2].partition("\n}")[0]
    before, refuses, after = decides.partition("if ($record.scope -ne 'self') { return $false }")
    assert refuses
    assert "'any'" not in before
    assert "'any'" in after


@pytest.mark.parametrize("name", ["prepare-and-recover", "prepare-and-recover.ps1"])
def test_deletions_are_never_approved(name: str) -> None:
    """The runners list every type after which the VM is gone, so that no script approves its own VM's deletion."""
    text = (EXAMPLES / name).read_text()
    found = re.search(r"(?:DELETIONS = |\$deletions = @)\(([^)]*)\)", text)
    assert found
    assert {each.strip(" '\"") for each in found[1].split(",")} == {each for each in EventType if each.facts.deletes}


def test_the_runner_knows_every_type() -> None:
    """``--types`` of the runner takes every type that the exporter knows, and the one for Windows expects all."""
    for name, pattern in (("prepare-and-recover", r"TYPES = "), ("prepare-and-recover.ps1", r"\$Types = @")):
        found = re.search(rf"{pattern}\(([^)]*)\)", (EXAMPLES / name).read_text())
        assert found
        assert {each.strip(" '\"") for each in found[1].split(",")} == set(EventType)
