"""Requests and responses, as handlers and access control see them.

Must not know sockets, routes or files.
"""

from collections.abc import Mapping
from dataclasses import dataclass

_EXPLANATIONS = {
    401: "user name and password required",
    403: "the client certificate has none of the allowed names",
    404: "nothing is served at this path",
    405: "only GET and HEAD are served here",
    429: "too many password checks at the moment; try again",
    500: "answering failed; see the log",
}


@dataclass(frozen=True, slots=True)
class Request:
    """A request.

    Values of a repeated header are joined by a comma and a space (RFC 9110, 5.3).

    Attributes:
        method: such as GET.
        path: decoded.
        headers: under lower-case names.
        client: the client's address.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    client: str = ""


@dataclass(frozen=True, slots=True)
class Response:
    """What a handler returns.

    The application (``app``) adds Date, Content-Length and nosniff, and compresses the body.

    Attributes:
        status: the HTTP status.
        body: uncompressed.
        content_type: the header Content-Type.
        headers: further headers, as pairs of name and value.
    """

    status: int
    body: bytes
    content_type: str
    headers: tuple[tuple[str, str], ...] = ()


def plain(status: int, *headers: tuple[str, str]) -> Response:
    """Return a response of one line that explains ``status``, a key of ``_EXPLANATIONS``."""
    body = f"{_EXPLANATIONS[status]}\n".encode()
    return Response(status, body, "text/plain; charset=utf-8", headers)
