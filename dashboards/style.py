"""Colours with one meaning on every dashboard, and the texts and colours of the values that queries return.

The hues are far apart for every common colour blindness (blue against orange, never red against green alone), and no
panel tells by colour what it does not also say in words. No query and no layout lives here.
"""

from collections.abc import Iterable, Mapping
from typing import Any

Json = dict[str, Any]

FINE = "#12A37F"  # the watcher sees; nothing to do
WAITING = "#56B4E9"  # announced, still waiting
APPROVED = "#2F78C4"  # approved, may begin at any moment
IMPACT = "#E69F00"  # happens now, or within minutes
BLIND = "#E02F44"  # cannot see, failed, unknown: do not trust
NEUTRAL = "#8E99A4"  # carries no judgement

# By what a VM loses: seconds, its memory, its disks, its existence. A ramp of lightness, for it has an order.
TYPES: Mapping[str, str] = {
    "Freeze": "#E6D5F7",
    "Reboot": "#CBA9EE",
    "Redeploy": "#AE7EE2",
    "Preempt": "#9254D3",
    "Terminate": "#7530BF",
}
# Ways to fail are shades of the one colour of failure.
POLLS: Mapping[str, str] = {
    "ok": FINE,
    "timeout": "#F7A8B0",
    "connection_error": "#F0737F",
    "throttled": "#E02F44",
    "http_error": "#B01C30",
    "invalid_document": "#7D1322",
}
TRANSITIONS: Mapping[str, str] = {
    "detected": WAITING,
    "rescheduled": "#A5D3EE",
    "approved": APPROVED,
    "started": IMPACT,
    "completed": "#9A6A00",
    "cancelled": NEUTRAL,
    "lost": BLIND,
}
# Measured quantities in order: half, most, nearly all.
QUANTILES = ("#C3CCD5", "#8E99A4", "#5F6B78")

# What queries return in place of a number that nobody can know. Far above every countdown and every count.
QUIET, DOUBTFUL, UNKNOWN = 1e10, 2e10, 3e10

STATES: Mapping[float, tuple[str, str]] = {
    1: ("waiting", WAITING),
    2: ("approved", APPROVED),
    3: ("STARTED", IMPACT),
}
REASONS: Mapping[float, tuple[str, str]] = {
    1: ("down", BLIND),
    2: ("IMDS fails", BLIND),
    3: ("stopped polling", BLIND),
}
APPROVALS: Mapping[float, tuple[str, str]] = {
    0: ("not yet", NEUTRAL),
    1: ("yes, by an exporter", APPROVED),
    2: ("no, NotBefore came", IMPACT),
    3: ("elsewhere", APPROVED),
}
SIGHT: Mapping[float, tuple[str, str]] = {
    0: ("down", BLIND),
    1: ("IMDS fails", "#F0737F"),
    2: ("sees", FINE),
}


SHADES: Json = {"mode": "shades", "fixedColor": NEUTRAL}
"""For lines that are VMs: a machine has no colour, so that no line looks like a judgement."""


def values(table: Mapping[float, tuple[str, str]]) -> list[Json]:
    """Return Grafana's value mapping of numbers to texts and colours."""
    options = {
        f"{number:g}" if number < QUIET else f"{number:.0f}": {"text": text, "color": colour, "index": index}
        for index, (number, (text, colour)) in enumerate(table.items())
    }
    return [{"type": "value", "options": options}]


def texts(table: Mapping[str, tuple[str, str]]) -> list[Json]:
    """Return Grafana's value mapping of label values to texts and colours."""
    options = {
        value: {"text": text, "color": colour, "index": index}
        for index, (value, (text, colour)) in enumerate(table.items())
    }
    return [{"type": "value", "options": options}]


def above(limit: float, text: str, colour: str) -> Json:
    """Return Grafana's mapping of all numbers from ``limit`` to one text."""
    return {"type": "range", "options": {"from": limit, "to": None, "result": {"text": text, "color": colour}}}


def pattern(regex: str, text: str) -> list[Json]:
    """Return Grafana's mapping of texts that match to one text."""
    return [{"type": "regex", "options": {"pattern": regex, "result": {"text": text, "index": 0}}}]


def by_name(name: str, **properties: object) -> Json:
    """Return the override of one field: ``unit="s"``, and ``custom__width=80`` for ``custom.width``."""
    return {
        "matcher": {"id": "byName", "options": name},
        "properties": [{"id": id_.replace("__", "."), "value": value} for id_, value in properties.items()],
    }


def painted(colours: Mapping[str, str]) -> list[Json]:
    """Return overrides that give each named series its colour."""
    return [by_name(name, color={"mode": "fixed", "fixedColor": colour}) for name, colour in colours.items()]


def hidden(*names: str) -> list[Json]:
    """Return overrides that hide table columns but keep them for links; 12.2 and newer read the second property."""
    return [by_name(name, custom__hidden=True, custom__hideFrom__viz=True) for name in names]


def steps(base: str, *more: tuple[float, str]) -> Json:
    """Return thresholds: the colour below all limits, and the colour from each limit on."""
    rest: Iterable[Json] = ({"value": limit, "color": colour} for limit, colour in more)
    return {"mode": "absolute", "steps": [{"value": None, "color": base}, *rest]}
