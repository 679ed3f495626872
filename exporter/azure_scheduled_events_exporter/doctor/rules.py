"""Checks whether a Prometheus evaluates the rules of this version, and where its alerts go."""

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import yaml

from azure_scheduled_events_exporter.alerts.formats.prometheus import (
    VERSION_ANNOTATION,
    rules_version,
)
from azure_scheduled_events_exporter.alerts.groups import EVENTS_GROUP, groups
from azure_scheduled_events_exporter.alerts.settings import Settings
from azure_scheduled_events_exporter.config.settings import Config

from .api import Api, WrongAnswerError
from .finding import Finding, Findings, counted, ok, warning, wrong
from .subject import Subject

_GROUPS = tuple(group.name for group in groups(Settings()))
"""The names of the rule groups that this version ships. They all begin with EVENTS_GROUP."""
_HOW_TO_LOAD = "Add prometheus-rules.yml to rule_files and reload Prometheus."


def examine(subject: Subject, api: Api) -> Findings:
    """Yield the findings about the rules and the alerts of the Prometheus at ``api``."""
    yield from _rules(subject, api)
    yield _alertmanagers(api)
    if subject.config.alertmanager_url:
        yield from _alert_labels(subject.config, api)


def _rules(subject: Subject, api: Api) -> Findings:
    """Yield the findings about the rules; set the labels of their alerts in ``subject``."""
    loaded = api.data("/api/v1/rules")["data"]["groups"]
    ours = [group for group in loaded if group["name"].startswith(EVENTS_GROUP)]
    if not ours:
        sentence = "No alert rules are loaded: no event pages."
        yield wrong("rules-loaded", sentence, _HOW_TO_LOAD)
        return
    yield _completeness(ours)
    rules = [rule for group in ours for rule in group["rules"]]
    # Another Prometheus that was examined before may evaluate other rules.
    subject.loaded_labels = {**subject.loaded_labels, **_labels_of_alerts(rules)}
    yield _version(rules)
    yield _health(rules)


def _completeness(ours: Sequence[Mapping[str, Any]]) -> Finding:
    """Report whether each group is loaded, and from one file; ``ours`` are those loaded."""
    names = [group["name"] for group in ours]
    missing = sorted(set(_GROUPS) - set(names))
    if missing:
        sentence = f"Rule groups are missing: {', '.join(missing)}."
        return wrong("rules-loaded", sentence, _HOW_TO_LOAD)
    repeated = [group for group in ours if names.count(group["name"]) > 1]
    if not repeated:
        return ok("rules-loaded", f"All {len(names)} rule groups are loaded.")
    files = sorted({group.get("file", "") for group in repeated})
    return warning(
        "rules-loaded",
        f"Rule groups are loaded more than once, from {' and '.join(files)}.",
        "Keep one of these files, and reload Prometheus: an event may notify once for each.",
    )


def _version(rules: Sequence[Mapping[str, Any]]) -> Finding:
    """Compare the version of the loaded rules with that of the rules that this program ships."""
    installed = rules_version()
    loaded = _loaded_versions(rules)
    if loaded == {installed}:
        return ok("rules-version", f"The rules are those of this version ({installed}).")
    shown = " and ".join(sorted(loaded)) or "unknown"
    sentence = f"The loaded rules have version {shown}, installed is {installed}."
    command = "azure-scheduled-events-exporter assets export DIR --values values.yaml"
    return warning("rules-version", sentence, f"Export them again: {command}.")


def _loaded_versions(rules: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the versions in the annotation that one rule of each export has."""
    annotations = [rule.get("annotations") or {} for rule in rules]
    return {str(each[VERSION_ANNOTATION]) for each in annotations if VERSION_ANNOTATION in each}


def _labels_of_alerts(rules: Sequence[Mapping[str, Any]]) -> Mapping[str, Mapping[str, str]]:
    """Return the labels that rules give to their alerts, by the name of the alert."""
    alerting = [rule for rule in rules if rule.get("type") == "alerting"]
    return {rule["name"]: rule.get("labels") or {} for rule in alerting}


def _health(rules: Sequence[Mapping[str, Any]]) -> Finding:
    """Report the rules whose evaluation fails."""
    failing = [rule for rule in rules if rule.get("health") == "err"]
    if not failing:
        return ok("rules-health", "No rule fails.")
    first = failing[0]
    verb = "fails" if len(failing) == 1 else "fail"
    return wrong(
        "rules-health",
        f"{counted(len(failing), 'rule')} {verb}, such as {first['name']}:"
        f" {first.get('lastError', '')}.",
        "Correct the cause in the error; duplicate series come from a target that is scraped"
        " twice.",
    )


def _alertmanagers(api: Api) -> Finding:
    """Report to which Alertmanagers the Prometheus sends its alerts."""
    try:
        active = api.data("/api/v1/alertmanagers")["data"]["activeAlertmanagers"]
    except WrongAnswerError:
        sentence = "This store does not say to which Alertmanager alerts are sent."
        hint = (
            "Make sure that vmalert's -notifier.url names your Alertmanager; 'drill' shows whether"
            " a page arrives."
        )
        return warning("alerting", sentence, hint)
    if active:
        # Without user and password, which stand before an @.
        names = ", ".join(urlsplit(each["url"]).netloc.rpartition("@")[2] for each in active)
        return ok("alerting", f"Prometheus is configured to send alerts to {names}.")
    hint = (
        "Add it to alerting.alertmanagers in prometheus.yml. If Grafana evaluates the alerts"
        " instead, look at its contact points: doctor does not."
    )
    return wrong("alerting", "Prometheus knows no Alertmanager, so nobody is paged.", hint)


def _alert_labels(config: Config, api: Api) -> Findings:
    """Check that pushed alerts have the labels that Prometheus adds to its own.

    Otherwise one event becomes two alerts.
    """
    try:
        running = yaml.safe_load(api.data("/api/v1/status/config")["data"]["yaml"]) or {}
    except WrongAnswerError:  # a store without alerts of its own
        return
    if "alerting" not in running:  # VictoriaMetrics answers with what it scrapes
        return
    relabeling = (running["alerting"] or {}).get("alert_relabel_configs") or ()
    if any(rule.get("action") != "labeldrop" for rule in relabeling):
        return  # what other actions do depends on the alert
    dropped = "|".join(rule["regex"] for rule in relabeling)  # "" without rules: fits no name
    external = (running.get("global") or {}).get("external_labels") or {}
    added = {name: value for name, value in external.items() if not re.fullmatch(dropped, name)}
    if added.items() <= config.alertmanager_labels.items():
        yield ok(
            "alert-labels",
            "Alerts that this exporter pushes have the labels that Prometheus adds to its own.",
        )
        return
    labels = ",".join(f"{name}={value}" for name, value in added.items())
    sentence = (
        f"Prometheus adds {labels} to its alerts, but this exporter does not: an event notifies"
        " twice."
    )
    yield warning("alert-labels", sentence, f"Set --alertmanager.labels={labels}.")
