"""A status page taken apart, as a browser does it."""

from html.parser import HTMLParser

from azure_scheduled_events_exporter.snapshot.snapshot import Snapshot
from azure_scheduled_events_exporter.web.status_page import page
from support.events.status_scene import (
    NOW,
)

Structure = list[tuple[str, tuple[str, ...]]]


class Page(HTMLParser):
    """A page taken apart: its elements with the names of their attributes, and its texts.

    The texts of neighboring elements follow one another in ``text`` without a space.
    """

    def __init__(
        self, snapshot: Snapshot, now: float = NOW, telemetry_path: str = "/metrics"
    ) -> None:
        super().__init__()
        self.structure: Structure = []
        self.links: list[str] = []
        self.inline: dict[str, str] = {}
        self.main: dict[str, str | None] = {}
        self.text = ""
        self._within = ""
        self._attributes: dict[str, str | None] = {}
        self.feed(page(snapshot, now, telemetry_path).decode())
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.structure.append((tag, tuple(name for name, _ in attrs)))
        self.links += [value or "" for name, value in attrs if name == "href"]
        self._within = tag
        self._attributes = dict(attrs)
        if tag == "main":
            self.main = dict(attrs)

    def handle_endtag(self, tag: str) -> None:  # noqa: ARG002 - the parser's signature
        """What follows stands in no element of interest."""
        self._within = ""

    def handle_data(self, data: str) -> None:
        """Note a text."""
        if self._within in {"style", "script"}:
            self.inline[self._within] = data
        else:
            self.text += data
