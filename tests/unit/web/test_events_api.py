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


def paths(value: object, parent: str = "") -> set[str]:
    """Return the path of every key in a JSON value, such as ``events[].event_id``; all items of a
    list have one path.
    """
    found: set[str] = set()
    if isinstance(value, list):
        for item in value:
            found |= paths(item, f"{parent}[]")
    if isinstance(value, dict):
        for key, item in value.items():
            path = f"{parent}.{key}" if parent else key
            found |= {path} | paths(item, path)
    return found


def test_json_has_the_documented_keys() -> None:
    """/api/v1/events has exactly the keys of the table in docs/status-page.md, and below
    ``polls.outcomes`` a key for each outcome, which the table need not name.
    """
    cells = re.findall(r"^\| (`[a-z].*?`) \|", DOCUMENT, re.MULTILINE)
    documented = {key for cell in cells for key in re.findall(r"`([a-z_.\[\]]+)`", cell)}
    shown = paths(json.loads(events_json(BUSY, NOW)))
    outcomes = {f"polls.outcomes.{outcome}" for outcome in Outcome}
    assert shown - outcomes == documented


def test_the_time_left() -> None:
    """The time until NotBefore is exact to the millisecond, and has no more digits."""
    answer = json.loads(events_json(BUSY, NOW + 0.0014))
    left = {event["event_id"]: event["seconds_until_not_before"] for event in answer["events"]}
    # NotBefore of the Freeze is 14 min 32 s after NOW. The Reboot has none.
    assert left == {FREEZE_ID: 14 * 60 + 32 - 0.001, reboot().event_id: None}


def test_json_has_what_the_snapshot_has() -> None:
    """Scripts get identity, polls, approvals and history from the JSON, and null for what is not
    known.
    """
    answer = json.loads(events_json(BUSY, NOW))
    assert answer["identity"]["scale_set"] == "web"
    assert answer["polls"] == {
        "interval_seconds": 1.0,
        "outcomes": {**dict.fromkeys(map(str, Outcome), 0), "ok": 4711},
    }
    approval = {event["event_id"]: event["approval"] for event in answer["events"]}
    assert approval == {
        FREEZE_ID: BUSY.approval_statuses[FREEZE_ID].reason,
        reboot().event_id: None,
    }
    assert [life["outcome"] for life in answer["history"]] == [
        *(None for _ in BUSY.current),
        *(life.outcome for life in reversed(BUSY.recent)),
    ], "current events, which have no outcome yet, and then those that ended, the newest first"
    before_the_first_answer = json.loads(events_json(Snapshot(), NOW))
    assert before_the_first_answer["up"] is False
    for key in ("identity", "vm_name", "last_success"):
        assert before_the_first_answer[key] is None, key
