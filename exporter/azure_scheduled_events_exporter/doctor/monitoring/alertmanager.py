"""Checks whether an Alertmanager mutes the exporter's alerts: by a silence, or by an inhibition of somebody else's.

Where its routes lead is not computed here: ``drill`` sends an alert and measures when it arrives.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import yaml

from azure_scheduled_events_exporter.doctor.api import Api
from azure_scheduled_events_exporter.doctor.finding import Finding, Findings, ok, skipped, warning, wrong
from azure_scheduled_events_exporter.doctor.subject import Subject
from azure_scheduled_events_exporter.errors import ExporterError

from .prometheus import unreachable
from .prometheus_rules import kept_labels

_SET_UP: Final = "alerts.md#set-it-up"
_MATCHER: Final = re.compile(r'\s*"?([^\s=!~,{}"]+)"?\s*(=~|!~|!=|=)\s*("(?:[^"\\]|\\.)*"|[^,}]*)')
_PLACEHOLDERS: Final = ("REPLACE", "example.com")
_Labels = Mapping[str, str]
_Matcher = tuple[str, str, str]
"""Name, operator and value."""


def examine(subject: Subject, api: Api) -> Findings:
    """Yield the findings about the Alertmanager at ``api``."""
    try:
        status = api.data("/api/v2/status")
        config = yaml.safe_load(status["config"]["original"])
        yield ok("alertmanager-reachable", f"Alertmanager {status['versionInfo']['version']} answers at {api.shown}.")
        yield _placeholders(config.get("receivers") or ())
        yield _inhibitions(config.get("inhibit_rules") or (), kept_labels(subject.config))
        yield _silences(api.data("/api/v2/alerts", filter='alertname=~"AzureScheduledEvent.+"', active="false"))
        yield skipped(
            "routes",
            "Routes, groups and time intervals are not checked.",
            f"To see whether a page arrives, run azure-scheduled-events-exporter drill --alertmanager {api.shown}.",
            "push-alerts.md",
        )
    except ExporterError as error:
        yield unreachable("alertmanager-reachable", "Alertmanager", api, error)


def _placeholders(receivers: Sequence[Mapping[str, Any]]) -> Finding:
    left = [str(each["name"]) for each in receivers if any(word in yaml.safe_dump(each) for word in _PLACEHOLDERS)]
    if left:
        return wrong(
            "receivers",
            f"Receivers still have the placeholders of the shipped configuration: {', '.join(left)}.",
            "Fill in values.yaml and export the configuration again. Alertmanager hides secrets, so check those too.",
            _SET_UP,
        )
    return ok("receivers", "No receiver has a placeholder that Alertmanager shows.")


def _inhibitions(rules: Sequence[Mapping[str, Any]], kept: Sequence[str]) -> Finding:
    """Look for inhibitions that mute alerts about unrelated events; ``kept``: the labels that alerts have of targets.

    To Alertmanager, a label that both alerts lack is equal. Alerts about events have no ``instance``.
    """
    event = {"event_id": "00000000-0000-0000-0000-000000000000", **dict.fromkeys(kept, "any")}
    page = {**event, "alertname": "AzureScheduledEventReboot", "event_type": "Reboot", "severity": "critical"}
    ticket = {**event, "alertname": "AzureScheduledEventPreempt", "event_type": "Preempt", "severity": "warning"}
    for rule in rules:
        equal = rule.get("equal") or ()
        if any(label in page for label in equal):
            continue
        muted = [name for name, labels in (("pages", page), ("tickets", ticket)) if _all(rule, "target", labels)]
        if not muted:
            continue
        source = " and ".join("".join(matcher) for matcher in _matchers(rule, "source"))
        how = f"with equal: [{', '.join(equal)}]" if equal else "without 'equal'"
        by_page = _all(rule, "source", page)
        return warning(
            "inhibitions",
            f"While {'any event pages' if by_page else f'an alert with {source} fires'}, an inhibition {how} mutes "
            f"{'the tickets of every other event' if by_page else f'our {muted[0]}'}, because alerts about events lack "
            "these labels.",
            'Add alertname!~"AzureScheduledEvent.+" to the target_matchers of that inhibition.',
            _SET_UP,
        )
    if not any("event_id" in (rule.get("equal") or ()) for rule in rules):
        return warning(
            "inhibitions",
            "Our inhibitions are missing: an event that pages makes tickets too.",
            "Copy inhibit_rules of the shipped alertmanager.yml.",
            _SET_UP,
        )
    return ok("inhibitions", "No inhibition mutes alerts about unrelated events.")


def _silences(muted: Sequence[Mapping[str, Any]]) -> Finding:
    """Judge our alerts that fire and do not notify; what the shipped inhibitions mute is meant."""
    silenced = [alert for alert in muted if alert["status"]["silencedBy"]]
    if not silenced:
        return ok("silences", "None of our alerts that fire now is silenced.")
    first = silenced[0]
    return wrong(
        "silences",
        f"Of our alerts that fire now, {len(silenced)} are silenced, such as {first['labels']['alertname']}.",
        f"Expire the silence if it is not meant for them: amtool silence expire {first['status']['silencedBy'][0]}.",
        _SET_UP,
    )


def _all(rule: Mapping[str, Any], side: str, labels: _Labels) -> bool:
    return all(_matches(matcher, labels) for matcher in _matchers(rule, side))


def _matchers(rule: Mapping[str, Any], side: str) -> list[_Matcher]:
    """Return the matchers of one side of an inhibition."""
    found = [parsed for text in rule.get(f"{side}_matchers") or () for parsed in _MATCHER.findall(str(text))]
    return [(name, operator, value.strip().strip('"').replace("\\\\", "\\")) for name, operator, value in found]


def _matches(matcher: _Matcher, labels: _Labels) -> bool:
    """Return whether ``labels`` meet the matcher. A missing label is an empty one."""
    name, operator, value = matcher
    have = labels.get(name, "")
    try:
        found = re.fullmatch(value, have, re.DOTALL) is not None if "~" in operator else have == value
    except re.error:  # Go's own syntax
        return False
    return found != operator.startswith("!")
