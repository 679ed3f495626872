"""Checks whether an Alertmanager mutes the exporter's alerts, and whether its routes know them.

Where its routes lead is not computed here: ``drill`` sends an alert and measures when it arrives.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from azure_scheduled_events_exporter.alerts.groups import alerts
from azure_scheduled_events_exporter.alerts.rule import PREFIX
from azure_scheduled_events_exporter.alerts.settings import PLACEHOLDERS, Settings
from azure_scheduled_events_exporter.alerts.severities import INFO, WARNING

from .api import Api
from .finding import Finding, Findings, ok, warning, wrong
from .matchers import Matcher, all_accept, matchers_of_inhibition, matchers_of_route
from .subject import Subject

_OURS = f'alertname=~"{PREFIX}.+"'


def examine(subject: Subject, api: Api) -> Findings:
    """Yield the findings about the Alertmanager at ``api``."""
    status = api.data("/api/v2/status")
    config = yaml.safe_load(status["config"]["original"])
    version = status["versionInfo"]["version"]
    settings = subject.alert_settings
    yield ok("alertmanager-reachable", f"Alertmanager {version} answers at {api.shown}.")
    yield _placeholders(config.get("receivers") or ())
    yield _severities(config["route"], subject.loaded_severities or _severities_of(settings))
    yield _inhibitions(config.get("inhibit_rules") or (), settings)
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


def _severities_of(settings: Settings) -> Mapping[str, str]:
    """Return the severities of the alerts, each with an alert that has it."""
    return {alert.severity: alert.name for alert in reversed(alerts(settings))}


def _severities(route: Mapping[str, Any], used: Mapping[str, str]) -> Finding:
    """Look for severities of our alerts that no route names, where routes ask for a severity.

    What a route has to name is what pages, and words of a company: a warning makes a ticket and an
    info only shows wherever they go.
    """
    asked = [each for each in _route_matchers(route) if each.name == "severity"]
    missing = []
    for word, name in used.items():
        named = any(each.accepts({"severity": word}) for each in asked)
        if not named and word not in {WARNING, INFO}:
            missing.append(f"{word} ({name})")
    if not asked or not missing:
        return ok("severities", "The routes know the severities of the alerts.")
    shown = ", ".join(missing)
    return warning(
        "severities",
        f"No route names these severities of the alerts: {shown}.",
        "Add a route, or put those that page into severities.paging and load the rendered routes.",
    )


def _route_matchers(route: Mapping[str, Any]) -> Iterator[Matcher]:
    yield from matchers_of_route(route)
    for each in route.get("routes") or ():
        yield from _route_matchers(each)


def _inhibitions(rules: Sequence[Mapping[str, Any]], settings: Settings) -> Finding:
    """Look for inhibitions that mute alerts about unrelated events.

    To Alertmanager, a label that both alerts lack is equal. Alerts about events have no
    ``instance``.
    """
    events = _labels_of_events(settings)
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
    return ok("inhibitions", "No inhibition mutes alerts about unrelated events.")


def _labels_of_events(settings: Settings) -> list[dict[str, str]]:
    """Return the labels of each alert about events."""
    found = []
    for alert in alerts(settings):
        if alert.events is None:
            continue
        event_type = alert.events.types[0] if alert.events.types else "Reboot"
        event = {"event_id": "an id", "event_type": event_type}
        kept = dict.fromkeys(settings.items("labels.keep"), "any")
        own = {"alertname": alert.name, "severity": alert.severity}
        found.append({**kept, **alert.labels, **own, **event})
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
