"""Checks whether a Prometheus scrapes this exporter, and whether it evaluates the rules.

A store that only implements Prometheus' API, such as VictoriaMetrics, Mimir or Thanos, has no targets of its own. Then
the newest samples of this exporter are checked instead.
"""

import json
import re
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from http import HTTPStatus
from ipaddress import ip_address
from itertools import pairwise
from statistics import median
from typing import Any, Final
from urllib.parse import urlsplit

import yaml

from azure_scheduled_events_exporter.doctor.api import Api, WrongAnswerError
from azure_scheduled_events_exporter.doctor.finding import Finding, Findings, ok, warning, wrong
from azure_scheduled_events_exporter.doctor.subject import Subject
from azure_scheduled_events_exporter.errors import ExporterError
from azure_scheduled_events_exporter.metrics.collector import SPECS
from azure_scheduled_events_exporter.times import format_duration, parse_duration

from .shipped import GROUPS, ShippedRules, rules, shape

_DOWN: Final = "runbooks/AzureScheduledEventExporterDown.md"
_SET_UP: Final = "alerts.md#set-it-up"
_SCRAPE_OFTEN: Final = "Set scrape_interval: 5s; a Spot VM has 30 seconds of notice."
_LOAD: Final = "Add prometheus-rules.yml to rule_files and reload Prometheus."
_OFTEN, _SELDOM = 5.0, 30.0  # seconds between scrapes or evaluations: as shipped, and the notice of an eviction
_LATE: Final = 3.0  # scrapes that may be missing
_SCRAPES: Final = 10  # the newest ones: older ones may be from before the interval was changed
_STATUS: Final = re.compile(r'(?:HTTP status|":) (\d{3})\b')  # as Prometheus and vmagent write it after an address


def examine(subject: Subject, api: Api) -> Findings:
    """Yield the findings about the Prometheus at ``api``."""
    try:
        version = api.data("/api/v1/status/buildinfo")["data"].get("version")
        what = f"Prometheus {version}" if version else "A store with Prometheus' API"
        yield ok("prometheus-reachable", f"{what} answers at {api.shown}.")
        yield from _target(subject, api)
        yield from _rules(subject, api)
        yield _alertmanagers(api)
        if subject.config.alertmanager_url:
            yield from _alert_labels(subject, api)
    except ExporterError as error:
        yield unreachable("prometheus-reachable", "Prometheus", api, error)


def unreachable(check: str, what: str, api: Api, error: ExporterError) -> Finding:
    """Return the finding about a server that gives no usable answer."""
    hint = f"Start it, or correct the address: --{what.lower()} URL."
    if isinstance(error, WrongAnswerError) and error.status in {401, 403}:
        hint = f"Name a user in the address, or credentials in --{what.lower()}.http-config.file."
    return wrong(check, f"{what} at {api.shown} cannot be asked: {error}.", hint, "doctor.md#credentials")


def _target(subject: Subject, api: Api) -> Findings:
    """Find this exporter among the targets, by the VM's name in its metrics, else by its port and host name."""
    active: Sequence[Mapping[str, Any]] = ()
    try:
        active = api.data("/api/v1/targets", state="active")["data"]["activeTargets"]
    except WrongAnswerError as error:
        if error.status != HTTPStatus.NOT_FOUND:  # a store that does not scrape itself may lack it
            raise
    series = _series(subject, api)
    if not active and series:
        subject.target = dict(zip(("job", "instance"), min(series), strict=True))
        yield from _stored(api, *min(series))
        return
    found = _targets(subject, api, active, series)
    if not found:
        yield wrong(
            "target",
            f"Prometheus does not scrape this exporter ({subject.vm_name or 'unknown VM'}).",
            "Add it to scrape_configs, or correct the discovery's filters; if it is there and down, open port "
            f"{_port(subject)} to Prometheus.",
            "fleet.md",
        )
        return
    if len(found) > 1:
        names = ", ".join(f"{each['labels'].get('job')}/{each['labels'].get('instance')}" for each in found)
        yield warning(
            "target",
            f"Prometheus scrapes this exporter {len(found)} times: {names}.",
            "Keep one scrape configuration: sums over events count it more than once.",
            "fleet.md",
        )
    target = found[0]
    subject.target = target["labels"]
    name = f"{target['labels'].get('job')}/{target['labels'].get('instance')}"
    if target.get("health") == "unknown" and not target.get("lastError"):
        yield warning(
            "target", f"Prometheus has not scraped {name} yet.", "Run doctor again after one scrape interval.", _SET_UP
        )
        return
    if target.get("health") != "up":
        why = target.get("lastError") or target.get("health")
        yield wrong("target", f"Prometheus cannot scrape {name}: {why}.", _scrape_hint(str(why)), _DOWN)
        return
    if len(found) == 1:
        yield ok("target", f"Prometheus scrapes this exporter as {name}.")
    yield _target_labels(target["labels"])
    yield from _scrapes(target)


def _target_labels(labels: Mapping[str, str]) -> Finding:
    """Check for conflicting labels: without honor_labels, Prometheus renames that of the metric to exported_NAME."""
    own = {name for spec in SPECS.values() for name in spec.labels}
    clashing = sorted(own & labels.keys())
    if not clashing:
        return ok("target-labels", "No label of the target has the name of a label of the exporter.")
    return warning(
        "target-labels",
        f"Labels of the target have names of the exporter's labels: {', '.join(clashing)}.",
        "Rename them in relabel_configs: Prometheus renames the exporter's labels to "
        f"{', '.join(f'exported_{name}' for name in clashing)}, so places of VMs are unknown to alerts and dashboards.",
        "how-the-rules-work.md",
    )


def _port(subject: Subject) -> int:
    return urlsplit(subject.exporter_url).port or subject.config.web_listen_address.port


def _series(subject: Subject, api: Api) -> set[tuple[str, str]]:
    """Return job and instance of every series with this VM's name."""
    if not subject.vm_name:
        return set()
    selector = f'azure_scheduled_events_instance_info{{vm_name=~"(?i:{_quoted(subject.vm_name)})"}}'
    series = api.data("/api/v1/query", query=f"group by (job, instance) ({selector})")["data"]["result"]
    return {(each["metric"].get("job", ""), each["metric"].get("instance", "")) for each in series}


def _targets(
    subject: Subject, api: Api, active: Sequence[Mapping[str, Any]], series: set[tuple[str, str]]
) -> Sequence[Mapping[str, Any]]:
    named = [each for each in active if (each["labels"].get("job", ""), each["labels"].get("instance", "")) in series]
    if named:
        return named
    # A target that was never scraped has no metrics, only an address.
    hosts = {subject.vm_name.lower()}
    if subject.instance:
        hosts.add(subject.instance.host_name.lower())
    here = urlsplit(subject.exporter_url).hostname or ""
    if not _is_loopback(here) or _is_loopback(urlsplit(api.shown).hostname or ""):
        hosts.add(here)  # to a Prometheus elsewhere, a loopback address is its own machine
    return [each for each in active if _address(each) in {(host, _port(subject)) for host in hosts if host}]


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:  # a name
        return False


def _stored(api: Api, job: str, instance: str) -> Findings:
    """Check the samples of this exporter that another program has scraped and stored."""
    selector = f"up{{job={json.dumps(job)},instance={json.dumps(instance)}}}[15m]"
    found = api.data("/api/v1/query", query=selector)["data"]["result"]
    samples = [(float(at), float(value)) for series in found for at, value in series["values"]]
    if not samples or samples[-1][1] != 1:
        sentence = f"What scrapes for this store cannot scrape {job}/{instance}."
        yield wrong("target", sentence, "Look at the target's error there, such as vmagent's page /targets.", _DOWN)
        return
    yield ok("target", f"The store has samples of this exporter as {job}/{instance}.")
    age = time.time() - samples[-1][0]
    if samples[1:]:
        recent = samples[-_SCRAPES:]
        interval = median(later - earlier for (earlier, _), (later, _) in pairwise(recent))
        yield from _interval(interval)
        yield from _recent(age, interval)
    elif age >= _SELDOM:
        yield wrong("scrape-interval", "The store has one sample of the last 15 minutes.", _SCRAPE_OFTEN, _SET_UP)
    else:
        sentence = "The store has only one sample of this exporter, so its scrape interval is not known."
        yield warning("scrape-interval", sentence, "Run doctor again in a minute.", _SET_UP)


def _quoted(name: str) -> str:
    return "".join(character if character.isalnum() or character in "-_" else f"[{character}]" for character in name)


def _address(target: Mapping[str, Any]) -> tuple[str | None, int | None]:
    parts = urlsplit(target["scrapeUrl"])
    return parts.hostname, parts.port


def _scrape_hint(why: str) -> str:
    status = _STATUS.search(why)
    if status and status[1] in {"401", "403"}:
        return "Give the scrape configuration a user: basic_auth."
    if status and status[1] == "404":
        return "Make metrics_path agree with --web.telemetry-path."
    reason = re.sub(r'"[^"]*"', "", why)  # without the address
    if any(word in reason for word in ("x509: ", "tls: ", "HTTP response to HTTPS", "HTTP request to an HTTPS")):
        return "Make scheme and tls_config of the scrape configuration agree with --web.config.file."
    return "Open the port in the VM's firewall and the network security group."


def _scrapes(target: Mapping[str, Any]) -> Findings:
    interval = parse_duration(target.get("scrapeInterval") or "0")
    yield from _interval(interval)
    yield from _recent(time.time() - _moment(target["lastScrape"]), interval)


def _interval(interval: float) -> Findings:
    hint = _SCRAPE_OFTEN
    sentence = f"It is scraped every {format_duration(round(interval, 1))}."
    if interval >= _SELDOM:
        yield wrong("scrape-interval", sentence, hint, _SET_UP)
    elif interval > _OFTEN:
        yield warning("scrape-interval", sentence, hint, _SET_UP)
    else:
        yield ok("scrape-interval", sentence)


def _recent(age: float, interval: float) -> Findings:
    last = f"The last scrape was {format_duration(max(0, round(age)))} ago."
    if interval and age > _LATE * interval + 5:
        yield wrong("scrape-recent", last, "See Prometheus' log: it may be overloaded, or its clock is wrong.", _DOWN)
    else:
        yield ok("scrape-recent", last)


def _moment(text: str) -> float:
    """Return the seconds since the epoch of a time in Go's RFC 3339 with nanoseconds."""
    return datetime.fromisoformat(text).timestamp()


def unusable_values(error: ExporterError) -> Finding:
    """Return the finding about a file of ``--alerts.values`` from which the rules cannot be rendered."""
    return wrong("alert-values", f"The alert rules cannot be rendered: {error}.", "Correct --alerts.values.", _SET_UP)


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
            _SET_UP,
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
        _SET_UP,
    )


def _rules_interval(shipped: ShippedRules, groups: Sequence[Mapping[str, Any]]) -> Finding:
    """Look at the groups with the interval of events' own alerts: no event's first page waits for another one."""
    of_events = shipped.intervals.get(f"{GROUPS}-blind")
    names = {name for name, seconds in shipped.intervals.items() if seconds == of_events}
    loaded = [float(group["interval"]) for group in groups if group["name"] in names]
    if not loaded:
        return warning("rules-interval", "None of the rules about events is loaded.", _LOAD, _SET_UP)
    longest = max(loaded)
    sentence = f"Rules about events are evaluated every {format_duration(longest)}."
    hint = "Set evaluation.interval to 5s and export the rules again; a Spot VM has 30 seconds of notice."
    if longest >= _SELDOM:
        return wrong("rules-interval", sentence, hint, _SET_UP)
    if longest > _OFTEN:
        return warning("rules-interval", sentence, hint, _SET_UP)
    return ok("rules-interval", sentence)


def _rules_health(groups: Sequence[Mapping[str, Any]]) -> Finding:
    every = [rule for group in groups for rule in group["rules"]]
    failing = [rule for rule in every if rule.get("health") == "err"]
    if failing:
        return wrong(
            "rules-health",
            f"{len(failing)} rules fail, such as {failing[0]['name']}: {failing[0].get('lastError', '')}.",
            "Correct the cause in the error; duplicate series come from a target that is scraped twice.",
            _SET_UP,
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
    dropped = [re.compile(rule["regex"]) for rule in relabeled if rule["action"] == "labeldrop"]
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
            _SET_UP,
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
            _SET_UP,
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
            _SET_UP,
        )
    if active:
        names = ", ".join(urlsplit(each["url"]).netloc.rpartition("@")[2] for each in active)
        return ok("alerting", f"Prometheus is configured to send alerts to {names}.")
    return wrong(
        "alerting",
        "Prometheus knows no Alertmanager, so nobody is paged.",
        "Add it to alerting.alertmanagers in prometheus.yml. If Grafana evaluates the alerts instead, look at its "
        "contact points: doctor does not.",
        _SET_UP,
    )
