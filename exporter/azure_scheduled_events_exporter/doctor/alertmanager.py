"""Checks whether an Alertmanager mutes the exporter's alerts: by a silence, or by an inhibition of somebody else's.

Where its routes lead is not computed here: ``drill`` sends an alert and measures when it arrives.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import yaml

from .api import Api
from .finding import Finding, Findings, ok, warning, wrong
from .rules import kept_labels
from .subject import Subject

_MATCHER: Final = re.compile(r'\s*"?([^\s=!~,{}"]+)"?\s*(=~|!~|!=|=)\s*("(?:[^"\\]|\\.)*"|[^,}]*)')
"""Name, operator and value, in quotes or not."""

_PLACEHOLDERS: Final = ("REPLACE", "example.com")
_ALERTS: Final = (
    {"alertname": "AzureScheduledEventReboot", "event_type": "Reboot", "severity": "critical"},
    {"alertname": "AzureScheduledEventPreempt", "event_type": "Preempt", "severity": "warning"},
)


def examine(subject: Subject, api: Api) -> Findings:
    """Yield the findings about the Alertmanager at ``api``."""
    status = api.data("/api/v2/status")
    config = yaml.safe_load(status["config"]["original"])
    yield ok(
        "alertmanager-reachable",
        f"Alertmanager {status['versionInfo']['version']} answers at {api.shown}.",
    )
    yield _placeholders(config.get("receivers") or ())
    yield _inhibitions(config.get("inhibit_rules") or (), kept_labels(subject.config))
    yield _silences(
        api.data("/api/v2/alerts", filter='alertname=~"AzureScheduledEvent.+"', active="false")
    )


def _placeholders(receivers: Sequence[Mapping[str, Any]]) -> Finding:
    left = [
        str(each["name"])
        for each in receivers
        if any(word in yaml.safe_dump(each) for word in _PLACEHOLDERS)
    ]
    if left:
        sentence = (
            "Receivers still have the placeholders of the shipped configuration:"
            f" {', '.join(left)}."
        )
        hint = (
            "Fill in values.yaml and export it again. Alertmanager hides secrets, so check those"
            " too."
        )
        return wrong("receivers", sentence, hint)
    return ok("receivers", "No receiver has a placeholder that Alertmanager shows.")


def _inhibitions(rules: Sequence[Mapping[str, Any]], kept: Sequence[str]) -> Finding:
    """Look for inhibitions that mute alerts about unrelated events; ``kept``: the target labels that alerts keep.

    To Alertmanager, a label that both alerts lack is equal. Alerts about events have no
    ``instance``.
    """
    events = [{**alert, "event_id": "an id", **dict.fromkeys(kept, "any")} for alert in _ALERTS]
    for rule in rules:
        equal = rule.get("equal") or ()
        if set(equal) & events[0].keys() or not any(
            _match(rule.get("target_matchers"), event) for event in events
        ):
            continue
        source = ", ".join(str(matcher) for matcher in rule.get("source_matchers") or ())
        sentence = (
            f"While an alert with {source} fires, an inhibition with equal: [{', '.join(equal)}]"
            " mutes alerts about every event, because these lack such labels."
        )
        hint = 'Add alertname!~"AzureScheduledEvent.+" to the target_matchers of that inhibition.'
        return warning("inhibitions", sentence, hint)
    if not any("event_id" in (rule.get("equal") or ()) for rule in rules):
        sentence = "Our inhibitions are missing: an event that pages makes tickets too."
        return warning(
            "inhibitions", sentence, "Copy inhibit_rules of the shipped alertmanager.yml."
        )
    return ok("inhibitions", "No inhibition mutes alerts about unrelated events.")


def _match(matchers: Sequence[str] | None, labels: Mapping[str, str]) -> bool:
    """Return whether ``labels`` meet all ``matchers``. A missing label is an empty one."""
    for name, operator, text in (
        parsed for each in matchers or () for parsed in _MATCHER.findall(str(each))
    ):
        have, value = labels.get(name, ""), text.strip().strip('"').replace("\\\\", "\\")
        try:
            found = (
                re.fullmatch(value, have, re.DOTALL) is not None
                if "~" in operator
                else have == value
            )
        except re.error:  # Go's own syntax
            return False
        if found == operator.startswith("!"):
            return False
    return True


def _silences(muted: Sequence[Mapping[str, Any]]) -> Finding:
    """Report silences of our alerts that fire. What the shipped inhibitions mute is intended."""
    silenced = [alert for alert in muted if alert["status"]["silencedBy"]]
    if not silenced:
        return ok("silences", "None of our alerts that fire now is silenced.")
    first = silenced[0]
    sentence = (
        f"Of our alerts that fire now, {len(silenced)} are silenced, such as"
        f" {first['labels']['alertname']}."
    )
    hint = (
        "Expire the silence if it is not meant for them: amtool silence expire"
        f" {first['status']['silencedBy'][0]}."
    )
    return wrong("silences", sentence, hint)
