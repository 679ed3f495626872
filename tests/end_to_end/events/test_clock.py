"""A VM whose clock is wrong: what the exporter says is by the clock of IMDS."""

import json
import re
import time
from collections.abc import Callable
from email.utils import formatdate
from pathlib import Path

import pytest

from support.events.approve_command import approve
from support.events.imds_bodies import body, entry
from support.programs import Exporter, fetch
from support.servers.http_peer import HttpServer, Request, Response

Start = Callable[..., Exporter]
AHEAD = 2 * 86_400.0
"""How far the clock of IMDS is ahead of this machine's."""


class Ahead(HttpServer):
    """A metadata service whose clock is two days ahead, with a Redeploy an hour later by that
    clock; there is no event any more when a test sets ``is_over``.
    """

    def __init__(self) -> None:
        super().__init__()
        self.not_before = float(int(time.time() + AHEAD + 3600))
        self.is_over = False

    def respond(self, request: Request) -> Response:
        """Return the document, or the name of the VM."""
        headers = {"Date": formatdate(time.time() + AHEAD, usegmt=True)}
        if "/instance" in request.path:
            return Response(200, json.dumps({"compute": {"name": "vm_0"}}).encode(), headers)
        due = formatdate(self.not_before, usegmt=True)
        event = entry(EventType="Redeploy", NotBefore=due)
        return Response(200, body() if self.is_over else body(event), headers)


def test_every_time_is_by_the_clock_of_imds(start_exporter: Start) -> None:
    """An event's kind, its countdown, and the times at which it was first and last seen and ended
    are by the clock of IMDS, like its NotBefore. A metric shows how far the VM's clock is behind.
    """
    with Ahead() as imds:
        exporter = start_exporter(imds.url, "--poll.interval", "300ms")
        exporter.shows("the event", lambda now: now.value("event_info", kind="announced"))
        scrape = exporter.scrape()
        left = scrape.value("event_seconds_until_not_before", scope="self")
        assert left == pytest.approx(3600, abs=60)
        for name in (
            "event_seen_timestamp_seconds",
            "event_first_seen_timestamp_seconds",
            "last_success_timestamp_seconds",
        ):
            assert scrape.value(name) == pytest.approx(time.time() + AHEAD, abs=60)
        assert scrape.value("clock_offset_seconds") == pytest.approx(-AHEAD, abs=2)
        [shown] = json.loads(fetch(f"{exporter.url}/api/v1/events").body)["events"]
        assert shown["seconds_until_not_before"] == pytest.approx(3600, abs=60)
        imds.is_over = True
        ended = exporter.shows("the end", lambda now: now.value("event_ended_timestamp_seconds"))
        assert ended == pytest.approx(time.time() + AHEAD, abs=60)


def test_the_question_of_approve(tmp_path: Path, start_exporter: Start) -> None:
    """Whoever is asked to approve an event sees the time until it by the clock of IMDS."""
    with Ahead() as imds:
        exporter = start_exporter(imds.url, "--journal.path", str(tmp_path))
        exporter.shows("the event", lambda now: now.value("event_info", kind="announced"))
        asked = approve(imds.url, tmp_path, "--all-mine")
    assert re.search(r"Z \(in (1h|59m\d+s)\)", asked.stdout), asked
