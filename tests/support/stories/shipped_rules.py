"""The rules of Prometheus as they are shipped, with the settings that nobody has changed."""

from typing import Any

import yaml

from support.paths import ROOT

BOARDS_URL = "https://grafana.example.com/d/azure-scheduled-events-"
"""How the address of each dashboard begins in the texts of these rules; its name follows."""


def shipped_rules() -> dict[str, Any]:
    """Return the content of the generated rules file."""
    path = ROOT / "alerts" / "generated" / "prometheus" / "prometheus-rules.yml"
    rules: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))
    return rules
