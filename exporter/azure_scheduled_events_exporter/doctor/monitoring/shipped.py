"""The shipped rules and dashboards, reduced to the parts that can be compared with a running system.

Thresholds, severities, addresses and kept labels are settings, so numbers, quoted text and lists of labels are left out
of a comparison.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from azure_scheduled_events_exporter import assets
from azure_scheduled_events_exporter.times import parse_duration

GROUPS: Final = "azure-scheduled-events"
"""The common prefix of the names of the shipped rule groups."""

_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"' + r"|'(?:[^'\\]|\\.)*'")
_NUMBER = re.compile(r"(?<!\w)[\d.]+(?:e[+-]?\d+|ms|[smhdwy]|\d)*")
_LABELS = re.compile(r"\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)")
_MATCHERS = re.compile(r"\{([^}]*)\}")
_WINDOW = re.compile(r"\[((?:\d+(?:ms|[smhdwy]))+)")


@dataclass(frozen=True, slots=True)
class ShippedRule:
    """A rule: its group, its name, the shape of its expression, an alert's own labels, and its ``for`` in seconds."""

    group: str
    name: str
    shape: str
    labels: Mapping[str, str]
    wait: float
    is_alert: bool
    of_event: bool


@dataclass(frozen=True, slots=True)
class ShippedRules:
    """All rules, the interval of each group and the longest window of an expression, both in seconds.

    ``kept`` are the labels that alerts about events and VMs take over from targets.
    """

    rules: tuple[ShippedRule, ...]
    intervals: Mapping[str, float]
    window: float
    kept: tuple[str, ...] = ()

    @property
    def alerts(self) -> tuple[ShippedRule, ...]:
        """The alerting rules."""
        return tuple(rule for rule in self.rules if rule.is_alert)


def rules(values: str | None = None) -> ShippedRules:
    """Return the shipped Prometheus rules, or those that an export with the file ``values`` writes.

    Raises:
        ExporterError: this installation has none, or ``values`` cannot be read or used.
    """
    text, kept = _text(values)
    groups = yaml.safe_load(text)["groups"]
    windows = [parse_duration(found) for found in _WINDOW.findall(text)]
    return ShippedRules(
        tuple(_rule(group["name"], rule) for group in groups for rule in group["rules"]),
        {group["name"]: parse_duration(str(group.get("interval", "1m"))) for group in groups},
        max(windows, default=0.0),
        kept,
    )


def _text(values: str | None) -> tuple[str, tuple[str, ...]]:
    """Return the rules, and the labels that alerts take over from targets: none unless ``values`` names some."""
    if values is None:
        return (assets.folder("alerts") / "prometheus" / "prometheus-rules.yml").read_text("utf-8"), ()
    settings = assets.generator("settings").load(Path(values))
    return assets.generator("prometheus").prometheus_rules(settings), settings.items("labels.keep")


def _rule(group: str, rule: Mapping[str, Any]) -> ShippedRule:
    is_alert = "alert" in rule
    of_event = "event_id" in json.dumps(rule.get("annotations", {}))
    name = rule["alert"] if is_alert else rule["record"]
    wait = parse_duration(rule["for"]) if "for" in rule else 0.0
    return ShippedRule(group, name, shape(rule["expr"]), rule.get("labels", {}), wait, is_alert, of_event)


def shape(expression: str) -> str:
    """Return a PromQL expression without the parts that users change or that Prometheus formats differently."""
    text = _LABELS.sub(r"\1", _NUMBER.sub("N", _TEXT.sub("T", expression)))
    text = _MATCHERS.sub(lambda found: "{" + ",".join(sorted(re.split(r"\s*,\s*", found[1].strip()))) + "}", text)
    return re.sub(r"[\s()]", "", text)


def dashboards() -> Mapping[str, Mapping[str, Any]]:
    """Return the shipped dashboards by uid. Raises as :func:`rules` does."""
    files = sorted(assets.folder("dashboards").glob("*.json"))
    return {board["uid"]: board for board in (json.loads(path.read_text("utf-8")) for path in files)}


def queries(board: Mapping[str, Any]) -> frozenset[str]:
    """Return title and expression of every query of a dashboard."""
    return frozenset(
        f"{panel.get('title', '')}: {target['expr']}"
        for panel in _panels(board.get("panels", ()))
        for target in panel.get("targets", ())
        if "expr" in target
    )


def _panels(panels: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for panel in panels:
        yield panel
        yield from _panels(panel.get("panels", ()))
