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
        page, ticket, exporter_down = _alerts(subject)
        yield _placeholders(config.get("receivers") or ())
        yield _inhibitions(config.get("inhibit_rules") or (), page, ticket)
        yield _silences(api.data("/api/v2/silences"), (page, ticket, exporter_down))
        yield skipped(
            "routes",
            "Routes, groups and time intervals are not checked.",
            f"To see whether a page arrives, run azure-scheduled-events-exporter drill --alertmanager {api.shown}.",
            "push-alerts.md",
        )
    except ExporterError as error:
        yield unreachable("alertmanager-reachable", "Alertmanager", api, error)


def _alerts(subject: Subject) -> tuple[_Labels, _Labels, _Labels]:
    """Return the labels of a page and of a ticket about events, and of an alert about this exporter."""
    event = {"event_id": "00000000-0000-0000-0000-000000000000", **dict.fromkeys(kept_labels(subject.config), "any")}
    page = {"alertname": "AzureScheduledEventReboot", "event_type": "Reboot", "severity": "critical"}
    ticket = {"alertname": "AzureScheduledEventPreempt", "event_type": "Preempt", "severity": "warning"}
    target = subject.target or {"job": "azure-scheduled-events-exporter", "instance": f"{subject.vm_name}:10169"}
    down = {"alertname": "AzureScheduledEventExporterDown", "severity": "warning", "component": "exporter"}
    return {**event, **page}, {**event, **ticket}, {**target, **down}


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


def _inhibitions(rules: Sequence[Mapping[str, Any]], page: _Labels, ticket: _Labels) -> Finding:
    """Look for inhibitions that mute alerts about unrelated events.

    To Alertmanager, a label that both alerts lack is equal. Alerts about events have no ``instance``.
    """
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


def _silences(silences: Sequence[Mapping[str, Any]], alerts: Sequence[_Labels]) -> Finding:
    for silence in silences:
        if silence["status"]["state"] != "active":
            continue
        matchers = [
            (
                each["name"],
                ("" if each.get("isEqual", True) else "!") + ("~" if each["isRegex"] else "="),
                each["value"],
            )
            for each in silence["matchers"]
        ]
        covered = [labels["alertname"] for labels in alerts if all(_matches(each, labels) for each in matchers)]
        if covered:
            return wrong(
                "silences",
                f"A silence of {silence.get('createdBy') or 'nobody'} covers our alerts, such as {covered[0]}, until "
                f"{silence['endsAt']}: {silence.get('comment') or 'no comment'}.",
                f"Expire it if it is not meant for them: amtool silence expire {silence['id']}.",
                _SET_UP,
            )
    return ok("silences", "No active silence covers our alerts.")


def _all(rule: Mapping[str, Any], side: str, labels: _Labels) -> bool:
    return all(_matches(matcher, labels) for matcher in _matchers(rule, side))


def _matchers(rule: Mapping[str, Any], side: str) -> list[_Matcher]:
    """Return the matchers of one side of an inhibition, in the present form and in the two older ones."""
    found = [parsed for text in rule.get(f"{side}_matchers") or () for parsed in _MATCHER.findall(str(text))]
    return [
        *((name, operator, value.strip().strip('"').replace("\\\\", "\\")) for name, operator, value in found),
        *((name, "=", str(value)) for name, value in (rule.get(f"{side}_match") or {}).items()),
        *((name, "=~", str(value)) for name, value in (rule.get(f"{side}_match_re") or {}).items()),
    ]


def _matches(matcher: _Matcher, labels: _Labels) -> bool:
    """Return whether ``labels`` meet the matcher. A missing label is an empty one."""
    name, operator, value = matcher
    have = labels.get(name, "")
    try:
        found = re.fullmatch(value, have, re.DOTALL) is not None if "~" in operator else have == value
    except re.error:  # Go's own syntax
        return False
    return found != operator.startswith("!")
