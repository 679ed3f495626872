"""The phone of the engineer on call: a webhook that prints each page as a line and shows all of them on a web page.

Only for the demo; uses only the standard library. Keeps notifications in memory and sends nothing.
"""  # noqa: INP001 - a program, no package

import argparse
import html
import json
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

_KINDS = {"/pager": "PAGE", "/tickets": "TICKET"}
_RUNBOOK = re.compile(r"/runbooks/([A-Za-z]+\.md)")
_LONGEST = 1 << 20
_KEPT = 200
_STYLE = """
:root { color-scheme: light dark; --page: #f4f6f8; --card: #fff; --text: #15191d; --soft: #515a63; --line: #c9d0d7;
  --link: #0b5cad; --rings: #b3182d; --works: #e69f00; }
@media (prefers-color-scheme: dark) { :root { --page: #101418; --card: #1a2026; --text: #eef1f4; --soft: #a9b3bd;
  --line: #3b4550; --link: #8cc0ff; --rings: #f2707f; } }
body { margin: 0 auto; padding: 1rem; max-width: 64rem; font: 1rem/1.5 system-ui, "DejaVu Sans", sans-serif;
  background: var(--page); color: var(--text); overflow-wrap: anywhere; }
h1, h2, p, ul { margin: 0; padding: 0; } h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; } a { color: var(--link); }
ul { list-style: none; display: flex; flex-wrap: wrap; gap: 0 1.25rem; margin: .5rem 0 1rem; font-size: .875rem; }
article { margin: 1rem 0; padding: .75rem 1rem; background: var(--card); border: 1px solid var(--line);
  border-left: .5rem solid var(--works); border-radius: .5rem; }
article.PAGE { border-left-color: var(--rings); } .when { color: var(--soft); font-size: .875rem; }
article.resolved { border-left-color: var(--line); } article.resolved h2 { color: var(--soft); }
"""


@dataclass(slots=True)
class Page:
    """One notification, from firing to resolved; times in Unix seconds."""

    kind: str
    what: str
    text: str
    links: tuple[tuple[str, str], ...]
    notified_at: float
    resolved_at: float | None = None

    def line(self) -> str:
        """Return its current state as one line."""
        if self.resolved_at is not None:
            return f"{_clock(self.resolved_at)} {'resolved':<8} {self.what}"
        return f"{_clock(self.notified_at)} {self.kind:<8} {self.what}: {self.text}"

    def article(self) -> str:
        """Return it as a part of the web page."""
        links = " · ".join(f'<a href="{html.escape(url)}">{name}</a>' for name, url in self.links)
        resolved = f", resolved at {_clock(self.resolved_at)}" if self.resolved_at is not None else ""
        return (
            f'<article class="{self.kind}{" resolved" if resolved else ""}"><h2>{html.escape(self.what)}</h2>'
            f'<p class="when">{self.kind.capitalize()} at {_clock(self.notified_at)}{resolved} (UTC)</p>'
            f"<p>{html.escape(self.text)}</p><p>{links}</p></article>"
        )


class Phone:
    """All notifications by Alertmanager's group, the newest last. Thread-safe.

    Args:
        origins: what runs here; a link to anything else is left out.
    """

    def __init__(self, origins: tuple[str, ...]) -> None:
        self._origins = origins
        self._pages: list[Page] = []
        self._current: dict[tuple[str, str], Page] = {}
        self._lock = threading.Lock()

    def notified(self, kind: str, notification: Mapping[str, Any], now: float) -> str:
        """Add one notification of Alertmanager's webhook; return its line, ``""`` if it repeats an earlier one."""
        key = kind, str(notification.get("groupKey"))
        with self._lock:
            page = self._current.get(key)
            if notification.get("status") == "resolved":
                page = self._current.pop(key, None) or self._begin(kind, notification, now)
                page.resolved_at = now
            elif page is None:
                page = self._current[key] = self._begin(kind, notification, now)
            else:
                return ""
            return page.line()

    def _begin(self, kind: str, notification: Mapping[str, Any], now: float) -> Page:
        labels, texts = notification["commonLabels"], notification["alerts"][0]["annotations"]
        name = labels.get("alertname", "several alerts").removeprefix("AzureScheduledEvent")
        what = f"{name}: {texts.get('summary', '').removesuffix('.').replace(',', ', ')}"
        links = (("Runbook", texts.get("runbook_url", "")), ("Dashboard", texts.get("dashboard_url", "")))
        here = tuple(link for link in links if link[1].startswith(self._origins))
        page = Page(kind, _line(what), _line(texts.get("description", "no description")), here, now)
        self._pages = [*self._pages[1 - _KEPT :], page]
        return page

    def web_page(self, addresses: list[tuple[str, str]]) -> str:
        """Return the notifications as a web page, the newest first, with links to ``addresses``."""
        elsewhere = "".join(f'<li><a href="{html.escape(url)}">{html.escape(text)}</a></li>' for url, text in addresses)
        with self._lock:
            articles = "".join(page.article() for page in self._pages[::-1]) or "<p>No notifications yet.</p>"
        return (
            '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Pages</title>'
            '<meta name="viewport" content="width=device-width"><meta http-equiv="refresh" content="3">'
            f"<style>{_STYLE}</style></head><body><h1>Notifications of the on-call engineer</h1>"
            f"<ul>{elsewhere}</ul>{articles}</body></html>"
        )


def _line(text: str) -> str:
    """Return ``text`` as one line that no terminal takes for a command."""
    return "".join(each if each.isprintable() else " " for each in text)


def _clock(moment: float) -> str:
    return time.strftime("%H:%M:%S", time.gmtime(moment))


def handler_of(phone: Phone, addresses: list[tuple[str, str]], runbooks: Path) -> type[BaseHTTPRequestHandler]:
    """Return what answers the requests."""

    class _Handler(BaseHTTPRequestHandler):
        timeout = 10

        def do_POST(self) -> None:
            try:
                body = self.rfile.read(min(int(self.headers["Content-Length"]), _LONGEST))
                line = phone.notified(_KINDS[self.path], json.loads(body), time.time())
            except (ValueError, AttributeError, LookupError, TypeError) as error:
                self._answer(HTTPStatus.BAD_REQUEST, f"This is no notification of Alertmanager: {error!r}\n", "plain")
                return
            if line:
                say(line)
            self._answer(HTTPStatus.OK, "", "plain")

        def do_GET(self) -> None:
            found = _RUNBOOK.fullmatch(self.path)
            if self.path == "/":
                self._answer(HTTPStatus.OK, phone.web_page(addresses), "html")
            elif found and (runbooks / found[1]).is_file():
                self._answer(HTTPStatus.OK, (runbooks / found[1]).read_text("utf-8"), "plain")
            else:
                self._answer(HTTPStatus.NOT_FOUND, "There is / and /runbooks/NAME.md here.\n", "plain")

        def _answer(self, status: HTTPStatus, text: str, form: str) -> None:
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", f"text/{form}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
            """Say nothing: only pages are worth a line."""

    return _Handler


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> None:
    """Listen until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--listen", required=True, metavar="HOST:PORT", help="where; ':PORT' for all interfaces")
    parser.add_argument("--runbooks", type=Path, required=True, metavar="DIR", help="served at /runbooks/NAME.md")
    arguments = parser.parse_args()
    host, _, port = arguments.listen.rpartition(":")
    lines = [line.split(maxsplit=1) for line in os.environ.get("ADDRESSES", "").splitlines() if line.strip()]
    addresses = [(line[0], line[-1]) for line in lines]
    phone = Phone(tuple("/".join(url.split("/", 3)[:3]) + "/" for url, _ in addresses))
    with ThreadingHTTPServer((host, int(port)), handler_of(phone, addresses, arguments.runbooks)) as server:
        server.daemon_threads = True
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: threading.Thread(target=server.shutdown).start())
        say("Look at:")
        for url, text in addresses:
            say(f"  {url:<42} {text}")
        say("Pages and tickets, in UTC:")
        server.serve_forever(0.2)


if __name__ == "__main__":
    main()
