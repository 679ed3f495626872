"""A stand-in for an exporter: serves the series of a story that a test moves on."""

from support.servers.http_peer import HttpServer, Request, Response


class StandIn(HttpServer):
    """Serves what :meth:`show` was given last; answers 503 while it shows nothing, as a VM that is
    away.
    """

    def __init__(self, vm: str) -> None:
        super().__init__()
        self.vm, self.text = vm, ""
        self.target = f"127.0.0.1:{self.port}"

    def respond(self, _: Request) -> Response:
        """Return the series."""
        kind = {"Content-Type": "text/plain; version=0.0.4"}
        return Response(200 if self.text else 503, self.text.encode(), kind)

    def show(self, *events: str, up: int = 1, impact_at: int | None = None) -> None:
        """Show this VM and ``events``: each ``ID TYPE KIND``, or ``ID ended AT``; ``impact_at``:
        when they hit it.
        """
        lines = [f"azure_scheduled_events_up {up}"]
        for event in events:
            event_id, event_type, kind = event.split()
            if event_type == "ended":
                labels = (
                    f'event_id="{event_id}",event_type="Reboot",scope="self",outcome="completed"'
                )
                lines.append(
                    f"azure_scheduled_events_event_ended_timestamp_seconds{{{labels}}} {kind}"
                )
            else:
                labels = (
                    f'event_id="{event_id}",event_type="{event_type}",kind="{kind}",scope="self"'
                )
                lines.append(
                    f'azure_scheduled_events_event_info{{{labels},resources="{self.vm}"}} 1'
                )
                if impact_at is not None:
                    vm = f'vm_id="{self.vm}",vm_name="{self.vm}",resource_group="rg",event_type="{event_type}"'
                    name = "azure_scheduled_events_vm_impact_timestamp_seconds"
                    lines.append(f'{name}{{event_id="{event_id}",{vm}}} {impact_at}')
        self.text = "\n".join(lines) + "\n"

    def go_away(self) -> None:
        """Answer no more."""
        self.text = ""
