"""Defines a row of the table of metrics, and converts it to a metric of prometheus_client.

Contains no metric.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from prometheus_client import Metric
from prometheus_client.utils import floatToGoString

from azure_scheduled_events_exporter.core.histogram import Histogram
from azure_scheduled_events_exporter.snapshot.snapshot import Snapshot

PREFIX = "azure_scheduled_events_"

LABEL_BYTES = 1023
"""Azure's managed Prometheus refuses a whole scrape if one label value is longer.

https://github.com/Azure/prometheus-collector/issues/260
"""

Labels = tuple[str, ...]
"""Names of labels in a row of the table; in a sample, their values in the same order."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One series of a metric.

    Attributes:
        labels: the values of its labels.
        value: a number or a :class:`Histogram`. If the metric has ``at_scrape``, whatever that
            function computes the number from.
    """

    labels: Labels
    value: Any


AtScrape = Callable[[Snapshot, Any, float], float]
"""Returns the value of a series from the snapshot, the value of its sample, and the time of day.

The time of day is in seconds since the epoch.
"""


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """One row of the table.

    Attributes:
        type: gauge, counter or histogram.
        name: without the prefix.
        help: one sentence.
        read: returns what the snapshot says. That is one value of a metric without labels (None for
            no series), a mapping from the values of the labels to the value of each series, or an
            iterable of :class:`Sample`. A key of the mapping is a tuple, or the value of the only
            label.
        labels: the names of the labels.
        not_shown: why no dashboard shows it and no alert reads it; empty if one does.
        at_scrape: computes the value of each series anew at each scrape, so that the text of its
            labels can be kept; None if values change only when what ``read`` reads changes.
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

    def samples(self, snapshot: "Snapshot | TrackedSnapshot") -> list[Sample]:
        """Return the series of the metric, with label values of at most :data:`LABEL_BYTES`."""
        found = self.read(cast("Snapshot", snapshot))  # a tracked one has the same fields
        return [
            Sample(tuple(map(_label_value, each.labels)), each.value) for each in _samples(found)
        ]

    def family(self, samples: Iterable[Sample]) -> Metric:
        """Return the metric in prometheus_client's form.

        With ``at_scrape``, each value is 0, in whose place the exposition writes the computed one.
        """
        # prometheus_client's own name of a counter is without the suffix.
        metric = Metric(self.full_name.removesuffix("_total"), self.help, self.type)
        for sample in samples:
            labels = dict(zip(self.labels, sample.labels, strict=True))
            if isinstance(sample.value, Histogram):
                _add_histogram(metric, labels, sample.value)
            else:
                value = sample.value if self.at_scrape is None else 0
                metric.add_sample(self.full_name, labels, value)
        return metric


class TrackedSnapshot:
    """Takes the place of a snapshot, and remembers which of its fields have been read.

    What :attr:`MetricSpec.read` has computed from one stays valid for a later snapshot that has the
    same objects in these fields.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._read: dict[str, object] = {}

    def __getattr__(self, field: str) -> object:
        """Return the field of the snapshot; Python calls this for what the object itself lacks."""
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
        return [Sample(_key_labels(key), value) for key, value in found.items()]
    if isinstance(found, Iterable):
        return cast("Iterable[Sample]", found)
    return (Sample((), found),)


def _key_labels(key: object) -> Labels:
    """Return the values of the labels that a key of a mapping stands for."""
    if isinstance(key, tuple):
        return key
    return (str(key),)


def _label_value(value: str) -> str:
    """Return ``value``, or as many whole characters of it as :data:`LABEL_BYTES` of UTF-8 hold."""
    if len(value) * 4 <= LABEL_BYTES:  # a character has at most 4 bytes: no need to count them
        return value
    # The cut may be inside a character, whose first bytes are then ignored.
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
