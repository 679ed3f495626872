"""Target: the status page and the JSON for scripts, of whatever IMDS says."""

import json
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser

from azure_scheduled_events_exporter.approval.scheduler import ApprovalStatus
from azure_scheduled_events_exporter.core.document import parse_document
from azure_scheduled_events_exporter.core.instance import Instance, parse_instance
from azure_scheduled_events_exporter.core.lifecycle import Lifecycles
from azure_scheduled_events_exporter.core.observation import ObservationContext, observe
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.errors import ExporterError
from azure_scheduled_events_exporter.polling.snapshot import Polls, Snapshot
from azure_scheduled_events_exporter.web.event_cards import CARDS
from azure_scheduled_events_exporter.web.events_api import events_json
from azure_scheduled_events_exporter.web.importance import in_order
from azure_scheduled_events_exporter.web.status_page import page
from azure_scheduled_events_exporter.web.wording import clipped
from fuzz.target import SEPARATOR, Form, Target, files
from fuzz.targets.documents import bodies

_NOW = 1_650_000_000.0
_ALONE = {"meta"}
_NAMES = frozenset(
    [
        "html",
        "head",
        "meta",
        "noscript",
        "title",
        "style",
        "body",
        "a",
        "header",
        "p",
        "div",
        "time",
        "main",
        "section",
        "strong",
        "h1",
        "h2",
        "h3",
        "bdi",
        "dl",
        "dt",
        "dd",
        "span",
        "article",
        "code",
        "ol",
        "li",
        "svg",
        "rect",
        "footer",
        "nav",
        "ul",
        "script",
    ]
)


class _Reader(HTMLParser):
    """Reads a page and complains of whatever no page of ours has."""

    def __init__(self) -> None:
        super().__init__()
        self._open: list[str] = []
        self.scripts = 0
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in _NAMES, f"an element that the page does not have: {tag!r}"
        names = [name for name, _ in attrs]
        assert len(set(names)) == len(names), f"an attribute twice: {tag} {names}"
        for name in names:
            assert name != "style", f"{tag} has a style"
            assert not name.startswith("on"), f"{tag} has a handler: {name!r}"
        if tag not in _ALONE:
            self._open.append(tag)
        self.scripts += tag == "script"

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"</{tag}> closes nothing"
        assert self._open.pop() == tag, f"</{tag}> closes another element"

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data!r}")

    def handle_pi(self, data: str) -> None:
        raise AssertionError(f"an instruction: {data!r}")

    def unknown_decl(self, data: str) -> None:
        raise AssertionError(f"a declaration: {data!r}")

    def read(self, body: str) -> str:
        self.feed(body)
        self.close()
        assert not self._open, f"never closed: {self._open}"
        assert self.scripts == 1, f"{self.scripts} scripts"
        return "".join(self.texts)


def _refuse(name: str) -> None:
    raise AssertionError(f"{name} is no JSON")


def check(data: bytes) -> None:
    """The page is well-formed, with no element but its own and every description in it; the JSON is JSON."""
    who, _, said = data.partition(SEPARATOR)
    identity: Instance | None = None
    snapshot = Snapshot(polls=Polls(up=False, last_success=_NOW - 1, failure=who.decode("latin-1")[:200]))
    try:
        identity = parse_instance(who)
        snapshot = replace(snapshot, identity=identity, vm_name=identity.vm_name)
    except ExporterError as error:
        snapshot = replace(snapshot, polls=replace(snapshot.polls, failure=str(error)))
    known = Lifecycles()
    for number, body in enumerate(said.split(SEPARATOR)[:4]):
        try:
            document = parse_document(body)
        except ExporterError as error:
            snapshot = replace(snapshot, polls=replace(snapshot.polls, failure=str(error)))
            continue
        now = Timestamp(_NOW - 100 + 30 * number, 100.0 * number, "boot")
        known, changes = observe(known, document, ObservationContext(now, snapshot.vm_name))
        ended = tuple(change.lifecycle for change in changes if change.lifecycle.outcome)
        snapshot = replace(
            snapshot,
            polls=replace(snapshot.polls, up=True, failure=""),
            incarnation=document.incarnation,
            recent=(*snapshot.recent, *ended)[-20:],
            approval_statuses={name: ApprovalStatus(f"held by rule '{name}'") for name in known.current},
        ).showing(known, (), now.wall)
    _check(snapshot)


def _check(snapshot: Snapshot) -> None:
    shown = _Reader().read(page(snapshot, _NOW, "/metrics").decode())
    for life in in_order(snapshot.current.values())[:CARDS]:
        for text in (life.event_id, life.event.description, life.event.event_type):
            assert clipped(text) in shown, f"not on the page: {text!r}"
    told = json.loads(events_json(snapshot, _NOW), parse_constant=_refuse)
    assert [event["event_id"] for event in told["events"]] == list(snapshot.current)
    assert [event["description"] for event in told["events"]] == [
        life.event.description for life in snapshot.current.values()
    ]


def seeds() -> Iterator[bytes]:
    """Yield a VM's identity with one captured document or with several."""
    empty = files("payloads", "doc_zero_incarnation_empty.json")[0]
    for who in files("payloads", "instance_*.json"):
        for body in bodies():
            yield SEPARATOR.join((who, body))
            yield SEPARATOR.join((who, body, empty, body))


TARGETS = {
    "page": Target(check, seeds, Form.JSON, (b"<script>", b"</script>", b"<!--", b"&lt;", b"&#60;", b'"', b"'", b"<")),
}
