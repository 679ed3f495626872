"""The texts of a pushed alert, as Prometheus' templates write them from the same metrics.

A text of the catalog contains the generator's placeholders for data that is not in the labels, and the few templates
that rules use. Pure.

Source: https://prometheus.io/docs/prometheus/latest/configuration/template_reference/
"""

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from azure_scheduled_events_exporter.core.document import RESOURCES_SHOWN
from azure_scheduled_events_exporter.core.event_types import NO_INTERRUPTION
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle, State

VMS, FIRST_VM, TIME, IMPACT = "@VMS@", "@FIRST_VM@", "@TIME@", "@IMPACT@"

_LABEL = re.compile(r"\{\{ \$labels\.([a-z_]+) \}\}")
_VALUE_AS_DURATION = "{{ $value | humanizeDuration }}"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SMALL_UNITS = (("m", 1e3), ("u", 1e6), ("n", 1e9), ("p", 1e12))


def render(
    texts: Mapping[str, str], life: Lifecycle, scale_set: str, labels: Mapping[str, str], now: float
) -> dict[str, str]:
    """Return annotations for the event ``life`` of a VM of ``scale_set`` (``""``: none), at wall-clock time ``now``."""
    left = 0 if life.not_before is None else _rounded(life.not_before - now)
    known = {
        VMS: _vms(life, scale_set),
        FIRST_VM: next(iter(life.event.resources), ""),
        TIME: _time(life, left),
        IMPACT: f"{NO_INTERRUPTION} " if life.event.duration_seconds == 0 else "",
        _VALUE_AS_DURATION: humanize_duration(left),
    }
    return {name: _rendered(text, known, labels) for name, text in texts.items()}


def _rendered(text: str, known: Mapping[str, str], labels: Mapping[str, str]) -> str:
    """Replace all placeholders in one pass, so that no part of a VM's name is treated as a placeholder."""
    pattern = "|".join([*map(re.escape, known), _LABEL.pattern])
    return re.sub(
        pattern,
        lambda found: known[found[0]] if found[0] in known else labels.get(found[found.lastindex or 0], ""),
        text,
    )


def _vms(life: Lifecycle, scale_set: str) -> str:
    names = ",".join(life.event.resources[:RESOURCES_SHOWN])
    more = len(life.event.resources) - RESOURCES_SHOWN
    vms = f"{names} and {more} more" if more > 0 else names
    return f"{vms} (scale set {scale_set})" if scale_set else vms


def _time(life: Lifecycle, left: float) -> str:
    if life.state is State.STARTED:
        return "The event has started."
    if life.not_before is None:
        return "The event may start at any moment, or has started."
    remaining = f" (in {humanize_duration(left)})" if left > 0 else ""
    return f"The event starts at {humanize_timestamp(life.not_before)} UTC{remaining}, or earlier if approved."


def _rounded(seconds: float) -> float:
    """Return whole seconds, as PromQL's ``round`` does."""
    return math.floor(seconds + 0.5) if math.isfinite(seconds) else seconds


def humanize_timestamp(seconds: float) -> str:
    """Return a time as Prometheus' ``humanizeTimestamp`` writes it, without the time zone."""
    try:
        moment = _EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        return repr(seconds)
    whole = moment.strftime("%Y-%m-%d %H:%M:%S")
    fraction = f"{moment.microsecond:06d}".rstrip("0")
    return f"{whole}.{fraction}" if fraction else whole


def humanize_duration(seconds: float) -> str:
    """Return a duration as Prometheus' ``humanizeDuration`` writes it."""
    if seconds == 0 or not math.isfinite(seconds):
        return "0s" if seconds == 0 else f"{seconds:.4g}"
    sign, size = ("-" if seconds < 0 else ""), abs(seconds)
    if size < 1:
        unit, factor = next((each for each in _SMALL_UNITS if size * each[1] >= 1), _SMALL_UNITS[-1])
        return f"{sign}{size * factor:.4g}{unit}s"
    minutes, whole = divmod(int(size), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{sign}{days}d {hours}h {minutes}m {whole}s"
    if hours:
        return f"{sign}{hours}h {minutes}m {whole}s"
    if minutes:
        return f"{sign}{minutes}m {whole}s"
    return f"{sign}{size:.4g}s"
