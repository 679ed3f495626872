"""Defines the paths of the exporter's HTTP server, and what answers each.

A handler reads only the snapshot, so a request never waits for a poll.
"""

import time
from collections.abc import Callable, Mapping

from azure_scheduled_events_exporter.http_server.app import Handler
from azure_scheduled_events_exporter.http_server.messages import Request, Response
from azure_scheduled_events_exporter.metrics.exposition import Exposition
from azure_scheduled_events_exporter.snapshot.snapshot import Snapshot
from azure_scheduled_events_exporter.web.events_api import events_json
from azure_scheduled_events_exporter.web.status_page import page, page_headers

OPEN_PATHS = ("/-/healthy", "/-/ready")
"""Paths that need no password, because probes have none.

The answers show only whether IMDS has been read, and whether polling hangs.
"""

_RENDERED_SECONDS = 1.0  # how old a page or JSON may be
_HTML = "text/html; charset=utf-8"
_TEXT = "text/plain; charset=utf-8"
_NOT_STORED = ("Cache-Control", "no-store")


def _rendered(
    read: Callable[[], Snapshot],
    render: Callable[[Snapshot, float], Response],
    wall: Callable[[], float],
) -> Handler:
    """Return a handler that renders the snapshot at most once a second, and else repeats itself.

    However many clients ask, and however often the snapshot changes, it takes little time.
    """
    kept: Response | None = None
    rendered_at = 0.0

    def handle(_: Request) -> Response:
        nonlocal kept, rendered_at
        now = time.monotonic()  # not `wall`, which can be set back
        if kept is None or now - rendered_at >= _RENDERED_SECONDS:
            kept = render(read(), wall())
            rendered_at = now
        return kept

    return handle


def routes(
    read: Callable[[], Snapshot], telemetry_path: str, wall: Callable[[], float]
) -> Mapping[str, Handler]:
    """Return the handler of each path.

    ``read`` returns the newest snapshot, ``wall`` the time of day by the clock of IMDS.
    """
    exposition = Exposition(read, wall)

    def metrics(request: Request) -> Response:
        body, content_type = exposition.render(request.headers.get("accept", ""))
        return Response(200, body, content_type, (("Vary", "Accept"), _NOT_STORED))

    def healthy(_: Request) -> Response:
        polls = read().polls
        if not polls.hanging:  # a failing metadata service is no reason to restart
            return Response(200, b"alive\n", _TEXT)
        # This path is open to everybody. While polls hang, the failure is a text of our own, which
        # `Poller.latest` makes: it quotes nothing that IMDS sent.
        return Response(503, f"{polls.failure}\n".encode(), _TEXT)

    def ready(_: Request) -> Response:
        if read().polls.last_success is not None:
            return Response(200, b"ready: IMDS has been read\n", _TEXT)
        # Without the reason: it may quote what IMDS sent, and this path needs no password.
        return Response(503, b"not ready: IMDS has not been read yet\n", _TEXT)

    def status_page(snapshot: Snapshot, now: float) -> Response:
        return Response(200, page(snapshot, now, telemetry_path), _HTML, page_headers())

    def events(snapshot: Snapshot, now: float) -> Response:
        return Response(200, events_json(snapshot, now), "application/json", (_NOT_STORED,))

    return {
        "/": _rendered(read, status_page, wall),
        "/api/v1/events": _rendered(read, events, wall),
        "/-/healthy": healthy,
        "/-/ready": ready,
        telemetry_path: metrics,
    }
