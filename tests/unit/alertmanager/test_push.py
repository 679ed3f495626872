"""From when on an exporter ends an alert that a Prometheus may post, too."""

import logging
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.alertmanager.event_alert import EventAlert
from azure_scheduled_events_exporter.alertmanager.outbox import Holding, Outbox
from azure_scheduled_events_exporter.alertmanager.push import AlertPush
from azure_scheduled_events_exporter.alertmanager.scrapes import SCRAPER_HEADER, Scrapes
from azure_scheduled_events_exporter.config import resolve
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.service.alert_push import check

ALERT = EventAlert({"alertname": "Reboot", "event_id": "1"}, {}, starts_at=1000.0, hold=900.0)


def now(monotonic: float) -> Timestamp:
    """Return a time so many seconds after the machine's start."""
    return Timestamp(1_000_000 + monotonic, monotonic, "boot")


def scraped(interval: float, last: float = 1200.0) -> Scrapes:
    """Return the scrapes of a Prometheus that came every ``interval`` seconds from 0 to ``last``."""
    scrapes = Scrapes()
    for number in range(int(last / interval) + 1):
        scrapes.seen("10.0.0.1", {SCRAPER_HEADER: "5"}, number * interval)
    return scrapes


def pushing(folder: Path, scrapes: Scrapes, values: str = "") -> AlertPush:
    """Return what pushes from an exporter that reaches IMDS, with the settings ``values``."""
    file = folder / "values.yaml"
    file.write_text(values)
    flags = {"alerts.values": str(file)} if values else {}
    push = AlertPush([], check(resolve(flags, {})), {}, scrapes, lambda _: None, lambda: now(0), logging.getLogger())
    push.sees = lambda: True
    return push


def test_without_a_prometheus(tmp_path: Path) -> None:
    """An exporter that nobody scrapes ends an alert at once, whether it reaches IMDS or not."""
    push = pushing(tmp_path, Scrapes())
    assert push.over_at(100.0, 100.0) == 100.0
    push.sees = lambda: False
    push.refresh(Outbox(), lambda _: False, now(100.5))
    assert push.over_at(100.0, 100.5) == 100.5


@pytest.mark.parametrize(
    ("interval", "values", "seconds"),
    [
        (5, "", 50),
        # Rules that take scrapes to be a minute apart record an end two minutes after the last scrape with the event.
        (60, "scrape.interval: 1m\n", 60 + 120 + 3 * 5 + 15 + 5),
        (5, "scrape.interval: 1m\n", 5 + 120 + 3 * 5 + 15 + 5),
        (5, "evaluation.interval: 30s\nevaluation.slow-interval: 30s\n", 5 + 60 + 3 * 30 + 30 + 5),
    ],
)
def test_beside_a_prometheus(tmp_path: Path, interval: float, values: str, seconds: float) -> None:
    """An end waits until the rules of a Prometheus, with the same settings, have found it."""
    push = pushing(tmp_path, scraped(interval), values)
    ended_at = 1200.0 - interval  # the last scrape comes an interval later
    assert push.over_at(ended_at, 1200.0) == ended_at + seconds


def test_imds_is_away_after_the_end(tmp_path: Path) -> None:
    """While the exporter cannot reach IMDS, rules do not believe its end: the wait begins when IMDS answers again."""
    scrapes, outbox = scraped(5, last=1400), Outbox()
    push = pushing(tmp_path, scrapes)
    outbox.refresh([Holding(ALERT)], 1150.0)
    outbox.sent(outbox.due(1150.0, float), 1150.0, accepted=True)
    outbox.refresh([], 1395.0)

    def due(moment: float) -> int:
        push.refresh(outbox, lambda _: False, now(moment))
        return len(outbox.due(moment, lambda ended_at: push.over_at(ended_at, moment)))

    assert due(1401.0) == 0
    push.sees = lambda: False
    assert due(1402.0) == 0
    assert due(1450.0) == 0
    push.sees = lambda: True
    assert due(1451.0) == 0
    scrapes.seen("10.0.0.1", {SCRAPER_HEADER: "5"}, 1455.0)
    assert due(1456.0) == 0
    assert due(1450.0 + 55 + 45 - 1) == 0, "the gap of 55 s may be the interval"
    assert due(1450.0 + 55 + 45) == 1
