"""The team's Alertmanager, over its API and its metrics."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import urlsplit

import requests
import yaml

from azure_scheduled_events_exporter.doctor.api import within
from azure_scheduled_events_exporter.doctor.monitoring.routing import integrations
from azure_scheduled_events_exporter.errors import ExporterError, UsageError, one_line, without_password
from azure_scheduled_events_exporter.http_client.failures import failure_reason
from azure_scheduled_events_exporter.http_client.http_config import HttpConfig, session_for

REQUEST_SECONDS: Final = 10
_LABELS: Final = r'(?:[^"}]|"(?:[^"\\]|\\.)*")*'  # a quoted value may contain "}"
_NOTIFICATIONS: Final = re.compile(
    r"^alertmanager_notification_requests(?P<failed>_failed)?_total"
    rf'\{{(?:{_LABELS},)?integration="(?P<integration>[^"]+)"{_LABELS}\}} '
    r"(?P<count>\S+)$",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Sent:
    """Number of delivered and of failed notifications of Alertmanager so far, by integration."""

    delivered: Mapping[str, float]
    failed: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class HeldAlert:
    """What Alertmanager says of an alert that was sent to it.

    Attributes:
        receivers: names of the receivers that its routes lead to.
        state: ``unprocessed``, ``active`` or ``suppressed``.
        inhibited: whether another alert inhibits it.
    """

    receivers: tuple[str, ...]
    state: str
    inhibited: bool


class Alertmanager:
    """The client of one Alertmanager, with the credentials and certificates of ``http`` or of its address.

    Each request has ``seconds`` in total. No redirect is followed: it would turn a POST into a GET.

    Attributes:
        url: its address, which may have a password.
        shown: the same to print.
    """

    def __init__(self, url: str, http: HttpConfig | None = None, seconds: float = REQUEST_SECONDS) -> None:
        self.url = url.rstrip("/")
        self.shown = without_password(self.url)
        try:
            address = urlsplit(self.url)
            usable = address.scheme in {"http", "https"} and address.hostname and address.port != 0
        except ValueError:
            usable = False
        if not usable:
            raise UsageError(f"--alertmanager: '{without_password(url)}' is not an address: write http://HOST:PORT")
        self._session = session_for(self.url, http)
        self._seconds = seconds

    def sent(self) -> Sent:
        """Return the number of delivered and failed notifications so far."""
        tried: dict[str, float] = {}
        failed: dict[str, float] = {}
        for found in _NOTIFICATIONS.finditer(self._ask("GET", "/metrics").text):
            counts = failed if found["failed"] else tried
            try:
                count = float(found["count"])
            except ValueError:
                raise self._unexpected("metrics of Alertmanager") from None
            counts[found["integration"]] = counts.get(found["integration"], 0) + count
        return Sent({name: count - failed.get(name, 0) for name, count in tried.items()}, failed)

    def post(self, labels: Mapping[str, str], annotations: Mapping[str, str], ends_in: float) -> None:
        """Post an alert, which resolves after ``ends_in`` seconds."""
        now = datetime.now(UTC)
        body = {
            "labels": dict(labels),
            "annotations": dict(annotations),
            "startsAt": now.isoformat(),
            "endsAt": (now + timedelta(seconds=ends_in)).isoformat(),
        }
        self._ask("POST", "/api/v2/alerts", json=[body])

    def holding(self, matcher: str, name: str) -> HeldAlert | None:
        """Return the alert ``name`` that ``matcher`` selects; None if Alertmanager has none."""
        answer = self._ask("GET", "/api/v2/alerts", params={"filter": [matcher, f'alertname="{name}"']})
        try:
            found = [_held(each) for each in answer.json()]
        except (ValueError, TypeError, KeyError):
            raise self._unexpected("a list of alerts") from None
        return next(iter(found), None)

    def notifies(self, receivers: Sequence[str]) -> bool:
        """Return whether one of the ``receivers`` has an integration, or the configuration cannot be read."""
        try:
            known = yaml.safe_load(self._ask("GET", "/api/v2/status").json()["config"]["original"])["receivers"]
            return any(integrations(known, name) for name in receivers)
        except (ExporterError, ValueError, TypeError, KeyError, AttributeError, yaml.YAMLError):
            return True

    def _unexpected(self, wanted: str) -> ExporterError:
        return ExporterError(f"{self.shown}: answers, but not with {wanted}: is it an Alertmanager?")

    def _ask(self, method: str, path: str, **more: Any) -> requests.Response:  # noqa: ANN401 - what requests takes
        def ask() -> requests.Response:
            url = f"{self.url}{path}"
            return self._session.request(method, url, timeout=REQUEST_SECONDS, allow_redirects=False, **more)

        try:
            answer = within(self._seconds, ask)
        except TimeoutError:
            reason = f"no whole answer within {self._seconds:g} s"
            raise ExporterError(f"{self.shown}: Alertmanager cannot be reached: {reason}") from None
        except (requests.RequestException, OSError, ValueError) as error:
            raise ExporterError(f"{self.shown}: Alertmanager cannot be reached: {failure_reason(error)}") from None
        if answer.is_redirect:
            place = one_line(without_password(answer.headers["Location"]))
            raise ExporterError(
                f"{self.shown}{path}: answered {answer.status_code}, a redirect to {place}, which is not followed: "
                "give the address of Alertmanager itself"
            )
        if answer.status_code not in range(200, 300):
            raise ExporterError(f"{self.shown}{path}: answered {answer.status_code}: {one_line(answer.text)}")
        return answer


def _held(alert: Any) -> HeldAlert:  # noqa: ANN401 - JSON
    """Parse one alert of Alertmanager's API. Raises TypeError or KeyError if ``alert`` has another form."""
    status = alert["status"]
    receivers = tuple(str(receiver["name"]) for receiver in alert["receivers"])
    return HeldAlert(receivers, str(status["state"]), bool(status["inhibitedBy"]))
