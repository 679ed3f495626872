"""Defines a row of the table of metrics, and converts it to a metric of prometheus_client.

Contains no metric.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from prometheus_client import Metric
from prometheus_client.utils import floatToGoString

from azure_scheduled_events_exporter.core.statistics import Histogram
from azure_scheduled_events_exporter.snapshot.snapshot import Snapshot

PREFIX = "azure_scheduled_events_"

LABEL_BYTES = 1023
"""Azure's managed Prometheus refuses a whole scrape if one label value is longer.

https://github.com/Azure/prometheus-collector/issues/260
"""

Labels = tuple[str, ...]
Samples = Iterable[tuple[Labels, float | Histogram]]


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """One row of the table.

    Attributes:
        type: gauge, counter or histogram.
        name: without the prefix.
        help: one sentence.
        read: gets the fields of the snapshot that its parameters name. It returns a value (None for
            no series), or a value for each label value: a mapping, or pairs. A value is a number or
            a :class:`Histogram`.
        labels: names of the labels.
        not_shown: why no dashboard shows it and no alert reads it; empty if one does.
        is_countdown: whether values are wall-clock times, shown as the seconds until then at the
            moment of the scrape.
    """

    type: str
    name: str
    help: str
    read: Callable[..., Any]
    labels: Labels = ()
    not_shown: str = ""
    is_countdown: bool = False

    @property
    def full_name(self) -> str:
        """The name in the exposition."""
        return PREFIX + self.name

    @property
    def reads(self) -> tuple[str, ...]:
        """The fields of the snapshot that ``read`` gets."""
        code = self.read.__code__
        return code.co_varnames[: code.co_argcount]

    def inputs(self, snapshot: Snapshot) -> tuple[object, ...]:
        """Return these fields of ``snapshot``."""
        return tuple(getattr(snapshot, field) for field in self.reads)

    def family(self, snapshot: Snapshot) -> Metric:
        """Return the metric in prometheus_client's form; the value of a countdown is its moment."""
        # prometheus_client's own name of a counter has no suffix.
        metric = Metric(self.full_name.removesuffix("_total"), self.help, self.type)
        for values, value in _samples(self.read(*self.inputs(snapshot))):
            labels = dict(zip(self.labels, map(_label_value, values), strict=True))
            if isinstance(value, Histogram):
                _add_histogram(metric, labels, value)
            else:
                metric.add_sample(self.full_name, labels, value)
        return metric


def _samples(found: Any) -> Samples:
    if isinstance(found, Mapping):
        return (
            (key if isinstance(key, tuple) else (str(key),), value) for key, value in found.items()
        )
    if isinstance(found, Iterable):
        return found
    return () if found is None else [((), found)]


def _label_value(value: str) -> str:
    """Return ``value``, or as many whole characters of it as :data:`LABEL_BYTES` of UTF-8 hold."""
    if len(value) * 4 <= LABEL_BYTES:
        return value
    return value.encode()[:LABEL_BYTES].decode(errors="ignore")


def _add_histogram(metric: Metric, labels: dict[str, str], histogram: Histogram) -> None:
    seen = 0
    for bound, count in zip((*histogram.bounds, float("inf")), histogram.counts, strict=True):
        seen += count
        metric.add_sample(f"{metric.name}_bucket", labels | {"le": floatToGoString(bound)}, seen)  # type: ignore[no-untyped-call]
    metric.add_sample(f"{metric.name}_count", labels, seen)
    metric.add_sample(f"{metric.name}_sum", labels, histogram.total)
