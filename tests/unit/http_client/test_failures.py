"""The reasons why requests fail, from failures of real connections."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import requests

from azure_scheduled_events_exporter.http_client.failures import failure_reason


@contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """Yield the address of a server that reads a part of a request, sends ``answer``, closes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        thread.join()


def reason_for(url: str) -> str:
    """Send a request that fails, and return why."""
    with requests.Session() as session:
        session.trust_env = False
        with pytest.raises(requests.RequestException) as raised:
            session.get(url, timeout=0.3)
    return failure_reason(raised.value)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://127.0.0.1:1", "Connection refused"),
        ("http://prom.invalid", "the host name does not resolve"),
        ("http://user:sesame@", "Invalid URL 'http://***@': No host supplied"),
    ],
)
def test_without_a_connection(url: str, reason: str) -> None:
    """The reason is that of the system, without the libraries' text and without a password."""
    assert reason_for(url) == reason


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"", "Remote end closed connection without response"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf",
            "IncompleteRead(4 bytes read, 5 more expected)",
        ),
        (b"no\x1b[31m HTTP\r\n\r\n", "no [31m HTTP"),
    ],
)
def test_bad_answers(answer: bytes, reason: str) -> None:
    """The reason is one printable line that says what is wrong with the answer."""
    with answering(answer) as address:
        assert reason_for(f"http://{address}") == reason


def test_no_answer() -> None:
    """A server that accepts connections and sends nothing does not answer in time."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert reason_for(f"http://127.0.0.1:{listener.getsockname()[1]}") == "no answer in time"


@pytest.mark.parametrize("value", ["Bearer sesame\n", " sesame", "sesame\u20ac"])
def test_headers(value: str) -> None:
    """A header that cannot be sent is not quoted, because it may be a secret."""
    with socket.create_server(("127.0.0.1", 0)) as listener, requests.Session() as session:
        session.trust_env = False
        with pytest.raises((requests.RequestException, ValueError)) as raised:
            session.get(
                f"http://127.0.0.1:{listener.getsockname()[1]}",
                headers={"Authorization": value},
                timeout=5,
            )
    assert (
        failure_reason(raised.value)
        == "a header of the request has a character that HTTP cannot carry"
    )


def test_tls() -> None:
    """If a server does not speak TLS, the reason is that of the TLS library."""
    with answering(b"HTTP/1.1 400 Bad Request\r\n\r\n") as address:
        assert "SSL: " in reason_for(f"https://{address}")
