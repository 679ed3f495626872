"""The request that a handler gets, and the response that it returns.

Pure: only HTTP messages; no sockets, deadlines, paths or users.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus
from urllib.parse import unquote

import h11

_ABSOLUTE = re.compile(r"https?://[^/?]*", re.IGNORECASE)
_EXPLANATIONS = {
    400: "this is not a valid HTTP/1.1 request",
    401: "user name and password required",
    403: "the client certificate has none of the allowed names",
    404: "nothing is served at this path",
    405: "only GET and HEAD are served here",
    408: "the request was not complete in time",
    429: "more requests than the configured rate limit",
    431: "the header of the request is too large",
    500: "answering failed; see the log",
    501: "this transfer encoding is not supported",
    503: "the password could not be checked in time; try again",
    505: "only HTTP/1.1 and HTTP/1.0 are supported",
}


@dataclass(frozen=True, slots=True)
class Request:
    """A complete request: method as sent, decoded path, raw query, headers under lower-case names, client's address.

    The values of a repeated header are joined by a comma and a space (RFC 9110, 5.3).
    """

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    client: str = ""

    @property
    def has_body(self) -> bool:
        """Whether bytes follow the header, or may follow (CONNECT). The server never reads them."""
        length = self.headers.get("content-length", "0").strip("0")
        return bool(length) or "transfer-encoding" in self.headers or self.method == "CONNECT"


@dataclass(frozen=True, slots=True)
class Response:
    """What a handler returns; :func:`head` adds Date, Content-Type, Content-Length and nosniff."""

    status: int
    body: bytes
    content_type: str
    headers: tuple[tuple[str, str], ...] = ()


def plain(status: int, *headers: tuple[str, str]) -> Response:
    """Return a one-line response in plain text that explains ``status``, or 400 if it has no explanation."""
    status = status if status in _EXPLANATIONS else 400
    return Response(status, f"{_EXPLANATIONS[status]}\n".encode(), "text/plain; charset=utf-8", headers)


def head(response: Response, extra: tuple[tuple[str, str], ...] = (), *, close: bool = False) -> h11.Response:
    """Return the head to send. Headers in ``extra`` replace those of the same name; ``close`` ends the connection.

    Raises:
        ValueError: the status is unknown.
        h11.LocalProtocolError: the status or a header cannot be sent.
    """
    replaced = {name.lower() for name, _ in extra}
    headers = [
        ("Date", formatdate(usegmt=True)),  # RFC 9110, 6.6.1
        ("Content-Type", response.content_type),
        ("Content-Length", str(len(response.body))),
        ("X-Content-Type-Options", "nosniff"),
        *response.headers,
    ]
    headers = [*((name, value) for name, value in headers if name.lower() not in replaced), *extra]
    if close:
        headers.append(("Connection", "close"))
    reason = HTTPStatus(response.status).phrase
    return h11.Response(status_code=response.status, headers=headers, reason=reason)


def parse_request(event: h11.Request, client: str) -> Request:
    """Return the request that h11 has read from ``client``."""
    target = event.target.decode("ascii")
    if not target.startswith("/"):  # absolute-form (RFC 9112, 3.2.2); `*` and host:port are not paths
        absolute = _ABSOLUTE.match(target)
        target = target[absolute.end() :] if absolute else target
        if absolute and not target.startswith("/"):
            target = f"/{target}"
    path, _, query = target.partition("?")
    headers: dict[str, str] = {}
    for raw_name, raw_value in event.headers:
        name, value = raw_name.decode("ascii"), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return Request(event.method.decode("ascii"), unquote(path) if "%" in path else path, query, headers, client)
