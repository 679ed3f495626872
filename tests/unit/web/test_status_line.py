"""The line that ``systemctl status`` shows."""

from dataclasses import replace

import pytest

from azure_scheduled_events_exporter.core.document import Scope
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle, State
from azure_scheduled_events_exporter.snapshot.journal_state import JournalState
from azure_scheduled_events_exporter.snapshot.snapshot import Polls, Snapshot
from azure_scheduled_events_exporter.web.status_line import status_line
from support.events.status_scene import BLIND, BUSY, QUIET, freeze, reboot

LAST = "2026-11-20T03:06:56Z"
STARTING = "IMDS has not answered yet (the first answer may take two minutes)"
WHY = "no complete answer within 10s"
NEXT = "Freeze of this VM and 1 more VM at 2026-11-20T03:21:53Z"


@pytest.mark.parametrize(
    ("snapshot", "line"),
    [
        (QUIET, "IMDS answers, no events"),
        (replace(BUSY, current={"A": freeze()}), f"IMDS answers, 1 event: {NEXT}"),
        (BUSY, f"IMDS answers, 2 events: {NEXT}, …"),
        (
            BLIND,
            f"IMDS gives no valid answer since {LAST} ({WHY}), as last known 2 events: {NEXT}, …",
        ),
        (
            replace(QUIET, polls=replace(BLIND.polls, last_success=None)),
            f"IMDS gives no valid answer ({WHY}), it is unknown whether there are events",
        ),
        (
            replace(BLIND, polls=replace(BLIND.polls, partial=True), current={"A": freeze()}),
            (
                f"IMDS answers, but not all of it can be read since {LAST} ({WHY}), as last known 1"
                f" event: {NEXT}"
            ),
        ),
        (replace(QUIET, polls=Polls()), f"{STARTING}, it is unknown whether there are events"),
        (
            replace(BUSY, polls=Polls(), current={"A": freeze()}),
            f"{STARTING}, as last known 1 event: {NEXT}",
        ),
        (
            replace(QUIET, journal=JournalState(up=False)),
            "IMDS answers, no events; journal in memory only",
        ),
    ],
)
def test_line(snapshot: Snapshot, line: str) -> None:
    """The line says whether IMDS answers, and which event matters most."""
    assert status_line(snapshot) == line


@pytest.mark.parametrize(
    ("life", "words"),
    [
        (reboot(), "Reboot of web_2 and 11 more VMs, Started"),
        (
            freeze(scope=Scope.PEER, resources=("web_1",), not_before=None),
            "Freeze of web_1, Scheduled",
        ),
        (
            freeze(scope=Scope.UNKNOWN, resources=()),
            "Freeze of no VM by name at 2026-11-20T03:21:53Z",
        ),
        (
            freeze(event_type="", state=State.OTHER, status="Paused"),
            "Event without a type of this VM and 1 more VM, Paused",
        ),
    ],
)
def test_event(life: Lifecycle, words: str) -> None:
    """An event is its type, whom it hits, and when it begins or how it stands."""
    assert status_line(replace(QUIET, current={"A": life})) == f"IMDS answers, 1 event: {words}"
