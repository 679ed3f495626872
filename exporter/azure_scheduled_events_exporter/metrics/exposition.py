"""A scrape's body: the metrics as text, in the format and compression that the scraper asked for.

prometheus_client writes the text. What stays the same between scrapes is written and compressed once per revision of
the snapshot; the figures of polling and of the process once per poll, and once a second if polls take longer. Per
scrape, only a countdown per event is written.
"""

import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, Metric, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector

from azure_scheduled_events_exporter.polling.snapshot import Snapshot

from .collector import announced, countdown, polled, process_metrics, settled

FIGURES_SECONDS = 1.0
"""How old the figures of the process may be in a scrape."""

_GZIP_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x04\xff"
_OPENMETRICS_END = b"# EOF\n"


@dataclass(frozen=True, slots=True)
class Rendering:
    """A body with the headers that tell what it is."""

    body: bytes
    content_type: str
    content_encoding: str | None


class _Families(Collector):
    """A hand-full of metrics in the shape that prometheus_client writes."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        yield from self._families


class _Stretch:
    """A part of a body, and the same as a piece of a deflate stream that another piece may follow."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        squeeze = zlib.compressobj(1, wbits=-zlib.MAX_WBITS)
        self.deflated = squeeze.compress(text) + squeeze.flush(zlib.Z_FULL_FLUSH)


class _Format:
    """One of the two formats: what has been written in it, as long as it holds."""

    def __init__(self, content_type: str, write: Callable[[Iterable[Metric]], bytes], end: bytes) -> None:
        self.content_type = content_type
        self._write = write
        self._end = end
        self._revision: int | None = None
        self._settled = _Stretch(b"")
        self._countdown_head = b""
        self._countdowns: tuple[tuple[bytes, float], ...] = ()  # a line up to its value, and NotBefore
        self._polled: Snapshot | None = None
        self._polled_at = 0.0
        self._figures = _Stretch(b"")

    def stretches(self, snapshot: Snapshot, now: float) -> tuple[_Stretch, _Stretch, bytes]:
        """Return what holds for this revision, for this poll, and for ``now`` alone, the time of day in seconds."""
        if self._revision != snapshot.revision:
            self._settle(snapshot)
        if self._polled is not snapshot or not 0 <= now - self._polled_at < FIGURES_SECONDS:
            self._figures = _Stretch(self._write(polled(snapshot)) + self._write(process_metrics()))
            self._polled, self._polled_at = snapshot, now
        lines = [b"%b%.3f\n" % (line, not_before - now) for line, not_before in self._countdowns]
        return self._settled, self._figures, b"".join([self._countdown_head, *lines, self._end])

    def _settle(self, snapshot: Snapshot) -> None:
        self._settled = _Stretch(self._write(settled(snapshot)))
        lines = self._write([countdown(snapshot, 0)]).splitlines(keepends=True)
        self._countdown_head, samples = b"".join(lines[:2]), lines[2:]
        times = [not_before for _, not_before in announced(snapshot.current.values())]
        self._countdowns = tuple(zip((line[: line.rindex(b" ") + 1] for line in samples), times, strict=True))
        self._revision = snapshot.revision


class Exposition:
    """Renders scrapes of what ``read`` returns; ``wall`` is the time of day in seconds since the epoch.

    Not thread-safe: one server loop owns it.
    """

    def __init__(self, read: Callable[[], Snapshot], wall: Callable[[], float]) -> None:
        self._read = read
        self._wall = wall
        self._plain = _Format(CONTENT_TYPE_PLAIN_0_0_4, _plain_text, b"")
        self._openmetrics = _Format(openmetrics.CONTENT_TYPE_LATEST, _openmetrics_text, _OPENMETRICS_END)

    def render(self, accept: str = "", accept_encoding: str = "") -> Rendering:
        """Return the body for a scraper with these request headers: OpenMetrics if it is named, gzip if accepted."""
        form = self._openmetrics if "application/openmetrics-text" in accept else self._plain
        settled_part, figures, rest = form.stretches(self._read(), self._wall())
        if not _accepts_gzip(accept_encoding):
            return Rendering(settled_part.text + figures.text + rest, form.content_type, None)
        return Rendering(_gzip((settled_part, figures), rest), form.content_type, "gzip")


def _plain_text(families: Iterable[Metric]) -> bytes:
    return generate_latest(_Families(families))


def _openmetrics_text(families: Iterable[Metric]) -> bytes:
    body: bytes = openmetrics.generate_latest(_Families(families))  # type: ignore[no-untyped-call]
    return body.removesuffix(_OPENMETRICS_END)


def _accepts_gzip(accept_encoding: str) -> bool:
    for coding in accept_encoding.lower().split(","):
        name, _, parameters = coding.partition(";")
        if name.strip() in {"gzip", "*"}:
            return parameters.replace(" ", "") not in {"q=0", "q=0.0", "q=0.00", "q=0.000"}
    return False


def _gzip(kept: Iterable[_Stretch], rest: bytes) -> bytes:
    """One gzip member of what was compressed once and what is new (RFC 1952: a deflate stream between two frames)."""
    squeeze = zlib.compressobj(1, wbits=-zlib.MAX_WBITS)
    pieces, checksum, length = [_GZIP_HEADER], 0, len(rest)
    for stretch in kept:
        pieces.append(stretch.deflated)
        checksum = zlib.crc32(stretch.text, checksum)
        length += len(stretch.text)
    pieces += [squeeze.compress(rest), squeeze.flush()]
    return b"".join([*pieces, struct.pack("<II", zlib.crc32(rest, checksum), length & 0xFFFFFFFF)])
