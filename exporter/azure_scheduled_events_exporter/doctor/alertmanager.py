"""Checks whether an Alertmanager mutes the exporter's alerts, and whether its routes know them.

Where its routes lead is not computed here: ``drill`` sends an alert and measures when it arrives.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from azure_scheduled_events_exporter.alerts.groups import alerts
from azure_scheduled_events_exporter.alerts.rule import PREFIX
from azure_scheduled_events_exporter.alerts.settings import Settings
from azure_scheduled_events_exporter.alerts.settings_table import PLACEHOLDERS
from azure_scheduled_events_exporter.alerts.severities import CRITICAL, INFO, WARNING, pages

from .api import Api
from .finding import Finding, Findings, ok, skipped, warning, wrong
from .matchers import all_accept, matchers_of_inhibition, severity_matchers
from .subject import Subject

_OURS = f'alertname=~"{PREFIX}.+"'


def examine(subject: Subject, api: Api) -> Findings:
    """Yield the findings about the Alertmanager at ``api``."""
    status = api.data("/api/v2/status")
    config = yaml.safe_load(status["config"]["original"])
    version = status["versionInfo"]["version"]
    yield ok("alertmanager-reachable", f"Alertmanager {version} answers at {api.shown}.")
    yield _placeholders(config.get("receivers") or ())
    yield _severities(config["route"], subject)
    yield _inhibitions(config.get("inhibit_rules") or (), subject)
    yield _silences(api.data("/api/v2/alerts", filter=_OURS, active="false"))


def _placeholders(receivers: Sequence[Mapping[str, Any]]) -> Finding:
    left = []
    for receiver in receivers:
        text = yaml.safe_dump(receiver)
        if any(word in text for word in PLACEHOLDERS):
            left.append(str(receiver["name"]))
    if not left:
        return ok("receivers", "No receiver has a placeholder that Alertmanager shows.")
    sentence = (
        f"Receivers still have the placeholders of the shipped configuration: {', '.join(left)}."
    )
    hint = (
        "Fill in values.yaml and export it again. Alertmanager hides secrets, so check those too."
    )
    return wrong("receivers", sentence, hint)


def _severities(route: Mapping[str, Any], subject: Subject) -> Finding:
    """Look for severities of our pages that no route names, where routes ask for a severity.

    A ticket, and an alert that only shows, may go wherever all others go.
    """
    asked = [*severity_matchers(route)]
    if asked and not subject.knows_severities:
        return _unknown_severities("severities", "whether routes name the severities of pages")
    missing = []
    for word, name in _severities_of_pages(subject).items():
        if not any(each.accepts({"severity": word}) for each in asked):
            missing.append(f"{word} ({name})")
    if not asked or not missing:
        return ok("severities", "The routes know the severities of the alerts.")
    shown = ", ".join(missing)
    return warning(
        "severities",
        f"No route names these severities of the alerts: {shown}.",
        "Add a route, or put those that page into severities.paging and load the rendered routes.",
    )


def _unknown_severities(check: str, what: str) -> Finding:
    return skipped(
        check,
        f"Not checked {what}: the severities of your rules are unknown.",
        "Run doctor with --prometheus URL, if that has loaded them, or --alerts.values FILE.",
    )


def _severities_of_pages(subject: Subject) -> Mapping[str, str]:
    """Return the severities that page, each with an alert that has it.

    They are those of the setting, if the rules have been rendered with it, and those of the alerts
    that page as shipped. What an alert of tickets has too, or a team has lowered, is a ticket's.
    """
    settings = subject.alert_settings
    shipped = {each.name: each.severity for each in alerts(Settings())}
    found: dict[str, str] = {}
    tickets = {WARNING, INFO}
    for name, labels in subject.alert_labels.items():
        word = labels.get("severity", "")
        if pages(word, settings) or shipped.get(name) == CRITICAL:
            found.setdefault(word, name)
        elif shipped.get(name) == WARNING:
            tickets.add(word)
    return {
        word: name
        for word, name in found.items()
        if word and (pages(word, settings) or word not in tickets)
    }


def _inhibitions(rules: Sequence[Mapping[str, Any]], subject: Subject) -> Finding:
    """Look for inhibitions that mute alerts about unrelated events.

    To Alertmanager, a label that both alerts lack is equal. Alerts about events have no
    ``instance``.
    """
    events = _labels_of_events(subject)
    for rule in rules:
        equal = rule.get("equal") or ()
        if equal and not _is_shared_by_events(rule, equal, events):
            continue
        target = matchers_of_inhibition(rule, "target")
        if any(all_accept(target, labels) for labels in events):
            return _broad_inhibition(rule, equal)
    if not any("event_id" in (rule.get("equal") or ()) for rule in rules):
        sentence = "Our inhibitions are missing: an event that pages makes tickets too."
        hint = "Copy inhibit_rules of the shipped alertmanager.yml."
        return warning("inhibitions", sentence, hint)
    if not subject.knows_severities:
        return _unknown_severities("inhibitions", "whether one mutes alerts about other events")
    return ok("inhibitions", "No inhibition mutes alerts about unrelated events.")


def _labels_of_events(subject: Subject) -> list[dict[str, str]]:
    """Return the labels of each alert about events."""
    kept = dict.fromkeys(subject.alert_settings.items("labels.keep"), "any")
    labels = subject.alert_labels
    found = []
    for alert in alerts(Settings()):
        if alert.events is None or alert.name not in labels:
            continue
        # An alert for all types has one of each; Reboot stands for them.
        event_type = alert.events.types[0] if alert.events.types else "Reboot"
        event = {"event_id": "an id", "event_type": event_type}
        found.append({**kept, **labels[alert.name], "alertname": alert.name, **event})
    return found


def _is_shared_by_events(
    rule: Mapping[str, Any], equal: Sequence[str], events: Sequence[Mapping[str, str]]
) -> bool:
    """Return whether two alerts about events count as equal to a rule because they lack its labels.

    Of an alert that is not ours, it is not known which labels it lacks.
    """
    source = matchers_of_inhibition(rule, "source")
    return any(all_accept(source, labels) for labels in events if not labels.keys() & set(equal))


def _broad_inhibition(rule: Mapping[str, Any], equal: Sequence[str]) -> Finding:
    source = ", ".join(map(str, matchers_of_inhibition(rule, "source"))) or "any labels"
    sentence = (
        f"While an alert with {source} fires, an inhibition with equal: [{', '.join(equal)}]"
        " mutes alerts about every event, because these lack such labels."
    )
    hint = f'Add alertname!~"{PREFIX}.+" to the target_matchers of that inhibition.'
    return warning("inhibitions", sentence, hint)


def _silences(muted: Sequence[Mapping[str, Any]]) -> Finding:
    """Report silences of our alerts that fire. What the shipped inhibitions mute is intended."""
    silenced = [alert for alert in muted if alert["status"]["silencedBy"]]
    if not silenced:
        return ok("silences", "None of our alerts that fire now is silenced.")
    first = silenced[0]
    name = first["labels"]["alertname"]
    silence = first["status"]["silencedBy"][0]
    sentence = f"Of our alerts that fire now, {len(silenced)} are silenced, such as {name}."
    hint = f"Expire the silence if it is not meant for them: amtool silence expire {silence}."
    return wrong("silences", sentence, hint)
