"""Answers and connections that fail: the outcome and the message of each."""

import socket

import pytest

from azure_scheduled_events_exporter.errors import ImdsError, Outcome
from azure_scheduled_events_exporter.simulator import Simulator
from support.paths import PAYLOADS
from support.programs import NOBODY
from support.servers.imds_peer import (
    BODY,
    LONG_LIMIT,
    MIB,
    Serve,
    always,
    answer,
    assert_one_line,
    client_of,
    failure,
    new_document,
)

ERRORS = [
    pytest.param(
        "400 Bad Request",
        (PAYLOADS / "error_400_missing_metadata_header.json").read_bytes(),
        Outcome.HTTP_ERROR,
        ("Required metadata header not specified",),
        id="no Metadata header",
    ),
    pytest.param(
        "400 Bad Request",
        (PAYLOADS / "error_400_api_version_msdocs.json").read_bytes(),
        Outcome.HTTP_ERROR,
        ("api-version is invalid", "--imds.api-version"),
        id="api-version",
    ),
    pytest.param(
        "400 Bad Request", b"", Outcome.HTTP_ERROR, ("X-Forwarded-For",), id="X-Forwarded-For"
    ),
    pytest.param(
        "429 Too Many Requests",
        (PAYLOADS / "error_429_body.txt").read_bytes(),
        Outcome.THROTTLED,
        (
            "Throttle Result: Too Many Requests",
            "5 requests a second from this VM, all its programs together",
        ),
        id="throttled",
    ),
    pytest.param(
        "403 Forbidden",
        b"denied",
        Outcome.HTTP_ERROR,
        ("denied", "the cause is unknown"),
        id="forbidden by nobody knows whom",
    ),
    pytest.param(
        "404 Not Found",
        b'<?xml version="1.0"?>\r\n<Error>\r\n  <Code>ResourceNotFound</Code>\r\n</Error>',
        Outcome.HTTP_ERROR,
        ("ResourceNotFound", "--imds.endpoint"),
        id="not found, XML",
    ),
    pytest.param("405 Method Not Allowed", b"", Outcome.HTTP_ERROR, ("moving",), id="method"),
    pytest.param("410 Gone", b"", Outcome.HTTP_ERROR, ("moving", "70 s"), id="gone"),
    pytest.param(
        "418 I'm a Teapot", b"short", Outcome.HTTP_ERROR, ("short", "cause is unknown"), id="teapot"
    ),
    pytest.param(
        "500 Internal Server Error",
        b'{"error": "Internal error"}',
        Outcome.HTTP_ERROR,
        ("Internal error",),
        id="server error",
    ),
    pytest.param(
        "502 Bad Gateway",
        b"<html>\n<body>proxy</body></html>",
        Outcome.HTTP_ERROR,
        ("proxy",),
        id="bad gateway",
    ),
    pytest.param("503 Service Unavailable", b"", Outcome.HTTP_ERROR, (), id="unavailable"),
]
"""Status and body as the error table of imds.md has them, the outcome, and words of the message."""


class TestErrors:
    """Every row of the error table has its outcome and its own short message."""

    @pytest.mark.parametrize(("status", "body", "outcome", "words"), ERRORS)
    def test_answer(
        self, status: str, body: bytes, outcome: Outcome, words: tuple[str, ...], serve: Serve
    ) -> None:
        """An error answer becomes an outcome and one line with the answer and what to do."""
        peer = serve(always(answer(body, status)))
        error = failure(client_of(peer.url))
        assert error.outcome is outcome
        code, *_ = status.split(" ")
        assert error.reason == f"{peer.url} answered {code}"
        assert str(error).startswith(error.reason)
        for word in words:
            assert word in str(error)
        assert "<" not in str(error), "markup is no help"
        assert_one_line(str(error))

    def test_refused_approval(self) -> None:
        """A 400 to an approval does not blame settings with which IMDS answers the polls."""
        with Simulator() as simulator:
            url = simulator.url
            with pytest.raises(ImdsError) as caught:
                client_of(url).approve(["NO-SUCH-EVENT"], LONG_LIMIT, new_document)
        message = str(caught.value)
        assert message.startswith(f"{url} answered 400: ")
        hint = (
            "an event may be over: compare the EventIds with azure-scheduled-events-exporter events"
        )
        assert message.endswith(f"; {hint}")
        assert "--imds.api-version" not in message
        assert_one_line(message)

    @pytest.mark.parametrize(
        "body",
        [
            b'{"error": {"code": 1}}',
            b'{"error": null}',
            b"[" * 100_000,
            b'{"error": "a\\n\\u001b[31mb\\ud800"}',
            b"\xff\xfe\x00\x01",
            b"x" * (3 * MIB),
        ],
        ids=["object", "null", "deep", "control characters", "no text", "large"],
    )
    def test_odd_error_body(self, body: bytes, serve: Serve) -> None:
        """For any body of an error, the message is one short line."""
        peer = serve(always(answer(body, "500 Internal Server Error")))
        error = failure(client_of(peer.url))
        assert error.outcome is Outcome.HTTP_ERROR
        assert_one_line(str(error))
        str(error).encode()  # raises an error for a lone surrogate

    def test_closed_port(self) -> None:
        """A port without a listener is a connection error that names the endpoint; no request has
        arrived anywhere.
        """
        url = f"http://{NOBODY}"
        error = failure(client_of(url))
        assert error.outcome is Outcome.CONNECTION_ERROR
        assert str(error) == f"cannot talk to {url}: Connection refused"
        assert not error.may_have_arrived

    @pytest.mark.parametrize(
        "sent",
        [
            b"",
            b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + BODY,
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n" + BODY[:8],
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            b"HTTP/1.1 200 OK\r\nContent-",
            b"SSH-2.0-OpenSSH_9.2\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Encoding: gzip\r\n\r\nplain",
            b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 5000 + b"\r\n",
            b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000 + b"\r\n\r\n",
        ],
        ids=[
            "nothing",
            "half a body",
            "half a chunk",
            "no chunk",
            "half a head",
            "another protocol",
            "no gzip",
            "many headers",
            "long header",
        ],
    )
    def test_broken_off(self, sent: bytes, serve: Serve) -> None:
        """An answer that ends early, or is no HTTP, is a connection error, never half a
        document.
        """

        def talk(connection: socket.socket, _: bytes) -> None:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_RDWR)

        peer = serve(talk)
        error = failure(client_of(peer.url))
        assert error.outcome is Outcome.CONNECTION_ERROR
        assert_one_line(str(error))
        assert len(peer.requests) == 1, "the next poll asks again, and not this one at once"
