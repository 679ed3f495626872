"""The ASGI application: finds the handler of a path, and turns its response into ASGI messages.

Handlers run on the event loop, so they must not block. Must not know sockets or files; ``access``
decides who may read.
"""

import asyncio
import gzip
import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import suppress
from email.utils import formatdate
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from .messages import Request, Response, plain

# Only for types: without a web configuration, nothing loads YAML and bcrypt, which take 2 MiB.
if TYPE_CHECKING:
    from .web_config import WebConfig

_PIECE = 64 * 1024  # bytes of a body sent at once: what a client that never reads costs
_WORTH_PACKING = 1024  # bytes; a smaller body fits into one packet as it is

Handler = Callable[[Request], Response]
_Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Access(Protocol):
    """Decides who may read, as ``access.WebAccess`` does."""

    @property
    def config(self) -> "WebConfig":
        """The settings in effect."""

    async def refuse(self, request: Request) -> Response | None:
        """Return the response that refuses ``request``, or None to answer it."""

    async def watch(self, changed: Callable[[], None]) -> None:
        """Follow changes of the settings until cancelled, and call ``changed`` after each."""


class App:
    """Serves ``routes``: a handler for each path.

    ``access`` decides who may read; None: everybody. It is asked before the path is looked up, so
    whoever may not read does not learn which paths there are. ``log`` gets the errors of handlers.
    """

    def __init__(
        self, routes: Mapping[str, Handler], access: Access | None, log: logging.Logger
    ) -> None:
        self._routes = routes
        self.access = access
        self._log = log

    async def __call__(self, scope: Mapping[str, Any], _: object, send: _Send) -> None:
        """Answer one request; ``scope["state"]`` has its ``connection.Connection``."""
        with suppress(asyncio.CancelledError):  # the server stops; uvicorn would log an error
            await self._answer(scope, send)

    async def _answer(self, scope: Mapping[str, Any], send: _Send) -> None:
        """Send the response to the request in ``scope``, in pieces."""
        request = _request(scope)
        connection = scope["state"]["connection"]
        response = await self._response(request, is_forbidden=connection.is_forbidden)
        headers, packed = self._encoded(request, response)
        if connection.is_last or _has_body(request):
            headers["connection"] = "close"
        encoded = [
            (name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()
        ]
        await send({"type": "http.response.start", "status": response.status, "headers": encoded})
        body = memoryview(packed)  # slices without copies
        if request.method == "HEAD":
            body = memoryview(b"")
        while len(body) > _PIECE:
            await send({"type": "http.response.body", "body": body[:_PIECE], "more_body": True})
            await asyncio.sleep(0)  # others get their turn, and a lost connection is noticed
            body = body[_PIECE:]
        await send({"type": "http.response.body", "body": body, "more_body": False})

    async def _response(self, request: Request, *, is_forbidden: bool) -> Response:
        """Return the response of the handler, or the one that refuses the request.

        ``is_forbidden``: whether the client's certificate has none of the allowed names.
        """
        if is_forbidden:
            return plain(403)
        if self.access is not None:
            refusal = await self.access.refuse(request)
            if refusal is not None:
                return refusal
        return self._handled(request)

    def _handled(self, request: Request) -> Response:
        """Return the response of the path's handler to a client that may read."""
        handler = self._routes.get(request.path)
        if handler is None:
            return plain(404)
        if request.method not in {"GET", "HEAD"}:
            return plain(405, ("Allow", "GET, HEAD"))
        try:
            return handler(request)
        except Exception:  # noqa: BLE001 - the server outlives any handler
            self._log.exception("answering %s failed", request.path)
            return plain(500)

    def _encoded(self, request: Request, response: Response) -> tuple[dict[str, str], bytes]:
        """Return all headers, and the body as it is sent: compressed if the client accepts that."""
        body = response.body
        headers = {
            "date": formatdate(usegmt=True),
            "content-type": response.content_type,
            "x-content-type-options": "nosniff",
        }
        for name, value in response.headers:
            headers[name.lower()] = value
        if self.access is not None:
            for name, value in self.access.config.headers:
                headers[name.lower()] = value
        if len(body) >= _WORTH_PACKING:
            vary = "Accept-Encoding"
            if headers.get("vary"):
                vary = f"{headers['vary']}, {vary}"
            headers["vary"] = vary
            if _accepts_gzip(request.headers.get("accept-encoding", "")):
                body = _packed(body)
                headers["content-encoding"] = "gzip"
        headers["content-length"] = str(len(body))
        return headers, body


def _accepts_gzip(accept_encoding: str) -> bool:
    """Return whether a client takes gzip; ``q=0`` refuses it (RFC 9110, section 12.5.3)."""
    for part in accept_encoding.lower().split(","):
        coding, _, parameters = part.partition(";")
        if coding.strip() != "gzip":
            continue
        name, _, value = parameters.partition("=")
        weight = value.strip()
        is_zero = weight != "" and weight.strip("0.") == ""  # 0, 0.0 and so on
        is_refused = name.strip() == "q" and is_zero
        return not is_refused
    return False


@lru_cache(maxsize=2)  # scrapers that come at once get one body, in two formats at most
def _packed(body: bytes) -> bytes:
    """Return ``body`` in gzip's format, with its fastest level and without a time."""
    return gzip.compress(body, compresslevel=1, mtime=0)


def _has_body(request: Request) -> bool:
    """Return whether a request has a body.

    Nobody reads it, so no other request can follow on the connection.
    """
    length = request.headers.get("content-length", "0")
    is_zero = length.strip("0") == ""  # 0, or several zeros
    return not is_zero or "transfer-encoding" in request.headers


def _request(scope: Mapping[str, Any]) -> Request:
    """Return the request of an ASGI scope; header names in it are in lower case."""
    headers: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name = raw_name.decode("latin-1")
        value = raw_value.decode("latin-1")
        if name in headers:
            value = f"{headers[name]}, {value}"
        headers[name] = value
    client = ""
    if scope["client"]:
        client = scope["client"][0]  # without the port
    return Request(scope["method"], scope["path"], headers, client)
