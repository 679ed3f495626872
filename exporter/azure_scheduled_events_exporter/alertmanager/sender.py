"""The HTTP client of one Alertmanager: one request in, and what its answer means.

Must not decide what is sent or when it is sent again. Follows no redirect, keeps one deadline for a whole exchange,
and shows no secret.

Source: https://github.com/prometheus/alertmanager/blob/main/api/v2/openapi.yaml
"""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

import urllib3

from azure_scheduled_events_exporter import __version__
from azure_scheduled_events_exporter.errors import ExporterError, one_line
from azure_scheduled_events_exporter.http_client.deadline import CutOffAdapter, Deadline
from azure_scheduled_events_exporter.http_client.failures import WEB_PAGE, failure_reason, is_web_page
from azure_scheduled_events_exporter.http_client.lean_requests import requests
from azure_scheduled_events_exporter.http_client.sessions import Session, user_of

from .event_alert import EventAlert
from .outbox import NOT_ACTIVE, REFUSED
from .pushes import PushOutcome

if TYPE_CHECKING:
    from azure_scheduled_events_exporter.http_client.http_config import HttpConfig

TIMEOUT_SECONDS = 10.0
_LARGEST_ANSWER = 1 << 20
_LARGEST_OFFSET_SECONDS = 100 * 365 * 86_400.0  # a VM's clock may begin in 1970; further away, a Date is an error
_PATH = "/api/v2/alerts"
_NO_REFUSAL = frozenset({429, *range(500, 600)} - {501})
"""Statuses of a server that may take the same request later."""

_ABOUT_CONTENT = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY)


@dataclass(frozen=True, slots=True)
class PushResult:
    """What became of a request.

    Attributes:
        outcome: how Alertmanager took it.
        reason: for people, why it was not accepted.
        clock_offset: seconds by which Alertmanager's clock is ahead of this machine's; None if unknown.
        is_about_content: whether it was refused for what it says, not for who sent it or where.
    """

    outcome: PushOutcome
    reason: str = ""
    clock_offset: float | None = None
    is_about_content: bool = False


@dataclass(frozen=True, slots=True)
class Posted:
    """An alert as it is posted, which ends at ``ends_at`` (seconds since the epoch)."""

    alert: EventAlert
    ends_at: float


class AlertmanagerClient:
    """Requests to the Alertmanager at ``url``, which may have ``user:password@``; credentials in the file override it.

    Args:
        url: its base address.
        http_config: the file that says how to authenticate and whom to trust; read before every request, since secrets
            are renewed.
        timeout: seconds for a whole exchange.

    Attributes:
        config_error: why the file cannot be used now, so that its last valid content is; ``""`` if it can.
    """

    def __init__(self, url: str, http_config: str | None, timeout: float = TIMEOUT_SECONDS) -> None:
        parts = urlsplit(url.rstrip("/"))
        self.shown = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
        self._url = self.shown + _PATH
        self._user = user_of(url)
        self._http_config = http_config
        self._timeout = timeout
        self._config: HttpConfig | None = None
        self.config_error = ""
        self._adapter = CutOffAdapter()
        self._session = _session(self._adapter)
        self._session.auth = self._user
        self._stopped = False

    def push(self, alerts: Sequence[Posted], offset: float) -> PushResult:
        """Post ``alerts``, whose times are of a clock that is ``offset`` behind Alertmanager's."""
        body = json.dumps([_json(posted, offset) for posted in alerts]).encode()
        return self._exchange("POST", body=body)[0]

    def shows(self, alert: EventAlert, seconds: float | None = None) -> bool | None:
        """Return whether Alertmanager holds ``alert`` as active now; None if it does not say, within ``seconds``."""
        answer = self.posted_at(alert, seconds)
        return None if answer in {None, REFUSED} else answer != NOT_ACTIVE

    def posted_at(self, alert: EventAlert, seconds: float | None = None) -> float | None:
        """Return when any client posted ``alert`` last, in seconds by Alertmanager's own clock.

        ``NOT_ACTIVE`` if it does not show it as active; ``REFUSED`` if it takes no questions; None without an answer
        within ``seconds``, which are those of any exchange if not given.
        """
        values = {name: json.dumps(value, ensure_ascii=False) for name, value in alert.labels.items()}
        filters = [("filter", f"{name}={value}") for name, value in values.items()]
        result, content = self._exchange("GET", params=filters, seconds=seconds)
        if result.outcome is not PushOutcome.ACCEPTED:
            return REFUSED if result.outcome is PushOutcome.REJECTED else None
        try:
            shown = json.loads(content)
            if not isinstance(shown, list):
                return REFUSED
            times = [each["updatedAt"] for each in shown if each["labels"] == alert.labels]
            return datetime.fromisoformat(times[0]).timestamp() if times else NOT_ACTIVE
        except (KeyError, TypeError, ValueError, OverflowError, RecursionError):
            return REFUSED

    def stop(self) -> None:
        """End the request that is under way; any thread may call."""
        self._stopped = True
        self._adapter.cut_off()

    def _exchange(
        self,
        method: str,
        body: bytes | None = None,
        params: Sequence[tuple[str, str]] = (),
        seconds: float | None = None,
    ) -> tuple[PushResult, bytes]:
        seconds = self._timeout if seconds is None else min(seconds, self._timeout)
        deadline = Deadline(seconds, self._adapter.cut_off)
        result, content = PushResult(PushOutcome.ERROR), b""
        try:
            self._authenticate()
            with deadline, self._send(method, body, params, seconds) as response:
                content = response.raw.read(_LARGEST_ANSWER, decode_content=True)
                result = _judge(response, content)
        except ExporterError as error:
            result = PushResult(PushOutcome.ERROR, str(error))
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            result = PushResult(PushOutcome.ERROR, failure_reason(error))
        if deadline.passed:  # also where the libraries take a connection that was cut off for a whole answer
            return PushResult(PushOutcome.ERROR, f"no whole answer within {seconds:g} s"), b""
        return result, content

    def _send(
        self, method: str, body: bytes | None, params: Sequence[tuple[str, str]], seconds: float
    ) -> requests.Response:
        if self._stopped:
            raise ConnectionAbortedError("the exporter is ending")
        # To connect to one address, so that a name's second address has its turn; and to read, which the deadline ends.
        timeout = (seconds / 2, 2 * seconds)
        return self._session.request(
            method, self._url, params=params, data=body, timeout=timeout, stream=True, allow_redirects=False
        )

    def _authenticate(self) -> None:
        if self._http_config is None:
            return
        from azure_scheduled_events_exporter.http_client import http_config  # noqa: PLC0415 - its library takes 1.3 MiB

        try:
            config = http_config.load(Path(self._http_config))
        except ExporterError as error:
            if self._config is None:
                raise
            self.config_error = str(error)
            return
        self.config_error = ""
        if config == self._config:
            return
        self._session.close()
        self._session = _session(self._adapter)
        self._session.auth = self._user
        http_config.apply(config, self._session)
        self._config = config


def _session(adapter: CutOffAdapter) -> requests.Session:
    session = Session()
    session.trust_env = False  # no proxy, netrc or certificates from the environment
    session.headers["User-Agent"] = f"azure-scheduled-events-exporter/{__version__}"
    session.headers["Content-Type"] = "application/json"
    session.mount("http://", adapter)
    session.mount("https://", adapter)
    return session


def _json(posted: Posted, offset: float) -> dict[str, Any]:
    alert = posted.alert
    starts_at = min(alert.starts_at, posted.ends_at)
    return {
        "labels": dict(alert.labels),
        "annotations": dict(alert.annotations),
        "startsAt": _time(starts_at + offset),
        "endsAt": _time(posted.ends_at + offset),
    }


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def _judge(response: requests.Response, content: bytes) -> PushResult:
    status = response.status_code
    offset = _offset(response.headers.get("Date", ""))
    if status in range(200, 300) and is_web_page(response.headers, content):
        reason = f"answered {status} with {WEB_PAGE}, so it is no Alertmanager; check --alertmanager.url"
        return PushResult(PushOutcome.ERROR, reason, offset)
    if status in range(200, 300):
        return PushResult(PushOutcome.ACCEPTED, clock_offset=offset)
    said = one_line(content[:4096].decode("utf-8", "replace"))
    reason = f"answered {status}" + (f": {said}" if said else "")
    if status in range(300, 400):
        reason = f"answered {status}: a redirect is never followed; check --alertmanager.url"
    outcome = PushOutcome.ERROR if status in _NO_REFUSAL else PushOutcome.REJECTED
    return PushResult(outcome, reason, offset, status in _ABOUT_CONTENT)


def _offset(date: str) -> float | None:
    try:
        offset = parsedate_to_datetime(date).timestamp() - time.time()
    except (ValueError, TypeError, OverflowError):
        return None
    return offset if abs(offset) < _LARGEST_OFFSET_SECONDS else None
