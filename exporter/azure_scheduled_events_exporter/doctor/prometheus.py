"""Checks whether a Prometheus answers and scrapes this exporter.

The module ``rules`` checks whether it evaluates the rules. A store that only implements Prometheus'
API, such as VictoriaMetrics, Mimir or Thanos, is checked by the same queries. Only a Prometheus
lists its targets, and so says why a scrape fails.
"""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from itertools import pairwise
from statistics import median
from typing import Any, Final, Self
from urllib.parse import urlsplit

from azure_scheduled_events_exporter.alerts.settings_table import ALERT_SETTINGS
from azure_scheduled_events_exporter.core.instance import Instance
from azure_scheduled_events_exporter.metrics.spec import LABEL_BYTES
from azure_scheduled_events_exporter.times import format_duration

from . import rules
from .api import Api, WrongAnswerError
from .finding import Finding, Findings, note, ok, skipped, warning, wrong
from .subject import Subject

_SHIPPED_INTERVAL: Final = 5.0
"""Seconds between scrapes in the shipped scrape configuration."""
_NOTICE_OF_EVICTION: Final = 30.0
"""Seconds: if scrapes are so far apart or further, an eviction is over before its page."""
_, _LONGEST_INTERVAL = ALERT_SETTINGS["scrape.interval"].limits
"""Seconds: if scrapes are further apart, the rules do not work."""
_JUDGED_SCRAPES: Final = 10
"""The interval is judged by so many of the newest scrapes: earlier, it may have been another."""
_GUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""The form of an id of Azure, in lower case."""
_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")

_HINTS: Final[Mapping[str, str]] = {
    r'(?:HTTP status|":) 401\b': "Give the scrape configuration a user: basic_auth.",
    r'(?:HTTP status|":) 403\b': (
        "Give the scrape configuration a client certificate with a name that client_allowed_sans of"
        " --web.config.file has, or let Prometheus pass the proxy that answers instead."
    ),
    r'(?:HTTP status|":) 404\b': "Make metrics_path agree with --web.telemetry-path.",
    r"x509: |tls: |HTTP response to HTTPS|HTTP request to an HTTPS": (
        "Make scheme and tls_config of the scrape configuration agree with --web.config.file."
    ),
    r"label_value_length_limit|label_name_length_limit|label_limit": (
        f"Raise {{found}} of the scrape configuration: labels have up to {LABEL_BYTES} bytes."
    ),
    r"sample.limit|body.size.limit": (
        "Raise it in the scrape configuration: docs/fleet.md has the number of series."
    ),
    r"no such host|server misbehaving": (
        "Prometheus cannot resolve the name: correct the target, or scrape the address."
    ),
    r"connection refused": (
        "Nothing listens there: start the exporter, or correct the target's address."
    ),
    r"dial tcp|no route to host|network is unreachable": (
        "Open the port in the VM's firewall and the network security group."
    ),
    r"i/o timeout|deadline exceeded": (
        "No answer came within scrape_timeout: the port may be closed in the VM's firewall or the"
        " network security group, or the exporter is slow. Ask from the machine of Prometheus:"
        " curl {url}."
    ),
}
"""What to do, by a regular expression for the error of Prometheus or vmagent.

The first expression that is found counts. vmagent writes the address in quotation marks before the
status, and :func:`_hint` leaves a single quotation mark of that: hence ``":`` before a status.

In the texts, ``{found}`` is what was found, and ``{url}`` the address that was scraped.
"""


def examine(subject: Subject, api: Api) -> Findings:
    """Yield the findings about the Prometheus at ``api``."""
    version = api.data("/api/v1/status/buildinfo")["data"].get("version")
    what = f"Prometheus {version}" if version else "A store with Prometheus' API"
    yield ok("prometheus-reachable", f"{what} answers at {api.shown}.")
    yield from _target(subject, api)
    yield from rules.examine(subject, api)


def _target(subject: Subject, api: Api) -> Findings:
    """Yield the findings about the scrapes of this exporter.

    The exporter is found by its VM in its series. Without such series, it was never scraped, or
    does not know the VM's name. Then it is looked for among the targets, by its address.
    """
    named = _series(subject, api)
    series = [labels for labels in named if _is_of(labels, subject.instance)]
    found = {_Target.of(labels) for labels in series}
    if not found:
        others = {_Target.of(labels) for labels in named}
        target = _target_at_address(subject, api)
        if target is None or _Target.of(target["labels"]) in others:
            yield _missing(subject, others)
            return
        if target.get("health") != "up":
            yield _failing(target)
            return
        found = {_Target.of(target["labels"])}
    if series and subject.instance is None:
        yield _of_this_name(found)
    else:
        yield _scraped(found)
    renamed = {name for labels in series for name in labels if name.startswith("exported_")}
    if renamed:
        yield warning(
            "target-labels",
            f"Prometheus renames labels of the exporter: {', '.join(sorted(renamed))}.",
            "Rename the target's labels of these names in relabel_configs, so that alerts and"
            " dashboards know the VM.",
        )
    first_target = min(found, key=str)  # if there are several, they are wrong anyway
    yield _interval(api, first_target)


@dataclass(frozen=True, slots=True)
class _Target:
    """The labels by which Prometheus knows a target."""

    job: str
    instance: str

    @classmethod
    def of(cls, labels: Mapping[str, str]) -> Self:
        """Return the target with ``labels``, which are those of a series or of a target."""
        return cls(labels.get("job", ""), labels.get("instance", ""))

    def __str__(self) -> str:
        return f"{self.job}/{self.instance}"


def _names(targets: Collection[_Target]) -> str:
    """Return ``targets`` for people."""
    return ", ".join(sorted(map(str, targets)))


def _scraped(found: Collection[_Target]) -> Finding:
    """Return the finding about the targets of this exporter."""
    if len(found) == 1:
        return ok("target", f"This exporter is scraped as {_names(found)}.")
    hint = "Keep one scrape configuration: sums over events count it more than once."
    return warning("target", f"This exporter is scraped {len(found)} times: {_names(found)}.", hint)


def _of_this_name(found: Collection[_Target]) -> Finding:
    """Return the finding about targets with this VM's name, while no more is known of this VM."""
    sentence = (
        f"A VM with this name is scraped as {_names(found)}. Whether it is this one, only the"
        " metadata service tells."
    )
    return note("target", sentence)


def _series(subject: Subject, api: Api) -> Sequence[Mapping[str, str]]:
    """Return the labels of the series with this VM's name; none if the name is unknown."""
    if not subject.vm_name:
        return []
    # In brackets, a character that means something in a regular expression stands for itself.
    name = "".join(
        each if each.isalnum() or each in "-_" else f"[{each}]" for each in subject.vm_name
    )
    metric = "azure_scheduled_events_instance_info"
    # If the target has a label vm_name too, Prometheus renames that of the exporter.
    query = f'{metric}{{vm_name=~"(?i:{name})"}} or {metric}{{exported_vm_name=~"(?i:{name})"}}'
    result = api.data("/api/v1/query", query=query)["data"]["result"]
    return [each["metric"] for each in result]


def _is_of(labels: Mapping[str, str], instance: Instance | None) -> bool:
    """Return whether a series with ``labels`` is of the VM ``instance``, whose name it has.

    VMs of two resource groups may have one name. The id decides; if it is unknown on one side, so
    does what else Azure names a VM by. True if nothing is known of the VM.

    A ``vm_id`` that is no GUID is not of the exporter. It is a label of the target, and is visible
    because the exporter does not know its own id yet.
    """
    for name in ("vm_id", "subscription_id", "resource_group", "scale_set"):
        here = getattr(instance, name, "").lower()
        there = labels.get(f"exported_{name}", labels.get(name, "")).lower()
        if not here or not there:
            continue
        if name == "vm_id" and not _GUID.fullmatch(there):
            continue
        if here != there:
            return False
        if name == "vm_id":
            return True
    return True


def _target_at_address(subject: Subject, api: Api) -> Mapping[str, Any] | None:
    """Return the target with an address of this exporter, as Prometheus' API describes it.

    None if there is none, or if the store lists no targets.
    """
    try:
        answer = api.data("/api/v1/targets", state="active")
    except WrongAnswerError as error:
        if error.status != HTTPStatus.NOT_FOUND:  # a store that does not scrape itself may lack it
            raise
        return None
    hosts = {subject.vm_name.lower()}
    if subject.instance:
        hosts.add(subject.instance.host_name.lower())
    here = urlsplit(subject.exporter.shown).hostname or ""
    # For a Prometheus on another machine, a loopback address is that machine, not this one.
    if here not in _LOOPBACK or urlsplit(api.shown).hostname in _LOOPBACK:
        hosts.add(here)
    hosts.discard("")  # a name that is unknown
    active: Sequence[Mapping[str, Any]] = answer["data"]["activeTargets"]
    for target in active:
        scraped = urlsplit(target["scrapeUrl"])
        if scraped.hostname in hosts and scraped.port == _port(subject):
            return target
    return None


def _port(subject: Subject) -> int:
    """Return the port of this exporter."""
    return urlsplit(subject.exporter.shown).port or subject.config.web_listen_address.port


def _failing(target: Mapping[str, Any]) -> Finding:
    """Return the finding about a target whose last scrape failed, or that has had none."""
    why = target.get("lastError", "")
    if not why:
        sentence = "Prometheus has not scraped this exporter yet."
        return warning("target", sentence, "Run doctor again in a minute.")
    url = target["scrapeUrl"]
    return wrong("target", f"Prometheus cannot scrape {url}: {why}.", _hint(why, url))


def _missing(subject: Subject, others: Collection[_Target]) -> Finding:
    """Return the finding about an exporter that is not scraped; ``others`` have its VM's name."""
    name = subject.vm_name or "unknown VM"
    but = ""
    if others:
        but = f", but another VM with this name: {_names(others)}"
    hint = (
        "Add it to scrape_configs, or correct the discovery's filters; if it is there and down,"
        f" open port {_port(subject)} to Prometheus. A store's scraper, such as vmagent, lists"
        " errors of its targets."
    )
    return wrong("target", f"Prometheus does not scrape this exporter ({name}){but}.", hint)


def _hint(why: str, url: str) -> str:
    """Return what to do about the error ``why`` of a scrape of ``url``."""
    # An address in quotes may contain the words of an error, so a quotation mark replaces it.
    reason = re.sub(r'"[^"]*"', '"', why)
    for pattern, advice in _HINTS.items():
        found = re.search(pattern, reason)
        if found:
            return advice.format(found=found[0], url=url)
    return f"The cause is unknown. Ask from the machine of Prometheus: curl {url}."


def _interval(api: Api, target: _Target) -> Finding:
    """Report the usual time between two scrapes of ``target``."""
    # A string in JSON is also one in PromQL.
    job = json.dumps(target.job)
    instance = json.dumps(target.instance)
    query = f"up{{job={job},instance={instance}}}[15m]"
    found = api.data("/api/v1/query", query=query)["data"]["result"]
    times = sorted(float(at) for series in found for at, _value in series["values"])
    if len(times) < 2:  # noqa: PLR2004 - a pair
        return skipped(
            "scrape-interval",
            "Not checked: fewer than two scrapes in 15 minutes. Run doctor again later.",
        )
    interval = median(later - earlier for earlier, later in pairwise(times[-_JUDGED_SCRAPES:]))
    sentence = f"It is scraped every {format_duration(round(interval, 1))}."
    slack = 0.5  # seconds: samples are some milliseconds early or late
    if interval < _SHIPPED_INTERVAL + slack:
        return ok("scrape-interval", sentence)
    hint = "Set scrape_interval: 5s, unless the fleet is too large for that."
    if interval > _LONGEST_INTERVAL + slack:
        return wrong("scrape-interval", sentence, f"{hint} The rules need one within 2 minutes.")
    if interval > _NOTICE_OF_EVICTION - slack:
        hint += (
            " An eviction has 30 s of notice or less: push the alerts of Spot VMs. Tell the rules,"
            " too, by their setting scrape.interval."
        )
    return warning("scrape-interval", sentence, hint)
