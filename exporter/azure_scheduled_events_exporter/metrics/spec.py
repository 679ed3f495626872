"""Defines a row of the table of metrics, and converts it to a metric of prometheus_client.

Contains no metric.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

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


@dataclass(frozen=True, slots=True)
class Sample:
    """One series of a metric.

    Attributes:
        labels: the values of its labels.
        value: a number or a :class:`Histogram`; of a metric with ``at_scrape``, what that function
            gets.
    """

    labels: Labels
    value: Any


AtScrape = Callable[[Snapshot, Any, float], float]
"""Returns the value of a series from the snapshot, the value of its sample, and the time of day."""


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """One row of the table.

    Attributes:
        type: gauge, counter or histogram.
        name: without the prefix.
        help: one sentence.
        read: returns what the snapshot says: one value (None for no series), a value for each
            label value (a mapping), or an iterable of :class:`Sample`.
        labels: names of the labels.
        not_shown: why no dashboard shows it and no alert reads it; empty if one does.
        at_scrape: computes the value of each series anew at each scrape, so that the text of its
            labels can be kept; None if values change with what ``read`` reads.
    """

    type: str
    name: str
    help: str
    read: Callable[[Snapshot], Any]
    labels: Labels = ()
    not_shown: str = ""
    at_scrape: AtScrape | None = None

    @property
    def full_name(self) -> str:
        """The name in the exposition."""
        return PREFIX + self.name

    def samples(self, snapshot: "Snapshot | Reading") -> list[Sample]:
        """Return the series of the metric, with label values of at most :data:`LABEL_BYTES`."""
        found = _samples(self.read(cast("Snapshot", snapshot)))
        return [Sample(tuple(map(_label_value, each.labels)), each.value) for each in found]

    def family(self, samples: Iterable[Sample]) -> Metric:
        """Return the metric in prometheus_client's form; with ``at_scrape``, each value is 0."""
        # prometheus_client's own name of a counter has no suffix.
        metric = Metric(self.full_name.removesuffix("_total"), self.help, self.type)
        for sample in samples:
            labels = dict(zip(self.labels, sample.labels, strict=True))
            if isinstance(sample.value, Histogram):
                _add_histogram(metric, labels, sample.value)
            else:
                value = sample.value if self.at_scrape is None else 0
                metric.add_sample(self.full_name, labels, value)
        return metric


class Reading:
    """A snapshot that remembers which of its fields have been read.

    What was computed from them stays valid while another snapshot has the same objects there. It
    takes the place of a snapshot for :attr:`MetricSpec.read`.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._read: dict[str, object] = {}

    def __getattr__(self, field: str) -> object:
        """Return the field of the snapshot."""
        value: object = getattr(self._snapshot, field)
        self._read[field] = value
        return value

    def is_valid_for(self, snapshot: Snapshot) -> bool:
        """Return whether ``snapshot`` has the same objects in the fields that have been read."""
        return all(getattr(snapshot, field) is value for field, value in self._read.items())


def _samples(found: Any) -> Iterable[Sample]:
    """Return the series of what ``read`` of a :class:`MetricSpec` has returned."""
    if found is None:
        return ()
    if isinstance(found, Mapping):
        return (
            Sample(key if isinstance(key, tuple) else (str(key),), value)
            for key, value in found.items()
        )
    if isinstance(found, Iterable):
        return cast("Iterable[Sample]", found)
    return (Sample((), found),)


def _label_value(value: str) -> str:
    """Return ``value``, or as many whole characters of it as :data:`LABEL_BYTES` of UTF-8 hold."""
    if len(value) * 4 <= LABEL_BYTES:  # a character has at most 4 bytes: no need to count them
        return value
    return value.encode()[:LABEL_BYTES].decode(errors="ignore")


def _add_histogram(metric: Metric, labels: dict[str, str], histogram: Histogram) -> None:
    """Add the series of a histogram.

    Our counts are of each bucket alone. Those of Prometheus include all smaller buckets.
    """
    seen = 0
    for bound, count in zip((*histogram.bounds, float("inf")), histogram.counts, strict=True):
        seen += count
        bucket = labels | {"le": floatToGoString(bound)}  # type: ignore[no-untyped-call]
        metric.add_sample(f"{metric.name}_bucket", bucket, seen)
    metric.add_sample(f"{metric.name}_count", labels, seen)
    metric.add_sample(f"{metric.name}_sum", labels, histogram.total)
