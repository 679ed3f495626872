"""A client for the API of a server that is checked. It never shows a password."""

import json
from typing import Any

import requests

from azure_scheduled_events_exporter import __version__
from azure_scheduled_events_exporter.errors import (
    ExporterError,
    UsageError,
    one_line,
    without_password,
)
from azure_scheduled_events_exporter.http_client.address import checked
from azure_scheduled_events_exporter.http_client.deadline import DeadlineAdapter
from azure_scheduled_events_exporter.http_client.http_config import HttpConfig, session_for
from azure_scheduled_events_exporter.http_client.web_page import WEB_PAGE, is_web_page

_LARGEST = 64 << 20
_TIMEOUT = 10.0  # seconds for a whole answer


class WrongAnswerError(ExporterError):
    """The server's answer is not the JSON of its API.

    Attributes:
        status: the HTTP status.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class Api:
    """Sends requests to the API at ``url``, which may contain ``user:password@``.

    Args:
        flag: the flag that names it, for error messages.
        url: its base address.
        http: credentials and trust.
        proxies: whether the environment's proxies, .netrc and CA bundles apply.

    Attributes:
        shown: its address without a password.

    Raises:
        UsageError: ``url`` is not an address.
    """

    def __init__(
        self, flag: str, url: str, http: HttpConfig | None = None, *, proxies: bool = True
    ) -> None:
        try:
            checked(url, "an address", "http://HOST:PORT")
        except ValueError as error:
            raise UsageError(f"{flag}: {error}") from None
        self._url = url.rstrip("/")
        self.shown = without_password(self._url)
        self._session = session_for(url, http, DeadlineAdapter())
        self._session.trust_env = proxies
        self._session.headers["User-Agent"] = (
            f"azure-scheduled-events-exporter/{__version__} doctor"
        )

    def text(self, path: str, **params: str) -> str:
        """Send a GET request for ``path``, and return the body of the answer.

        Raises:
            NoAnswerError: there is no whole answer.
            WrongAnswerError: its status is not 200, or it is a web page.
        """
        answer = self._session.exchange("GET", self._url + path, _TIMEOUT, _LARGEST, params=params)
        said = answer.body.decode("utf-8", "replace")
        if answer.status != requests.codes.ok:
            raise WrongAnswerError(f"answered {answer.status}: {one_line(said)}", answer.status)
        if is_web_page(answer.headers, answer.body):
            raise WrongAnswerError(
                f"answered {answer.status} with {WEB_PAGE}: {one_line(said)}", answer.status
            )
        return said

    def data(self, path: str, **params: str) -> Any:
        """Return the JSON at ``path``.

        Raises as :meth:`text` does, also if the answer is no JSON.
        """
        said = self.text(path, **params)
        try:
            return json.loads(said)
        except (ValueError, RecursionError):
            raise WrongAnswerError(
                f"answered no JSON: {one_line(said)}", requests.codes.ok
            ) from None
