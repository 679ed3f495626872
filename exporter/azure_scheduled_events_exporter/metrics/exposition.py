"""Renders the text of a scrape in the format that the scraper accepts.

prometheus_client chooses the format and writes the text. The text of a metric is kept while the
fields of the snapshot that it was made from are the same objects. Only values that change between
polls (countdowns) or with every poll (when an event was seen), and the metrics of the process, are
written at each scrape.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from prometheus_client import Metric, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from azure_scheduled_events_exporter.snapshot.snapshot import Snapshot

from .collector import METRICS
from .spec import MetricSpec, Reading

SHARED_SECONDS = 0.1
"""How long scrapes of one snapshot share a body, so that many scrapers cost as much as one."""

_END = b"# EOF\n"  # of OpenMetrics
_Writer = Callable[[Collector], bytes]


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
    """A line whose value is written at each scrape.

    Attributes:
        name: the metric's name and labels, as the line begins.
        value: what ``at_scrape`` computes the number from.
    """

    name: bytes
    value: object


@dataclass(frozen=True, slots=True)
class _Text:
    """The text of one metric, what it was made from, and lines completed at each scrape."""

    made_from: Reading
    text: bytes
    lines: tuple[_Line, ...] = ()


@dataclass(frozen=True, slots=True)
class _Body:
    """The body of one scrape."""

    snapshot: Snapshot
    at: float
    content: bytes


class Exposition:
    """Renders what ``read`` returns; ``wall`` is the time of day in seconds since the epoch.

    Not thread-safe.
    """

    def __init__(self, read: Callable[[], Snapshot], wall: Callable[[], float]) -> None:
        self._read = read
        self._wall = wall
        self._bodies: dict[bool, _Body] = {}
        self._texts: dict[tuple[bool, str], _Text] = {}

    def render(self, accept: str = "") -> Rendering:
        """Return the body for a scraper that sends this ``Accept`` header."""
        try:
            write, content_type = choose_encoder(accept)
        except TypeError:  # a version that is no number
            write, content_type = choose_encoder("")
        is_openmetrics = "openmetrics" in content_type
        snapshot = self._read()
        now = self._wall()
        shared = self._bodies.get(is_openmetrics)
        if (
            shared is None
            or shared.snapshot is not snapshot
            or not 0 <= now - shared.at < SHARED_SECONDS  # less than 0: the clock was set back
        ):
            texts = [self._text(spec, snapshot, now, is_openmetrics, write) for spec in METRICS]
            process = _Family(*ProcessCollector(registry=None).collect())
            texts.append(write(process).removesuffix(_END))
            if is_openmetrics:
                texts.append(_END)
            shared = _Body(snapshot, now, b"".join(texts))
            self._bodies[is_openmetrics] = shared
        return Rendering(shared.content, content_type)

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
    """Return the text of a metric, without the end of the exposition.

    With ``at_scrape``, it is only the text's comments, and its lines without their values.
    """
    reading = Reading(snapshot)
    samples = spec.samples(reading)
    text = write(_Family(spec.family(samples))).removesuffix(_END)
    if spec.at_scrape is None:
        return _Text(reading, text)
    lines = text.splitlines(keepends=True)
    series = [line for line in lines if not line.startswith(b"#")]
    comments = b"".join(lines[: len(lines) - len(series)])
    names = [line.rpartition(b" ")[0] for line in series]
    # The writer has kept the order of the samples, and written one line for each.
    values = [sample.value for sample in samples]
    return _Text(reading, comments, tuple(map(_Line, names, values)))
