"""Moments as reports write them. Pure."""

from azure_scheduled_events_exporter.times import iso_time


def clock_time(seconds: float) -> str:
    """Return a moment in UTC, as a table writes it whose head names the time zone.

    ``seconds`` are those since the epoch.
    """
    return iso_time(seconds).replace("T", " ").removesuffix("Z")


def utc(seconds: float) -> str:
    """Return a moment with its time zone, for a sentence."""
    return f"{clock_time(seconds)} UTC"
