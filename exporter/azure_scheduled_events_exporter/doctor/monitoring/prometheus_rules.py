"""Checks whether a Prometheus evaluates the rules of this version, often enough, and where its alerts go."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import yaml

from azure_scheduled_events_exporter.doctor.api import Api, WrongAnswerError
from azure_scheduled_events_exporter.doctor.finding import Finding, Findings, ok, warning, wrong
from azure_scheduled_events_exporter.doctor.subject import Subject
from azure_scheduled_events_exporter.errors import ExporterError
from azure_scheduled_events_exporter.times import format_duration, parse_duration

from .shipped import GROUPS, ShippedRules, rules, shape

SET_UP: Final = "alerts.md#set-it-up"
OFTEN, SELDOM = 5.0, 30.0  # seconds between scrapes or evaluations: as shipped, and the notice of an eviction
_LOAD: Final = "Add prometheus-rules.yml to rule_files and reload Prometheus."


def unusable_values(error: ExporterError) -> Finding:
    """Return the finding about a file of ``--alerts.values`` from which the rules cannot be rendered."""
    return wrong("alert-values", f"The alert rules cannot be rendered: {error}.", "Correct --alerts.values.", SET_UP)


def examine_rules(subject: Subject, api: Api) -> Findings:
    """Yield the findings about the rules and the alerts of the Prometheus at ``api``."""
    yield from _rules(subject, api)
    yield _alertmanagers(api)
    if subject.config.alertmanager_url:
        yield from _alert_labels(subject, api)


def _rules(subject: Subject, api: Api) -> Findings:
    try:
        shipped = rules(subject.config.alerts_values)
    except ExporterError as error:
        yield unusable_values(error)
        return
    groups = api.data("/api/v1/rules")["data"]["groups"]
    ours = [group for group in groups if group["name"].startswith(GROUPS)]
    missing = sorted(shipped.intervals.keys() - {group["name"] for group in ours})
    if missing:
        yield wrong(
            "rules-loaded",
            f"{len(missing)} of our {len(shipped.intervals)} rule groups are not loaded: {', '.join(missing)}.",
            _LOAD,
            SET_UP,
        )
    else:
        yield ok("rules-loaded", f"All {len(shipped.intervals)} rule groups are loaded.")
    if not ours:
        return
    yield _rules_version(shipped, ours, subject.config.alerts_values)
    yield _rules_interval(shipped, ours)
    yield _rules_health(ours)
    yield _history(shipped, api)


def _rules_version(shipped: ShippedRules, groups: Sequence[Mapping[str, Any]], values: str | None) -> Finding:
    """Compare the loaded rules with those of this version; how long ``for`` is may be a setting in a values file."""

    def wait(seconds: float) -> float:
        return seconds if values else bool(seconds)

    loaded = {
        (group["name"], rule["name"], shape(rule["query"]), wait(float(rule.get("duration") or 0)))
        for group in groups
        for rule in group["rules"]
    }
    expected = {(rule.group, rule.name, rule.shape, wait(rule.wait)) for rule in shipped.rules}
    present = {name for _, name, *_ in loaded}
    differing = sorted({name for group, name, *_ in expected ^ loaded if group in {each["name"] for each in groups}})
    if not differing:
        rendered = f", rendered with {values}" if values else ""
        return ok("rules-version", f"The rules are those of this version{rendered}.")
    absent = [name for name in differing if name not in present]
    what = (
        f"without {', '.join(absent[:3])}" if absent else f"another expression or 'for' of {', '.join(differing[:3])}"
    )
    export = "Export the rules of this version: azure-scheduled-events-exporter assets export DIR --values"
    hint = f"{export} {values or 'values.yaml'}."
    if values is None:
        hint = f"If you rendered them with a values file, name it with --alerts.values. {hint}"
    return warning(
        "rules-version",
        f"{len(differing)} rules are of another version, or rendered with other values: {what}.",
        hint,
        SET_UP,
    )


def _rules_interval(shipped: ShippedRules, groups: Sequence[Mapping[str, Any]]) -> Finding:
    """Check the evaluation interval of the alerts about events, and of the other groups that must have the same one."""
    of_events = shipped.intervals.get(GROUPS)
    names = {name for name, seconds in shipped.intervals.items() if seconds == of_events}
    loaded = [float(group["interval"]) for group in groups if group["name"] in names]
    if not loaded:
        return warning("rules-interval", "None of the rules about events is loaded.", _LOAD, SET_UP)
    longest = max(loaded)
    sentence = f"Rules about events are evaluated every {format_duration(longest)}."
    hint = "Set evaluation.interval to 5s and export the rules again; a Spot VM has 30 seconds of notice."
    if longest >= SELDOM:
        return wrong("rules-interval", sentence, hint, SET_UP)
    if longest > OFTEN:
        return warning("rules-interval", sentence, hint, SET_UP)
    return ok("rules-interval", sentence)


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
    waiting = sum(rule.get("health") != "ok" for rule in every)
    if waiting:
        return ok("rules-health", f"No rule fails; {waiting} of {len(every)} are still to be evaluated.")
    return ok("rules-health", f"All {len(every)} rules are evaluated without an error.")


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
    pushed, kept = dict(subject.config.alertmanager_labels), _kept(subject)
    surplus = [] if kept is None else sorted(pushed.keys() - added.keys() - set(kept))
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


def _kept(subject: Subject) -> tuple[str, ...] | None:
    """Return the labels that the rules keep from targets; None if --alerts.values does not tell."""
    if subject.config.alerts_values is None:
        return None
    try:
        return rules(subject.config.alerts_values).kept
    except ExporterError:
        return None


def _history(shipped: ShippedRules, api: Api) -> Finding:
    """Compare how long Prometheus keeps samples with the longest window of a rule."""
    needed = format_duration(shipped.window)
    try:
        kept = api.data("/api/v1/status/runtimeinfo")["data"].get("storageRetention") or ""
    except WrongAnswerError:
        return warning(
            "rules-history",
            f"This store does not say how long it keeps samples; rules look back {needed}.",
            "Make sure that it keeps them for longer.",
            SET_UP,
        )
    time_kept = kept.split(" or ")[0]
    try:
        seconds = parse_duration(time_kept)
    except ValueError:  # limited only by size, or not reported
        return ok("rules-history", f"Rules look back {needed}; Prometheus keeps samples by size ({kept or 'unknown'}).")
    if seconds < shipped.window:
        return wrong(
            "rules-history",
            f"Prometheus keeps samples for {time_kept}, but rules look back {needed}.",
            "Raise --storage.tsdb.retention.time of Prometheus.",
            SET_UP,
        )
    return ok("rules-history", f"Prometheus keeps samples for {time_kept}; rules look back {needed}.")


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
