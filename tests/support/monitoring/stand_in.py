"""A stand-in for an exporter: serves the series of a story that a test moves on."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self


class StandIn:
    """Serves what :meth:`show` was given last; answers 503 while it shows nothing, as a VM that is away."""

    def __init__(self, vm: str) -> None:
        self.vm, self.text = vm, ""
        shown = self

        class _Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = shown.text.encode()
                self.send_response(200 if body else 503)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self.target = f"127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def show(self, *events: str, up: int = 1, impact_at: int | None = None) -> None:
        """Show this VM and ``events``: each ``ID TYPE KIND``, or ``ID ended AT``; ``impact_at``: when they hit it."""
        lines = [f"azure_scheduled_events_up {up}"]
        for event in events:
            event_id, event_type, kind = event.split()
            if event_type == "ended":
                labels = f'event_id="{event_id}",event_type="Reboot",scope="self",outcome="completed"'
                lines.append(f"azure_scheduled_events_event_ended_timestamp_seconds{{{labels}}} {kind}")
            else:
                labels = f'event_id="{event_id}",event_type="{event_type}",kind="{kind}",scope="self"'
                lines.append(f'azure_scheduled_events_event_info{{{labels},resources="{self.vm}"}} 1')
                if impact_at is not None:
                    vm = f'vm_id="{self.vm}",vm_name="{self.vm}",resource_group="rg",event_type="{event_type}"'
                    name = "azure_scheduled_events_vm_impact_timestamp_seconds"
                    lines.append(f'{name}{{event_id="{event_id}",{vm}}} {impact_at}')
        self.text = "\n".join(lines) + "\n"

    def go_away(self) -> None:
        """Answer no more."""
        self.text = ""
