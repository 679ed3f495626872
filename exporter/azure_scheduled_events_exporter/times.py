"""Durations as Prometheus writes them (``250ms``, ``1m30s``, ``90d``), and moments in ISO 8601."""

import re
from datetime import UTC, datetime

_SECONDS = {
    "ms": 0.001,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
    "d": 86400.0,
    "w": 604800.0,
    "y": 31536000.0,
}
_LONGEST = 64  # characters; no real duration has more
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdwy])", re.ASCII)  # its groups: number and unit
_WHOLE = re.compile(rf"(?:{_PART.pattern})+", re.ASCII)


def parse_duration(text: str) -> float:
    """Return the seconds of the duration ``text``.

    Units are those of Prometheus (ms, s, m, h, d, w, y; a year has 365 days); a part may have
    decimals. ``0`` needs no unit.

    Raises:
        ValueError: ``text`` is not a duration; the message shows valid ones.
    """
    if text == "0":
        return 0.0
    if len(text) > _LONGEST or not _WHOLE.fullmatch(text):
        raise ValueError(
            f"{text[:_LONGEST]!r} is no duration: write a number and a unit, such as 500ms, 1s,"
            " 1m30s or 90d"
        )
    return sum((float(number) * _SECONDS[unit] for number, unit in _PART.findall(text)), 0.0)


def format_duration(seconds: float) -> str:
    """Return ``seconds`` as :func:`parse_duration` reads them, to the millisecond.

    Negative seconds get a minus sign, which :func:`parse_duration` does not read.
    """
    if seconds < 0:
        return "-" + format_duration(-seconds)
    milliseconds = round(seconds * 1000)
    parts = []
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        count, milliseconds = divmod(milliseconds, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def iso_time(seconds: float) -> str:
    """Return seconds since the epoch in ISO 8601: ``2022-04-11T22:26:58Z``.

    Fractions of a second are cut off. A time beyond the calendar's years is returned as a number.
    """
    try:
        return datetime.fromtimestamp(int(seconds), UTC).isoformat().replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return repr(seconds)
