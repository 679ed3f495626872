"""A scrape's body: the metrics as text, in the format and compression that the scraper asked for.

prometheus_client writes the text. What stays the same between scrapes is written and compressed once per revision
of the snapshot, the figures of polling are written once per poll; only those of the process and a countdown per event
are written per scrape.
"""

import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, Metric, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector

from .metrics import announced, countdown, of_process, polled, settled
from .snapshot import Snapshot

_GZIP_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x04\xff"
_OPENMETRICS_END = b"# EOF\n"


@dataclass(frozen=True, slots=True)
class Rendering:
    """A body with the headers that tell what it is."""

    body: bytes
    content_type: str
    content_encoding: str | None


@dataclass(frozen=True, slots=True)
class _Kept:
    """What is the same for every scrape of one revision in one format."""

    revision: int
    text: bytes
    deflated: bytes
    countdown_head: bytes
    countdowns: tuple[tuple[bytes, float], ...]  # a line up to its value, and NotBefore


class _Families(Collector):
    """A hand-full of metrics in the shape that prometheus_client writes."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        yield from self._families


class Exposition:
    """Renders scrapes of what ``read`` returns; ``wall`` is the time of day in seconds since the epoch.

    Not thread-safe: one server loop owns it.
    """

    def __init__(self, read: Callable[[], Snapshot], wall: Callable[[], float]) -> None:
        self._read = read
        self._wall = wall
        self._kept: dict[bool, _Kept] = {}
        self._of_poll: dict[bool, tuple[Snapshot, bytes]] = {}

    def render(self, accept: str = "", accept_encoding: str = "") -> Rendering:
        """Return the body for a scraper with these request headers: OpenMetrics if it is named, gzip if accepted."""
        is_openmetrics = "application/openmetrics-text" in accept
        snapshot = self._read()
        kept = self._settled(snapshot, is_openmetrics=is_openmetrics)
        text = self._momentary(snapshot, kept, is_openmetrics=is_openmetrics)
        content_type = openmetrics.CONTENT_TYPE_LATEST if is_openmetrics else CONTENT_TYPE_PLAIN_0_0_4
        if not _accepts_gzip(accept_encoding):
            return Rendering(kept.text + text, content_type, None)
        return Rendering(_gzip(kept, text), content_type, "gzip")

    def _settled(self, snapshot: Snapshot, *, is_openmetrics: bool) -> _Kept:
        kept = self._kept.get(is_openmetrics)
        if kept is None or kept.revision != snapshot.revision:
            text = _text(settled(snapshot), is_openmetrics=is_openmetrics)
            # A flushed but unfinished stream: another one may be put behind it.
            squeeze = zlib.compressobj(1, wbits=-zlib.MAX_WBITS)
            deflated = squeeze.compress(text) + squeeze.flush(zlib.Z_FULL_FLUSH)
            lines = _text([countdown(snapshot, 0)], is_openmetrics=is_openmetrics).splitlines(keepends=True)
            head, samples = b"".join(lines[:2]), lines[2:]
            times = [not_before for _, not_before in announced(snapshot.current.values())]
            countdowns = tuple(zip((line[: line.rindex(b" ") + 1] for line in samples), times, strict=True))
            kept = _Kept(snapshot.revision, text, deflated, head, countdowns)
            self._kept[is_openmetrics] = kept
        return kept

    def _polled(self, snapshot: Snapshot, *, is_openmetrics: bool) -> bytes:
        of, text = self._of_poll.get(is_openmetrics, (None, b""))
        if of is not snapshot:
            text = _text(polled(snapshot), is_openmetrics=is_openmetrics)
            self._of_poll[is_openmetrics] = (snapshot, text)
        return text

    def _momentary(self, snapshot: Snapshot, kept: _Kept, *, is_openmetrics: bool) -> bytes:
        now = self._wall()
        lines = [kept.countdown_head]
        lines += [b"%b%.3f\n" % (line, not_before - now) for line, not_before in kept.countdowns]
        lines.append(self._polled(snapshot, is_openmetrics=is_openmetrics))
        lines.append(_text(of_process(), is_openmetrics=is_openmetrics))
        if is_openmetrics:
            lines.append(_OPENMETRICS_END)
        return b"".join(lines)


def _text(families: Iterable[Metric], *, is_openmetrics: bool) -> bytes:
    if is_openmetrics:
        body: bytes = openmetrics.generate_latest(_Families(families))  # type: ignore[no-untyped-call]
        return body.removesuffix(_OPENMETRICS_END)
    return generate_latest(_Families(families))


def _accepts_gzip(accept_encoding: str) -> bool:
    for coding in accept_encoding.lower().split(","):
        name, _, parameters = coding.partition(";")
        if name.strip() in {"gzip", "*"}:
            return parameters.replace(" ", "") not in {"q=0", "q=0.0", "q=0.00", "q=0.000"}
    return False


def _gzip(kept: _Kept, text: bytes) -> bytes:
    """One gzip member of what was compressed once and what is new (RFC 1952: a deflate stream between two frames)."""
    squeeze = zlib.compressobj(1, wbits=-zlib.MAX_WBITS)
    rest = squeeze.compress(text) + squeeze.flush()
    checksum = zlib.crc32(text, zlib.crc32(kept.text))
    length = (len(kept.text) + len(text)) & 0xFFFFFFFF
    return b"".join([_GZIP_HEADER, kept.deflated, rest, struct.pack("<II", checksum, length)])
