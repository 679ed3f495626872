"""A client for one HTTP API of the chain: sends GET requests, each with a total deadline, and reads the JSON answers.

Uses requests with the environment's proxies, except for the metadata service. Follows no redirect: behind one there is
a login page or another server. Reads at most 64 MiB. Never shows a password.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import requests

from azure_scheduled_events_exporter import __version__
from azure_scheduled_events_exporter.errors import ExporterError, UsageError, without_password
from azure_scheduled_events_exporter.http_client.address import checked
from azure_scheduled_events_exporter.http_client.deadline import CutOffAdapter, Deadline
from azure_scheduled_events_exporter.http_client.failures import WEB_PAGE, failure_reason, is_web_page
from azure_scheduled_events_exporter.http_client.http_config import HttpConfig, session_for

_LARGEST = 64 << 20
_CHUNK = 1 << 16
_TIMEOUT = 10.0


class NoAnswerError(ExporterError):
    """The server did not answer in time, or cannot be reached; the message is the reason."""


class WrongAnswerError(ExporterError):
    """The server's answer is not the JSON of its API.

    Attributes:
        status: the HTTP status.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, whatever its status, with the reason phrase of its first line; header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    phrase: str = ""

    @property
    def excerpt(self) -> str:
        """The beginning of the body as one line."""
        return " ".join(self.body[:200].decode("utf-8", "replace").split())

    def json(self) -> Any:  # noqa: ANN401 - any JSON
        """Return the content.

        Raises:
            WrongAnswerError: the status is not 200, or the body is not JSON.
        """
        if self.status != requests.codes.ok:
            raise WrongAnswerError(f"answered {self.status}: {self.excerpt}", self.status)
        if is_web_page(self.headers, self.body):
            raise WrongAnswerError(f"answered {self.status} with {WEB_PAGE}: {self.excerpt}", self.status)
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            raise WrongAnswerError(f"answered no JSON: {self.excerpt}", self.status) from None


class Api:
    """The API at ``url``, which may contain ``user:password@``.

    Args:
        flag: the flag that names it, for error messages.
        url: its base address.
        http: credentials and trust.
        proxies: whether the environment's proxies, .netrc and CA bundles apply.

    Raises:
        UsageError: ``url`` is not an address.
    """

    def __init__(self, flag: str, url: str, http: HttpConfig | None = None, *, proxies: bool = True) -> None:
        try:
            checked(url, "an address", "http://HOST:PORT")
        except ValueError as error:
            raise UsageError(f"{flag}: {error}") from None
        self._url = url.rstrip("/")
        self.shown = without_password(self._url)
        self._adapter = CutOffAdapter()
        self._session = session_for(url, http, self._adapter)
        self._session.trust_env = proxies
        self._session.headers["User-Agent"] = f"azure-scheduled-events-exporter/{__version__} doctor"

    def get(
        self,
        path: str,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = _TIMEOUT,
    ) -> Answer:
        """Return the answer to one request, within ``timeout`` seconds in total.

        Raises:
            NoAnswerError: none came.
        """
        deadline = Deadline(timeout, self._adapter.cut_off)
        asked: dict[str, Any] = {"params": params, "headers": headers, "timeout": timeout}
        failure = ""
        try:
            with (
                deadline,
                self._session.get(self._url + path, stream=True, allow_redirects=False, **asked) as response,
            ):
                body = b"".join(_limited(response.iter_content(_CHUNK)))
        except (requests.RequestException, OSError, ValueError) as error:
            failure = failure_reason(error)
        if deadline.passed:
            failure = f"no whole answer within {timeout:g} s"
        if failure:
            raise NoAnswerError(failure)
        lower = {name.lower(): value for name, value in response.headers.items()}
        return Answer(response.status_code, lower, body, response.reason or "")

    def data(self, path: str, **params: str) -> Any:  # noqa: ANN401 - any JSON
        """Return the JSON at ``path``.

        Raises:
            NoAnswerError: none came.
            WrongAnswerError: the answer is not JSON, or not a 200.
        """
        return self.get(path, params).json()


def _limited(chunks: Iterator[bytes]) -> Iterator[bytes]:
    left = _LARGEST
    for chunk in chunks:
        left -= len(chunk)
        if left < 0:
            raise ValueError("an answer of more than 64 MiB")
        yield chunk
