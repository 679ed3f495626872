"""Defines a row of the table of metrics, and converts it to a metric of prometheus_client. Contains no metric."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from prometheus_client import Metric
from prometheus_client.utils import floatToGoString

from azure_scheduled_events_exporter.core.statistics import Histogram
from azure_scheduled_events_exporter.polling.snapshot import Snapshot

PREFIX = "azure_scheduled_events_"

LABEL_BYTES = 1023
"""Azure's managed Prometheus refuses a whole scrape if one label value is longer.

https://github.com/Azure/prometheus-collector/issues/260
"""

Labels = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """One row of the table.

    Attributes:
        name: without the prefix.
        kind: gauge, counter, histogram or countdown; a countdown is a gauge whose samples are wall-clock times, shown
            as the seconds until then at the moment of the scrape.
        labels: names of the labels.
        help: one sentence.
        reads: the fields of the snapshot that ``samples`` gets.
        samples: returns label values and value of each series; the value of a histogram is a :class:`Histogram`.
        not_shown: why no dashboard shows it and no alert reads it; empty if one does.
    """

    name: str
    kind: str
    labels: Labels
    help: str
    reads: tuple[str, ...]
    samples: Callable[..., Iterable[tuple[Labels, float | Histogram]]]
    not_shown: str = ""

    @property
    def type(self) -> str:
        """The type in the exposition."""
        return "gauge" if self.is_countdown else self.kind

    @property
    def is_countdown(self) -> bool:
        """Whether the value depends on the moment of the scrape."""
        return self.kind == "countdown"

    @property
    def full_name(self) -> str:
        """The name in the exposition."""
        return PREFIX + self.name

    def inputs(self, snapshot: Snapshot) -> tuple[object, ...]:
        """Return the fields of the snapshot that ``samples`` gets."""
        return tuple(getattr(snapshot, field) for field in self.reads)

    def family(self, snapshot: Snapshot) -> Metric:
        """Return the metric in prometheus_client's form; the value of a countdown is its moment."""
        # prometheus_client's own name of a counter has no suffix.
        metric = Metric(self.full_name.removesuffix("_total"), self.help, self.type)
        for values, value in self.samples(*self.inputs(snapshot)):
            labels = dict(zip(self.labels, map(_label_value, values), strict=True))
            if isinstance(value, Histogram):
                _add_histogram(metric, labels, value)
            else:
                metric.add_sample(self.full_name, labels, value)
        return metric


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
