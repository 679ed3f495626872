"""Renders the text of a scrape in the format that the scraper accepts.

prometheus_client chooses the format and writes the text. The text of a metric is kept while its
inputs are the same objects of the snapshot; only countdowns and the metrics of the process are
written at each scrape.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from prometheus_client import Metric, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from azure_scheduled_events_exporter.snapshot.snapshot import Snapshot

from .collector import METRICS
from .spec import MetricSpec

SHARED_SECONDS = 0.1
"""How long scrapes of one snapshot share a body, so that many scrapers cost as much as one."""

_END = b"# EOF\n"  # of OpenMetrics
_Kept = tuple[
    tuple[object, ...], bytes, tuple[tuple[bytes, float], ...]
]  # inputs, text, and lines to complete
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


class Exposition:
    """Renders what ``read`` returns; ``wall`` is the time of day in seconds since the epoch.

    Not thread-safe.
    """

    def __init__(self, read: Callable[[], Snapshot], wall: Callable[[], float]) -> None:
        self._read = read
        self._wall = wall
        self._bodies: dict[bool, tuple[Snapshot, float, bytes]] = {}
        self._texts: dict[tuple[bool, str], _Kept] = {}

    def render(self, accept: str = "") -> Rendering:
        """Return the body for a scraper that sends this ``Accept`` header."""
        try:
            write, content_type = choose_encoder(accept)
        except TypeError:  # a version that is no number
            write, content_type = choose_encoder("")
        is_openmetrics = "openmetrics" in content_type
        snapshot, now = self._read(), self._wall()
        shared = self._bodies.get(is_openmetrics)
        if shared is None or shared[0] is not snapshot or not 0 <= now - shared[1] < SHARED_SECONDS:
            texts = [
                self._text(metric, snapshot, now, (is_openmetrics, write)) for metric in METRICS
            ]
            texts.append(
                write(_Family(*ProcessCollector(registry=None).collect())).removesuffix(_END)
            )
            body = b"".join([*texts, _END if is_openmetrics else b""])
            shared = self._bodies[is_openmetrics] = snapshot, now, body
        return Rendering(shared[2], content_type)

    def _text(
        self, metric: MetricSpec, snapshot: Snapshot, now: float, form: tuple[bool, _Writer]
    ) -> bytes:
        is_openmetrics, write = form
        inputs, key = metric.inputs(snapshot), (is_openmetrics, metric.name)
        kept = self._texts.get(key)
        if kept is None or any(
            fresh is not before for fresh, before in zip(inputs, kept[0], strict=True)
        ):
            text = write(_Family(metric.family(snapshot))).removesuffix(_END)
            kept = self._texts[key] = (
                inputs,
                *(_countdown(text) if metric.is_countdown else (text, ())),
            )
        _, text, countdowns = kept
        return text + b"".join([b"%b %.3f\n" % (name, moment - now) for name, moment in countdowns])


def _countdown(text: bytes) -> tuple[bytes, tuple[tuple[bytes, float], ...]]:
    """Split the text of a countdown into its comments, and each series with its moment."""
    lines = text.splitlines(keepends=True)
    series = [line.rpartition(b" ") for line in lines if not line.startswith(b"#")]
    return b"".join(lines[: len(lines) - len(series)]), tuple(
        (name, float(value)) for name, _, value in series
    )
