"""The HTTP client of one Alertmanager: sends a request, and interprets the answer.

Must not decide what is sent or when it is sent again. Follows no redirect, keeps one deadline for a
whole exchange, and shows no secret.

Source: https://github.com/prometheus/alertmanager/blob/main/api/v2/openapi.yaml
"""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from azure_scheduled_events_exporter import __version__
from azure_scheduled_events_exporter.errors import ExporterError, one_line, without_password
from azure_scheduled_events_exporter.http_client import http_config
from azure_scheduled_events_exporter.http_client.deadline import DeadlineAdapter
from azure_scheduled_events_exporter.http_client.sessions import Answer, NoAnswerError, Session
from azure_scheduled_events_exporter.http_client.web_page import WEB_PAGE, is_web_page
from azure_scheduled_events_exporter.snapshot.pushes import PushOutcome

TIMEOUT_SECONDS = 10.0
"""Time limit of a whole exchange."""

_LARGEST_ANSWER = 4 << 20  # bytes
_MAY_WORK_LATER = frozenset({429, *range(500, 600)})

Posted = Mapping[str, object]
"""An alert in the JSON of Alertmanager."""


class AlertmanagerError(ExporterError):
    """A request was not accepted.

    ``outcome`` is REJECTED if Alertmanager refused it, and ERROR if Alertmanager did not answer
    properly, or may accept the same request later.
    """

    def __init__(self, message: str, outcome: PushOutcome = PushOutcome.ERROR) -> None:
        super().__init__(message)
        self.outcome = outcome


def posted(
    labels: Mapping[str, str], annotations: Mapping[str, str], starts_at: float, ends_at: float
) -> Posted:
    """Return an alert to post.

    Times are seconds since the epoch. An alert that ends in the past is resolved.
    """
    # Alertmanager refuses an alert that ends before it starts.
    times = {"startsAt": _time(min(starts_at, ends_at)), "endsAt": _time(ends_at)}
    return {"labels": labels, "annotations": annotations, **times}


class AlertmanagerClient:
    """Requests to the Alertmanager at ``url``, which may have ``user:password@``.

    Credentials in ``file`` override these.

    Args:
        url: its base address.
        file: the HTTP configuration: how to authenticate and whom to trust. Read before every
            request, since secrets are renewed.
        timeout: seconds for a whole exchange.

    Attributes:
        shown: its address without user and password, for messages.
        config_error: why the file cannot be used now; ``""`` if it can. While it cannot, its last
            valid content stays in effect.
    """

    def __init__(self, url: str, file: str | None, timeout: float = TIMEOUT_SECONDS) -> None:
        parts = urlsplit(url.rstrip("/"))
        place = parts.netloc.rpartition("@")[2]  # without user and password
        self.shown = urlunsplit(parts._replace(netloc=place))
        self.config_error = ""
        self._url = url
        self._file = file
        self._timeout = timeout
        self._config: http_config.HttpConfig | None = None
        self._adapter = DeadlineAdapter()
        self._session = self._new_session(None)  # until the file has been read

    def post(self, alerts: Sequence[Posted]) -> None:
        """Post ``alerts``.

        Raises:
            AlertmanagerError: they were not accepted.
        """
        self._exchange("POST", "/api/v2/alerts", data=json.dumps(alerts).encode())

    def get(self, path: str, **params: Any) -> bytes:
        """Return the body of the answer to a GET of ``path``. Only a drill asks.

        Raises:
            AlertmanagerError: there was no answer, or its status is not 2xx.
        """
        return self._exchange("GET", path, params=params)

    def stop(self) -> None:
        """End the request that is under way; any thread may call."""
        self._adapter.stop()

    def _exchange(self, method: str, path: str, **content: Any) -> bytes:
        """Return the body of the answer to one request. Raises AlertmanagerError."""
        self._authenticate()
        if self._adapter.stopped:
            raise AlertmanagerError("the exporter is ending")
        try:
            answer = self._session.exchange(
                method, self.shown + path, self._timeout, _LARGEST_ANSWER, **content
            )
        except NoAnswerError as error:
            raise AlertmanagerError(str(error)) from None
        _check(answer)
        return answer.body

    def _authenticate(self) -> None:
        """Read the file, and make a new session if its content is new.

        If it has become invalid, the last valid content stays in effect.

        Raises:
            AlertmanagerError: it has never been valid.
        """
        if self._file is None:
            return
        try:
            config = http_config.load(Path(self._file))
        except ExporterError as error:
            if self._config is None:
                raise AlertmanagerError(str(error)) from None
            self.config_error = str(error)
            return
        self.config_error = ""
        if config != self._config:
            self._session.close()
            self._session = self._new_session(config)
            self._config = config

    def _new_session(self, config: http_config.HttpConfig | None) -> Session:
        """Return a session with the credentials of ``config``, or of the address if it is None."""
        session = http_config.session_for(self._url, config, self._adapter)
        session.trust_env = False  # no proxy, netrc or certificates from the environment
        session.headers["User-Agent"] = f"azure-scheduled-events-exporter/{__version__}"
        session.headers["Content-Type"] = "application/json"
        return session


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def _check(answer: Answer) -> None:
    """Raise AlertmanagerError unless Alertmanager did what it was asked."""
    status = answer.status
    headers = answer.headers
    body = answer.body
    if status in range(200, 300):
        if is_web_page(headers, body):
            raise AlertmanagerError(
                f"answered {status} with {WEB_PAGE}, so it is no Alertmanager; check its address"
            )
        return
    if status in range(300, 400):
        place = one_line(without_password(headers.get("Location", "")))
        reason = (
            f"answered {status}: the redirect to {place} is not followed; give the address of"
            " Alertmanager itself"
        )
        raise AlertmanagerError(reason, PushOutcome.REJECTED)
    said = one_line(body[:4096].decode("utf-8", "replace"))  # enough for a line of the log
    reason = f"answered {status}"
    if said:
        reason = f"{reason}: {said}"
    outcome = PushOutcome.REJECTED
    if status in _MAY_WORK_LATER:
        outcome = PushOutcome.ERROR
    raise AlertmanagerError(reason, outcome)
