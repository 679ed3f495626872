"""The texts of a pushed alert: fills the placeholders of the catalog. Pure.

Times are those that IMDS sent, so a wrong clock of this VM changes no text.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from azure_scheduled_events_exporter.core.document import RESOURCES_SHOWN
from azure_scheduled_events_exporter.core.instance import Instance
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle, State

_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def render(texts: Mapping[str, str], life: Lifecycle, instance: Instance | None) -> dict[str, str]:
    """Return the annotations ``texts`` for the event ``life``. All placeholders are replaced in one pass."""
    values = {
        "event_id": life.event_id,
        "event_type": life.event.event_type,
        "vms": _vms(life, instance.resource_group if instance else ""),
        "vm": next(iter(life.event.resources), ""),
        "time": _time(life),
    }
    return {name: _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), text) for name, text in texts.items()}


def _vms(life: Lifecycle, resource_group: str) -> str:
    names = ", ".join(life.event.resources[:RESOURCES_SHOWN])
    more = len(life.event.resources) - RESOURCES_SHOWN
    vms = f"{names} and {more} more" if more > 0 else names
    return f"{vms} (resource group {resource_group})" if resource_group else vms


def _time(life: Lifecycle) -> str:
    if life.state is State.STARTED:
        return "Has started."
    if life.not_before is None:
        return "May start at any moment."
    return f"Starts at {_moment(life.not_before)} UTC, or earlier if approved."


def _moment(seconds: float) -> str:
    try:
        return (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%d %H:%M:%S")
    except OverflowError:
        return repr(seconds)
