"""Parses NotBefore, the time before which Azure does not start an event without an approval.

Pure.

Source: https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events
"""

import email.utils
import re
from collections.abc import Callable
from datetime import UTC, datetime

_EARLIEST_YEAR = 1970
_LATEST_YEAR = 2199
"""A time of the year 9999, .NET's latest, means "no time", as its earliest, of the year 1, does.

Alerting engines count the nanoseconds of a time in 64 bits, so they cannot write one after 2262.
"""

_RFC_1123 = re.compile(
    r"([a-z]+, )?\d{1,2} [a-z]{3} \d{4} \d{2}:\d{2}:\d{2}( (gmt|utc|[+-]\d{4}))?$",
    re.ASCII | re.IGNORECASE,
)
"""``Mon, 11 Apr 2022 22:26:58 GMT``; the weekday and the zone may be missing."""

_ISO_8601 = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}", re.ASCII)
"""The beginning of ``2022-04-11T22:26:58Z``; fromisoformat() checks what follows."""


def parse_not_before(text: str) -> float | None:
    """Return NotBefore as seconds since the epoch, or None when ``text`` is no readable time.

    It is RFC 1123 in every captured body (the weekday is sometimes wrong, so it is ignored), and
    ISO 8601 in Microsoft's mock server and on one documentation page. Without a zone it is UTC. Any
    other form is unknown rather than wrong: ``email.utils`` would ignore "PM" and most names of
    zones.
    """
    text = text.strip()
    if _RFC_1123.match(text):
        return _seconds(text, email.utils.parsedate_to_datetime)
    if _ISO_8601.match(text):
        return _seconds(text, datetime.fromisoformat)
    return None


def _seconds(text: str, read: Callable[[str], datetime]) -> float | None:
    """Return the time that ``read`` makes of ``text``, None if it cannot be a time of IMDS."""
    try:
        moment = read(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        seconds = moment.timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
    if not _EARLIEST_YEAR <= moment.year <= _LATEST_YEAR:
        return None
    if f"{moment.year:04d}" not in text:
        return None  # .NET's "no time" is of the year 0001, which email.utils reads as 2001
    if seconds < 0:
        return None  # a zone has put a time of 1970 before the epoch
    return seconds
