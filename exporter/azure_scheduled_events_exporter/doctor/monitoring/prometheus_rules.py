"""Checks whether a Prometheus evaluates the rules of this version, often enough, and where its alerts go."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import yaml

from azure_scheduled_events_exporter import assets
from azure_scheduled_events_exporter.config import Config
from azure_scheduled_events_exporter.doctor.api import Api, WrongAnswerError
from azure_scheduled_events_exporter.doctor.finding import Finding, Findings, ok, warning, wrong
from azure_scheduled_events_exporter.doctor.subject import Subject
from azure_scheduled_events_exporter.errors import ExporterError
from azure_scheduled_events_exporter.times import format_duration

SET_UP: Final = "alerts.md#set-it-up"
OFTEN, SELDOM = 5.0, 30.0  # seconds between scrapes or evaluations: as shipped, and the notice of an eviction
_LOAD: Final = "Add prometheus-rules.yml to rule_files and reload Prometheus."
_EVENTS: Final = "azure-scheduled-events"
"""The group of the alerts about events; the names of the other shipped groups begin with it."""

_VERSION: Final = "rules_version"
"""The annotation of NoExporters with the version of the rules."""


def examine_rules(subject: Subject, api: Api) -> Findings:
    """Yield the findings about the rules and the alerts of the Prometheus at ``api``."""
    yield from _rules(api)
    yield _alertmanagers(api)
    if subject.config.alertmanager_url:
        yield from _alert_labels(subject, api)


def _rules(api: Api) -> Findings:
    shipped = yaml.safe_load((assets.folder("alerts") / "prometheus" / "prometheus-rules.yml").read_text("utf-8"))
    groups = api.data("/api/v1/rules")["data"]["groups"]
    ours = [group for group in groups if group["name"].startswith(_EVENTS)]
    if not ours:
        yield wrong("rules-loaded", "Prometheus has none of our alert rules, so no event pages.", _LOAD, SET_UP)
        return
    missing = sorted({group["name"] for group in shipped["groups"]} - {group["name"] for group in ours})
    if missing:
        yield wrong("rules-loaded", f"Some of our rule groups are not loaded: {', '.join(missing)}.", _LOAD, SET_UP)
    else:
        yield ok("rules-loaded", f"All {len(shipped['groups'])} rule groups are loaded.")
    yield _rules_version(_version(ours), _version(shipped["groups"]))
    yield _rules_interval(ours)
    yield _rules_health(ours)


def _version(groups: Sequence[Mapping[str, Any]]) -> str:
    """Return the version that the rules name; ``""`` if they name none."""
    annotations = (rule.get("annotations") or {} for group in groups for rule in group["rules"])
    return next((str(each[_VERSION]) for each in annotations if _VERSION in each), "")


def _rules_version(loaded: str, shipped: str) -> Finding:
    if loaded == shipped:
        return ok("rules-version", f"The rules are those of this version ({shipped}).")
    return warning(
        "rules-version",
        f"The loaded rules have {f'the version {loaded}' if loaded else 'no version'}, this version ships {shipped}.",
        "Export them again: azure-scheduled-events-exporter assets export DIR --values values.yaml.",
        SET_UP,
    )


def _rules_interval(groups: Sequence[Mapping[str, Any]]) -> Finding:
    loaded = [float(group["interval"]) for group in groups if group["name"] == _EVENTS]
    if not loaded:
        return warning("rules-interval", "None of the rules about events is loaded.", _LOAD, SET_UP)
    longest = max(loaded)
    sentence = f"Rules about events are evaluated every {format_duration(longest)}."
    hint = "Set evaluation.interval to 5s and export the rules again; a Spot VM has 30 seconds of notice or less."
    if longest <= OFTEN:
        return ok("rules-interval", sentence)
    return (wrong if longest >= SELDOM else warning)("rules-interval", sentence, hint, SET_UP)


def _rules_health(groups: Sequence[Mapping[str, Any]]) -> Finding:
    every = [rule for group in groups for rule in group["rules"]]
    failing = [rule for rule in every if rule.get("health") == "err"]
    if failing:
        return wrong(
            "rules-health",
            f"{len(failing)} rules fail, such as {failing[0]['name']}: {failing[0].get('lastError', '')}.",
            "Correct the cause in the error; duplicate series come from a target that is scraped twice.",
            SET_UP,
        )
    return ok("rules-health", f"None of {len(every)} rules fails.")


def _alert_labels(subject: Subject, api: Api) -> Findings:
    """Compare the labels that Prometheus adds to all its alerts with those of alerts that this exporter pushes.

    Labels that only the exporter adds are right if the rules keep them from targets.
    """
    try:
        config = yaml.safe_load(api.data("/api/v1/status/config")["data"]["yaml"]) or {}
    except WrongAnswerError:  # a store without alerts of its own
        return
    if not config.get("alerting"):  # VictoriaMetrics answers with what it scrapes
        return
    relabeled = config["alerting"].get("alert_relabel_configs") or ()
    if any(rule.get("action") not in {"labeldrop", "drop", "keep"} for rule in relabeled):
        return  # what comes out of other rules depends on the alert
    dropped = [re.compile(rule.get("regex", ".*")) for rule in relabeled if rule["action"] == "labeldrop"]
    every = ((config.get("global") or {}).get("external_labels") or {}).items()
    added = {name: value for name, value in every if not any(each.fullmatch(name) for each in dropped)}
    pushed, kept = dict(subject.config.alertmanager_labels), kept_labels(subject.config)
    surplus = [] if subject.config.alerts_values is None else sorted(pushed.keys() - added.keys() - set(kept))
    if added.items() <= pushed.items() and not surplus:
        yield ok("alert-labels", "Alerts that this exporter pushes have the labels that Prometheus adds to its own.")
        return
    labels, own = (",".join(f"{name}={value}" for name, value in each.items()) for each in (added, pushed))
    hint = f"Set --alertmanager.labels={labels}." if labels else ""
    hint += f" Leave out {', '.join(surplus)}." if surplus else ""
    yield warning(
        "alert-labels",
        f"Prometheus adds {labels or 'no labels'} to its alerts, and this exporter adds {own or 'none'}: an event is "
        "two alerts, and notifies twice.",
        hint.strip(),
        "push-alerts.md#settings",
    )


def kept_labels(config: Config) -> tuple[str, ...]:
    """Return the labels that alerts about events keep from targets: those of the file of ``--alerts.values``."""
    if config.alerts_values is None:
        return ()
    try:
        kept: tuple[str, ...] = assets.generator("settings").load(Path(config.alerts_values)).items("labels.keep")
    except ExporterError:  # reported with the pushed alerts
        return ()
    return kept


def _alertmanagers(api: Api) -> Finding:
    try:
        active = api.data("/api/v1/alertmanagers")["data"]["activeAlertmanagers"]
    except WrongAnswerError:
        return warning(
            "alerting",
            "This store does not say to which Alertmanager alerts are sent.",
            "Make sure that -notifier.url of vmalert, or its like, names it; 'drill' shows whether a page arrives.",
            SET_UP,
        )
    if active:
        names = ", ".join(urlsplit(each["url"]).netloc.rpartition("@")[2] for each in active)
        return ok("alerting", f"Prometheus is configured to send alerts to {names}.")
    return wrong(
        "alerting",
        "Prometheus knows no Alertmanager, so nobody is paged.",
        "Add it to alerting.alertmanagers in prometheus.yml. If Grafana evaluates the alerts instead, look at its "
        "contact points: doctor does not.",
        SET_UP,
    )
