"""What a person on call must find in the first notification of an alert."""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from azure_scheduled_events_exporter.alerts import Settings
from azure_scheduled_events_exporter.alerts.groups import alerts
from support.paths import ROOT

TIME = r"(?:at|since|of) \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC|\(time unknown\)"
LONGEST_TITLE = 200
LONGEST_GROUP = 32
_DURATION = r"\b(?:\d+[dhms] ?)+\b|\b\d+ s\b"
_TABLE = {each.name: each for each in alerts(Settings())}
_LEFTOVERS = r"[{}]|<no value>|%!|0001-01-01|\(\)|\[\]|  |\b(\w{3,}) \1\b"


def complaints(
    alert: Mapping[str, Any], vms: Collection[str], group: str | None = None
) -> list[str]:
    """Return what is missing in the notification of an alert about ``vms``.

    ``group`` is their resource group, "" if nobody knows it; None for any.
    """
    name = alert["labels"]["alertname"]
    summary = alert["annotations"].get("summary", "")
    return [f"{name}: {each}: {summary!r}" for each in _missing(alert, vms, group)]


def _missing(alert: Mapping[str, Any], vms: Collection[str], group: str | None) -> Iterator[str]:
    texts = alert["annotations"]
    summary = texts.get("summary", "")
    description = texts.get("description", "")
    row = _TABLE[alert["labels"]["alertname"]]
    said = f"{summary} {description}"
    named = [vm for vm in vms if vm in said]
    if vms and not named:
        yield f"names none of {', '.join(sorted(vms))}"
    if not vms and alert["labels"].get("event_id", "") not in summary:
        yield "names neither a VM nor the event"
    if group != "" and not re.search(rf"\(resource group {_shown(group)}", said):
        yield "names no resource group"
    if not _has_time(row.summary, summary):
        yield "says no time"
    if len(summary) >= LONGEST_TITLE:
        yield f"has a title of {len(summary)} characters"
    if not re.search(_pattern(row.advice_placeholder or row.advice), description):
        yield "gives no advice"
    if not re.search(r"\b[Rr]esolves ", description):
        yield "does not say how it ends"
    yield from _of_links(row.name, texts)
    for vm in sorted(vms, key=len, reverse=True):
        said = said.replace(vm, "VM")
    found = re.search(_LEFTOVERS, said)
    if found:
        yield f"has {found[0]!r}: a placeholder, a doubled space or a doubled word"


def _pattern(advice: str) -> str:
    """Return a regular expression of the advice with any facts in it."""
    return re.sub(r"\\\{\w+\\\}", r"\\w.+\\.", re.escape(advice))


def _shown(group: str | None) -> str:
    if group is None:
        return "."
    return re.escape(group.lower()[:LONGEST_GROUP])


def _has_time(template: str, summary: str) -> bool:
    """Return whether a summary has the time that its row has, in whole seconds."""
    if any(each in template for each in ("{when}", "{time}", "{hook_event}")):
        return bool(re.search(TIME, summary))
    if "{seconds}" in template:
        return bool(re.search(_DURATION, summary)) and not re.search(r"\d\.\d+ ?s\b", summary)
    return True


def _of_links(name: str, texts: Mapping[str, str]) -> Iterator[str]:
    runbook = texts.get("runbook_url", "")
    if (
        not runbook.endswith(f"/{name}.md")
        or not (ROOT / "docs" / "runbooks" / f"{name}.md").exists()
    ):
        yield "links to no runbook"
    board = texts.get("dashboard_url", "")
    variables = r"\?var-(vm|resource_group)=[^&{}<> ]+$|\?var-job=[^&{}]+&var-instance=[^&{}]+$"
    if not re.search(variables, board) and not board.endswith("/azure-scheduled-events-fleet"):
        yield f"links to no dashboard with its variables: {board}"
