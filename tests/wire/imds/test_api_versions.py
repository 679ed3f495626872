"""Which api-version IMDS is asked with, and what an error says if IMDS does not know it."""

import json
import socket
import threading

import pytest

from azure_scheduled_events_exporter.errors import ImdsError
from support.servers.imds_peer import (
    BODY,
    LONG_LIMIT,
    Peer,
    Serve,
    always,
    answer,
    client_of,
    failure,
    http_case,
    new_document,
)

NOT_FOUND = http_case("version-unknown-404")
FLAG = "--imds.api-version"


def bad_request(*offered: str) -> bytes:
    """Return the refusal that names the versions that there are."""
    body = json.dumps(
        {"error": "Bad request. api-version is invalid", "newest-versions": [*offered]}
    ).encode()
    return answer(body, "400 Bad Request")


def imds_that_knows(serve: Serve, *versions: str, refusal: bytes = NOT_FOUND) -> Peer:
    """Start an IMDS that answers these versions only."""

    def talk(connection: socket.socket, request: bytes) -> None:
        connection.sendall(answer() if version_of(request) in versions else refusal)

    return serve(talk)


def version_of(request: bytes) -> str:
    """Return the api-version of a request."""
    _method, path, *_ = request.decode().split()
    return path.partition("?api-version=")[2]


def versions_asked(peer: Peer) -> list[str]:
    """Return the api-version of each request, in their order."""
    return [version_of(request) for request in peer.requests]


@pytest.mark.parametrize(
    ("versions", "refusal", "found"),
    [
        pytest.param(("2020-07-01",), NOT_FOUND, "2020-07-01", id="knows the older"),
        pytest.param(("2020-07-01", "2024-07-09"), NOT_FOUND, "2024-07-09", id="knows both"),
        pytest.param(
            ("2020-07-01",),
            bad_request("2021-02-01", "2020-09-01", "2019-01-01"),
            "2020-07-01",
            id="offers versions that it does not know for this path",
        ),
        pytest.param(
            ("2020-07-01", "2024-07-09", "2027-01-15"),
            bad_request("2024-07-09", "2027-01-15"),
            "2027-01-15",
            id="offers one that is newer than those that are documented today",
        ),
        pytest.param(
            ("2020-07-01",),
            bad_request("latest", "../x"),
            "2020-07-01",
            id="offers what is no version",
        ),
    ],
)
def test_auto(versions: tuple[str, ...], refusal: bytes, found: str, serve: Serve) -> None:
    """``auto`` finds the newest version that this IMDS answers; later requests use it at once."""
    peer = imds_that_knows(serve, *versions, refusal=refusal)
    client = client_of(peer.url, "auto")
    assert client.scheduled_events(LONG_LIMIT) == BODY
    assert versions_asked(peer)[-1] == found
    tries = len(peer.requests)
    client.approve(["an-id"], LONG_LIMIT, new_document)
    assert client.scheduled_events(LONG_LIMIT) == BODY
    assert versions_asked(peer)[tries:] == [found, found]


def test_auto_where_no_version_matters(serve: Serve) -> None:
    """A stand-in for IMDS that answers every version is asked for events with the newest one that
    is documented.
    """
    peer = serve(always(answer()))
    assert client_of(peer.url, "auto").scheduled_events(LONG_LIMIT) == BODY
    *_, that_got_events = versions_asked(peer)
    assert that_got_events == "2024-07-09"


def test_auto_after_every_version_was_refused(serve: Serve) -> None:
    """An IMDS that has refused every version is asked again from the newest one on."""
    refuses = threading.Event()
    refuses.set()
    peer = serve(
        lambda connection, _: connection.sendall(NOT_FOUND if refuses.is_set() else answer())
    )
    client = client_of(peer.url, "auto")
    assert "answered 404" in str(failure(client))
    refuses.clear()
    assert client.scheduled_events(LONG_LIMIT) == BODY
    assert versions_asked(peer)[-1] == "2024-07-09"


@pytest.mark.parametrize("version", ["2024-07-09", "2017-12-01"])
def test_a_version_that_is_set(version: str, serve: Serve) -> None:
    """Any version may be set, and only this one is asked."""
    peer = imds_that_knows(serve, version)
    assert client_of(peer.url, version).scheduled_events(LONG_LIMIT) == BODY
    assert versions_asked(peer) == [version]


@pytest.mark.parametrize(("status", "names_others"), [("400", True), ("404", False)])
def test_unknown_version(status: str, names_others: bool, serve: Serve) -> None:
    """A refused version is named with the flag, and with the versions that this IMDS offers, if its
    answer names them.
    """
    peer = serve(always(http_case(f"version-unknown-{status}")))
    message = str(failure(client_of(peer.url, "2024-07-09")))
    assert f"answered {status}: " in message
    assert FLAG in message
    assert "2024-07-09" in message
    assert ("offers 2017-12-01, 2017-08-01, 2017-04-02" in message) is names_others


def test_reason_phrase_off_azure(serve: Serve) -> None:
    """The reason phrase is shown; an empty 403 is not blamed on the guest proxy agent."""

    def talk(connection: socket.socket, _: bytes) -> None:
        connection.sendall(http_case("http10-403"))
        connection.shutdown(socket.SHUT_RDWR)

    message = str(failure(client_of(serve(talk).url)))
    reason_phrase = "connecting to 169.254.169.254:80: dial tcp"
    assert f"answered 403: {reason_phrase}" in message
    assert "this is not an Azure VM, or it has no route to IMDS" in message
    assert "guest proxy agent" not in message


@pytest.mark.parametrize(
    ("status", "is_refusal"),
    [(202, False), (302, True), (400, True), (429, True), (500, False), (504, False)],
)
def test_certainty_of_a_refusal(status: int, is_refusal: bool, serve: Serve) -> None:
    """Only a redirect or an error of the client says for certain that an approval was not
    accepted.
    """
    with pytest.raises(ImdsError) as caught:
        client_of(serve(always(answer(b"", f"{status} Odd"))).url).approve(
            ["an-id"], LONG_LIMIT, new_document
        )
    assert caught.value.is_refusal is is_refusal
