"""Checks whether a Prometheus answers and scrapes this exporter; ``prometheus_rules`` looks at what it evaluates.

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

from azure_scheduled_events_exporter.doctor.api import Api, WrongAnswerError
from azure_scheduled_events_exporter.doctor.finding import Finding, Findings, ok, warning, wrong
from azure_scheduled_events_exporter.doctor.subject import Subject
from azure_scheduled_events_exporter.errors import ExporterError
from azure_scheduled_events_exporter.http_client.failures import WEB_PAGE
from azure_scheduled_events_exporter.metrics.collector import SPECS
from azure_scheduled_events_exporter.times import format_duration, parse_duration

from .prometheus_rules import OFTEN, SELDOM, SET_UP, examine_rules

_DOWN: Final = "runbooks/AzureScheduledEventExporterDown.md"
_SCRAPE_OFTEN: Final = "Set scrape_interval: 5s; a Spot VM has 30 seconds of notice or less."
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
        yield from examine_rules(subject, api)
    except ExporterError as error:
        yield unreachable("prometheus-reachable", "Prometheus", api, error)


def unreachable(check: str, what: str, api: Api, error: ExporterError) -> Finding:
    """Return the finding about a server that gives no usable answer."""
    hint = f"Start it, or correct the address: --{what.lower()} URL."
    if WEB_PAGE in str(error):
        hint = f"Correct --{what.lower()}, or let this machine pass the proxy or sign-in page that answers there."
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
    yield from _scraped(found[0])


def _scraped(target: Mapping[str, Any]) -> Findings:
    """Check how Prometheus scrapes this exporter as ``target``."""
    name = f"{target['labels'].get('job')}/{target['labels'].get('instance')}"
    why = target.get("lastError")
    if target.get("health") == "unknown" and not why:
        sentence = f"Prometheus has not scraped {name} yet."
        yield warning("target", sentence, "Run doctor again after one scrape interval.", SET_UP)
        return
    if target.get("health") != "up":
        yield wrong("target", f"Prometheus cannot scrape {name}: {why}.", _scrape_hint(str(why)), _DOWN)
        return
    yield ok("target", f"Prometheus scrapes this exporter as {name}.")
    yield _target_labels(target["labels"])
    interval = parse_duration(target.get("scrapeInterval") or "0")
    yield _interval(interval)
    # Go's RFC 3339, with nanoseconds
    yield _recent(time.time() - datetime.fromisoformat(target["lastScrape"]).timestamp(), interval)


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
    if len(samples) == 1:
        sentence = "The store has one sample of the last 15 minutes, so the scrape interval is not known."
        yield warning("scrape-interval", sentence, f"Run doctor again in a minute. {_SCRAPE_OFTEN}", SET_UP)
        return
    interval = median(later - earlier for (earlier, _), (later, _) in pairwise(samples[-_SCRAPES:]))
    yield _interval(interval)
    yield _recent(time.time() - samples[-1][0], interval)


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


def _interval(interval: float) -> Finding:
    sentence = f"It is scraped every {format_duration(round(interval, 1))}."
    if interval <= OFTEN:
        return ok("scrape-interval", sentence)
    return (wrong if interval >= SELDOM else warning)("scrape-interval", sentence, _SCRAPE_OFTEN, SET_UP)


def _recent(age: float, interval: float) -> Finding:
    last = f"The last scrape was {format_duration(max(0, round(age)))} ago."
    if interval and age > _LATE * interval + 5:
        return wrong("scrape-recent", last, "See Prometheus' log: it may be overloaded, or its clock is wrong.", _DOWN)
    return ok("scrape-recent", last)
