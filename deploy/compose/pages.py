"""The phone of the engineer on call: a webhook that prints each page as a line and shows all of them as a page of text.

Only for the demo; uses only the standard library. Keeps notifications in memory and sends nothing.
"""  # noqa: INP001 - a program, no package

import argparse
import json
import os
import re
import signal
import threading
import time
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

_KINDS = {"/pager": "PAGE", "/tickets": "TICKET"}
_RUNBOOK = re.compile(r"/runbooks/([A-Za-z]+\.md)")
_LONGEST = 1 << 20
_KEPT = 200


class Phone:
    """What was notified, as lines. Thread-safe."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._current: set[tuple[str, str]] = set()
        self._lock = threading.Lock()

    def notified(self, kind: str, notification: Mapping[str, Any]) -> None:
        """Print and keep one notification of Alertmanager's webhook, unless it repeats an earlier one."""
        group = kind, str(notification.get("groupKey"))
        labels, texts = notification["commonLabels"], notification["alerts"][0]["annotations"]
        name = labels.get("alertname", "several alerts").removeprefix("AzureScheduledEvent")
        what = f"{name}: {texts.get('summary', '').removesuffix('.').replace(',', ', ')}"
        with self._lock:
            if notification.get("status") == "resolved":
                self._current.discard(group)
                kind, rest = "resolved", ""
            elif group in self._current:
                return
            else:
                self._current.add(group)
                rest = f": {texts.get('description', 'no description')} {texts.get('runbook_url', '')}".rstrip()
            line = f"{time.strftime('%H:%M:%S', time.gmtime())} {kind:<8} {what}{rest}"
            # No terminal takes it for a command.
            self.lines.append("".join(each if each.isprintable() else " " for each in line))
            del self.lines[:-_KEPT]
            print(self.lines[-1], flush=True)


def handler_of(phone: Phone, addresses: str, runbooks: Path) -> type[BaseHTTPRequestHandler]:
    """Return what answers the requests."""

    class _Handler(BaseHTTPRequestHandler):
        timeout = 10

        def do_POST(self) -> None:
            try:
                body = self.rfile.read(min(int(self.headers["Content-Length"]), _LONGEST))
                phone.notified(_KINDS[self.path], json.loads(body))
            except (ValueError, AttributeError, LookupError, TypeError) as error:
                self._answer(
                    HTTPStatus.BAD_REQUEST, f"This is no notification of Alertmanager: {error!r}\n"
                )
            else:
                self._answer(HTTPStatus.OK, "")

        def do_GET(self) -> None:
            found = _RUNBOOK.fullmatch(self.path)
            if self.path == "/":
                newest_first = "\n".join(phone.lines[::-1]) or "None yet."
                self._answer(
                    HTTPStatus.OK,
                    f"Pages and tickets, in UTC:\n\n{newest_first}\n\nSee also:\n\n{addresses}",
                )
            elif found and (runbooks / found[1]).is_file():
                self._answer(HTTPStatus.OK, (runbooks / found[1]).read_text("utf-8"))
            else:
                self._answer(HTTPStatus.NOT_FOUND, "There is / and /runbooks/NAME.md here.\n")

        def _answer(self, status: HTTPStatus, text: str) -> None:
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/plain; charset=utf-8")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Refresh", "3")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
            """Say nothing: only pages are worth a line."""

    return _Handler


def main() -> None:
    """Listen until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--listen", required=True, metavar="HOST:PORT", help="where; ':PORT' for all interfaces"
    )
    parser.add_argument(
        "--runbooks", type=Path, required=True, metavar="DIR", help="served at /runbooks/NAME.md"
    )
    arguments = parser.parse_args()
    host, _, port = arguments.listen.rpartition(":")
    lines = [
        line.split(maxsplit=1)
        for line in os.environ.get("ADDRESSES", "").splitlines()
        if line.strip()
    ]
    addresses = "".join(f"  {line[0]:<42} {line[-1]}\n" for line in lines)
    with ThreadingHTTPServer(
        (host, int(port)), handler_of(Phone(), addresses, arguments.runbooks)
    ) as server:
        server.daemon_threads = True
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: threading.Thread(target=server.shutdown).start())
        print(f"Look at:\n{addresses}Pages and tickets, in UTC:", flush=True)
        server.serve_forever(0.2)


if __name__ == "__main__":
    main()
