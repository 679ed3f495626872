"""Every body that IMDS or its documentation gave, served over HTTP to a running exporter: a table of what it shows."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from support.events.payload_cases import CASES, Case, Event
from support.paths import PAYLOADS
from support.programs import Exporter, Scrape, eventually

EMPTY = b'{"DocumentIncarnation": 999, "Events": []}'


class Service:
    """An IMDS with configurable answers, which records the requested api-versions."""

    def __init__(self) -> None:
        self.status, self.body = 200, EMPTY
        self.versions: set[str] = set()
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                path, _, version = self.path.partition("?api-version=")
                known = path == "/metadata/scheduledevents"
                status, body = (service.status, service.body) if known else (404, b"")
                if known:
                    service.versions.add(version)
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Keep quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def end(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@dataclass(frozen=True)
class Watched:
    """An exporter with the service that it polls."""

    service: Service
    exporter: Exporter

    def serve(self, body: bytes, status: int = 200) -> Scrape:
        """Serve ``body`` and return the metrics after a poll that began later."""
        self.service.status, self.service.body = status, body
        before = self.exporter.scrape().total("polls_total")
        self.exporter.shows("two more polls", lambda scrape: scrape.total("polls_total") >= before + 2)
        return self.exporter.scrape()


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[str, str], Watched]]:
    """One exporter for each api-version and name, all running at once."""
    folder = tmp_path_factory.mktemp("exporters")
    with ExitStack() as stack:
        running = {}
        for number, key in enumerate(sorted({(case.api_version, case.name) for case in CASES})):
            service = Service()
            stack.callback(service.end)
            version, name = key
            flags = ["--imds.api-version", version, "--instance.name", name, "--poll.interval", "100ms"]
            exporter = stack.enter_context(Exporter(service.url, folder / f"{number}.log", *flags))
            running[key] = Watched(service, exporter)
        yield running


def test_every_file_is_in_the_table() -> None:
    """A captured body that is added must be given to the exporter, too."""
    # What /metadata/instance gave is served in tests/wire/test_instance.py.
    files = {path.name for path in PAYLOADS.iterdir() if not path.name.startswith(("instance_", "README"))}
    assert {case.file for case in CASES} == files


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.file)
def test_file(case: Case, watched: dict[tuple[str, str], Watched]) -> None:
    """A body gives exactly the metrics that it should: no more events, no other labels, no guessed times."""
    pair = watched[case.api_version, case.name]
    before = pair.exporter.scrape()
    served = pair.serve((PAYLOADS / case.file).read_bytes(), case.status)  # from here on, no poll meets another body
    after = pair.exporter.shows(
        "one more poll", lambda now: now if now.total("polls_total") > served.total("polls_total") else None
    )
    assert after
    assert pair.service.versions == {case.api_version}

    assert after.value("up") == (case.outcome == "ok")
    polls = [(labels["outcome"], value) for labels, value in after.series("polls_total")]
    grown = {outcome for outcome, value in polls if value > (served.value("polls_total", outcome=outcome) or 0)}
    assert grown == {case.outcome}
    if case.outcome != "ok":  # a body that is refused leaves what was known
        assert after.value("document_incarnation") == before.value("document_incarnation")
        assert after.series("event_info") == before.series("event_info")
        assert after.series("transitions_total") == before.series("transitions_total")
        return
    assert after.value("document_incarnation") == case.incarnation
    assert_events(case.events, after)
    began = Counter(
        (event.event_type, event.source, event.scope, transition)
        for event in case.events
        for transition in (("detected",) if event.status == "Scheduled" else ("detected", "started"))
    )
    told = {
        tuple(labels[name] for name in ("event_type", "event_source", "scope", "transition")): value
        - (before.value("transitions_total", **labels) or 0)
        for labels, value in after.series("transitions_total")
        if labels["transition"] not in {"completed", "cancelled", "lost"}  # the events of the file before
    }
    assert {key: value for key, value in told.items() if value} == began


def assert_events(events: tuple[Event, ...], scrape: Scrape) -> None:
    """Exactly these events are shown, in every metric about current events."""
    for metric, status in (("pending", "Scheduled"), ("started", "Started")):
        shown = {(have["event_type"], have["scope"]): value for have, value in scrape.series(metric) if value}
        assert shown == Counter((event.event_type, event.scope) for event in events if event.status == status)
    infos = [
        {
            "event_id": event.event_id,
            "event_type": event.event_type,
            "event_status": event.status,
            "event_source": event.source,
            "scope": event.scope,
            "description": event.description,
            "resources": event.resources,
        }
        for event in events
    ]
    assert scrape.series("event_info") == [(labels, 1) for labels in infos]
    now = time.time()
    for event in events:
        key = {"event_id": event.event_id, "event_type": event.event_type, "scope": event.scope}
        assert scrape.value("event_resources", **key) == event.count
        assert scrape.value("event_duration_seconds", **key) == event.duration
        assert scrape.value("event_approved", **key) == 0
        first_seen = scrape.value("event_first_seen_timestamp_seconds", **key)
        assert first_seen is not None
        assert now - 60 < first_seen <= now
        not_before = scrape.value("event_not_before_timestamp_seconds", **key)
        left = scrape.value("event_seconds_until_not_before", **key)
        if event.not_before is None:
            assert (not_before, left) == (None, None)
            continue
        assert not_before == datetime(*event.not_before, tzinfo=UTC).timestamp()
        assert left == pytest.approx(not_before - now, abs=10)
    for metric in scrape.samples:
        if metric.startswith("event_"):
            assert {have["event_id"] for have, _ in scrape.series(metric)} <= {event.event_id for event in events}


def test_live_migration_from_beginning_to_end(watched: dict[tuple[str, str], Watched]) -> None:
    """Microsoft's four example responses, one after the other, are one event that came, began and ended."""
    pair = watched["2020-07-01", "FrontEnd_IN_0"]
    before = pair.serve(EMPTY)
    for number, what in enumerate(("1_empty", "2_scheduled", "3_started", "4_empty"), 1):
        after = pair.serve((PAYLOADS / f"msdocs_livemigration_{what}.json").read_bytes())
        assert after.value("document_incarnation") == number
    counted = {"event_type": "Freeze", "event_source": "Platform", "scope": "peer"}
    assert before.transitions(**counted) == {}
    assert after.transitions(**counted) == {"detected": 1, "started": 1, "completed": 1}
    assert after.series("event_info") == []
    changes = after.value("document_changes_total")
    assert changes is not None
    assert changes - (before.value("document_changes_total") or 0) == 4


def test_a_refused_body_leaves_the_event(watched: dict[tuple[str, str], Watched]) -> None:
    """An invalid document or a failed request leaves a pending event unchanged."""
    pair = watched["2020-07-01", "flatcar-vm1"]
    pair.serve((PAYLOADS / "azure_vm-scheduled-events_2021_2_user_reboot.json").read_bytes())
    refused = [case for case in CASES if case.outcome != "ok" and case.status != 429]
    for case in refused:
        scrape = pair.serve((PAYLOADS / case.file).read_bytes(), case.status)
        assert scrape.value("up") == 0, case
        assert scrape.value("pending", event_type="Reboot", scope="self") == 1, case
        assert scrape.value("document_incarnation") == 2, case
    assert scrape.transitions(event_type="Reboot", transition="cancelled") == {}
    assert scrape.transitions(event_type="Reboot", transition="lost") in ({}, {"lost": 1})  # of the table's turn
    eventually(lambda: pair.serve(EMPTY).value("up") == 1, "recovery")


def test_304_before_any_document(watched: dict[tuple[str, str], Watched], tmp_path: Path) -> None:
    """'Unchanged' as the first answer is a failure and not a document without events."""
    service = watched["2020-07-01", "WestNO_0"].service
    service.status, service.body = 304, b""
    with Exporter(service.url, tmp_path / "log", "--instance.name", "WestNO_0", "--poll.interval", "100ms") as exporter:
        scrape = exporter.shows("a poll", lambda now: now if now.total("polls_total") else None)
        assert scrape
        assert scrape.value("up") == 0
        assert scrape.value("polls_total", outcome="ok") == 0
        assert scrape.value("document_incarnation") is None
        service.status, service.body = 200, EMPTY
        exporter.shows("recovery", lambda now: now.value("up") == 1)
        service.status, service.body = 304, b""
        scrape = exporter.scrape()
        polls = scrape.value("polls_total", outcome="ok") or 0
        exporter.shows("unchanged", lambda now: (now.value("polls_total", outcome="ok") or 0) >= polls + 2)
        scrape = exporter.scrape()
        assert scrape.value("up") == 1
        assert scrape.value("document_incarnation") == 999
        assert scrape.value("document_changes_total") == 0


def test_empty_body(watched: dict[tuple[str, str], Watched]) -> None:
    """A 200 with an empty body means "no events", but not at once while an event is current: the poll is good."""
    pair = watched["2020-07-01", "flatcar-vm1"]
    pair.serve((PAYLOADS / "azure_vm-scheduled-events_2021_2_user_reboot.json").read_bytes())
    scrape = pair.serve(b"")
    assert scrape.value("up") == 1
    assert len(scrape.series("event_info")) == 1
    pair.exporter.shows("the end", lambda now: now.series("event_info") == [])
    scrape = pair.exporter.scrape()
    assert scrape.value("up") == 1
    assert scrape.value("document_incarnation") is None


def test_started_event_that_still_has_a_not_before(watched: dict[tuple[str, str], Watched]) -> None:
    """An event that has begun has no countdown, even where IMDS leaves its NotBefore in place."""
    pair = watched["2020-07-01", "flatcar-vm1"]
    body = (PAYLOADS / "azure_vm-scheduled-events_2021_2_user_reboot.json").read_bytes()
    started = body.replace(b"Scheduled", b"Started").replace(b"4CAEA225", b"4CAEA226")
    scrape = pair.serve(started)
    assert scrape.value("started", event_type="Reboot", scope="self") == 1
    assert scrape.series("event_not_before_timestamp_seconds") == []
    assert scrape.series("event_seconds_until_not_before") == []
