"""Answers of IMDS in an unusual order or with an unusual field, served to a running exporter."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from support.paths import PAYLOADS
from support.programs import Exporter, Scrape
from support.servers.imds_peer import Peer, answer

EMPTY = b'{"DocumentIncarnation": 999, "Events": []}'
REBOOT = (PAYLOADS / "azure_vm-scheduled-events_2021_2_user_reboot.json").read_bytes()


class Service(Peer):
    """An IMDS with configurable answers."""

    def __init__(self) -> None:
        self.status = 200
        self.body = EMPTY
        super().__init__(lambda connection, request: connection.sendall(self._answer(request)))

    def _answer(self, request: bytes) -> bytes:
        known = request.startswith(b"GET /metadata/scheduledevents?")
        return answer(self.body, f"{self.status} As Set") if known else answer(b"", "404 Not Found")


@dataclass(frozen=True)
class Watched:
    """An exporter with the service that it polls."""

    service: Service
    exporter: Exporter

    def serve(self, body: bytes, status: int = 200) -> Scrape:
        """Serve ``body`` and return the metrics after a poll that began later.

        Of two more polls, the first one may have begun before.
        """
        self.service.status = status
        self.service.body = body
        before = self.exporter.scrape().total("polls_total")
        self.exporter.shows(
            "two more polls", lambda scrape: scrape.total("polls_total") >= before + 2
        )
        return self.exporter.scrape()


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """An exporter that has had a 304 as its first answer."""
    with ExitStack() as stack:
        service = Service()
        stack.callback(service.end)
        service.status = 304
        service.body = b""
        flags = ["--instance.name", "flatcar-vm1", "--poll.interval", "100ms"]
        exporter = Exporter(service.url, tmp_path_factory.mktemp("exporter") / "log", *flags)
        yield Watched(service, stack.enter_context(exporter))


def test_304_before_any_document(watched: Watched) -> None:
    """'Unchanged' as the first answer is a failure and not a document without events; later it is a
    good poll.
    """
    scrape = watched.serve(b"", 304)
    assert scrape.value("up") == 0
    assert scrape.value("document_incarnation") is None
    assert watched.serve(EMPTY).value("up") == 1
    scrape = watched.serve(b"", 304)
    assert scrape.value("up") == 1
    assert scrape.value("document_incarnation") == 999


def test_started_event_that_still_has_a_not_before(watched: Watched) -> None:
    """An event that has begun has no countdown, even where IMDS leaves its NotBefore in place."""
    # Only the status of the captured event is changed. Another EventId makes it an event that no
    # other test of this exporter has shown.
    scrape = watched.serve(
        REBOOT.replace(b"Scheduled", b"Started").replace(b"4CAEA225", b"4CAEA226")
    )
    assert scrape.value("started", event_type="Reboot", scope="self") == 1
    assert scrape.series("event_not_before_timestamp_seconds") == []
    assert scrape.series("event_seconds_until_not_before") == []
