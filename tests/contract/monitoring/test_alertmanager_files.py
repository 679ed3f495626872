"""The files for an Alertmanager that a team has already: merged into foreign configurations as the
pages say.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from azure_scheduled_events_exporter.alerts import Settings, render
from support.programs import debian

FILES = render(Settings(), grafana=False)
FOREIGN = yaml.safe_load("""
route:
  receiver: everything
  group_by: [alertname]
  routes:
    - matchers: [severity="critical"]
      receiver: team-pager
receivers: [{name: everything}, {name: team-pager}]
inhibit_rules:
  - source_matchers: [severity="critical"]
    target_matchers: [severity="warning"]
    equal: [alertname, namespace]
""")
EVENT = {"alertname": "AzureScheduledEventReboot", "severity": "critical", "event_id": "E"}


def fragment(foreign: dict[str, Any]) -> dict[str, Any]:
    """Add the fragment to ``foreign`` as its head says."""
    more = yaml.safe_load(FILES["alertmanager/fragment.yml"])
    return {
        "global": {"smtp_smarthost": "mail:25", "smtp_from": "a@example.org"},
        "route": {
            **foreign["route"],
            "routes": [*more["route"]["routes"], *foreign["route"]["routes"]],
        },
        "receivers": [*foreign["receivers"], *more["receivers"]],
        "inhibit_rules": [*foreign["inhibit_rules"], *more["inhibit_rules"]],
        "templates": more["templates"],
    }


def stack(_: dict[str, Any]) -> dict[str, Any]:
    """Return what kube-prometheus-stack makes of the values: its defaults, with whole lists
    replaced.
    """
    config = yaml.safe_load(FILES["alertmanager/kube-prometheus-stack-values.yaml"])[
        "alertmanager"
    ]["config"]
    mail = {"resolve_timeout": "5m", "smtp_smarthost": "mail:25", "smtp_from": "a@example.org"}
    route = {
        "group_by": ["namespace"],
        "group_wait": "30s",
        "group_interval": "5m",
        "repeat_interval": "12h",
    }
    return {"global": mail, **config, "route": {**route, **config["route"]}}


@pytest.mark.parametrize("merge", [fragment, stack])
def test_merged_configuration(merge: Any, tmp_path: Path) -> None:
    """Alertmanager takes the result; our alerts go to our receivers, and all others where they went
    before.
    """
    file = tmp_path / "alertmanager.yml"
    config = merge(FOREIGN)
    file.write_text(yaml.safe_dump({**config, "templates": []}))
    subprocess.run([debian("amtool"), "check-config", str(file)], check=True, capture_output=True)

    def receiver(**labels: str) -> str:
        command = [debian("amtool"), "config", "routes", "test", f"--config.file={file}"]
        pairs = [f"{name}={value}" for name, value in labels.items()]
        return subprocess.run(
            [*command, *pairs], check=True, capture_output=True, text=True
        ).stdout.strip()

    assert receiver(**EVENT) == "azure-pager"
    assert (
        receiver(**{**EVENT, "alertname": "AzureScheduledEventPreempt", "severity": "warning"})
        == "azure-tickets"
    )
    assert receiver(alertname="AzureScheduledEventMaintenance", severity="info") == "azure-show"
    theirs = {"alertname": "DiskFull", "severity": "critical"}
    assert receiver(**theirs) == ("team-pager" if merge is fragment else "null")
    assert receiver(alertname="Watchdog") == ("everything" if merge is fragment else "null")
    named = {each["name"] for each in config["receivers"]}
    assert named >= {"azure-pager", "azure-tickets", "azure-show"}
    assert '{{ template "azure_scheduled_events.subject" . }}' in json.dumps(config).replace(
        "\\", ""
    )
