"""A stand-in for an exporter: serves the series of a story that a test moves on."""

import time

from support.servers.http_peer import HttpServer, Request, Response

_FAR_AHEAD = 1_900_000_000  # Unix seconds
LAG = 185
"""Seconds by which IMDS' clock lags: what rules wait for after the end of an event has passed."""


def imds_time() -> int:
    """Return the time by IMDS' clock."""
    return int(time.time()) - LAG


class StandIn(HttpServer):
    """Serves what :meth:`show` was given last; answers 503 while it shows nothing, as a VM that is
    away.
    """

    def __init__(self, vm: str) -> None:
        super().__init__()
        self.vm = vm
        self.target = f"127.0.0.1:{self.port}"
        self._shown: tuple[str, ...] | None = None
        self._up = 1
        self._impact_at: int | None = None
        self._last_seen = 0

    def respond(self, _: Request) -> Response:
        """Return the series."""
        kind = {"Content-Type": "text/plain; version=0.0.4"}
        text = self._text()
        return Response(200 if text else 503, text.encode(), kind)

    def show(self, *events: str, up: int = 1, impact_at: int | None = None) -> None:
        """Show this VM and ``events``: each ``ID TYPE KIND``, or ``ID ended AT``; ``impact_at``:
        when they hit it.
        """
        self._last_seen = imds_time()
        self._shown = events
        self._up = up
        self._impact_at = impact_at

    def go_away(self) -> None:
        """Answer no more."""
        self._shown = None

    def _text(self) -> str:
        if self._shown is None:
            return ""
        if self._up:
            self._last_seen = imds_time()
        vm = f'vm_id="{self.vm}",vm_name="{self.vm}",resource_group="rg"'
        lines = [f"up {self._up}", f"instance_info{{{vm}}} 1"]
        for event in self._shown:
            event_id, event_type, kind = event.split()
            if event_type == "ended":
                labels = f'event_id="{event_id}",event_type="Reboot",scope="self"'
                lines.append(
                    f'event_ended_timestamp_seconds{{{labels},outcome="completed"}} {kind}'
                )
                continue
            of_event = f'event_id="{event_id}",event_type="{event_type}"'
            labels = f'{of_event},kind="{kind}",scope="self"'
            more = f'resources="{self.vm}",resource_group="rg",event_status="Scheduled"'
            lines += [
                f"event_info{{{labels},{more}}} 1",
                f"event_seen_timestamp_seconds{{{labels}}} {self._last_seen}",
                f"event_impact_timestamp_seconds{{{labels}}} {self._impact_at or _FAR_AHEAD}",
            ]
            if self._impact_at is not None:
                lines.append(f"vm_impact_timestamp_seconds{{{of_event},{vm}}} {self._impact_at}")
        return "".join(f"azure_scheduled_events_{line}\n" for line in lines)
