"""Which alerts a real Alertmanager delivers beside a page, and which it inhibits."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from alerts import Settings, resolve
from alerts.rules import alerts
from azure_scheduled_events_exporter.times import iso_time
from support.monitoring.paging import Alertmanager, Receiver, receivers
from support.programs import eventually, fetch

QUICK = {"group.wait": "1s", "group.interval": "1s"}
RULES = {alert.name.removeprefix("AzureScheduledEvent"): alert for alert in alerts(Settings())}


@dataclass(frozen=True)
class Delivery:
    """An Alertmanager and those whom it notifies."""

    alertmanager: Alertmanager
    receiver: Receiver

    def fire(self, event_id: str, *names: str, resolved: tuple[str, ...] = ()) -> None:
        """Raise alerts about a Reboot, with the labels that the rules give them, and resolve others."""
        event, now = {"event_id": event_id, "event_type": "Reboot"}, iso_time(time.time())
        raised = [
            {
                "labels": {"alertname": RULES[name].name, **event, **RULES[name].all_labels()},
                "annotations": {},
                **({"endsAt": now} if name in resolved else {}),
            }
            for name in (*names, *resolved)
        ]
        address = f"{self.alertmanager.url}/api/v2/alerts"
        answer = fetch(address, "POST", json.dumps(raised).encode(), Content_Type="application/json")
        assert answer.status == 200, answer.body

    def notified(self, event_id: str, status: str = "firing") -> set[tuple[str, str]]:
        """Return to whom which alerts of the event were delivered as firing, or as resolved."""
        return {
            (each.path, alert["labels"]["alertname"].removeprefix("AzureScheduledEvent"))
            for each in self.receiver.webhooks()
            for alert in each.body["alerts"]
            if alert["labels"]["event_id"] == event_id and alert["status"] == status
        }

    def state(self, event_id: str, name: str) -> list[str]:
        """Return the states that Alertmanager gives the alert."""
        return [
            each["status"]["state"]
            for each in self.alertmanager.alerts()
            if (each["labels"]["event_id"], each["labels"]["alertname"]) == (event_id, RULES[name].name)
        ]


@pytest.fixture(scope="module")
def delivery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Delivery]:
    """One Alertmanager with the generated configuration."""
    folder = tmp_path_factory.mktemp("delivery")
    with Receiver() as receiver, Alertmanager(folder, resolve({**receivers(receiver.url), **QUICK})) as alertmanager:
        yield Delivery(alertmanager, receiver)


@pytest.mark.parametrize("name", ["Overdue", "NotApproved", "StartedTooLong", "VmNotBack"])
def test_delivered_beside_a_page(delivery: Delivery, name: str) -> None:
    """Alerts about an unusual course of a critical event are delivered, although the event has a page."""
    delivery.fire(name, "Reboot")
    eventually(lambda: delivery.notified(name) == {("/pager", "Reboot")}, "the page is delivered")
    delivery.fire(name, "Reboot", name)
    path = "/pager" if RULES[name].severity == "critical" else "/tickets"
    expected = {("/pager", "Reboot"), (path, name)}
    eventually(lambda: delivery.notified(name) == expected, f"{name} is delivered, too")


def test_a_vm_that_does_not_come_back_is_a_page_of_its_own(delivery: Delivery) -> None:
    """An incident about the event, which somebody may have acknowledged, is not the one that VmNotBack opens."""
    delivery.fire("two", "Reboot", "VmNotBack")
    both = {("/pager", "Reboot"), ("/pager", "VmNotBack")}
    eventually(lambda: delivery.notified("two") == both, "both are delivered")
    told = [each.body for each in delivery.receiver.webhooks() if "two" in str(each.body)]
    assert [len(each["alerts"]) for each in told] == [1, 1]
    assert len({each["groupKey"] for each in told}) == 2


@pytest.mark.parametrize(
    ("name", "page"),
    [
        ("DegradedHost", "Reboot"),  # less than a day is left
        ("NotApproved", "StartedTooLong"),
        ("Overdue", "VmNotBack"),
        ("RebootRequested", "VmNotBack"),
    ],
)
def test_a_ticket_is_closed(delivery: Delivery, name: str, page: str) -> None:
    """An alert that ends while a later one about the same event fires is reported as resolved."""
    event_id = f"{name}, then {page}"
    delivery.fire(event_id, name)
    eventually(lambda: delivery.notified(event_id) == {("/tickets", name)}, "the ticket is delivered")
    delivery.fire(event_id, page, resolved=(name,))
    eventually(lambda: delivery.notified(event_id, "resolved") == {("/tickets", name)}, "the ticket is closed")
    assert delivery.state(event_id, page) == ["active"]


@pytest.mark.parametrize("name", ["ShortNotice", "RebootRequested"])
def test_silent_beside_a_page(delivery: Delivery, name: str) -> None:
    """A warning without new information beside the page of its event is not delivered."""
    event_id = f"silent {name}"
    delivery.fire(event_id, "Reboot")
    eventually(lambda: delivery.notified(event_id) == {("/pager", "Reboot")}, "the page is delivered")
    delivery.fire(event_id, name)
    eventually(lambda: delivery.state(event_id, name) == ["suppressed"], "the warning is suppressed")
    assert delivery.notified(event_id) == {("/pager", "Reboot")}


def test_a_warning_alone_is_delivered(delivery: Delivery) -> None:
    """The same warning of an event without a page makes a ticket."""
    delivery.fire("alone", "DegradedHost")
    eventually(lambda: delivery.notified("alone") == {("/tickets", "DegradedHost")}, "the ticket is delivered")
