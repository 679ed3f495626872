"""Checks whether a Prometheus evaluates the rules of this version, and where its alerts go."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import yaml

from azure_scheduled_events_exporter import assets
from azure_scheduled_events_exporter.alerts.settings import load
from azure_scheduled_events_exporter.config.settings import Config
from azure_scheduled_events_exporter.errors import ExporterError

from .api import Api, WrongAnswerError
from .finding import Finding, Findings, ok, warning, wrong
from .subject import Subject

_EVENTS: Final = "azure-scheduled-events"
"""The group of the alerts about events; the names of the other shipped groups begin with it."""

_VERSION: Final = "rules_version"
"""The annotation of NoExporters with the version of the rules."""


def examine(subject: Subject, api: Api) -> Findings:
    """Yield the findings about the rules and the alerts of the Prometheus at ``api``."""
    yield from _rules(api)
    yield _alertmanagers(api)
    if subject.config.alertmanager_url:
        yield from _alert_labels(subject.config, api)


def _rules(api: Api) -> Findings:
    shipped = yaml.safe_load(
        (assets.folder("alerts") / "prometheus" / "prometheus-rules.yml").read_text("utf-8")
    )
    groups = api.data("/api/v1/rules")["data"]["groups"]
    ours = [group for group in groups if group["name"].startswith(_EVENTS)]
    missing = sorted(
        {group["name"] for group in shipped["groups"]} - {group["name"] for group in ours}
    )
    if missing:
        what = (
            f"Rule groups are missing: {', '.join(missing)}."
            if ours
            else "No alert rules are loaded: no event pages."
        )
        yield wrong(
            "rules-loaded", what, "Add prometheus-rules.yml to rule_files and reload Prometheus."
        )
    if not ours:
        return
    if not missing:
        yield ok("rules-loaded", f"All {len(ours)} rule groups are loaded.")
    loaded, current = _version(ours), _version(shipped["groups"])
    if loaded == current:
        yield ok("rules-version", f"The rules are those of this version ({current}).")
    else:
        hint = (
            "Export them again: azure-scheduled-events-exporter assets export DIR --values"
            " values.yaml."
        )
        yield warning(
            "rules-version",
            f"The loaded rules have version {loaded}, installed is {current}.",
            hint,
        )
    failing = [rule for group in ours for rule in group["rules"] if rule.get("health") == "err"]
    if failing:
        sentence = (
            f"{len(failing)} rules fail, such as {failing[0]['name']}:"
            f" {failing[0].get('lastError', '')}."
        )
        hint = (
            "Correct the cause in the error; duplicate series come from a target that is scraped"
            " twice."
        )
        yield wrong("rules-health", sentence, hint)
    else:
        yield ok("rules-health", "No rule fails.")


def _version(groups: Sequence[Mapping[str, Any]]) -> str:
    """Return the version that the rules name."""
    annotations = (rule.get("annotations") or {} for group in groups for rule in group["rules"])
    return next((str(each[_VERSION]) for each in annotations if _VERSION in each), "unknown")


def _alertmanagers(api: Api) -> Finding:
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
        names = ", ".join(urlsplit(each["url"]).netloc.rpartition("@")[2] for each in active)
        return ok("alerting", f"Prometheus is configured to send alerts to {names}.")
    hint = (
        "Add it to alerting.alertmanagers in prometheus.yml. If Grafana evaluates the alerts"
        " instead, look at its contact points: doctor does not."
    )
    return wrong("alerting", "Prometheus knows no Alertmanager, so nobody is paged.", hint)


def _alert_labels(config: Config, api: Api) -> Findings:
    """Check that pushed alerts have the labels that Prometheus adds to its alerts: otherwise one event becomes two."""
    try:
        running = yaml.safe_load(api.data("/api/v1/status/config")["data"]["yaml"]) or {}
    except WrongAnswerError:  # a store without alerts of its own
        return
    relabeled = (running.get("alerting") or {}).get("alert_relabel_configs") or ()
    if "alerting" not in running or any(rule.get("action") != "labeldrop" for rule in relabeled):
        # VictoriaMetrics answers with what it scrapes; and what other relabel actions do depends on
        # the alert
        return
    every = (running.get("global") or {}).get("external_labels") or {}
    added = {
        n: v
        for n, v in every.items()
        if not any(re.fullmatch(rule["regex"], n) for rule in relabeled)
    }
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


def kept_labels(config: Config) -> tuple[str, ...]:
    """Return the labels that alerts about events keep from targets: those of the file of ``--alerts.values``."""
    if config.alerts_values is None:
        return ()
    try:
        kept: tuple[str, ...] = load(Path(config.alerts_values)).items("labels.keep")
    except ExporterError:  # reported with the settings
        return ()
    return kept
