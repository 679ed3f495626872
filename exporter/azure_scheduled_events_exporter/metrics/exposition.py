"""Renders the body of a scrape, in the format and compression that the scraper accepts.

prometheus_client writes the text. The text of a metric is cached while its inputs are identical objects of the
snapshot; the text of process metrics is cached for a second. Countdowns are written at each scrape. Scrapes within a
tenth of a second share one body, so many scrapers, or clients that never read, need no more memory and CPU time than
one.
"""

import gzip
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, Metric, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector

from azure_scheduled_events_exporter.polling.snapshot import Snapshot

from .collector import METRICS, process_metrics
from .spec import MetricSpec

PROCESS_SECONDS = 1.0
"""Maximum age of process metrics in a scrape."""

SHARED_SECONDS = 0.1
"""How long scrapes of one snapshot share a body."""

_OPENMETRICS_END = b"# EOF\n"


@dataclass(frozen=True, slots=True)
class Rendering:
    """A body with the headers that describe it."""

    body: bytes
    content_type: str
    content_encoding: str | None


class _Families(Collector):
    """A registry of metrics, as prometheus_client's writer expects it."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        yield from self._families


@dataclass(frozen=True, slots=True)
class _Text:
    """The text of one metric, its inputs, and for a countdown its lines up to the value, with the time."""

    inputs: tuple[object, ...]
    text: bytes
    countdowns: tuple[tuple[bytes, float], ...] = ()

    def at(self, now: float) -> bytes:
        if not self.countdowns:
            return self.text
        return self.text + b"".join([b"%b%.3f\n" % (line, moment - now) for line, moment in self.countdowns])


class _Format:
    """One of the two text formats, and its cached text."""

    def __init__(self, content_type: str, write: Callable[[Iterable[Metric]], bytes], end: bytes) -> None:
        self.content_type = content_type
        self._write = write
        self._end = end
        self._kept: dict[str, _Text] = {}
        self._process = b""
        self._process_at = float("-inf")

    def text(self, snapshot: Snapshot, now: float) -> bytes:
        """Return the whole body at ``now``, wall-clock seconds."""
        if not 0 <= now - self._process_at < PROCESS_SECONDS:
            self._process, self._process_at = self._write(process_metrics()), now
        texts = [self._text(metric, snapshot).at(now) for metric in METRICS]
        return b"".join([*texts, self._process, self._end])

    def _text(self, metric: MetricSpec, snapshot: Snapshot) -> _Text:
        inputs = metric.inputs(snapshot)
        kept = self._kept.get(metric.name)
        if kept is None or any(now is not before for now, before in zip(inputs, kept.inputs, strict=True)):
            text = self._write([metric.family(snapshot)])
            kept = self._kept[metric.name] = _countdown(inputs, text) if metric.is_countdown else _Text(inputs, text)
        return kept


def _countdown(inputs: tuple[object, ...], text: bytes) -> _Text:
    """Split the text of a countdown into constant parts and values, which are wall-clock times."""
    lines = text.splitlines(keepends=True)
    head = b"".join(line for line in lines if line.startswith(b"#"))
    parted = (line.rpartition(b" ") for line in lines if not line.startswith(b"#"))
    return _Text(inputs, head, tuple((name + space, float(value)) for name, space, value in parted))


class Exposition:
    """Renders scrapes of what ``read`` returns; ``wall`` is the time of day in seconds since the epoch.

    Not thread-safe: one server loop owns it.
    """

    def __init__(self, read: Callable[[], Snapshot], wall: Callable[[], float]) -> None:
        self._read = read
        self._wall = wall
        self._plain = _Format(CONTENT_TYPE_PLAIN_0_0_4, _plain_text, b"")
        self._openmetrics = _Format(openmetrics.CONTENT_TYPE_LATEST, _openmetrics_text, _OPENMETRICS_END)
        self._shared: dict[tuple[bool, bool], tuple[Snapshot, float, Rendering]] = {}

    def render(self, accept: str = "", accept_encoding: str = "") -> Rendering:
        """Return the body for a scraper with these request headers: OpenMetrics if preferred, gzip if accepted."""
        wanted = (_prefers_openmetrics(accept), _accepts_gzip(accept_encoding))
        snapshot, now = self._read(), self._wall()
        shared = self._shared.get(wanted)
        if shared is None or shared[0] is not snapshot or not 0 <= now - shared[1] < SHARED_SECONDS:
            shared = self._shared[wanted] = snapshot, now, self._render(snapshot, now, *wanted)
        return shared[2]

    def _render(self, snapshot: Snapshot, now: float, is_openmetrics: bool, is_gzip: bool) -> Rendering:  # noqa: FBT001 - the key
        form = self._openmetrics if is_openmetrics else self._plain
        text = form.text(snapshot, now)
        if is_gzip:
            return Rendering(gzip.compress(text, 1, mtime=0), form.content_type, "gzip")
        return Rendering(text, form.content_type, None)


def _plain_text(families: Iterable[Metric]) -> bytes:
    return generate_latest(_Families(families))


def _openmetrics_text(families: Iterable[Metric]) -> bytes:
    body: bytes = openmetrics.generate_latest(_Families(families))  # type: ignore[no-untyped-call]
    return body.removesuffix(_OPENMETRICS_END)


def _prefers_openmetrics(accept: str) -> bool:
    weights = _weights(accept)
    openmetrics_weight = weights.get("application/openmetrics-text", 0)
    plain = next((weights[name] for name in ("text/plain", "text/*", "*/*") if name in weights), 0)
    return 0 < openmetrics_weight >= plain


def _accepts_gzip(accept_encoding: str) -> bool:
    weights = _weights(accept_encoding)
    return 0 < weights.get("gzip", weights.get("*", 0)) >= weights.get("identity", 0)


def _weights(header: str) -> dict[str, float]:
    """Return the quality of each name in a header such as Accept (RFC 9110, 12.4.2): how much the client wants it.

    Without a quality it is 1; one that is not a number counts as 0. Of a name that stands twice, the larger one counts.
    """
    weights: dict[str, float] = {}
    for part in header.lower().split(","):
        name, *parameters = (each.strip() for each in part.split(";"))
        quality = next((each.removeprefix("q=") for each in parameters if each.startswith("q=")), "1")
        try:
            weight = float(quality)
        except ValueError:
            weight = 0.0
        weights[name] = max(weight, weights.get(name, 0.0))
    return weights
