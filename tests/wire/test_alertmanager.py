"""What the client of Alertmanager makes of every kind of answer, and what it sends."""

import gzip
import socket
import threading
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.alertmanager.client import (
    AlertmanagerClient,
    AlertmanagerError,
    posted,
)
from azure_scheduled_events_exporter.snapshot.pushes import PushOutcome
from support.programs import NOBODY
from support.servers.http_peer import Peer

ALERT = posted(
    {"alertname": "A", "event_id": "1"}, {"summary": "s"}, starts_at=1000.0, ends_at=2000.0
)


def post(url: str, file: str | None = None, timeout: float = 10) -> tuple[PushOutcome, str]:
    """Post one alert; return the outcome, and why it was not accepted."""
    return post_through(AlertmanagerClient(url, file, timeout))


def post_through(client: AlertmanagerClient) -> tuple[PushOutcome, str]:
    """Post one alert through ``client``; return as ``post`` does."""
    try:
        client.post([ALERT])
    except AlertmanagerError as error:
        return error.outcome, str(error)
    return PushOutcome.ACCEPTED, ""


def test_what_is_posted() -> None:
    """An alert is posted to API v2 with labels, annotations, and its times in UTC."""
    with Peer() as peer:
        assert post(f"{peer.url}/prefix/") == (PushOutcome.ACCEPTED, "")
        ((path, headers, _),) = peer.requests
        assert (path, headers["Content-Type"]) == ("/prefix/api/v2/alerts", "application/json")
        assert peer.alerts() == [
            {
                "labels": {"alertname": "A", "event_id": "1"},
                "annotations": {"summary": "s"},
                "startsAt": "1970-01-01T00:16:40+00:00",
                "endsAt": "1970-01-01T00:33:20+00:00",
            }
        ]


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (202, PushOutcome.ACCEPTED),
        (301, PushOutcome.REJECTED),
        (307, PushOutcome.REJECTED),
        (400, PushOutcome.REJECTED),
        (401, PushOutcome.REJECTED),
        (404, PushOutcome.REJECTED),
        (429, PushOutcome.ERROR),
        (500, PushOutcome.ERROR),
        (503, PushOutcome.ERROR),
    ],
)
def test_answers(status: int, outcome: PushOutcome) -> None:
    """Each status has its outcome, and a redirect leads nowhere."""
    with Peer() as elsewhere, Peer(status, {"Location": elsewhere.url}, b"why\nnot") as peer:
        found, reason = post(peer.url)
        assert found is outcome
        assert bool(reason) is (outcome is not PushOutcome.ACCEPTED)
        assert "\n" not in reason
        assert elsewhere.requests == []


MIB = 1 << 20
BOMB = gzip.compress(bytes(32 * MIB))


@pytest.mark.parametrize("body", [BOMB, BOMB[:-1000]], ids=["large", "cut off"])
def test_redirect_with_a_page(body: bytes) -> None:
    """A redirect is refused as a redirect, whatever page comes with it, and the page is not read
    into memory.
    """
    with Peer(302, {"Location": "/login", "Content-Encoding": "gzip"}, body) as peer:
        tracemalloc.start()
        try:
            _, reason = post(peer.url)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert (
        reason
        == "answered 302: the redirect to /login is not followed; give the address of Alertmanager"
        " itself"
    )
    assert peak < 16 * MIB


@pytest.mark.parametrize(
    ("content_type", "body", "outcome"),
    [
        ("text/html; charset=utf-8", b"\n<!doctype html><title>Sign in</title>", PushOutcome.ERROR),
        ("text/html; charset=utf-8", b"", PushOutcome.ACCEPTED),
        ("application/json", b"{}", PushOutcome.ACCEPTED),
        ("text/plain", b"<ok>", PushOutcome.ACCEPTED),
    ],
)
def test_web_page(content_type: str, body: bytes, outcome: PushOutcome) -> None:
    """A sign-in page that answers 200 is no Alertmanager: its answer is an error that says so.

    An empty answer is no page, whatever its type.
    """
    with Peer(200, {"Content-Type": content_type}, body) as peer:
        found, reason = post(peer.url)
    assert found is outcome
    assert ("answered 200 with a web page" in reason) is (outcome is PushOutcome.ERROR)


def test_nobody_there() -> None:
    """A refused connection is an error, in the system's words."""
    assert post(f"http://{NOBODY}") == (PushOutcome.ERROR, "Connection refused")


@pytest.mark.parametrize("drip", [b"", b"HTTP/1.1 200 OK\r\nX: "], ids=["silent", "byte by byte"])
def test_deadline(drip: bytes) -> None:
    """A post to an Alertmanager that never answers, or sends byte after byte, ends with an error
    when the time limit of the whole request is over.
    """
    with socket.create_server(("127.0.0.1", 0)) as server, _dripping(server, drip):
        began = time.monotonic()
        result = post(f"http://127.0.0.1:{server.getsockname()[1]}", timeout=0.5)
        assert result == (PushOutcome.ERROR, "no whole answer within 0.5 s")
        assert time.monotonic() - began < 5


@contextmanager
def _dripping(server: socket.socket, first: bytes) -> Iterator[None]:
    """Send ``first`` and then byte after byte of the same header; nothing at all if it is empty."""
    ended = threading.Event()

    def serve() -> None:
        peer, _ = server.accept()
        with peer:
            try:
                peer.sendall(first)
                while not ended.wait(0.05):
                    if first:
                        peer.sendall(b"x")
            except OSError:
                return

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def authorization(peer: Peer) -> str:
    """Return the header Authorization of the last request."""
    *_, (_, headers, _) = peer.requests
    return headers["Authorization"]


ME_AND_SESAME = "Basic bWU6c2VzYW1l"
"""The header of the user me with the password sesame."""


def test_credentials(tmp_path: Path) -> None:
    """User and password, or a token, come from the file and the files that it names, as they are
    at each post. If the file goes, a client that has read it keeps what it had.
    """
    config = tmp_path / "http.yml"
    token = tmp_path / "token"
    config.write_text("authorization: {credentials_file: token}\n")
    with Peer() as peer:
        client = AlertmanagerClient(peer.url, str(config))
        for secret in ("first", "second"):
            token.write_text(secret)
            post_through(client)
            assert authorization(peer) == f"Bearer {secret}"
        config.write_text("basic_auth: {username: me, password: sesame}\n")
        post_through(client)
        assert authorization(peer) == ME_AND_SESAME
        config.unlink()
        assert post_through(client) == (PushOutcome.ACCEPTED, ""), "with what the file had"
        assert authorization(peer) == ME_AND_SESAME
        assert "cannot be read" in client.config_error
        _, reason = post(peer.url, str(config))
        assert "cannot be read" in reason


def test_password_in_the_address() -> None:
    """A user in the address authenticates, and is not shown."""
    with Peer() as peer:
        client = AlertmanagerClient(peer.url.replace("//", "//me:sesame@"), None)
        post_through(client)
        assert authorization(peer) == ME_AND_SESAME
        assert client.shown == peer.url
