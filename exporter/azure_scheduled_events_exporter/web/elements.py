"""Texts from IMDS and moments as HTML elements of the status page. Pure."""

from azure_scheduled_events_exporter.times import iso_time

from .html import Markup, tag
from .wording import ago, clipped


def foreign(text: str) -> Markup:
    """Return a text from IMDS, clipped, as an element that isolates it.

    Its writing direction cannot affect the text around it.
    """
    return tag("bdi", clipped(text))


def moment(seconds: float) -> Markup:
    """Return a time (seconds since the epoch) as an HTML ``time`` element."""
    written = iso_time(seconds)
    return tag("time", written.replace("T", " ").replace("Z", " UTC"), datetime=written)


def since(seconds: float, now: float) -> Markup:
    """Return how long ago a moment was, as an element that the page's script keeps up to date.

    Both are seconds since the epoch.
    """
    return tag("time", ago(now - seconds), datetime=iso_time(seconds), data_since=seconds)
