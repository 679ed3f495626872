"""Checks whether an Alertmanager mutes this project's alerts, and whether its routes know them.

Whom its routes notify is not computed here: ``drill`` sends an alert and measures when it arrives.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from azure_scheduled_events_exporter.alerts.groups import alerts
from azure_scheduled_events_exporter.alerts.rule import PREFIX
from azure_scheduled_events_exporter.alerts.settings import Settings
from azure_scheduled_events_exporter.alerts.settings_table import PLACEHOLDERS
from azure_scheduled_events_exporter.alerts.severities import CRITICAL, INFO, WARNING, pages
from azure_scheduled_events_exporter.core.event_types import EventType

from .api import Api
from .finding import Finding, Findings, ok, skipped, warning, wrong
from .matchers import all_accept, matchers_of_inhibition, severity_matchers
from .subject import Subject

_OURS = f'alertname=~"{PREFIX}.+"'


def examine(subject: Subject, api: Api) -> Findings:
    """Yield the findings about the Alertmanager at ``api``."""
    status = api.data("/api/v2/status")
    config = yaml.safe_load(status["config"]["original"])  # the text of its configuration file
    version = status["versionInfo"]["version"]
    yield ok("alertmanager-reachable", f"Alertmanager {version} answers at {api.shown}.")
    yield _placeholders(config.get("receivers") or ())
    yield _severities(config["route"], subject)
    yield _inhibitions(config.get("inhibit_rules") or (), subject)
    yield _silences(api.data("/api/v2/alerts", filter=_OURS, active="false"))


def _placeholders(receivers: Sequence[Mapping[str, Any]]) -> Finding:
    """Look for receivers in which an address of the shipped configuration was not filled in."""
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
    """Look for severities that page and that no route names.

    This matters only if some route asks for a severity. Alerts that do not page may take the same
    route as all others.
    """
    asked_for = list(severity_matchers(route))
    if asked_for and not subject.knows_severities:
        return _unknown_severities("severities", "whether routes name the severities of pages")
    missing = []
    if asked_for:
        for word, alert in _severities_of_pages(subject).items():
            if not any(matcher.accepts({"severity": word}) for matcher in asked_for):
                missing.append(f"{word} ({alert})")
    if not missing:
        return ok("severities", "The routes know the severities of the alerts.")
    shown = ", ".join(missing)
    return warning(
        "severities",
        f"No route names these severities of the alerts: {shown}.",
        "Add a route, or put those that page into severities.paging and load the rendered routes.",
    )


def _unknown_severities(check: str, what: str) -> Finding:
    """Return that ``check`` was skipped; ``what`` completes "Not checked …"."""
    return skipped(
        check,
        f"Not checked {what}: the severities of your rules are unknown.",
        "Run doctor with --prometheus URL, if that has loaded them, or --alerts.values FILE.",
    )


def _severities_of_pages(subject: Subject) -> Mapping[str, str]:
    """Return the severities that page, each with an alert that has it.

    They are those in the setting ``severities.paging``. The rules that Prometheus has loaded may
    have been made with other settings. So the severity of an alert that pages as shipped counts
    too, unless alerts that make tickets have the same: then the team has lowered that alert.
    """
    shipped_levels = {alert.name: alert.severity for alert in alerts(Settings())}
    # The words for what does not page: the shipped ones, and the team's own words for tickets,
    # which its rules give to the alerts that make tickets as shipped.
    of_tickets = {WARNING, INFO}
    for alert_name, labels in subject.alert_labels.items():
        if shipped_levels.get(alert_name) == WARNING:
            of_tickets.add(labels.get("severity", ""))
    found: dict[str, str] = {}
    for alert_name, labels in subject.alert_labels.items():
        word = labels.get("severity", "")
        if not word:
            continue
        pages_as_shipped = shipped_levels.get(alert_name) == CRITICAL
        may_page = pages_as_shipped and word not in of_tickets
        if may_page or pages(word, subject.alert_settings):
            found.setdefault(word, alert_name)
    return found


def _inhibitions(rules: Sequence[Mapping[str, Any]], subject: Subject) -> Finding:
    """Look for inhibitions that mute alerts about unrelated events, and for the shipped ones."""
    one = _alerts_about_event(subject, "an id")
    another = _alerts_about_event(subject, "another id")
    for rule in rules:
        if _mutes_unrelated_events(rule, one, another):
            return _broad_inhibition(rule)
    if not any("event_id" in (rule.get("equal") or ()) for rule in rules):
        sentence = "Our inhibitions are missing: an event that pages makes tickets too."
        hint = "Copy inhibit_rules of the shipped alertmanager.yml."
        return warning("inhibitions", sentence, hint)
    if not subject.knows_severities:
        return _unknown_severities("inhibitions", "whether one mutes alerts about other events")
    return ok("inhibitions", "No inhibition mutes alerts about unrelated events.")


def _alerts_about_event(subject: Subject, event_id: str) -> list[dict[str, str]]:
    """Return the labels of each alert that an event may raise, as Alertmanager gets it.

    An alert about events of several types has one example for each type. The labels that are kept
    from targets, such as the team, are those of any other event.
    """
    kept_from_targets = dict.fromkeys(subject.alert_settings.items("labels.keep"), "any")
    labels = subject.alert_labels
    found = []
    for alert in alerts(Settings()):
        if alert.events is None or alert.name not in labels:
            continue
        for event_type in alert.events.types or tuple(EventType):
            example = {
                **kept_from_targets,
                **labels[alert.name],
                "alertname": alert.name,
                "event_id": event_id,
                "event_type": str(event_type),
            }
            found.append(example)
    return found


def _mutes_unrelated_events(
    rule: Mapping[str, Any], one: Sequence[Mapping[str, str]], another: Sequence[Mapping[str, str]]
) -> bool:
    """Return whether an inhibition mutes an alert about an event because of something else.

    While an alert fires that the inhibition's source accepts, Alertmanager mutes the alerts that
    its target accepts and that have the same values of the labels in ``equal``. A label that both
    alerts lack counts as the same value, and alerts about events have no ``instance``, for example.
    Two alerts that both sides accept do not mute each other.

    Args:
        rule: the inhibition.
        one: the labels of each alert about an event.
        another: those about an event that has nothing to do with it.

    Source: https://prometheus.io/docs/alerting/latest/configuration/#inhibit_rule
    """
    source = matchers_of_inhibition(rule, "source")
    target = matchers_of_inhibition(rule, "target")
    muted = [labels for labels in another if all_accept(target, labels)]
    equal = rule.get("equal") or ()
    if not equal:  # every alert that the source accepts mutes all that the target accepts
        return bool(muted)
    # Alerts about something else are not looked at: which labels they have is not known.
    for firing in (labels for labels in one if all_accept(source, labels)):
        is_target = all_accept(target, firing)
        for labels in muted:
            is_two_sided = is_target and all_accept(source, labels)
            is_equal = all(firing.get(name, "") == labels.get(name, "") for name in equal)
            if is_equal and not is_two_sided:
                return True
    return False


def _broad_inhibition(rule: Mapping[str, Any]) -> Finding:
    source = _labels_of_side(rule, "source")
    target = _labels_of_side(rule, "target")
    equal = ", ".join(rule.get("equal") or ())
    sentence = (
        f"While an alert with {source} fires, an inhibition with equal: [{equal}]"
        f" mutes the alerts with {target} about all events that have the same values of these"
        " labels, or lack them."
    )
    hint = f'Add alertname!~"{PREFIX}.+" to the target_matchers of that inhibition.'
    return warning("inhibitions", sentence, hint)


def _labels_of_side(rule: Mapping[str, Any], side: str) -> str:
    """Return which alerts an inhibition's ``source`` or ``target`` accepts, for people."""
    return ", ".join(map(str, matchers_of_inhibition(rule, side))) or "any labels"


def _silences(muted: Sequence[Mapping[str, Any]]) -> Finding:
    """Report silences of our alerts that fire.

    ``muted`` also has the alerts that an inhibition mutes, which the shipped ones do on purpose.
    """
    silenced = [alert for alert in muted if alert["status"]["silencedBy"]]
    if not silenced:
        return ok("silences", "None of our alerts that fire now is silenced.")
    first = silenced[0]
    name = first["labels"]["alertname"]
    silence = first["status"]["silencedBy"][0]
    sentence = f"Of our alerts that fire now, {len(silenced)} are silenced, such as {name}."
    hint = f"Expire the silence if it is not meant for them: amtool silence expire {silence}."
    return wrong("silences", sentence, hint)
