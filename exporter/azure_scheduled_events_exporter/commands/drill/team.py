"""The team's Alertmanager: what a drill posts to it, and what it says of that over its API and its metrics."""

import json
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from prometheus_client.parser import text_string_to_metric_families

from azure_scheduled_events_exporter.alertmanager.client import AlertmanagerClient, AlertmanagerError, Posted
from azure_scheduled_events_exporter.errors import ExporterError

_REQUESTS: Final = "alertmanager_notification_requests"


@dataclass(frozen=True, slots=True)
class Sent:
    """Number of delivered and of failed notifications of Alertmanager so far, by integration."""

    delivered: Counter[str]
    failed: Counter[str]


@dataclass(frozen=True, slots=True)
class HeldAlert:
    """What Alertmanager says of an alert that was sent to it.

    Attributes:
        labels: all of them.
        receivers: names of the receivers that its routes lead to.
        is_muted: whether a silence or another alert suppresses it.
        is_inhibited: whether another alert does.
    """

    labels: Mapping[str, str]
    receivers: tuple[str, ...]
    is_muted: bool
    is_inhibited: bool


class Team:
    """One Alertmanager, asked through ``client``. Every method raises ExporterError if it cannot be asked."""

    def __init__(self, client: AlertmanagerClient) -> None:
        self._client = client
        self.shown = client.shown

    def sent(self) -> Sent:
        """Return the number of delivered and failed notifications so far."""
        counted = {f"{_REQUESTS}_total": Counter[str](), f"{_REQUESTS}_failed_total": Counter[str]()}
        lines = self._get("/metrics").decode("utf-8", "replace").splitlines()
        try:
            for family in text_string_to_metric_families("\n".join(x for x in lines if x.startswith(_REQUESTS)) + "\n"):
                for sample in family.samples:
                    if sample.name in counted:
                        counted[sample.name][sample.labels["integration"]] += int(sample.value)
        except (ValueError, LookupError):
            raise ExporterError(f"{self.shown}: answers, but not with metrics: is it an Alertmanager?") from None
        tried, failed = counted.values()
        return Sent(tried - failed, failed)

    def post(self, labels: Mapping[str, str], annotations: Mapping[str, str], ends_in: float) -> None:
        """Post an alert that ends in so many seconds, 0 to resolve it."""
        now = time.time()
        try:
            self._client.post([Posted(labels, annotations, now, now + ends_in)])
        except AlertmanagerError as error:
            raise self._named(error) from None

    def holding(self, matcher: str, name: str) -> HeldAlert | None:
        """Return the alert ``name`` that ``matcher`` selects, once Alertmanager has processed it; else None."""
        answer = self._get("/api/v2/alerts", filter=[matcher, f'alertname="{name}"'])
        try:
            found = [_held(each) for each in json.loads(answer) if each["status"]["state"] != "unprocessed"]
        except (ValueError, TypeError, KeyError):
            raise ExporterError(f"{self.shown}: answers, but not with alerts: is it an Alertmanager?") from None
        return next(iter(found), None)

    def _get(self, path: str, **params: Any) -> bytes:  # noqa: ANN401 - as requests takes them
        try:
            return self._client.get(path, **params)
        except AlertmanagerError as error:
            raise self._named(error) from None

    def _named(self, error: AlertmanagerError) -> ExporterError:
        return ExporterError(f"Alertmanager at {self.shown}: {error}")


def _held(alert: Any) -> HeldAlert:  # noqa: ANN401 - JSON
    """Parse one alert of Alertmanager's API. Raises TypeError or KeyError if ``alert`` has another form."""
    status = alert["status"]
    receivers = tuple(str(receiver["name"]) for receiver in alert["receivers"])
    return HeldAlert(dict(alert["labels"]), receivers, status["state"] == "suppressed", bool(status["inhibitedBy"]))
