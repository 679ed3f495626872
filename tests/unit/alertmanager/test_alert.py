"""Which alert an event raises, its labels and its texts."""

from dataclasses import replace

import pytest

from azure_scheduled_events_exporter.alertmanager.alert import alert_of
from azure_scheduled_events_exporter.alertmanager.outbox import Wanted
from azure_scheduled_events_exporter.alerts import Settings, resolve
from azure_scheduled_events_exporter.alerts.pushed import pushed_alerts
from azure_scheduled_events_exporter.core.document import ScheduledEvent, Scope
from azure_scheduled_events_exporter.core.instance import Instance
from azure_scheduled_events_exporter.core.lifecycle import Kind, Lifecycle, State, Transition
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.service.alert_push import wanted
from azure_scheduled_events_exporter.snapshot.snapshot import Polls, Snapshot

CATALOG = pushed_alerts(Settings())
VM = Instance("vm_0", resource_group="rg")
EVENT = ScheduledEvent("ID", "Reboot", "Scheduled", "Platform", ("vm_0", "vm_1"))
LIFE = Lifecycle(EVENT, State.SCHEDULED, Scope.SELF, Timestamp(0.0), not_before=90.0)


def labels_of(kind: Kind, life: Lifecycle = LIFE, **extra: str) -> dict[str, str] | None:
    """Return the labels of the alert that an event raises; None if it raises none."""
    alert = alert_of(life, kind, VM, CATALOG, extra)
    return dict(alert.labels) if alert else None


def test_kind_and_type_choose_the_alert() -> None:
    """An announced event has the alert of its type, any other that of its kind, and a harmless one
    has none.
    """
    event = {"event_id": "ID", "event_type": "Reboot"}
    assert labels_of(Kind.ANNOUNCED) == {
        "alertname": "AzureScheduledEventReboot",
        "severity": "critical",
        **event,
    }
    assert labels_of(Kind.REQUESTED) == {
        "alertname": "AzureScheduledEventRequested",
        "severity": "warning",
        **event,
    }
    assert labels_of(Kind.HARMLESS) is None


@pytest.mark.parametrize(
    ("event_type", "is_alerted"), [("Freeze", True), ("Defrag", True), ("Terminate", False)]
)
def test_an_alert_for_all_types_but_one(event_type: str, *, is_alerted: bool) -> None:
    """An event that is far ahead has an alert whatever its type, even an unknown one, but a
    Terminate has none.
    """
    far = replace(LIFE, event=replace(EVENT, event_type=event_type))
    assert (labels_of(Kind.FAR_AHEAD, far) is not None) is is_alerted


def test_an_event_without_a_type() -> None:
    """An event whose EventType is missing raises the alert of its kind, as by the rules."""
    untyped = replace(LIFE, event=replace(EVENT, event_type=""))
    labels = labels_of(Kind.UNKNOWN_TYPE, untyped)
    assert labels is not None
    assert labels["alertname"] == "AzureScheduledEventUnknownType"


@pytest.mark.parametrize(
    ("resources", "seconds"), [((), 180.0), (("vm_0",), 180.0), (("vm_0", "vm_1"), 300.0)]
)
def test_when_it_is_resolved(resources: tuple[str, ...], seconds: float) -> None:
    """An alert is resolved 3 minutes after the end; 5 if other VMs may see the end later."""
    life = replace(LIFE, event=replace(EVENT, resources=resources))
    found = alert_of(life, Kind.ANNOUNCED, VM, CATALOG, {})
    assert found is not None
    assert found.resolve_after_seconds == seconds


def test_disabled_alert() -> None:
    """An alert that is disabled in the settings is not pushed."""
    catalog = pushed_alerts(resolve({"alerts.disabled": "Reboot"}))
    assert alert_of(LIFE, Kind.ANNOUNCED, VM, catalog, {}) is None


def test_additional_labels_replace_none_of_the_rule() -> None:
    """``--alertmanager.labels`` replaces no label of the rule, as the external labels of a
    Prometheus.
    """
    found = labels_of(Kind.ANNOUNCED, severity="none", team="web")
    assert found is not None
    assert (found["severity"], found["team"]) == ("critical", "web")


def test_braces_in_a_name_are_no_placeholder() -> None:
    """The name of a VM is in a text as it is, also if it is written as a placeholder of texts."""
    odd = replace(LIFE, event=replace(EVENT, resources=("{when}",)))
    alert = alert_of(odd, Kind.ANNOUNCED, VM, CATALOG, {})
    assert alert is not None
    assert alert.annotations["summary"] == (
        "Azure reboots {when} (resource group rg) at 1970-01-01 00:01:30 UTC."
    )


def test_the_type_in_a_title() -> None:
    """The title has the event's type, and of one that is very long the beginning."""
    for event_type, shown in (
        ("Vaporize", "Vaporize"),
        ("Vaporize" * 9, "VaporizeVaporizeVapori…"),
    ):
        odd = replace(LIFE, event=replace(EVENT, event_type=event_type, resources=("vm_0",)))
        alert = alert_of(odd, Kind.UNKNOWN_TYPE, VM, CATALOG, {})
        assert alert is not None
        assert alert.annotations["summary"].startswith(f"Unknown event type {shown}: vm_0 (")


def event_ids(found: Wanted | None) -> tuple[list[str], list[str]] | None:
    """Return the event ids of the alerts that fire, and of those that have ended."""
    if found is None:
        return None
    firing = [alert.labels["event_id"] for alert in found.firing]
    ended = [alert.labels["event_id"] for alert, _ in found.ended]
    return firing, ended


def life(event_id: str, **more: object) -> Lifecycle:
    """Return the event LIFE with this id, and with other values in the fields ``more``."""
    return replace(LIFE, event=replace(EVENT, event_id=event_id), **more)  # type: ignore[arg-type]  # fields by name


NOW = Timestamp(80.0)
ENDED = Timestamp(50.0)


@pytest.fixture
def snapshot() -> Snapshot:
    """Return the events MINE, THEIRS, REMEMBERED and OVER, after a successful poll.

    REMEMBERED comes from the journal: no document of this run has shown it.
    """
    mine = life("MINE")
    theirs = life("THEIRS", scope=Scope.PEER)
    remembered = life("REMEMBERED")
    over = life("OVER", outcome=Transition.CANCELLED, ended_at=ENDED)
    return Snapshot(
        polls=Polls(up=True),
        identity=VM,
        current={each.event_id: each for each in (mine, theirs, remembered)},
        shown={each.event_id: each for each in (mine, theirs)},
        ended=(over, replace(over, scope=Scope.PEER)),
    )


def test_what_a_snapshot_requires(snapshot: Snapshot) -> None:
    """Alerts of this VM's events fire once a document of this run has shown them, and recent ends
    are resolved.
    """
    found = wanted(snapshot, CATALOG, {}, NOW)
    assert event_ids(found) == (["MINE"], ["OVER"])
    assert found is not None
    [(_, seconds_since_the_end)] = found.ended
    assert seconds_since_the_end == NOW.wall - ENDED.wall


def test_what_a_failed_poll_requires(snapshot: Snapshot) -> None:
    """A partly unreadable document is enough for alerts; without an answer of IMDS, nothing is
    said about events.
    """
    unreadable = replace(snapshot, polls=Polls(up=False, partial=True))
    assert event_ids(wanted(unreadable, CATALOG, {}, NOW)) == (["MINE"], ["OVER"])
    unreachable = replace(snapshot, polls=Polls(up=False))
    assert wanted(unreachable, CATALOG, {}, NOW) is None
