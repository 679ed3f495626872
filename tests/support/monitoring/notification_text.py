"""What a person on call must find in the first notification of an alert."""

import re
from collections.abc import Mapping
from typing import Any

TIME = r"(?:at|since) \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC|\(time unknown\)"
LONGEST_TITLE = 200
_WITHOUT_TIME = {"AzureScheduledEventEvictionRisk"}


def complaints(alert: Mapping[str, Any], vms: set[str]) -> list[str]:
    """Return what is missing in the notification of an event of ``vms``."""
    texts = alert["annotations"]
    summary = texts.get("summary", "")
    name = alert["labels"]["alertname"]
    found = []
    if not any(vm in summary for vm in vms):
        found.append(f"names none of {', '.join(sorted(vms))}")
    if "(resource group " not in summary:
        found.append("names no resource group")
    if name not in _WITHOUT_TIME and not re.search(TIME, summary):
        found.append("says no time")
    if len(summary) >= LONGEST_TITLE:
        found.append(f"has a title of {len(summary)} characters")
    if len(texts.get("description", "").split(". ")) < 2:
        found.append("gives no advice")
    if not texts.get("runbook_url", "").endswith(f"/{name}.md"):
        found.append("links to no runbook")
    if not re.search(r"\?var-(vm|resource_group)=[^&{}]+$", texts.get("dashboard_url", "")):
        found.append("links to no dashboard with its variable")
    if re.search(r"[{}]|<no value>|  |\b(\w{3,}) \1\b", " ".join(texts.values())):
        found.append("has a placeholder, a doubled space or a doubled word")
    return [f"{name}: {each}: {summary!r}" for each in found]
