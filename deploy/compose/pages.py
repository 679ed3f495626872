"""The phone of the engineer on call: Alertmanager's webhook, which prints and shows notifications.

Only for the demo. It uses only the standard library, keeps notifications in memory and sends
nothing.
"""  # noqa: INP001 - a program, no package

import argparse
import html
import json
import os
import re
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

_KINDS = {"/pager": "PAGE", "/tickets": "TICKET"}
"""What a notification is, by the path to which it is posted."""
_RESOLVED = "resolved"
"""The kind of a notification that says that its alerts are over: Alertmanager's word for that."""
_RUNBOOK = re.compile(r"/runbooks/([A-Za-z]+\.md)")
_LONGEST = 1 << 20  # bytes of a notification
_KEPT = 200  # notifications
_PAGE = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Pages and tickets</title>
<style>
body {{ font: 16px/1.5 sans-serif; margin: 1rem auto; max-width: 60rem; padding: 0 1rem; }}
li {{ margin-bottom: .5rem; }}
.PAGE b {{ color: #b00020; }}
.resolved {{ color: #595959; }}
</style>
<h1>Pages and tickets</h1>
<ul>
{notifications}
</ul>
<h2>See also</h2>
<ul>
{addresses}
</ul>
</html>
"""


@dataclass(frozen=True, slots=True)
class Address:
    """A server of the demo for people, and what it shows."""

    url: str
    what: str

    @property
    def line(self) -> str:
        """The line of the terminal."""
        return f"  {self.url:<42} {self.what}"

    @property
    def item(self) -> str:
        """The item of the page."""
        return f"<li>{_link(self.url, self.what)}</li>"


@dataclass(frozen=True, slots=True)
class Notification:
    """What somebody was told.

    Attributes:
        at: the time of day in UTC.
        kind: PAGE, TICKET, or resolved.
        name: the name of the alert, without the prefix that all have.
        summary: the title of the alert.
        description: the rest of its text; empty if it is resolved.
        links: the addresses of further pages, by what they are; none if it is resolved.
    """

    at: str
    kind: str
    name: str
    summary: str
    description: str
    links: Mapping[str, str]

    @property
    def line(self) -> str:
        """The line of the terminal."""
        parts = [f"{self.name}: {self.summary.removesuffix('.')}"]
        if self.description:
            parts.append(self.description)
        text = ": ".join(parts)
        runbook = self.links.get("Runbook", "")
        return f"{self.at} {self.kind:<8} {text} {runbook}".rstrip()

    @property
    def item(self) -> str:
        """The item of the page."""
        parts = [f"<b>{self.kind}</b> {html.escape(self.name)}: {html.escape(self.summary)}"]
        parts.append(html.escape(self.description))
        for name, url in self.links.items():
            parts.append(_link(url, name))
        text = " ".join(parts).rstrip()
        return f'<li class="{self.kind}"><time>{self.at}</time> {text}</li>'


class Phone:
    """What was notified. Thread-safe.

    Args:
        addresses: the servers of the demo; links to others are left out.
    """

    def __init__(self, addresses: Sequence[Address]) -> None:
        self._addresses = addresses
        self._notifications: list[Notification] = []
        # The kind and the group of alerts of each notification that is not resolved.
        self._current: set[tuple[str, str]] = set()
        self._lock = threading.Lock()

    def notified(self, kind: str, body: Mapping[str, Any]) -> None:
        """Print and keep what Alertmanager posts, unless it repeats an earlier notification.

        Raises:
            AttributeError, LookupError, TypeError: ``body`` is no notification.
        """
        group = (kind, str(body.get("groupKey")))
        name = body["commonLabels"].get("alertname", "several alerts")
        texts = _texts(body["alerts"])
        is_over = body.get("status") == _RESOLVED
        with self._lock:
            if group in self._current and not is_over:
                return
            if is_over:
                self._current.discard(group)
            else:
                self._current.add(group)
            notification = Notification(
                at=time.strftime("%H:%M:%S", time.gmtime()),
                kind=kind,
                name=_plain(name.removeprefix("AzureScheduledEvent")),
                summary=_plain(texts.get("summary", "")),
                description=_plain(texts.get("description", "")),
                links=self._links(texts),
            )
            if is_over:  # what was to be done is not shown any more
                notification = replace(notification, kind=_RESOLVED, description="", links={})
            self._notifications.append(notification)
            del self._notifications[:-_KEPT]
            print(notification.line, flush=True)

    def _links(self, texts: Mapping[str, str]) -> dict[str, str]:
        """Return the links that lead to a server of the demo."""
        servers = []
        for each in self._addresses:
            # An address may end with a view of its page, after a "#". Links need not have it.
            server, _, _ = each.url.partition("#")
            servers.append(server)
        links = {}
        for name, annotation in (("Runbook", "runbook_url"), ("Dashboard", "dashboard_url")):
            url = texts.get(annotation, "")
            if url.startswith(tuple(servers)):
                links[name] = _plain(url)
        return links

    def page(self) -> str:
        """Return the page, the newest notification first."""
        with self._lock:
            items = [each.item for each in reversed(self._notifications)]
        return _PAGE.format(
            notifications="\n".join(items) or "<li>None yet.</li>",
            addresses="\n".join(each.item for each in self._addresses),
        )


def _texts(alerts: Sequence[Mapping[str, Any]]) -> Mapping[str, str]:
    """Return the texts of the first alert that fires, else of the first one.

    If the others have other summaries, the summary ends with the number of alerts, as in the
    shipped template (``azure-scheduled-events.tmpl``).
    """
    shown = [each for each in alerts if each["status"] == "firing"] or alerts
    texts: Mapping[str, str] = shown[0]["annotations"]
    summaries = {each["annotations"].get("summary") for each in alerts}
    if len(summaries) == 1:
        return texts
    count = f"({len(shown)} alerts in this message)"
    return {**texts, "summary": f"{texts.get('summary', '')} {count}"}


def _plain(text: str) -> str:
    """Return a text in one line, without what a terminal takes for a command."""
    printable = [each if each.isprintable() else " " for each in text]
    words = "".join(printable).split()
    return " ".join(words)


def _link(url: str, text: str) -> str:
    """Return a link in HTML."""
    return f'<a href="{html.escape(url)}">{html.escape(text)}</a>'


class Handler(BaseHTTPRequestHandler):
    """Answers the requests of a connection: notifications, the page, and runbooks."""

    timeout = 10  # seconds without a request, after which the connection is closed

    def __init__(self, *arguments: Any, phone: Phone, runbooks: Path) -> None:
        self._phone = phone
        self._runbooks = runbooks
        super().__init__(*arguments)  # returns only when all requests are answered

    def do_POST(self) -> None:
        """Take a notification of Alertmanager."""
        try:
            length = int(self.headers["Content-Length"])
            body = self.rfile.read(min(length, _LONGEST))
            self._phone.notified(_KINDS[self.path], json.loads(body))
        except (ValueError, AttributeError, LookupError, TypeError) as error:
            text = f"This is no notification of Alertmanager: {error!r}\n"
            self._answer(HTTPStatus.BAD_REQUEST, text)
        else:
            self._answer(HTTPStatus.OK, "")

    def do_GET(self) -> None:
        """Show the page, or a runbook."""
        if self.path == "/":
            page = self._phone.page()
            self._answer(HTTPStatus.OK, page, "text/html", Refresh="3")
            return
        found = _RUNBOOK.fullmatch(self.path)
        if found:
            runbook = self._runbooks / found[1]
            if runbook.is_file():
                self._answer(HTTPStatus.OK, runbook.read_text("utf-8"))
                return
        self._answer(HTTPStatus.NOT_FOUND, "There is / and /runbooks/NAME.md here.\n")

    def _answer(
        self, status: HTTPStatus, text: str, form: str = "text/plain", **headers: str
    ) -> None:
        """Send an answer; ``form`` is its media type, and ``headers`` are more headers."""
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", f"{form}; charset=utf-8")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing: only notifications are worth a line."""


def _addresses(text: str) -> list[Address]:
    """Return the servers of the demo: a line each, an address and what it shows."""
    found = []
    for line in text.splitlines():
        url, _, what = line.strip().partition(" ")
        if url:
            found.append(Address(url, what.strip() or url))
    return found


def main() -> None:
    """Listen until SIGINT or SIGTERM.

    The variable ``ADDRESSES`` names the servers of the demo, as :func:`_addresses` reads them.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--listen", required=True, metavar="HOST:PORT", help="where; ':PORT' for all interfaces"
    )
    parser.add_argument(
        "--runbooks", type=Path, required=True, metavar="DIR", help="served at /runbooks/NAME.md"
    )
    arguments = parser.parse_args()
    host, _, port = arguments.listen.rpartition(":")
    addresses = _addresses(os.environ.get("ADDRESSES", ""))
    handler = partial(Handler, phone=Phone(addresses), runbooks=arguments.runbooks)
    with ThreadingHTTPServer((host, int(port)), handler) as server:
        server.daemon_threads = True

        def end(*_: object) -> None:
            # In another thread, because shutdown() waits until serve_forever() returns, which the
            # main thread runs, and which this handler interrupts.
            threading.Thread(target=server.shutdown).start()

        signal.signal(signal.SIGINT, end)
        signal.signal(signal.SIGTERM, end)
        lines = [each.line for each in addresses]
        print("\n".join(["Look at:", *lines, "Pages and tickets, in UTC:"]), flush=True)
        server.serve_forever(0.2)


if __name__ == "__main__":
    main()
