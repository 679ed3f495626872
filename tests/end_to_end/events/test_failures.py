"""IMDS fails during a pending event: no event is lost, the failure is visible, and the exporter
recovers by itself.
"""

import time
from collections.abc import Callable
from email.utils import formatdate

import pytest

from azure_scheduled_events_exporter.simulator import Simulator
from support.events.imds_bodies import entry
from support.programs import Exporter, Scrape, eventually

EVENT_ID = "C7061BAC-AFDC-4513-B24B-AA5F13A16123"
KEY = {"event_id": EVENT_ID, "event_type": "Reboot", "scope": "self"}
Start = Callable[..., Exporter]


def reboot(not_before: float) -> dict[str, object]:
    """Return an announced Reboot of this VM and its neighbor."""
    return entry(
        EventId=EVENT_ID, Resources=["vm_0", "vm_1"], NotBefore=formatdate(not_before, usegmt=True)
    )


_BY_THE_SECOND = {"event_seconds_until_not_before", "event_seen_timestamp_seconds"}


def about_events(scrape: Scrape) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Return all series about events, but for those that change by the second."""
    return {
        name: samples
        for name, samples in scrape.samples.items()
        if (name.startswith("event_") and name not in _BY_THE_SECOND)
        or name
        in {
            "pending",
            "started",
            "transitions_total",
            "document_incarnation",
            "document_changes_total",
        }
    }


def outcomes(scrape: Scrape) -> set[str]:
    """Return the outcomes that polls have had."""
    return {labels["outcome"] for labels, value in scrape.series("polls_total") if value}


def has_polled(scrape: Scrape) -> bool:
    """Whether the event is known and the poll that found it has ended."""
    return (
        scrape.value("pending", event_type="Reboot", scope="self") == 1 and scrape.value("up") == 1
    )


# Each fault of the simulator, and the outcome as which its polls are counted.
FAULTS = {
    "400": "http_error",
    "500": "http_error",
    "timeout": "timeout",
    "reset": "connection_error",
    "half-body": "connection_error",
    "not-json": "invalid_document",
    "throttle": "throttled",
}


def test_failures_in_mid_event(
    simulator: Simulator, start_exporter: Start, subtests: pytest.Subtests
) -> None:
    """The event's series stay, up is 0, the outcome is counted, the begin and end are logged, and
    it recovers.
    """
    not_before = float(int(time.time()) + 3600)
    simulator.set_document([reboot(not_before)])
    exporter = start_exporter(simulator.url, "--poll.interval", "250ms", "--imds.timeout", "2s")
    exporter.shows("the event", has_polled)
    for fault, outcome in FAULTS.items():
        with subtests.test(fault):
            _fails_and_recovers(simulator, exporter, fault, outcome, not_before)
    assert exporter.scrape().transitions(event_type="Reboot") == {"detected": 1}


def _fails_and_recovers(
    simulator: Simulator, exporter: Exporter, fault: str, outcome: str, not_before: float
) -> None:
    """Let two polls fail by ``fault``, and then IMDS answer again; compare before, during and
    after.
    """
    before = exporter.scrape()
    logged_before = len(exporter.log)
    assert before.value("up") == 1
    simulator.inject(fault)
    failed = (before.value("polls_total", outcome=outcome) or 0) + 2
    exporter.shows(
        "failed polls", lambda now: (now.value("polls_total", outcome=outcome) or 0) >= failed
    )
    during = exporter.scrape()
    assert during.value("up") == 0
    assert during.value("pending", event_type="Reboot", scope="self") == 1
    assert about_events(during) == about_events(before)
    seen = during.value("event_seen_timestamp_seconds", **KEY, kind="announced")
    exporter.shows(
        "one more failed poll",
        lambda now: (now.value("polls_total", outcome=outcome) or 0) > failed,
    )
    assert exporter.scrape().value("event_seen_timestamp_seconds", **KEY) == seen
    left = during.value("event_seconds_until_not_before", **KEY)
    assert left == pytest.approx(not_before - time.time(), abs=10)
    assert outcomes(during) - outcomes(before) <= {outcome}, "counted as nothing else"
    succeeded = during.value("last_success_timestamp_seconds") or 0
    assert 0 < succeeded < time.time()
    simulator.heal()
    after = exporter.shows("recovery", lambda now: now if now.value("up") == 1 else None)
    assert after
    assert (after.value("last_success_timestamp_seconds") or 0) > succeeded
    assert about_events(after) == about_events(before)
    assert (after.value("event_seen_timestamp_seconds", **KEY) or 0) > (seen or 0)
    eventually(
        lambda: "IMDS answers again" in exporter.log[logged_before:],
        "the end of the failure in the log",
    )
    # One line when it began and one when it ended, however many polls failed.
    first, last = (line for line in exporter.log[logged_before:].splitlines() if "IMDS" in line)
    assert f"outcome={outcome}" in first
    assert 'msg="IMDS poll failed"' in first
    assert 'msg="IMDS answers again"' in last
