"""IMDS fails during a pending event: no event is lost, the failure is visible, and the exporter
recovers by itself.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import formatdate

import pytest

from azure_scheduled_events_exporter.simulator import Simulator
from support.events.imds_bodies import entry
from support.programs import Exporter, Sample, Scrape, eventually

EVENT_ID = "C7061BAC-AFDC-4513-B24B-AA5F13A16123"
KEY = {"event_id": EVENT_ID, "event_type": "Reboot", "scope": "self"}
Start = Callable[..., Exporter]


def reboot(not_before: float) -> dict[str, object]:
    """Return an announced Reboot of this VM and its neighbor."""
    return entry(
        EventId=EVENT_ID, Resources=["vm_0", "vm_1"], NotBefore=formatdate(not_before, usegmt=True)
    )


_BY_THE_SECOND = {"event_seconds_until_not_before", "event_seen_timestamp_seconds"}
_BESIDE_EVENT = {
    "pending",
    "started",
    "transitions_total",
    "document_incarnation",
    "document_changes_total",
}
"""Metrics about events whose names do not begin with ``event_``."""


def about_events(scrape: Scrape) -> dict[str, list[Sample]]:
    """Return all series about events, but for those that change by the second."""
    names = {name for name in scrape.samples if name.startswith("event_")} | _BESIDE_EVENT
    return {name: scrape.series(name) for name in names - _BY_THE_SECOND}


def outcomes(scrape: Scrape) -> set[str]:
    """Return the outcomes that polls have had."""
    return {labels["outcome"] for labels, value in scrape.series("polls_total") if value}


def has_polled(scrape: Scrape) -> bool:
    """Whether the event is known and the poll that found it has ended."""
    return (
        scrape.value("pending", event_type="Reboot", scope="self") == 1 and scrape.value("up") == 1
    )


FAULTS = {
    "400": "http_error",
    "500": "http_error",
    "timeout": "timeout",
    "reset": "connection_error",
    "half-body": "connection_error",
    "not-json": "invalid_document",
    "throttle": "throttled",
}
"""Each fault of the simulator, and the outcome as which its polls are counted."""


@dataclass(frozen=True)
class Moment:
    """What the exporter shows at a moment: its metrics, and how long its log is."""

    scrape: Scrape
    log_length: int

    @property
    def seen(self) -> float:
        """When a valid document showed the event last (seconds since 1970)."""
        seen = self.scrape.value("event_seen_timestamp_seconds", **KEY, kind="announced")
        assert seen is not None
        return seen

    @property
    def succeeded(self) -> float:
        """When a poll succeeded last (seconds since 1970)."""
        return self.scrape.value("last_success_timestamp_seconds") or 0.0


def moment(exporter: Exporter) -> Moment:
    """Return what the exporter shows now."""
    return Moment(exporter.scrape(), len(exporter.log))


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
            before = moment(exporter)
            assert before.scrape.value("up") == 1
            simulator.inject(fault)
            during = _assert_known_during_failure(exporter, before, outcome, not_before)
            simulator.heal()
            _assert_recovers(exporter, during)
            _assert_two_lines_of_log(exporter, before, outcome)
    assert exporter.scrape().transitions(event_type="Reboot") == {"detected": 1}


def _assert_known_during_failure(
    exporter: Exporter, before: Moment, outcome: str, not_before: float
) -> Moment:
    """After two polls that failed, all series of the event are those of ``before``, and ``up`` is
    0; return that moment.
    """
    failures_before = before.scrape.total("polls_total", outcome=outcome)

    def wait_for_failures(count: int) -> None:
        exporter.shows(
            f"{count} failed polls",
            lambda now: now.total("polls_total", outcome=outcome) >= failures_before + count,
        )

    wait_for_failures(2)
    during = moment(exporter)
    scrape = during.scrape
    assert scrape.value("up") == 0
    assert scrape.value("pending", event_type="Reboot", scope="self") == 1
    assert about_events(scrape) == about_events(before.scrape)
    left = scrape.value("event_seconds_until_not_before", **KEY)
    assert left == pytest.approx(not_before - time.time(), abs=10)
    assert outcomes(scrape) - outcomes(before.scrape) <= {outcome}, "counted as nothing else"
    assert 0 < during.succeeded < time.time()
    wait_for_failures(3)
    assert moment(exporter).seen == during.seen, "a failed poll does not show the event"
    return during


def _assert_recovers(exporter: Exporter, during: Moment) -> None:
    """A poll succeeds, and shows the same event as ``during`` the failure, at a later time."""
    exporter.shows("recovery", lambda now: now.value("up") == 1)
    after = moment(exporter)
    assert after.succeeded > during.succeeded
    assert after.seen > during.seen
    assert about_events(after.scrape) == about_events(during.scrape)


def _assert_two_lines_of_log(exporter: Exporter, before: Moment, outcome: str) -> None:
    """The log has one line when the failure began and one when it ended, however many polls
    failed.
    """

    def since_then() -> list[str]:
        return exporter.log[before.log_length :].splitlines()

    eventually(
        lambda: any("IMDS answers again" in line for line in since_then()),
        "the end of the failure in the log",
    )
    first, last = (line for line in since_then() if "IMDS" in line)
    assert f"outcome={outcome}" in first
    assert 'msg="IMDS poll failed"' in first
    assert 'msg="IMDS answers again"' in last
