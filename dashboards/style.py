"""Colors with one meaning on every dashboard, and the texts and colors of the values that queries return.

The hues are far apart for every common color blindness (blue against orange, never red against green alone), and no
panel uses color without also using text. No query and no layout lives here.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from azure_scheduled_events_exporter.core.event_types import EventType

Json = dict[str, Any]

FINE = "#12A37F"  # the watcher sees; nothing to do
WAITING = "#56B4E9"  # announced, still waiting
APPROVED = "#2F78C4"  # approved, may begin at any moment
IMPACT = "#E69F00"  # happens now, or within minutes
BLIND = "#E02F44"  # cannot see, failed, unknown: do not trust
NEUTRAL = "#8E99A4"  # carries no judgment

TYPES: Mapping[str, str] = {each.value: each.facts.color for each in EventType}
# Ways to fail are shades of the one color of failure.
POLLS: Mapping[str, str] = {
    "ok": FINE,
    "timeout": "#F7A8B0",
    "connection_error": "#F0737F",
    "throttled": "#E02F44",
    "http_error": "#B01C30",
    "invalid_document": "#7D1322",
}
# Measured quantities in order: half of them, nearly all, all.
QUANTILES: Mapping[str, str] = {"median": "#C3CCD5", "99 %": "#8E99A4", "worst": "#5F6B78"}

# What queries return in place of a number that nobody can know. Far above every countdown and every count.
QUIET, UNKNOWN, MISSING = 1e10, 3e10, 4e10

STATES: Mapping[float, tuple[str, str]] = {
    1: ("waiting", WAITING),
    2: ("approved", APPROVED),
    3: ("STARTED", IMPACT),
}
REASONS: Mapping[float, tuple[str, str]] = {
    1: ("down", BLIND),
    2: ("IMDS fails", "#F0737F"),
    3: ("stopped polling", "#B01C30"),
}
OUTCOMES: Mapping[str, str] = {"completed": IMPACT, "cancelled": NEUTRAL, "lost": BLIND, "current": WAITING}
NO_RULES = ("recording rules are missing", BLIND)

FIXED: Json = {"mode": "fixed", "fixedColor": NEUTRAL}
"""For panels whose value mappings give the colors: colors by threshold would hide the texts of the values."""
SHADES: Json = {"mode": "shades", "fixedColor": NEUTRAL}
"""For lines that are VMs: a machine has no color, so that no line looks like a judgment."""


def values(table: Mapping[int, tuple[str, str]] | Mapping[float, tuple[str, str]]) -> list[Json]:
    """Return Grafana's value mapping of numbers to texts and colors."""
    options = {
        f"{number:g}" if number < QUIET else f"{number:.0f}": {"text": text, "color": color, "index": index}
        for index, (number, (text, color)) in enumerate(table.items())
    }
    return [{"type": "value", "options": options}]


def texts(table: Mapping[str, tuple[str, str]]) -> list[Json]:
    """Return Grafana's value mapping of label values to texts and colors."""
    options = {
        value: {"text": text, "color": color, "index": index}
        for index, (value, (text, color)) in enumerate(table.items())
    }
    return [{"type": "value", "options": options}]


def between(least: float, most: float | None, text: str, color: str) -> Json:
    """Return Grafana's mapping of the numbers from ``least`` to ``most``, or of all above, to one text."""
    return {"type": "range", "options": {"from": least, "to": most, "result": {"text": text, "color": color}}}


def pattern(regex: str, text: str) -> list[Json]:
    """Return Grafana's mapping of texts that match to one text."""
    return [{"type": "regex", "options": {"pattern": regex, "result": {"text": text, "index": 0}}}]


def by_name(name: str, **properties: object) -> Json:
    """Return the override of one field: ``unit="s"``, and ``custom__width=80`` for ``custom.width``."""
    return {
        "matcher": {"id": "byName", "options": name},
        "properties": [{"id": id_.replace("__", "."), "value": value} for id_, value in properties.items()],
    }


def painted(colors: Mapping[str, str]) -> list[Json]:
    """Return overrides that give each named series its color."""
    return [by_name(name, color={"mode": "fixed", "fixedColor": color}) for name, color in colors.items()]


def hidden(*names: str) -> list[Json]:
    """Return overrides that hide table columns but keep them for links; 12.2 and newer read the second property."""
    return [by_name(name, custom__hidden=True, custom__hideFrom__viz=True) for name in names]


def steps(base: str, *more: tuple[float, str]) -> Json:
    """Return thresholds: the color below all limits, and the color from each limit on."""
    rest: Iterable[Json] = ({"value": limit, "color": color} for limit, color in more)
    return {"mode": "absolute", "steps": [{"value": None, "color": base}, *rest]}


APPROVED_BY = texts(
    {
        "exporter or operator": ("an exporter or operator", APPROVED),
        "exporter": ("an exporter", APPROVED),
        "operator": ("an operator", APPROVED),
        "elsewhere": ("somebody elsewhere", APPROVED),
        "external": ("somebody elsewhere", APPROVED),
        "nobody": ("nobody", IMPACT),
        "deadline": ("nobody", IMPACT),
    }
)
REQUEST_COLORS: Mapping[str, str] = {"accepted": APPROVED, "rejected": BLIND, "error": POLLS["http_error"]}
REQUESTS = texts({answer: (answer, color) for answer, color in REQUEST_COLORS.items()})
