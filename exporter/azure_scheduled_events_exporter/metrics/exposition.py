"""Renders the text of a scrape in the format that the scraper accepts.

prometheus_client chooses the format, and writes the text of each metric. This text is kept while
the fields of the snapshot from which it was made are the same objects. Two kinds of values are
written at each scrape: those that change between polls (countdowns) or with every poll (when an
event was seen), and the metrics of the process.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from prometheus_client import Metric, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from azure_scheduled_events_exporter.snapshot.snapshot import Snapshot

from .spec import MetricSpec, TrackedSnapshot
from .table import METRICS

SHARED_SECONDS = 0.1
"""How long scrapes of one snapshot share a body, so that many scrapers cost as much as one."""

_END = b"# EOF\n"  # of OpenMetrics
_Writer = Callable[[Collector], bytes]
"""Returns the text of metrics, with the end that the format requires."""


class _Family(Collector):
    """Metrics as the Collector that prometheus_client's writers want."""

    def __init__(self, *metrics: Metric) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        yield from self._metrics


class Rendering(NamedTuple):
    """A body and its content type."""

    body: bytes
    content_type: str


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of a metric with ``at_scrape``: the number is written at each scrape.

    Attributes:
        name: the beginning of the line, which is the metric's name and labels.
        value: what ``at_scrape`` computes the number from.
    """

    name: bytes
    value: object


@dataclass(frozen=True, slots=True)
class _Text:
    """The text of one metric.

    Attributes:
        made_from: the snapshot from which it was made.
        text: the whole text; of a metric with ``at_scrape``, only the comments above its lines.
        lines: the lines of a metric with ``at_scrape``.
    """

    made_from: TrackedSnapshot
    text: bytes
    lines: tuple[_Line, ...] = ()


@dataclass(frozen=True, slots=True)
class _Body:
    """The body of one scrape, which was made ``at`` a time of day from ``snapshot``."""

    snapshot: Snapshot
    at: float
    content: bytes

    def may_be_shared(self, snapshot: Snapshot, now: float) -> bool:
        """Return whether a scrape of ``snapshot`` may have this body, too."""
        age = now - self.at
        # An age below 0 means that the clock was set back.
        return self.snapshot is snapshot and 0 <= age < SHARED_SECONDS


class Exposition:
    """Renders the newest snapshot. Not thread-safe.

    Args:
        read: returns the newest snapshot.
        wall: returns the time of day, in seconds since the epoch.
    """

    def __init__(self, read: Callable[[], Snapshot], wall: Callable[[], float]) -> None:
        self._read = read
        self._wall = wall
        self._bodies: dict[bool, _Body] = {}  # by whether the format is OpenMetrics
        self._texts: dict[tuple[bool, str], _Text] = {}  # by that, and the name of the metric

    def render(self, accept: str = "") -> Rendering:
        """Return the body for a scraper that sends this ``Accept`` header."""
        try:
            write, content_type = choose_encoder(accept)
        except TypeError:  # a version that is no number
            write, content_type = choose_encoder("")
        is_openmetrics = "openmetrics" in content_type
        snapshot = self._read()
        now = self._wall()
        body = self._bodies.get(is_openmetrics)
        if body is None or not body.may_be_shared(snapshot, now):
            texts = [self._text(spec, snapshot, now, is_openmetrics, write) for spec in METRICS]
            process = _Family(*ProcessCollector(registry=None).collect())
            texts.append(write(process).removesuffix(_END))
            if is_openmetrics:
                texts.append(_END)
            body = _Body(snapshot, now, b"".join(texts))
            self._bodies[is_openmetrics] = body
        return Rendering(body.content, content_type)

    def _text(
        self,
        spec: MetricSpec,
        snapshot: Snapshot,
        now: float,
        is_openmetrics: bool,  # noqa: FBT001 - the format
        write: _Writer,
    ) -> bytes:
        """Return the text of a metric at ``now``: the one that was kept, if it still holds."""
        key = (is_openmetrics, spec.name)
        kept = self._texts.get(key)
        if kept is None or not kept.made_from.is_valid_for(snapshot):
            kept = _written(spec, snapshot, write)
            self._texts[key] = kept
        if spec.at_scrape is None:
            return kept.text
        completed = [
            b"%b %.3f\n" % (line.name, spec.at_scrape(snapshot, line.value, now))
            for line in kept.lines
        ]
        return kept.text + b"".join(completed)


def _written(spec: MetricSpec, snapshot: Snapshot, write: _Writer) -> _Text:
    """Return the text of a metric, without the end of the exposition."""
    tracked = TrackedSnapshot(snapshot)
    samples = spec.samples(tracked)
    text = write(_Family(spec.family(samples))).removesuffix(_END)
    if spec.at_scrape is None:
        return _Text(tracked, text)
    comments = []
    names = []
    for line in text.splitlines(keepends=True):
        if line.startswith(b"#"):
            comments.append(line)
        else:
            # The last word is the value, for which family() has put 0.
            name, _, _ = line.rpartition(b" ")
            names.append(name)
    # The writer keeps the order of the samples, and writes one line for each.
    lines = [_Line(name, sample.value) for name, sample in zip(names, samples, strict=True)]
    return _Text(tracked, b"".join(comments), tuple(lines))
