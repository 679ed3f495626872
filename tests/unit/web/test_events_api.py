"""The JSON of /api/v1/events: its keys and values."""

import json
import re

from azure_scheduled_events_exporter.errors import Outcome
from azure_scheduled_events_exporter.snapshot.snapshot import Snapshot
from azure_scheduled_events_exporter.web.events_api import events_json
from support.events.status_scene import (
    BUSY,
    FREEZE_ID,
    NOW,
    reboot,
)
from support.paths import ROOT

DOCUMENT = (ROOT / "docs" / "status-page.md").read_text(encoding="utf-8")


def paths(value: object, prefix: str = "") -> set[str]:
    """Return the path of every key in a JSON value; the items of a list and the names of a map
    count as one.
    """
    if isinstance(value, list):
        return set().union(*(paths(item, f"{prefix}[]") for item in value)) if value else set()
    if isinstance(value, dict):
        inner = (
            paths(item, f"{prefix}.{key}".strip(".")) | {f"{prefix}.{key}".strip(".")}
            for key, item in value.items()
        )
        return set().union(*inner)
    return set()


def test_json_has_the_documented_keys() -> None:
    """/api/v1/events has exactly the keys of the table in docs/status-page.md, known or not."""
    cells = re.findall(r"^\| (`[a-z].*?`) \|", DOCUMENT, re.MULTILINE)
    documented = {key for cell in cells for key in re.findall(r"`([a-z_.\[\]]+)`", cell)}
    shown = {
        path
        for path in paths(json.loads(events_json(BUSY, NOW)))
        if not path.startswith("polls.outcomes.")
    }
    assert shown == documented


def test_json_has_what_the_snapshot_has() -> None:
    """Scripts get identity, polls, approvals and history from the JSON, and null for what is not
    known.
    """
    told = json.loads(events_json(BUSY, NOW))
    assert told["identity"]["scale_set"] == "web"
    assert told["polls"] == {
        "interval_seconds": 1.0,
        "outcomes": {**dict.fromkeys(map(str, Outcome), 0), "ok": 4711},
    }
    approval = {event["event_id"]: event["approval"] for event in told["events"]}
    assert approval == {
        FREEZE_ID: BUSY.approval_statuses[FREEZE_ID].reason,
        reboot().event_id: None,
    }
    assert [life["outcome"] for life in told["history"]] == [
        None,  # the two current events come first
        None,
        "completed",
        "completed",
        "cancelled",
        "lost",
        "completed",
    ]
    unknown = json.loads(events_json(Snapshot(), NOW))
    assert unknown["up"] is False
    assert unknown["identity"] is unknown["vm_name"] is unknown["last_success"] is None
