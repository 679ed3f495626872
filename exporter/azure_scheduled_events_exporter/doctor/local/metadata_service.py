"""Checks the metadata service: reachable, Scheduled Events enabled, this VM's name known, clocks in agreement.

Every request goes to ``--imds.endpoint``, without a proxy, and at most one in 1.1 s: with the four of a running
exporter they stay within the five a second that Azure allows a VM.
"""

import json
import threading
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, Final

from azure_scheduled_events_exporter.core.document import Document, comparable_name, parse_document
from azure_scheduled_events_exporter.core.event_types import ADVISORY_API_VERSION, API_VERSION, hidden_by
from azure_scheduled_events_exporter.core.instance import Instance, parse_instance
from azure_scheduled_events_exporter.doctor.api import Answer, Api, NoAnswerError
from azure_scheduled_events_exporter.doctor.finding import Finding, Findings, Mark, ok, skipped, warning, wrong
from azure_scheduled_events_exporter.doctor.subject import Subject
from azure_scheduled_events_exporter.errors import ExporterError, ImdsError
from azure_scheduled_events_exporter.imds.api_versions import (
    UNSPECIFIED,
    ApiVersions,
    event_versions,
    instance_versions,
)
from azure_scheduled_events_exporter.imds.rate_limiter import RateLimiter
from azure_scheduled_events_exporter.imds.refusal import NO_ROUTE, refusal
from azure_scheduled_events_exporter.polling.document_reader import FIRST_TIMEOUT_SECONDS
from azure_scheduled_events_exporter.times import format_duration

_UNREACHABLE: Final = "runbooks/AzureScheduledEventImdsUnreachable.md"
_NO_NAME: Final = "README.md#when-it-does-not-work"
_SLOW: Final = 1.0  # seconds; a healthy answer takes some 6 ms
_CLOCK_NOTED, _CLOCK_WRONG = 3.0, 20.0
"""Seconds between both clocks; the Date header has a resolution of 1 s, and the alert ClockOff fires above 20 s."""

_UNKNOWN_VERSION: Final = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND})
_ERRORS: Final = frozenset({400, 404, 405, 410, 429, 500, 503})
"""Statuses of the metadata service itself, besides 200. The guest proxy agent adds 403, 421 and 502."""


class _Wire:
    """Requests to the metadata service within the budget."""

    def __init__(self, endpoint: str) -> None:
        self.shown = endpoint
        self._api = Api("--imds.endpoint", endpoint, proxies=False)
        self._budget = RateLimiter(1, 1.1)
        self.took = 0.0  # seconds from the last request to its answer

    def get(self, path: str, versions: ApiVersions, timeout: float) -> Answer:
        """Return the answer to a request for ``path`` with the first of ``versions`` that the service knows."""
        while True:
            asked = versions.current
            answer = self._get(path, asked, timeout)
            if asked != UNSPECIFIED and answer.status not in _UNKNOWN_VERSION:
                if answer.status == HTTPStatus.OK:
                    versions.answered()
                return answer
            offered = () if answer.status == HTTPStatus.OK else _error(answer, asked).offered
            if not versions.refused(offered):
                return answer

    def _get(self, path: str, version: str, timeout: float) -> Answer:
        now = time.monotonic()
        slot = self._budget.reserve(now)
        threading.Event().wait(slot - now)
        begun = time.monotonic()
        params = {"api-version": version} if version != UNSPECIFIED else None
        try:
            return self._api.get(f"/metadata/{path}", params, {"Metadata": "true"}, timeout)
        finally:
            self.took = time.monotonic() - begun
            self._budget.arrived(slot, time.monotonic())


def _error(answer: Answer, version: str, flag: str = "") -> ImdsError:
    """Return what an exporter would log of this ``answer``."""
    return refusal("IMDS", answer.status, answer.phrase, answer.body, version=version, flag=flag)


def examine(subject: Subject) -> Findings:
    """Yield the findings about the metadata service; sets this VM's name in ``subject``."""
    wire = _Wire(subject.config.imds_endpoint)
    try:
        begun = time.time()
        answer = wire.get("instance", instance_versions(), max(_SLOW, subject.config.imds_timeout))
    except NoAnswerError as error:
        yield _unreachable(wire.shown, str(error))
        yield skipped("scheduled-events", "Not checked: Scheduled Events, the clock and this VM's name.")
        return
    ended = time.time()
    reachable = _reachable(wire.shown, answer)
    yield reachable
    if reachable.mark is Mark.OK:
        yield _clock(answer, begun, ended)
    yield _name(subject, answer)
    yield from _scheduled_events(subject, wire, event_versions(subject.config.imds_api_version))


def _unreachable(endpoint: str, why: str) -> Finding:
    return wrong(
        "imds-reachable",
        f"The metadata service at {endpoint} does not answer: {why}.",
        f"Let this VM reach {endpoint}: look for a rule of its firewall (iptables-save, nft list ruleset) and for "
        "IPAddressAllow= of the unit. Not on an Azure VM? Try 'demo' or 'simulate'.",
        _UNREACHABLE,
    )


def _reachable(endpoint: str, answer: Answer) -> Finding:
    """Check whether the metadata service answers; its errors may have any text but HTML."""
    content = _json_object(answer)
    is_html = answer.body.lstrip()[:9].lower().startswith((b"<!doctype", b"<html"))
    if "via" not in answer.headers and not is_html:
        is_error = answer.status in _ERRORS
        throttles = answer.status == HTTPStatus.TOO_MANY_REQUESTS
        if throttles or (is_error and "error" in content) or isinstance(content.get("compute"), dict):
            return ok("imds-reachable", f"The metadata service answers at {endpoint}, without a proxy.")
        if is_error:
            return warning(
                "imds-reachable",
                f"{endpoint} answered {answer.status}: the metadata service while it moves, or another server.",
                "The service may be moving, which takes up to 70 s: run doctor again. Else correct --imds.endpoint.",
                _UNREACHABLE,
            )
    what, hint = _what_answers(answer)
    seen = answer.headers.get("location") or answer.headers.get("via") or answer.excerpt or answer.phrase
    detail = f"{answer.status}, {seen}" if seen else str(answer.status)
    sentence = f"{what} answers at {endpoint}, not the metadata service ({detail})."
    return wrong("imds-reachable", sentence, hint, _UNREACHABLE)


def _what_answers(answer: Answer) -> tuple[str, str]:
    """Return what gives such an answer, and what to do about it."""
    if answer.status == HTTPStatus.FORBIDDEN and not answer.body.strip():
        hint = f"{NO_ROUTE[:1].upper()}{NO_ROUTE[1:]}: look for a proxy or a container network."
        return "A proxy or another server", hint
    if answer.status == HTTPStatus.FORBIDDEN:
        hint = "Allow the exporter's user and program in the rules of azure-proxy-agent or of the firewall."
        return "The guest proxy agent (azure-proxy-agent) or a firewall", hint
    if answer.status in {HTTPStatus.MISDIRECTED_REQUEST, HTTPStatus.BAD_GATEWAY}:
        hint = "Restart the agent: systemctl restart azure-proxy-agent. Exempt the address from any other proxy."
        return "The guest proxy agent (azure-proxy-agent) or another proxy", hint
    is_proxy = answer.status in {HTTPStatus.PROXY_AUTHENTICATION_REQUIRED, HTTPStatus.GATEWAY_TIMEOUT}
    hint = "Correct --imds.endpoint, or exempt the address from the transparent proxy."
    return "A proxy" if is_proxy else "A proxy or another server", hint


def _json_object(answer: Answer) -> Mapping[str, Any]:
    try:
        content = json.loads(answer.body)
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _clock(answer: Answer, begun: float, ended: float) -> Finding:
    try:
        date = parsedate_to_datetime(answer.headers.get("date", "")).timestamp()
    except (ValueError, TypeError):
        return skipped("clock", "Not checked: the metadata service sends no Date header.")
    off = date + 0.5 - (begun + ended) / 2
    sentence = f"This VM's clock is {format_duration(round(abs(off)))} {'behind' if off > 0 else 'ahead of'} Azure's."
    hint = "Start time synchronization: chronyd with the host's clock /dev/ptp_hyperv."
    page = "runbooks/AzureScheduledEventClockOff.md"
    if abs(off) <= _CLOCK_NOTED:
        return ok("clock", "This VM's clock agrees with Azure's.")
    return (wrong if abs(off) > _CLOCK_WRONG else warning)("clock", sentence, hint, page)


def _name(subject: Subject, answer: Answer) -> Finding:
    configured = subject.config.instance_name
    try:
        instance = _instance(answer)
    except ExporterError as error:
        if configured:
            return ok("vm-name", f"This VM is {configured}, as --instance.name says.")
        return wrong(
            "vm-name",
            f"This VM's name is unknown, so every event has the scope 'unknown': {error}.",
            "Give the name as it appears in Resources: --instance.name.",
            _NO_NAME,
        )
    subject.instance = instance
    if configured and comparable_name(configured) not in {"", comparable_name(instance.vm_name)}:
        if comparable_name(configured) == comparable_name(instance.host_name):
            return warning(
                "vm-name",
                f"--instance.name is {configured}, this VM's host name; Azure calls it {instance.vm_name}.",
                "Keep it only if Resources of this VM's events name the host.",
                _NO_NAME,
            )
        return wrong(
            "vm-name",
            f"--instance.name is {configured}, but Azure calls this VM {instance.vm_name}: its own events are "
            "taken for those of other VMs.",
            "Remove --instance.name.",
            _NO_NAME,
        )
    group = f" of scale set {instance.scale_set}" if instance.scale_set else ""
    return ok("vm-name", f"This VM is {instance.vm_name}{group}.")


def _instance(answer: Answer) -> Instance:
    if answer.status != HTTPStatus.OK:
        raise ExporterError(f"/metadata/instance answered {answer.status}: {answer.excerpt or answer.phrase}")
    return parse_instance(answer.body)


def _api_version(version: str) -> Finding:
    if version >= API_VERSION:
        more = f" {ADVISORY_API_VERSION} adds advice about Spot VMs." if version < ADVISORY_API_VERSION else ""
        return ok("api-version", f"Scheduled Events are asked with api-version {version}.{more}")
    hidden = "".join(f" {event_type} events," for event_type in hidden_by(version))
    return warning(
        "api-version",
        f"Api-version {version} hides{hidden} fields of events that came later.",
        f"Remove --imds.api-version, or set {API_VERSION} or a later one.",
        "how-scheduled-events-work.md#the-api-versions",
    )


def _scheduled_events(subject: Subject, wire: _Wire, versions: ApiVersions) -> Findings:
    try:
        answer = wire.get("scheduledevents", versions, FIRST_TIMEOUT_SECONDS)
    except NoAnswerError as error:
        yield wrong(
            "scheduled-events",
            f"Scheduled Events do not answer: {error}.",
            "The first answer may take two minutes. If it takes longer, redeploy the VM or ask Azure's support.",
            _UNREACHABLE,
        )
        return
    if answer.status != HTTPStatus.OK:
        yield _refused(answer, versions.usable)
        return
    yield _api_version(versions.usable)
    try:
        document = parse_document(answer.body)
    except ExporterError as error:
        yield _invalid(str(error))
        return
    count = len(document.events)
    events = f"{count or 'no'} event{'' if count == 1 else 's'}"
    how = f"Scheduled Events are enabled: {events}, answered in {format_duration(round(wire.took, 3))}"
    if wire.took > _SLOW:
        yield warning(
            "scheduled-events",
            f"{how}. That is slow, unless this request was the one that enabled them.",
            "Run doctor again; a healthy answer takes a few milliseconds.",
            _UNREACHABLE,
        )
    else:
        yield ok("scheduled-events", f"{how}.")
    yield _document(document)
    yield _resources(subject, document)


def _refused(answer: Answer, version: str) -> Finding:
    page = _UNREACHABLE
    if answer.status == HTTPStatus.TOO_MANY_REQUESTS:
        page = "runbooks/AzureScheduledEventThrottled.md"
    error = _error(answer, version, "--imds.api-version")
    what = f"Scheduled Events answered {answer.status} to api-version {version}: {answer.excerpt or answer.phrase}."
    hint = error.hint or "The service may be moving, which takes up to 70 s: run doctor again."
    return wrong("scheduled-events", what, f"{hint[:1].upper()}{hint[1:]}.", page)


def _invalid(why: str) -> Finding:
    return wrong(
        "document",
        f"The Scheduled Events document cannot be read: {why}.",
        "Save the answer and report it: an exporter keeps its last known events meanwhile.",
        "runbooks/AzureScheduledEventDocumentInvalid.md",
    )


def _document(document: Document) -> Finding:
    if document.unreadable:
        return _invalid("; ".join(document.unreadable))
    if document.remarks:
        return warning(
            "document",
            f"The document has unexpected content: {'; '.join(document.remarks)}.",
            "Report it, with the document.",
            "runbooks/AzureScheduledEventDocumentInvalid.md",
        )
    return ok("document", "The document is as documented.")


def _resources(subject: Subject, document: Document) -> Finding:
    """Check whether an event names this VM, and whether with another name than the exporter's."""
    name = comparable_name(subject.vm_name)
    named = {comparable_name(each): each for event in document.events for each in event.resources}
    host = comparable_name(subject.instance.host_name) if subject.instance else ""
    if name and name in named:
        return ok("resources", f"Resources of a current event name this VM: {named[name]}.")
    if host and host in named:
        return wrong(
            "resources",
            f"Resources name {named[host]}, which is this VM's host name; the exporter looks for {subject.vm_name}.",
            f"Set --instance.name {named[host]}.",
            _NO_NAME,
        )
    if named and not name:
        what = ", ".join(sorted(named.values())[:5])
        return ok("resources", f"Current events name {what}; whether this VM is among them is unknown, as its name is.")
    if named:
        return ok("resources", f"Current events are of other VMs: {', '.join(sorted(named.values())[:5])}.")
    return skipped("resources", "Not checked: there is no current event whose Resources may name this VM.")
