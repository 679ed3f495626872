"""IMDS fails during a pending event: no event is lost, the failure is visible, and the exporter recovers by itself."""

import threading
import time
from collections.abc import Callable
from email.utils import formatdate

import pytest

from azure_scheduled_events_exporter.simulator import Simulator
from support.events.gate import Gate, Treatment
from support.events.imds_bodies import entry
from support.programs import PATIENCE, Exporter, Scrape, eventually, fetch
from support.quiet import QUIET

EVENT_ID = "C7061BAC-AFDC-4513-B24B-AA5F13A16123"
KEY = {"event_id": EVENT_ID, "event_type": "Reboot", "scope": "self"}
Start = Callable[..., Exporter]


def reboot(not_before: float) -> dict[str, object]:
    """Return an announced Reboot of this VM and its neighbor."""
    return entry(EventId=EVENT_ID, Resources=["vm_0", "vm_1"], NotBefore=formatdate(not_before, usegmt=True))


def settled(scrape: Scrape) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Return all that is known about events, without what changes by the second."""
    return {
        name: samples
        for name, samples in scrape.samples.items()
        if (name.startswith("event_") and name != "event_seconds_until_not_before")
        or name in {"pending", "started", "transitions_total", "document_incarnation", "document_changes_total"}
    }


def has_polled(scrape: Scrape) -> bool:
    """Whether the event is known and the poll that found it has ended."""
    return scrape.value("pending", event_type="Reboot", scope="self") == 1 and scrape.value("up") == 1


FAULTS = {
    "400": "http_error",
    "500": "http_error",
    "timeout": "timeout",
    "reset": "connection_error",
    "half-body": "connection_error",
    "not-json": "invalid_document",
    "throttle": "throttled",
}


def test_failures_in_mid_event(simulator: Simulator, start_exporter: Start, subtests: pytest.Subtests) -> None:
    """The event's series stay, up is 0, the outcome is counted, the begin and end are logged, and it recovers."""
    not_before = float(int(time.time()) + 3600)
    simulator.set_document([reboot(not_before)])
    exporter = start_exporter(simulator.url, "--poll.interval", "250ms", "--imds.timeout", "2s")
    exporter.shows("the event", has_polled)
    for fault, outcome in FAULTS.items():
        with subtests.test(fault):
            _fails_and_recovers(simulator, exporter, fault, outcome, not_before)
    assert exporter.scrape().transitions(event_type="Reboot") == {"detected": 1}


def _fails_and_recovers(simulator: Simulator, exporter: Exporter, fault: str, outcome: str, not_before: float) -> None:
    before, said = exporter.scrape(), len(exporter.log)
    assert before.value("up") == 1
    simulator.inject(fault)
    failed = (before.value("polls_total", outcome=outcome) or 0) + 2
    exporter.shows("failed polls", lambda now: (now.value("polls_total", outcome=outcome) or 0) >= failed)
    during = exporter.scrape()
    assert during.value("up") == 0
    assert during.value("pending", event_type="Reboot", scope="self") == 1
    assert settled(during) == settled(before)
    left = during.value("event_seconds_until_not_before", **KEY)
    assert left == pytest.approx(not_before - time.time(), abs=10)
    others = {labels["outcome"] for labels, value in during.series("polls_total") if value}
    assert others - {labels["outcome"] for labels, value in before.series("polls_total") if value} <= {outcome}
    succeeded = during.value("last_success_timestamp_seconds") or 0
    assert 0 < succeeded < time.time()
    simulator.heal()
    after = exporter.shows("recovery", lambda now: now if now.value("up") == 1 else None)
    assert after
    assert (after.value("last_success_timestamp_seconds") or 0) > succeeded
    assert settled(after) == settled(before)
    eventually(lambda: "IMDS answers again" in exporter.log[said:], "the end of the failure in the log")
    # One line when it began and one when it ended, however many polls failed.
    first, last = (line for line in exporter.log[said:].splitlines() if "IMDS" in line)
    assert f"outcome={outcome}" in first
    assert 'msg="IMDS poll failed"' in first
    assert 'msg="IMDS answers again"' in last


class _Enabling(Gate):
    """An IMDS that answers no poll until the service ``is_enabled``."""

    def __init__(self, target: str) -> None:
        super().__init__(target)
        self.polled = threading.Event()
        self.is_enabled = threading.Event()

    def take(self, method: str, path: str, body: bytes) -> Treatment:
        """Let a poll wait."""
        if "/metadata/scheduledevents" in path:
            self.polled.set()
            self.is_enabled.wait(PATIENCE)
        return super().take(method, path, body)


def test_first_request_takes_long(start_exporter: Start) -> None:
    """While IMDS enables the service, the exporter waits, beyond the time limit of later requests, and answers."""
    with Simulator(QUIET) as simulator, _Enabling(simulator.url) as gate:
        simulator.set_document([reboot(time.time() + 3600)])
        exporter = start_exporter(gate.url, "--imds.timeout", "3s")
        assert gate.polled.wait(PATIENCE)
        began = time.monotonic()
        scrape = exporter.scrape()
        assert fetch(f"{exporter.url}/-/healthy").status == 200
        assert fetch(f"{exporter.url}/-/ready").status == 503
        assert fetch(f"{exporter.url}/").status == 200
        assert scrape.value("up") == 0
        assert {labels["outcome"]: value for labels, value in scrape.series("polls_total")} == {
            "ok": 0,
            "timeout": 0,
            "connection_error": 0,
            "throttled": 0,
            "http_error": 0,
            "invalid_document": 0,
        }
        eventually(lambda: time.monotonic() > began + 4.0, "more time than later requests have")
        gate.is_enabled.set()
        exporter.shows("the event", has_polled)
        scrape = exporter.scrape()
        assert scrape.value("up") == 1
        assert scrape.value("polls_total", outcome="timeout") == 0
        assert fetch(f"{exporter.url}/-/ready").status == 200
        assert exporter.lines("IMDS poll failed") == []
