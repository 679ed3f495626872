"""A client for the HTTP API of a server that ``doctor`` checks, such as Prometheus.

Its errors never show a password.
"""

import json
from typing import Any
from urllib.parse import urlsplit

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

_LARGEST = 64 << 20  # bytes of an answer: 64 MiB
_TIMEOUT = 10.0  # seconds for a whole answer


class WrongAnswerError(ExporterError):
    """The server's answer is not the JSON of its API.

    Attributes:
        status: the HTTP status.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def advice_behind_proxy(url: str, hint: str) -> str:
    """Return ``hint``, after advice about the proxy that the environment has for ``url``, if any.

    An answer or an error of the proxy cannot be told from one of the server. The proxy is not
    named: its address may contain a password, with characters that make its end unknown.
    """
    proxies = requests.utils.get_environ_proxies(url)
    if not requests.utils.select_proxy(url, proxies):
        return hint
    host = urlsplit(url).hostname
    return (
        "A proxy of the environment (HTTP_PROXY, HTTPS_PROXY or ALL_PROXY) lies between, and may be"
        f" the cause: correct it, or try NO_PROXY={host}. If it is not the cause: {hint}"
    )


class Api:
    """Sends requests to one server.

    Args:
        flag: the flag of ``doctor`` that names the server, for error messages.
        url: the base address of its API, which may contain ``user:password@``.
        http: credentials and trust; None for those of ``url`` and the system.
        trust_env: whether the environment's proxies, .netrc and CA bundles apply.

    Attributes:
        shown: the address without a password.

    Raises:
        UsageError: ``url`` is not an address.
    """

    def __init__(
        self, flag: str, url: str, http: HttpConfig | None = None, *, trust_env: bool = True
    ) -> None:
        try:
            checked(url, "an address", "http://HOST:PORT")
        except ValueError as error:
            raise UsageError(f"{flag}: {error}") from None
        self._url = url.rstrip("/")
        self.shown = without_password(self._url)
        self._session = session_for(url, http, DeadlineAdapter())
        self._session.trust_env = trust_env
        self._session.headers["User-Agent"] = (
            f"azure-scheduled-events-exporter/{__version__} doctor"
        )

    def advice(self, hint: str) -> str:
        """Return what to do if the server gives no usable answer; ``hint`` is for its own fault."""
        if not self._session.trust_env:
            return hint
        return advice_behind_proxy(self._url, hint)

    def text(self, path: str, **params: str) -> str:
        """Send a GET request for ``path``, and return the body of the answer.

        Raises:
            NoAnswerError: there is no whole answer.
            WrongAnswerError: the status is not 200, or the body is a web page, such as the sign-in
                page of a proxy.
        """
        answer = self._session.exchange("GET", self._url + path, _TIMEOUT, _LARGEST, params=params)
        body = answer.body.decode("utf-8", "replace")
        if answer.status != requests.codes.ok:
            raise WrongAnswerError(f"answered {answer.status}: {one_line(body)}", answer.status)
        if is_web_page(answer.headers, answer.body):
            raise WrongAnswerError(
                f"answered {answer.status} with {WEB_PAGE}: {one_line(body)}", answer.status
            )
        return body

    def data(self, path: str, **params: str) -> Any:
        """Send a GET request for ``path``, and return the JSON of the answer.

        Raises:
            NoAnswerError, WrongAnswerError: as :meth:`text`; also if the body is not JSON.
        """
        body = self.text(path, **params)
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            raise WrongAnswerError(
                f"answered no JSON: {one_line(body)}", requests.codes.ok
            ) from None
