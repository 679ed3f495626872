"""What the exporter's own paths answer, over real HTTP."""

from azure_scheduled_events_exporter.service.routes import HANGING_SECONDS, routes
from support.events.status_scene import BLIND
from support.servers.serving import serving


def test_health_is_about_the_poll_loop() -> None:
    """While the poll loop runs, an exporter that cannot read IMDS is healthy; a poll that hangs makes it unhealthy."""
    overdue = 0.0
    pages = routes(lambda: BLIND, "/metrics", overdue_seconds=lambda: overdue)
    with serving(pages) as running:
        assert running.get("/-/healthy")[:2] == (200, b"alive\n")
        overdue = HANGING_SECONDS  # a busy machine, or a VM that was frozen, delays polls too
        assert running.get("/-/healthy")[0] == 200
        overdue = 90.0
        assert running.get("/-/healthy")[:2] == (503, b"the poll loop hangs: a poll is overdue by 90 s\n")
        assert running.get("/metrics")[0] == 200
        overdue = 0.0
        assert running.get("/-/healthy")[0] == 200
