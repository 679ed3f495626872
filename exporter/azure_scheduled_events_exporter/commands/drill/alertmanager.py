"""The team's Alertmanager: what a drill posts to it, and what it says of that."""

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any, Final, NamedTuple, TypeVar

import yaml
from prometheus_client.parser import text_string_to_metric_families

from azure_scheduled_events_exporter.alertmanager.client import AlertmanagerClient, posted
from azure_scheduled_events_exporter.doctor.matchers import severity_matchers
from azure_scheduled_events_exporter.errors import ExporterError

_REQUESTS: Final = "alertmanager_notification_requests"
"""How the names of two metrics begin: …_total and …_failed_total."""

_Value = TypeVar("_Value")


class Sent(NamedTuple):
    """Number of delivered and of failed notifications of Alertmanager so far.

    By integration, such as ``webhook`` or ``email``: Alertmanager counts them for no single alert.
    """

    delivered: Counter[str]
    failed: Counter[str]


class HeldAlert(NamedTuple):
    """An alert that Alertmanager has: its labels and texts, its receivers, what suppresses it."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    receivers: tuple[str, ...]
    is_muted: bool  # by a silence or another alert
    is_inhibited: bool  # by another alert

    @property
    def receiver_names(self) -> str:
        """The names of the receivers, for people."""
        return ", ".join(self.receivers)


class DrilledAlertmanager(AlertmanagerClient):
    """The Alertmanager that pages the team.

    Every method raises ExporterError if no answer comes, or one that cannot be read as that of an
    Alertmanager.
    """

    def sent(self) -> Sent:
        """Return the number of delivered and failed notifications so far.

        They are 0 if another program than an Alertmanager answers with its own metrics.
        """
        return self._asked("metrics", _sent, "/metrics")

    def put(
        self, labels: Mapping[str, str], annotations: Mapping[str, str], ends_in: float
    ) -> None:
        """Post an alert that ends in so many seconds, 0 to resolve it."""
        now = time.time()
        self.post([posted(labels, annotations, now, now + ends_in)])

    def holding(self, matcher: str, name: str) -> HeldAlert | None:
        """Return the alert ``name`` that ``matcher`` selects; None until it is processed."""
        return self._asked(
            "alerts", _held, "/api/v2/alerts", filter=[matcher, f'alertname="{name}"']
        )

    def has_route_for(self, severity: str) -> bool:
        """Return whether a route matches ``severity``, or no route matches by severity at all."""
        route = self._asked("its configuration", _route, "/api/v2/status")
        matchers = list(severity_matchers(route))
        return not matchers or any(each.accepts({"severity": severity}) for each in matchers)

    def _asked(
        self, what: str, read: Callable[[bytes], _Value], path: str, **params: Any
    ) -> _Value:
        """Return what ``read`` finds in the answer of Alertmanager; ``what`` says what that is."""
        answer = self.get(path, **params)
        try:
            return read(answer)
        except (ValueError, TypeError, LookupError):
            raise ExporterError(
                f"{self.shown}: answers, but not with {what}: is it an Alertmanager?"
            ) from None


def _sent(answer: bytes) -> Sent:
    """Return the numbers in Alertmanager's metrics.

    Its total counts failed notifications too, so they are subtracted.
    """
    lines = answer.decode("utf-8", "replace").splitlines()
    text = "".join(f"{line}\n" for line in lines if line.startswith(_REQUESTS))
    tried = Counter[str]()
    failed = Counter[str]()
    families = text_string_to_metric_families(text)
    for sample in chain.from_iterable(family.samples for family in families):
        counter = tried
        if sample.name == f"{_REQUESTS}_failed_total":
            counter = failed
        counter[sample.labels["integration"]] += int(sample.value)
    return Sent(tried - failed, failed)


def _route(answer: bytes) -> Mapping[str, Any]:
    """Return the tree of routes. Raises ValueError, TypeError or LookupError: there is none."""
    original = json.loads(answer)["config"]["original"]
    try:
        route = yaml.safe_load(original)["route"]
    except yaml.YAMLError as error:
        raise ValueError(error) from None
    if not isinstance(route, Mapping):
        raise TypeError(route)
    return route


def _held(answer: bytes) -> HeldAlert | None:
    """Return the first alert that is processed: only then its state says whether it is muted."""
    for each in json.loads(answer):
        status = each["status"]
        if status["state"] == "unprocessed":
            continue
        return HeldAlert(
            labels=each["labels"],
            annotations=each["annotations"],
            receivers=tuple(str(receiver["name"]) for receiver in each["receivers"]),
            is_muted=status["state"] == "suppressed",
            is_inhibited=bool(status["inhibitedBy"]),
        )
    return None
