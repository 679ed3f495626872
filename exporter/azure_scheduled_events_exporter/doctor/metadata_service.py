"""Checks the metadata service: its answers, this VM's name, and that the clocks agree.

Asks with the exporter's own client, at most once in 1.1 s: Azure allows a VM five requests a
second, of which a running exporter uses at most four.
"""

import logging
import threading
import time
from collections.abc import Mapping

from azure_scheduled_events_exporter.config.settings import Config
from azure_scheduled_events_exporter.core.document import Document, comparable_name
from azure_scheduled_events_exporter.core.document_parser import parse_document
from azure_scheduled_events_exporter.core.instance import Instance, parse_instance
from azure_scheduled_events_exporter.errors import ExporterError, ImdsError, Outcome
from azure_scheduled_events_exporter.imds.api_versions import ApiVersions, event_versions
from azure_scheduled_events_exporter.imds.client import ImdsClient
from azure_scheduled_events_exporter.imds.guest_proxy_agent import (
    DENIES,
    EVENTS_PATH,
    INSTANCE_PATH,
    own_user,
)
from azure_scheduled_events_exporter.imds.rate_limiter import RateLimiter
from azure_scheduled_events_exporter.imds.refusal import UNKNOWN
from azure_scheduled_events_exporter.logs import LOGGER
from azure_scheduled_events_exporter.polling.document_reader import FIRST_TIMEOUT_SECONDS
from azure_scheduled_events_exporter.service.endpoint import SHORT_SEARCH, with_endpoint
from azure_scheduled_events_exporter.times import format_duration

from . import guest_proxy_agent
from .finding import (
    AGENT_PAGE,
    THROTTLED_PAGE,
    Finding,
    Findings,
    counted,
    ok,
    skipped,
    warning,
    wrong,
)
from .subject import Subject

_CLOCK_NOTED = 3.0
"""Seconds: a smaller difference of the clocks is none, as the Date header has whole seconds."""

_CLOCK_WRONG = 30.0
"""Seconds: at a larger difference, the alert ClockOff fires. A smaller one is a warning here."""

_AGAIN = "Run doctor again in two minutes. If it finds the same, the page says what to do."
"""For what usually ends by itself: a service that is moving takes up to 70 s."""


def examine(subject: Subject) -> Findings:
    """Yield the findings about the metadata service; set this VM's identity in ``subject``."""
    try:
        config = with_endpoint(subject.config, logging.getLogger(LOGGER), SHORT_SEARCH)
    except ExporterError as error:
        yield wrong("imds-endpoint", f"{error}.", "Name the address with --imds.endpoint.")
        return
    versions = event_versions(config.imds_api_version)
    client = _client(config, versions)
    why_no_instance = ""
    try:
        subject.instance = parse_instance(client.instance(config.imds_timeout))
        yield ok("imds-reachable", f"The metadata service answers at {config.imds_endpoint}.")
        yield _clock(client.server_time())
    except ExporterError as error:
        why_no_instance = _finding_of(error)
        sentence = f"The metadata service does not answer as it should: {why_no_instance}."
        hint = _hint(error, config.imds_endpoint, INSTANCE_PATH)
        yield wrong("imds-reachable", sentence, hint, _page(error))
    yield from guest_proxy_agent.examine()
    if not client.reached:  # no answer at all; after a refusal, the next path may still be allowed
        yield skipped(
            "scheduled-events", "Not checked: Scheduled Events, the clock and this VM's name."
        )
        return
    document = None
    try:
        # No body (304) would be wrong for a first request, and is reported as an empty document.
        body = client.scheduled_events(FIRST_TIMEOUT_SECONDS) or b""
        document = parse_document(body)
        yield _events(document, versions.usable)
    except ExporterError as error:
        sentence = f"Scheduled Events cannot be read: {_finding_of(error)}."
        hint = _hint(error, config.imds_endpoint, EVENTS_PATH)
        yield wrong("scheduled-events", sentence, hint, _page(error))
    if subject.vm_name:
        yield _name(subject.vm_name, subject.instance, document)
    elif document is None:
        yield skipped("vm-name", "Not checked: this VM's name. The metadata service has to answer.")
    else:
        # Instance metadata that can be read has a name, so this one could not be read.
        sentence = (
            f"This VM's name is unknown, so every event has the scope 'unknown': {why_no_instance}."
        )
        hint = "Give the name as it appears in Resources: --instance.name."
        yield wrong("vm-name", sentence, hint)


def _client(config: Config, versions: ApiVersions) -> ImdsClient:
    """Return a client that sends at most one request in 1.1 s."""
    return ImdsClient(
        config.imds_endpoint,
        versions,
        RateLimiter(limit=1, window=1.1),
        threading.Event().wait,
        config.imds_timeout,
    )


def _finding_of(error: ExporterError) -> str:
    """Return what an error says was found, without what to do."""
    found = str(error)
    if isinstance(error, ImdsError):
        found = error.finding
    return found.rstrip(".")


def _hint(error: ExporterError, endpoint: str, path: str) -> str:
    """Return what to do about a request for ``path`` that failed."""
    if not isinstance(error, ImdsError):  # the answer is JSON, but not what IMDS would say
        return (
            "If another server answers there, correct --imds.endpoint; else save the answer and"
            " report it."
        )
    advice = ""
    if error.hint:
        advice = f"{error.hint[:1].upper()}{error.hint[1:]}."
    # The request has reached the service, which may only be slow.
    is_slow = error.outcome is Outcome.TIMEOUT and error.may_have_arrived
    if error.is_temporary or is_slow:
        return f"{advice} {_AGAIN}".strip()
    is_denied = error.hint.startswith(DENIES)  # by the Guest Proxy Agent
    if path == EVENTS_PATH and is_denied:
        return _whom_to_allow()
    # A hint that begins with UNKNOWN names at most a possible cause.
    is_cause_known = error.hint != "" and not error.hint.startswith(UNKNOWN)
    if is_cause_known:
        return advice
    if error.outcome is Outcome.INVALID_DOCUMENT:  # too long to be read at all
        return "Save the answer and report it."
    return _way_to_the_service(error, advice, endpoint)


def _way_to_the_service(error: ImdsError, advice: str, endpoint: str) -> str:
    """Return where to look for what stands between this VM and the service.

    ``advice`` is what the error says about an answer, whose cause is unknown.
    """
    where = (
        f"Let this VM reach {endpoint}: look for a firewall (iptables-save, nft list ruleset), a"
        " proxy, azure-proxy-agent, and IPAddressAllow= of the unit. IMDS answers only the primary"
        " address of the primary network interface."
    )
    if error.status:  # there was an answer
        return f"{advice} {where}"
    return f"{where} Not on an Azure VM? Try 'demo' or 'simulate'."


def _page(error: ExporterError) -> str:
    """Return the page about a failure that has one of its own; ``""`` for that of the check."""
    if not isinstance(error, ImdsError):
        return ""
    if error.outcome is Outcome.THROTTLED:
        return THROTTLED_PAGE
    if error.hint.startswith(DENIES):
        return AGENT_PAGE
    return ""


def _whom_to_allow() -> str:
    """Return what to do if the Guest Proxy Agent denies Scheduled Events.

    Its rule has to allow the exporter's user, who is seldom the one that runs doctor.
    """
    return (
        f"{DENIES} to user {own_user()}, as whom doctor runs. Allow {EVENTS_PATH} for the user of"
        " the exporter, whom its log names if it is refused too, and for root if somebody uses"
        " 'approve' or 'hook'."
    )


def _clock(date: float | None) -> Finding:
    """Compare this VM's clock with the Date header, in seconds since the epoch."""
    if date is None:
        return skipped("clock", "Not checked: the metadata service sends no Date header.")
    # The Date header is cut to whole seconds: on average, Azure's clock is half a second later.
    seconds_behind = date + 0.5 - time.time()
    if abs(seconds_behind) <= _CLOCK_NOTED:
        return ok("clock", "This VM's clock agrees with Azure's.")
    side = "behind" if seconds_behind > 0 else "ahead of"
    sentence = f"This VM's clock is {format_duration(round(abs(seconds_behind)))} {side} Azure's."
    hint = "Start time synchronization: chronyd with the host's clock /dev/ptp_hyperv."
    if abs(seconds_behind) > _CLOCK_WRONG:
        return wrong("clock", sentence, hint)
    return warning("clock", sentence, hint)


def _events(document: Document, version: str) -> Finding:
    """Report whether all events of a document could be read; ``version`` is the api-version."""
    if document.unreadable:
        hint = "Save the answer and report it: an exporter keeps its last known events meanwhile."
        return wrong(
            "scheduled-events", f"An event cannot be read: {'; '.join(document.unreadable)}.", hint
        )
    count = len(document.events)
    sentence = f"Scheduled Events are enabled: {counted(count, 'event')}, by api-version {version}."
    return ok("scheduled-events", sentence)


def _name(name: str, instance: Instance | None, document: Document | None) -> Finding:
    """Report whether the Resources of events have this VM by the name that the exporter looks for.

    Resources may have the host name instead of the VM's name.

    Args:
        name: what the exporter looks for.
        instance: this VM in the instance metadata; None if that could not be read.
        document: the current events; None if they could not be read.
    """
    looked_for = comparable_name(name)
    in_resources = _names_in_resources(document)
    host_name = comparable_name(instance.host_name) if instance else ""
    if host_name in in_resources and looked_for not in in_resources:
        host = in_resources[host_name]
        sentence = f"Resources name {host}, this VM's host name, but the exporter looks for {name}."
        return wrong("vm-name", sentence, f"Set --instance.name {host}.")
    if instance and looked_for not in {comparable_name(instance.vm_name), *in_resources}:
        sentence = (
            f"--instance.name is {name}, but Azure calls this VM {instance.vm_name}: its events"
            " count as others'."
        )
        return wrong(
            "vm-name", sentence, "Remove --instance.name, unless Resources name this VM so."
        )
    if instance and instance.scale_set:
        return ok("vm-name", f"This VM is {name} of scale set {instance.scale_set}.")
    return ok("vm-name", f"This VM is {name}.")


def _names_in_resources(document: Document | None) -> Mapping[str, str]:
    """Return the names in the Resources of all events, by their form for comparisons."""
    if document is None:
        return {}
    names = [name for event in document.events for name in event.resources]
    return {comparable_name(name): name for name in names}
