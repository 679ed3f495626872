"""The team's Alertmanager: what a drill posts to it, and what it says of that over its API and its metrics."""

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from azure_scheduled_events_exporter.alertmanager.client import AlertmanagerClient, AlertmanagerError, posted
from azure_scheduled_events_exporter.errors import ExporterError

_REQUESTS: Final = "alertmanager_notification_requests"  # …_total and …_failed_total


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
        lines = self._client.get("/metrics").decode("utf-8", "replace").splitlines()
        text = "".join(f"{line}\n" for line in lines if line.startswith(_REQUESTS))
        tried, failed = Counter[str](), Counter[str]()
        with self._understood("metrics"):
            for sample in chain.from_iterable(family.samples for family in text_string_to_metric_families(text)):
                counter = failed if sample.name == f"{_REQUESTS}_failed_total" else tried
                counter[sample.labels["integration"]] += int(sample.value)
        return Sent(tried - failed, failed)

    def post(self, labels: Mapping[str, str], annotations: Mapping[str, str], ends_in: float) -> None:
        """Post an alert that ends in so many seconds, 0 to resolve it."""
        now = time.time()
        self._client.post([posted(labels, annotations, now, now + ends_in)])

    def holding(self, matcher: str, name: str) -> HeldAlert | None:
        """Return the alert ``name`` that ``matcher`` selects, once Alertmanager has processed it; else None."""
        answer = self._client.get("/api/v2/alerts", filter=[matcher, f'alertname="{name}"'])
        with self._understood("alerts"):
            for each in json.loads(answer):
                receivers, status = tuple(str(receiver["name"]) for receiver in each["receivers"]), each["status"]
                if status["state"] != "unprocessed":
                    is_muted, is_inhibited = status["state"] == "suppressed", bool(status["inhibitedBy"])
                    return HeldAlert(dict(each["labels"]), receivers, is_muted, is_inhibited)
        return None

    @contextmanager
    def named(self) -> Iterator[None]:
        """Within the block, errors of requests name this Alertmanager."""
        try:
            yield
        except AlertmanagerError as error:
            raise ExporterError(f"Alertmanager at {self.shown}: {error}") from None

    @contextmanager
    def _understood(self, what: str) -> Iterator[None]:
        try:
            yield
        except (ValueError, TypeError, LookupError):
            raise ExporterError(f"{self.shown}: answers, but not with {what}: is it an Alertmanager?") from None
