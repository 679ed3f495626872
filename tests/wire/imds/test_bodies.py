"""Bodies of answers: unchanged, chunked, too large, compressed."""

import gzip
from functools import cache

import pytest

from azure_scheduled_events_exporter.errors import Outcome
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
    little_memory,
)


@cache
def compressed_64_mib() -> bytes:
    """Return 64 MiB, compressed."""
    return gzip.compress(bytes(64 * MIB), compresslevel=1)


class TestBodies:
    """What becomes of the body of an answer."""

    def test_unchanged(self, serve: Serve) -> None:
        """A 304 gives None: the last document still holds. It is no empty body."""
        peer = serve(always(answer(b"", "304 Not Modified")))
        assert client_of(peer.url).scheduled_events(LONG_LIMIT) is None

    def test_empty(self, serve: Serve) -> None:
        """A 200 with an empty body is an answer."""
        assert client_of(serve(always(answer(b""))).url).scheduled_events(LONG_LIMIT) == b""

    def test_chunked(self, serve: Serve) -> None:
        """A chunked answer is put together."""
        chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (BODY[:5], BODY[5:]))
        peer = serve(
            always(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n")
        )
        client = client_of(peer.url)
        assert [client.scheduled_events(LONG_LIMIT) for _ in range(2)] == [BODY] * 2
        assert peer.connections == 1, "the end of the answer was read, so the connection is kept"

    def test_of_exactly_one_mebibyte(self, serve: Serve) -> None:
        """A body of 1 MiB is read, one byte more is refused."""
        largest = b" " * MIB
        peer = serve(always(answer(largest)))
        assert client_of(peer.url).scheduled_events(LONG_LIMIT) == largest
        peer = serve(always(answer(largest + b" ")))
        error = failure(client_of(peer.url))
        assert error.outcome is Outcome.INVALID_DOCUMENT
        assert str(error) == f"{peer.url} sent more than 1 MiB"

    @pytest.mark.parametrize("coding", ["gzip", "deflate", "gzip, gzip"])
    def test_compressed_bomb(self, coding: str, serve: Serve) -> None:
        """A small body that unpacks to 64 MiB is refused and costs little memory. The client never
        requests compression, but a server may compress all the same.
        """
        bomb = compressed_64_mib()
        if coding == "deflate":
            bomb = bomb[10:-8]  # without the header and the trailer of gzip
        if coding == "gzip, gzip":
            bomb = gzip.compress(bomb)
        peer = serve(always(answer(bomb, "200 OK", f"Content-Encoding: {coding}")))
        with little_memory():
            error = failure(client_of(peer.url))
        assert error.outcome is Outcome.INVALID_DOCUMENT
        assert_one_line(str(error))
        assert b"gzip" not in peer.requests[0]

    def test_compressed(self, serve: Serve) -> None:
        """A compressed document is read all the same."""
        peer = serve(always(answer(gzip.compress(BODY), "200 OK", "Content-Encoding: gzip")))
        assert client_of(peer.url).scheduled_events(LONG_LIMIT) == BODY
