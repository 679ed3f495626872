"""Checks whether a Prometheus answers and scrapes this exporter; ``rules`` looks at what it evaluates.

A store that only implements Prometheus' API, such as VictoriaMetrics, Mimir or Thanos, is checked
by the same samples. Only a Prometheus has targets, which say why a scrape fails.
"""

import json
import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from itertools import pairwise
from statistics import median
from typing import Any, Final
from urllib.parse import urlsplit

from azure_scheduled_events_exporter.times import format_duration

from . import rules
from .api import Api, WrongAnswerError
from .finding import Finding, Findings, ok, skipped, warning, wrong
from .subject import Subject

_OFTEN, _SELDOM = 5.0, 30.0  # seconds between scrapes: as shipped, and the notice of an eviction
_SCRAPES: Final = 10  # the newest ones: older ones may be from before the interval was changed
_STATUS: Final = re.compile(
    r'(?:HTTP status|":) (\d{3})\b'
)  # as Prometheus and vmagent write it after an address
_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")


def examine(subject: Subject, api: Api) -> Findings:
    """Yield the findings about the Prometheus at ``api``."""
    version = api.data("/api/v1/status/buildinfo")["data"].get("version")
    what = f"Prometheus {version}" if version else "A store with Prometheus' API"
    yield ok("prometheus-reachable", f"{what} answers at {api.shown}.")
    yield from _target(subject, api)
    yield from rules.examine(subject, api)


def _target(subject: Subject, api: Api) -> Findings:
    """Find this exporter by the VM's name in its metrics, else among the targets by its address."""
    series = _series(subject, api)
    renamed = sorted({name for labels in series for name in labels if name.startswith("exported_")})
    found = {(labels.get("job", ""), labels.get("instance", "")) for labels in series}
    if not found:
        target = _unseen(subject, api)
        if target is None or target.get("health") != "up":
            yield _failing(subject, target)
            return
        found = {(target["labels"].get("job", ""), target["labels"].get("instance", ""))}
    names = ", ".join("/".join(each) for each in sorted(found))
    if len(found) == 1:
        yield ok("target", f"This exporter is scraped as {names}.")
    else:
        hint = "Keep one scrape configuration: sums over events count it more than once."
        yield warning("target", f"This exporter is scraped {len(found)} times: {names}.", hint)
    if renamed:
        hint = (
            "Rename the target's labels of these names in relabel_configs, so that alerts and"
            " dashboards know the VM."
        )
        yield warning(
            "target-labels",
            f"Prometheus renames labels of the exporter: {', '.join(renamed)}.",
            hint,
        )
    yield _interval(api, *min(found))


def _series(subject: Subject, api: Api) -> Sequence[Mapping[str, str]]:
    """Return the labels of the series with this VM's name, also where the target has a label of that name."""
    name = "".join(
        each if each.isalnum() or each in "-_" else f"[{each}]" for each in subject.vm_name
    )
    metric = "azure_scheduled_events_instance_info"
    query = f'{metric}{{vm_name=~"(?i:{name})"}} or {metric}{{exported_vm_name=~"(?i:{name})"}}'
    result = api.data("/api/v1/query", query=query)["data"]["result"] if name else []
    return [each["metric"] for each in result]


def _unseen(subject: Subject, api: Api) -> Mapping[str, Any] | None:
    """Return the target with this exporter's address when no series names this VM, or None.

    It was never scraped, or its exporter does not know the VM's name.
    """
    try:
        active = api.data("/api/v1/targets", state="active")["data"]["activeTargets"]
    except WrongAnswerError as error:
        if error.status != HTTPStatus.NOT_FOUND:  # a store that does not scrape itself may lack it
            raise
        return None
    hosts = {
        subject.vm_name.lower(),
        subject.instance.host_name.lower() if subject.instance else "",
    }
    here = urlsplit(subject.exporter.shown).hostname or ""
    if here not in _LOOPBACK or urlsplit(api.shown).hostname in _LOOPBACK:
        hosts.add(here)  # to a Prometheus elsewhere, a loopback address is its own machine
    addresses = {f"{host}:{_port(subject)}" for host in hosts if host}
    return next((each for each in active if _address(each["scrapeUrl"]) in addresses), None)


def _address(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port}"


def _port(subject: Subject) -> int:
    return urlsplit(subject.exporter.shown).port or subject.config.web_listen_address.port


def _failing(subject: Subject, target: Mapping[str, Any] | None) -> Finding:
    why = target.get("lastError", "") if target else ""
    if target and not why:
        return warning(
            "target",
            "Prometheus has not scraped this exporter yet.",
            "Run doctor again in a minute.",
        )
    if target:
        return wrong(
            "target", f"Prometheus cannot scrape {target['scrapeUrl']}: {why}.", _hint(why)
        )
    hint = (
        "Add it to scrape_configs, or correct the discovery's filters; if it is there and down,"
        f" open port {_port(subject)} to Prometheus. A store's scraper, such as vmagent, lists"
        " errors of its targets."
    )
    return wrong(
        "target",
        f"Prometheus does not scrape this exporter ({subject.vm_name or 'unknown VM'}).",
        hint,
    )


def _hint(why: str) -> str:
    status = _STATUS.search(why)
    if status and status[1] in {"401", "403"}:
        return "Give the scrape configuration a user: basic_auth."
    if status and status[1] == "404":
        return "Make metrics_path agree with --web.telemetry-path."
    reason = re.sub(r'"[^"]*"', "", why)  # without the address
    if any(
        word in reason
        for word in ("x509: ", "tls: ", "HTTP response to HTTPS", "HTTP request to an HTTPS")
    ):
        return (
            "Make scheme and tls_config of the scrape configuration agree with --web.config.file."
        )
    return "Open the port in the VM's firewall and the network security group."


def _interval(api: Api, job: str, instance: str) -> Finding:
    selector = f"up{{job={json.dumps(job)},instance={json.dumps(instance)}}}[15m]"
    found = api.data("/api/v1/query", query=selector)["data"]["result"]
    times = sorted(float(at) for series in found for at, _ in series["values"])
    if len(times) < 2:  # noqa: PLR2004 - a pair
        return skipped(
            "scrape-interval",
            "Not checked: fewer than two scrapes in 15 minutes. Run doctor again later.",
        )
    interval = median(later - earlier for earlier, later in pairwise(times[-_SCRAPES:]))
    sentence = f"It is scraped every {format_duration(round(interval, 1))}."
    if interval < _OFTEN + 0.5:  # rounded, because samples are some milliseconds early or late
        return ok("scrape-interval", sentence)
    hint = "Set scrape_interval: 5s; a Spot VM has 30 seconds of notice or less."
    return (wrong if interval > _SELDOM - 0.5 else warning)("scrape-interval", sentence, hint)
