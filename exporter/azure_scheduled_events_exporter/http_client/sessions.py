"""Sessions of requests whose certificates and credentials are those of the configuration.

Must not decide which server is asked, or what its answer means.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

import requests

from azure_scheduled_events_exporter.errors import ExporterError

from .deadline import DeadlineAdapter
from .failures import NO_ANSWER_IN_TIME, REQUEST_FAILURES, failure_reason


class NoAnswerError(ExporterError):
    """The server did not answer in time, or cannot be reached; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of any status; ``headers`` are looked up in any case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Session(requests.Session):
    """A session that follows no redirect, and keeps its own certificate authorities.

    In a plain session of requests, the variables ``REQUESTS_CA_BUNDLE`` and ``CURL_CA_BUNDLE``
    would replace those that ``verify`` names. Here they have effect only while ``verify`` is True.
    ``adapter`` makes the connections.
    """

    def __init__(self, adapter: DeadlineAdapter) -> None:
        super().__init__()
        self._adapter = adapter
        self.mount("http://", adapter)
        self.mount("https://", adapter)

    def exchange(
        self, method: str, url: str, timeout: float, largest: int, **content: Any
    ) -> Answer:
        """Return the answer to one request, within ``timeout`` seconds in total.

        A body is cut at ``largest`` bytes. ``content``: further arguments of requests, such as
        ``data`` and ``headers``.

        Raises:
            NoAnswerError: none came, or not all of it.
        """
        # Half the time to connect: if the first address of a name does not answer, time is left to
        # try the second one. The adapter limits reads by the deadline, so the limit for them only
        # has to be longer.
        connect_seconds = timeout / 2
        read_seconds = 2 * timeout
        limits = (connect_seconds, read_seconds)
        content |= {"timeout": limits, "stream": True, "allow_redirects": False}
        self._adapter.begin(timeout)
        try:
            with self.request(method, url, **content) as response:
                body = response.raw.read(largest, decode_content=True)
        except REQUEST_FAILURES as error:
            reason = failure_reason(error)
            if reason == NO_ANSWER_IN_TIME:
                reason = f"no whole answer within {timeout:g} s"
            raise NoAnswerError(reason) from None
        return Answer(response.status_code, response.headers, body)

    def get_redirect_target(self, resp: Any) -> str | None:  # noqa: ARG002 - as requests calls it
        """Return None, as if there were no redirect.

        Otherwise requests would read the whole body of a redirect into memory, although it follows
        none.
        """
        return None

    def merge_environment_settings(
        self, url: Any, proxies: Any, stream: Any, verify: Any, cert: Any
    ) -> Any:
        """Return the settings of one request; the session's ``verify`` is its default."""
        if verify is None:
            verify = self.verify
        return super().merge_environment_settings(url, proxies, stream, verify, cert)


class Authorization(requests.auth.AuthBase):
    """Sends ``header`` as Authorization.

    Were it a plain header, requests would replace it from a ``.netrc``.
    """

    def __init__(self, header: str) -> None:
        self._header = header

    def __call__(self, request: Any) -> Any:
        """Add the header to ``request``."""
        request.headers["Authorization"] = self._header
        return request


def basic(user: tuple[str, str]) -> Authorization:
    """Return Basic authentication of ``user``, a name and a password.

    They are sent in UTF-8 (RFC 7617); requests would send Latin-1.
    """
    credentials = ":".join(user).encode()
    return Authorization(f"Basic {base64.b64encode(credentials).decode()}")


def basic_in(url: str) -> Authorization | None:
    """Return Basic authentication of the user in the address ``url``; None if it has none."""
    parts = urlsplit(url)
    if not parts.username:
        return None
    password = unquote(parts.password or "")
    return basic((unquote(parts.username), password))
