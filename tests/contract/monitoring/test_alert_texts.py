"""The texts of alerts, as Prometheus fills them in."""

from pathlib import Path
from typing import Any

import yaml

from azure_scheduled_events_exporter.alerts.rule import PREFIX
from support.monitoring.stories import Story, impact, info, of, play, target
from support.paths import ROOT

RULES = ROOT / "alerts" / "generated" / "prometheus" / "prometheus-rules.yml"
AT = "1970-01-01 00:10:00 +0000 UTC"
TEXTS = (  # event, alert, at which minute, summary, description
    (
        "R",
        "Reboot",
        5,
        f"Azure reboots a (resource group rg, at {AT}).",
        "Memory is lost. Disks are kept.",
    ),
    (
        "R",
        "Reboot",
        28,
        f"Azure reboots a (resource group rg, at {AT}).",
        "Memory is lost. Disks are kept.",
    ),
    (
        "Q",
        "Requested",
        5,
        "Requested Reboot: d.",
        "A user requested it. Nothing to do if you know of the request.",
    ),
    (
        "R",
        "VmNotBack",
        40,
        "a has not come back from its Reboot.",
        (
            f"Its exporter has not answered for 15 minutes since the event began at {AT}, and has"
            " not seen its end."
        ),
    ),
)


def test_texts(tmp_path: Path) -> None:
    """A page names VMs, resource group and times; a page about a VM that is away, what is still
    known of them.
    """
    rows = [target("a", "1x39 0x200"), of("up", "a", "1x39 stale")]
    rows += [
        info("a", "R", "Reboot", "announced", "1x39 stale"),
        impact("a", "R", "Reboot", 600, "x39 stale"),
    ]
    rows.append(info("d", "Q", "Reboot", "requested", "1x39 stale", "peer"))
    raised = {
        rule["alert"]: rule for group in _shipped() for rule in group["rules"] if "alert" in rule
    }
    checks = []
    for event, name, minute, summary, description in TEXTS:
        rule = raised[PREFIX + name]
        of_vm = (
            {"vm_name": "a", "job": "azure-scheduled-events", "instance": "a:10169"}
            if name == "VmNotBack"
            else {}
        )
        labels = {"event_id": event, "event_type": "Reboot", **rule["labels"], **of_vm}
        texts = {**rule["annotations"], "summary": summary, "description": description}
        expected = [{"exp_labels": labels, "exp_annotations": texts}]
        checks.append(
            {"alertname": PREFIX + name, "eval_time": f"{minute}m", "exp_alerts": expected}
        )
    story = {**Story("texts", tuple(rows), {}).to_test(), "alert_rule_test": checks}
    assert play(tmp_path, {"groups": _shipped()}, [story]) == ""


def _shipped() -> list[dict[str, Any]]:
    groups: list[dict[str, Any]] = yaml.safe_load(RULES.read_text("utf-8"))["groups"]
    return groups
