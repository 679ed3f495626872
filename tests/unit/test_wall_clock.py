"""Times that people and scrapers are shown, from the clock of the system, which freezegun sets.

Other tests give the code a clock of their own.
"""

import json
import time
from collections.abc import Iterator
from datetime import datetime, timedelta

import freezegun
import pytest
from freezegun import api as freezer

from azure_scheduled_events_exporter.core.document import Document
from azure_scheduled_events_exporter.core.document_parser import parse_document
from azure_scheduled_events_exporter.core.lifecycle import Lifecycles
from azure_scheduled_events_exporter.core.observation import observe
from azure_scheduled_events_exporter.core.observation_context import ObservationContext
from azure_scheduled_events_exporter.metrics.exposition import Exposition
from azure_scheduled_events_exporter.polling.clock import system_clock
from azure_scheduled_events_exporter.snapshot.snapshot import Snapshot
from azure_scheduled_events_exporter.web.events_api import events_json
from azure_scheduled_events_exporter.web.rows import CURRENT_COLUMNS, current_row
from azure_scheduled_events_exporter.web.status_page import page
from support.events.imds_bodies import body, entry
from support.programs import Scrape

NOTICE = 900

# (time zone of the VM, moment of the announcement); NotBefore is 15 minutes later, after the
# change.
BORDERS = [
    pytest.param("Europe/Berlin", "2026-10-25T00:50:00Z", id="the hour that comes twice"),
    pytest.param("Europe/Berlin", "2027-03-28T00:50:00Z", id="the hour that is left out"),
    pytest.param(
        "America/New_York",
        "2026-11-01T05:50:00Z",
        id="the hour that comes twice, west of Greenwich",
    ),
    pytest.param(
        "Pacific/Auckland", "2026-12-31T10:50:00Z", id="new year there, the old year in UTC"
    ),
    pytest.param("UTC", "2026-12-31T23:50:00Z", id="new year"),
    pytest.param("UTC", "2028-02-29T23:50:00Z", id="leap day"),
]


@pytest.fixture
def _zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the process live in a time zone."""
    with monkeypatch.context() as environment:
        environment.setenv("TZ", request.param)
        time.tzset()
        yield
    time.tzset()


def announcement(not_before: datetime) -> Document:
    """Return the document that announces an event.

    A test calls this before freezegun begins, which makes local time UTC: the parser must see the
    time zone of the VM.
    """
    when = not_before.strftime("%a, %d %b %Y %H:%M:%S GMT")
    return parse_document(body(entry(NotBefore=when, Resources=["vm_0"])))


def seen(document: Document) -> Lifecycles:
    """Return the known events after ``document`` at the time of the real clock."""
    known, _ = observe(Lifecycles(), document, ObservationContext(system_clock()(), "vm_0"))
    return known


@pytest.mark.parametrize(("_zone", "moment"), BORDERS, indirect=["_zone"])
@pytest.mark.usefixtures("_zone")
def test_countdown_across_a_change_of_local_time(moment: str) -> None:
    """Exposition, API, page and table count down to NotBefore in UTC, independent of local time and
    calendar.
    """
    not_before = datetime.fromisoformat(moment) + timedelta(seconds=NOTICE)
    document = announcement(not_before)
    with freezegun.freeze_time(moment) as clock:
        assert isinstance(clock, freezer.FrozenDateTimeFactory)
        known = seen(document)
        (life,) = known.current.values()
        snapshot = Snapshot(vm_name="vm_0").with_events(known, time.time())
        exposition = Exposition(lambda: snapshot, time.time)
        for left in (NOTICE, NOTICE - 600, -60):
            clock.move_to(not_before - timedelta(seconds=left))
            scrape = Scrape(exposition.render().body.decode())
            assert scrape.value("event_seconds_until_not_before") == left
            assert scrape.value("event_not_before_timestamp_seconds") == not_before.timestamp()
            (shown,) = json.loads(events_json(snapshot, time.time()))["events"]
            assert shown["seconds_until_not_before"] == left
            assert shown["not_before"] == not_before.strftime("%Y-%m-%dT%H:%M:%SZ")
            row = dict(zip(CURRENT_COLUMNS, current_row(life, time.time()), strict=True))
            assert not_before.strftime("%Y-%m-%dT%H:%M:%SZ") in row["NotBefore"]
            assert (
                not_before.strftime("%H:%M:%S") in page(snapshot, time.time(), "/metrics").decode()
            )
