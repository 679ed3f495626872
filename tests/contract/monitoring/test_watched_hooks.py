"""Services of hooks are found and watched as the pages say."""

import subprocess
from pathlib import Path

import yaml

from support.documented import blocks
from support.paths import ROOT
from support.stories.story import play

UNIT = "patroni-switchover.service"
# By VM, whether systemd reports the service as active: samples of every 15 s.
STATES = {
    "works": "1x80",
    "stopped": "0x80",
    # It runs for a moment, then systemd waits 5 s: most scrapes find it between two starts.
    "restarts": "1 0 0 0 " * 20,
    "restarted-once": "1x40 0 0 1x40",
    "has-none": "_x80",
}


def test_rules_of_the_page(tmp_path: Path) -> None:
    """The page's rules name the VMs whose hook is stopped, ends again and again, or is missing."""
    page = ROOT / "docs" / "hook-details.md"
    (rules,) = [block.text for block in blocks(page) if "node_systemd_unit_state" in block.text]
    rows = {f'up{{job="node",role="database",instance="{vm}"}}': "1x80" for vm in STATES} | {
        f'node_systemd_unit_state{{name="{UNIT}",state="active",job="node",instance="{vm}"}}': state
        for vm, state in STATES.items()
    }
    rows['up{job="node",role="web",instance="other"}'] = "1x80"
    fires = 'count by (alertname, instance) (ALERTS{alertstate="firing"})'
    expected = {"stopped": "HookDown", "restarts": "HookDown", "has-none": "HookMissing"}
    story = {
        "interval": "15s",
        "input_series": [{"series": name, "values": state} for name, state in rows.items()],
        "promql_expr_test": [
            {
                "expr": fires,
                "eval_time": "15m",
                "exp_samples": [
                    {"labels": f'{{alertname="{alert}",instance="{vm}"}}', "value": 1}
                    for vm, alert in expected.items()
                ],
            }
        ],
    }
    assert play(tmp_path, yaml.safe_load(rules), [story]) == ""


def test_command_of_the_runbook() -> None:
    """The command of the runbook lists the units of all shipped hooks, and not the exporter's."""
    page = ROOT / "docs" / "runbooks" / "AzureScheduledEventHookFailed.md"
    (command,) = [block.text for block in blocks(page) if block.text.startswith("grep ")]
    folders = "/etc/systemd/system /lib/systemd/system"
    assert folders in command
    deploy = ROOT / "deploy"
    here = command.replace(folders, f"{deploy}/examples {deploy}/systemd")
    done = subprocess.run(["sh", "-c", here], check=False, capture_output=True, text=True)
    found = {Path(line).name for line in done.stdout.splitlines()}
    hooks = {path.name for path in (deploy / "examples").glob("*.service")}
    assert found == hooks | {"azure-scheduled-events-hook@.service"}
