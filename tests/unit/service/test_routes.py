"""What probes and pages get from a snapshot."""

from dataclasses import replace

import pytest

from azure_scheduled_events_exporter.http_server.messages import Request, Response
from azure_scheduled_events_exporter.service.routes import routes
from azure_scheduled_events_exporter.snapshot.snapshot import Polls, Snapshot
from support.events.status_scene import BLIND, BUSY, NOW

HANGING = replace(BUSY, polls=replace(BUSY.polls, up=False, hanging=True, failure="a poll hangs"))
FRESH = Snapshot(polls=Polls())


def answer(path: str, snapshot: Snapshot) -> Response:
    """Return the answer of a server that reads ``snapshot``."""
    return routes(lambda: snapshot, "/metrics", lambda: NOW)[path](Request("GET", path, {}))


@pytest.mark.parametrize(
    ("snapshot", "status", "body"),
    [
        pytest.param(BUSY, 200, b"alive\n", id="all is well"),
        pytest.param(BLIND, 200, b"alive\n", id="IMDS fails: a restart does not help"),
        pytest.param(HANGING, 503, b"a poll hangs\n", id="polling hangs: a restart helps"),
    ],
)
def test_liveness(snapshot: Snapshot, status: int, body: bytes) -> None:
    """A supervisor restarts the exporter exactly if polling hangs."""
    said = answer("/-/healthy", snapshot)
    assert (said.status, said.body) == (status, body)


@pytest.mark.parametrize(("snapshot", "status"), [(FRESH, 503), (BUSY, 200), (BLIND, 200)])
def test_readiness(snapshot: Snapshot, status: int) -> None:
    """The exporter is ready once IMDS has been read."""
    assert answer("/-/ready", snapshot).status == status


@pytest.mark.parametrize("path", ["/metrics", "/api/v1/events"])
def test_answers_are_not_cached(path: str) -> None:
    """No proxy gives an old answer to a scraper or a script."""
    assert ("Cache-Control", "no-store") in answer(path, BUSY).headers


def test_a_page_is_rendered_once_a_second() -> None:
    """Many readers, and many changes, cost one page a second."""
    not_read_yet = [BUSY, BLIND]
    handlers = routes(lambda: not_read_yet.pop(0), "/metrics", lambda: NOW)
    request = Request("GET", "/", {})
    assert handlers["/"](request) is handlers["/"](request)
    assert not_read_yet == [BLIND], "the second request read no snapshot"
