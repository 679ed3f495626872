"""The palette of the dashboards and the status page, and texts and colors of values.

A color has one meaning. Every text is drawn on one of these colors or in the theme's own color,
never in a color, so that its contrast is at least 4.5:1 in both themes; Grafana chooses a light or
a dark text by the background. The colors differ for people with a common color blindness, and none
is used without a text. Must not know queries or panels.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from azure_scheduled_events_exporter.core.lifecycle import State, Transition

Json = dict[str, Any]

FINE = "#08804A"  # works as it should
WAITING = "#2B5FC0"  # announced; happens later
HAPPENING = "#FFB92E"  # happens now, or within minutes
FAILED = "#A8102B"  # failed, or nobody can see: do not trust
NEUTRAL = "#5D6470"  # past, or a quantity: carries no judgment
PALETTE = (FINE, WAITING, HAPPENING, FAILED, NEUTRAL)

QUIET = 1e10
"""What a countdown shows if there is no event, and all exporters see IMDS."""
UNKNOWN = 3e10
"""What every query of a number shows while no exporter sees IMDS.

A number between :data:`QUIET` and this one stands for "no event, but only some exporters see IMDS".
All of these are far above every countdown and count.
"""
NO_TIME = 4e9
"""Unix seconds in place of a time that IMDS does not give; in the year 2096."""

STATES: Mapping[str, str] = {
    str(State.STARTED): HAPPENING,
    "not seen": HAPPENING,
    str(State.SCHEDULED): WAITING,
    str(State.ADVISORY): WAITING,
    str(Transition.COMPLETED): NEUTRAL,
    str(Transition.CANCELLED): NEUTRAL,
    str(Transition.WITHDRAWN): NEUTRAL,
    str(Transition.LOST): FAILED,
}
"""The colors of the states of events: Azure's words for current events, the exporter's for ends.

An event is "not seen" if no exporter shows it any more, and none saw its end.
"""
APPROVED: Mapping[float, str] = {
    0: "not yet",
    1: "by exporter",
    2: "not by exporter",
    3: "by exporter",
}
"""Who approved an event, by the number of :func:`.queries.current_approval`, or ``past_approval``.

The numbers are 0 and 1 while the event is Scheduled, 2 and 3 from its start on.
"""


def values(table: Mapping[float, tuple[str, str]] | Mapping[int, tuple[str, str]]) -> list[Json]:
    """Return Grafana's mapping of numbers to texts and colors.

    Without a color (""), the text has the theme's.
    """
    options: Json = {}
    for index, (number, (text, color)) in enumerate(table.items()):
        shown: Json = {"text": text, "index": index}
        if color:
            shown["color"] = color
        options[f"{number:.15g}"] = shown  # as JavaScript writes the number: all digits, no ".0"
    return [{"type": "value", "options": options}]


def colors(table: Mapping[str, str]) -> list[Json]:
    """Return Grafana's mapping of texts to their colors."""
    options: Json = {}
    for index, (text, color) in enumerate(table.items()):
        options[text] = {"text": text, "color": color, "index": index}
    return [{"type": "value", "options": options}]


def between(least: float | None, most: float | None, text: str, color: str) -> Json:
    """Return Grafana's mapping of the numbers from ``least`` to ``most`` to one text.

    None is no limit.
    """
    return {
        "type": "range",
        "options": {"from": least, "to": most, "result": {"text": text, "color": color}},
    }


def pattern(regex: str, text: str) -> list[Json]:
    """Return Grafana's mapping of texts that match ``regex`` to ``text``, which may use groups."""
    result = {"text": text, "index": 0}
    return [{"type": "regex", "options": {"pattern": regex, "result": result}}]


def by_name(name: str, **properties: object) -> Json:
    """Return the override of one field.

    Its properties are written as ``unit="s"``, and ``custom__width=80`` for ``custom.width``.
    """
    written = []
    for keyword, value in properties.items():
        written.append({"id": keyword.replace("__", "."), "value": value})
    return {"matcher": {"id": "byName", "options": name}, "properties": written}


def hidden(*names: str) -> list[Json]:
    """Return overrides that hide table columns but keep them for links.

    Grafana 12.2 and newer read the second property.
    """
    return [by_name(name, custom__hidden=True, custom__hideFrom__viz=True) for name in names]


def steps(base: str, *more: tuple[float, str]) -> Json:
    """Return thresholds: the color below all limits, and the color from each limit on."""
    rest: Iterable[Json] = ({"value": limit, "color": color} for limit, color in more)
    return {"mode": "absolute", "steps": [{"value": None, "color": base}, *rest]}
