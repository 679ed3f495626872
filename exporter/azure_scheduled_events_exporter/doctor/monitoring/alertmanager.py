"""Checks where an Alertmanager sends the exporter's alerts, and whether something mutes them.

Nothing is sent: the routing tree is read from the status, and evaluated here for every alert that this version ships.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import Any, Final

import yaml

from azure_scheduled_events_exporter.core.event_types import EventType
from azure_scheduled_events_exporter.doctor.api import Api
from azure_scheduled_events_exporter.doctor.finding import Finding, Findings, ok, warning, wrong
from azure_scheduled_events_exporter.doctor.subject import Subject
from azure_scheduled_events_exporter.errors import ExporterError
from azure_scheduled_events_exporter.times import parse_duration

from .prometheus import unreachable
from .prometheus_rules import unusable_values
from .routing import inhibits, integrations, matchers_of, routes, silenced_by
from .shipped import ShippedRule, rules

_SET_UP: Final = "alerts.md#set-it-up"
_PLACEHOLDERS: Final = ("REPLACE", "example.com")
_LONGEST_WAIT: Final = 5.0  # seconds that a page may wait; an eviction leaves 30 s
_PAGES: Final = "critical"
_TICKETS: Final = "warning"
_MAINTENANCE: Final = "AzureScheduledEventMaintenance"
_BY_PRIORITY: Final = re.compile(r"\{\{ if .+? \}\}(.*)\{\{ else \}\}(.*)\{\{ end \}\}")
_LABELS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "AzureScheduledEventScaleSetHit": ("subscription_id", "resource_group", "scale_set"),
        _MAINTENANCE: ("vm_id", "vm_name", "node", "instance"),
        "AzureScheduledEventNoExporters": (),
    }
)
"""Labels of the alerts that are neither about one event nor about one exporter."""


def examine(subject: Subject, api: Api) -> Findings:
    """Yield the findings about the Alertmanager at ``api``."""
    try:
        shipped = rules(subject.config.alerts_values)
    except ExporterError as error:
        yield unusable_values(error)
        return
    try:
        status = api.data("/api/v2/status")
        config = yaml.safe_load(status["config"]["original"])
        yield ok("alertmanager-reachable", f"Alertmanager {status['versionInfo']['version']} answers at {api.shown}.")
        alerts = {rule.name: labels_of(rule, subject, shipped.kept) for rule in shipped.alerts}
        receivers = config.get("receivers") or ()
        yield _receivers(config["route"], receivers, alerts)
        yield _placeholders(config["route"], receivers, alerts)
        yield _grouping(config["route"], alerts)
        yield _waiting(config["route"], receivers, alerts)
        yield _muted(config["route"], alerts)
        yield _inhibitions(config.get("inhibit_rules") or (), alerts)
        yield _silences(api.data("/api/v2/silences"), alerts)
    except ExporterError as error:
        yield unreachable("alertmanager-reachable", "Alertmanager", api, error)


def labels_of(rule: ShippedRule, subject: Subject, kept: Sequence[str] = ()) -> dict[str, str]:
    """Return the labels of the alert that ``rule`` would raise about an event of this VM, or about its exporter.

    ``kept``: the labels that alerts about events and VMs take over from targets.
    """
    target = subject.target or {"job": "azure-scheduled-events-exporter", "instance": f"{subject.vm_name}:10169"}
    event = {"event_id": "00000000-0000-0000-0000-000000000000", "event_type": _event_type(rule.name)}
    vm = asdict(subject.instance) if subject.instance else {"vm_name": subject.vm_name}
    known = {**vm, **target, **event}
    names = _LABELS.get(rule.name, tuple(event if rule.of_event else target))
    if rule.labels.get("component") != "exporter":
        names += tuple(kept)
    labels = {name: known.get(name, "") for name in names}
    if rule.name == _MAINTENANCE:  # it is about the host, on whichever port its exporter is
        labels["instance"] = re.sub(":[0-9]+$", "", known.get("instance", ""))
    labels |= {"alertname": rule.name, **{name: _rendered(text, known) for name, text in rule.labels.items()}}
    return {name: value for name, value in labels.items() if value}


def _event_type(alert: str) -> str:
    other = "Other" if alert.endswith("UnknownType") else EventType.REBOOT
    return next((each for each in EventType if each in alert), other)


def _rendered(text: str, known: Mapping[str, str]) -> str:
    """Return a label's value; the only template in one chooses by the VM's priority."""
    chosen = _BY_PRIORITY.fullmatch(text)
    return text if chosen is None else chosen[1 if known.get("priority") in {"Spot", "Low"} else 2]


_Alerts = Mapping[str, Mapping[str, str]]


def _with_severity(alerts: _Alerts, severity: str) -> list[tuple[str, Mapping[str, str]]]:
    return [(name, labels) for name, labels in alerts.items() if labels.get("severity") == severity]


def _receivers(tree: Mapping[str, Any], receivers: Sequence[Mapping[str, Any]], alerts: _Alerts) -> Finding:
    counts = Counter(route.receiver for labels in alerts.values() for route in routes(tree, labels))
    silent, unsent = (
        sorted(
            name
            for name, labels in _with_severity(alerts, severity)
            if not any(integrations(receivers, route.receiver) for route in routes(tree, labels))
        )
        for severity in (_PAGES, _TICKETS)
    )
    where = ", ".join(f"{count} to '{name}'" for name, count in counts.most_common())
    if silent:
        return wrong(
            "routes",
            f"Nobody is notified of {', '.join(silent[:3])}: the receiver of their route has no integration ({where}).",
            "Route critical alerts named AzureScheduledEvent.+ to a receiver that pages.",
            _SET_UP,
        )
    if unsent:
        first, hint = unsent[0], "Give that receiver an integration."
        if evictions := [name for name in unsent if name.endswith(EventType.PREEMPT)]:
            first = evictions[0]
            hint = "Give that receiver an integration, or render the rules with severities.Preempt=critical."
        return warning(
            "routes",
            f"Nobody is notified of {len(unsent)} of our warnings, such as {first}: "
            f"the receiver of their route has no integration ({where}).",
            hint,
            _SET_UP,
        )
    return ok("routes", f"Of our {len(alerts)} alerts, Alertmanager routes {where}.")


def _placeholders(tree: Mapping[str, Any], receivers: Sequence[Mapping[str, Any]], alerts: _Alerts) -> Finding:
    used = {route.receiver for labels in alerts.values() for route in routes(tree, labels)}
    left = [
        str(each["name"])
        for each in receivers
        if each.get("name") in used and any(word in yaml.safe_dump(each) for word in _PLACEHOLDERS)
    ]
    if left:
        return wrong(
            "receivers",
            f"Receivers still have the placeholders of the shipped configuration: {', '.join(left)}.",
            "Fill in values.yaml and export the configuration again; Alertmanager hides secrets, so check those too.",
            _SET_UP,
        )
    return ok("receivers", "No receiver of our alerts has a placeholder that Alertmanager shows.")


_MAY_SPLIT = {"AzureScheduledEventVmNotBack": {"alertname"}}
"""Labels that the groups of an alert may have besides ``event_id``: VmNotBack is a page of its own."""


def _grouping(tree: Mapping[str, Any], alerts: _Alerts) -> Finding:
    split = sorted(
        name
        for name, labels in alerts.items()
        if "event_id" in labels
        for route in routes(tree, labels)
        if route.receiver
        and labels.get("severity") == _PAGES
        and {*route.group_by} - _MAY_SPLIT.get(name, set()) != {"event_id"}
    )
    if split:
        return warning(
            "grouping",
            f"Alerts of one event are not grouped by event_id alone, such as {split[0]}.",
            'Set group_by: [event_id] on the route of alerts with event_id!="", so that one event is one page.',
            _SET_UP,
        )
    return ok("grouping", "Pages are grouped by event_id: one event is one page.")


def _waiting(tree: Mapping[str, Any], receivers: Sequence[Mapping[str, Any]], alerts: _Alerts) -> Finding:
    slow = {
        name: route
        for name, labels in alerts.items()
        if (labels.get("severity") == _PAGES and "event_id" in labels) or "Preempt" in name
        for route in routes(tree, labels)
        if integrations(receivers, route.receiver) and parse_duration(route.group_wait) > _LONGEST_WAIT
    }
    if slow:
        name, route = next(iter(slow.items()))
        return warning(
            "group-wait",
            f"{len(slow)} pages wait before they are sent, such as {name} for {route.group_wait} "
            f"to '{route.receiver}'.",
            "Set group_wait: 0s on their route: an eviction leaves 30 seconds.",
            _SET_UP,
        )
    return ok("group-wait", "Pages are sent without waiting for others of their group.")


def _muted(tree: Mapping[str, Any], alerts: _Alerts) -> Finding:
    pages = [(name, route) for name, labels in _with_severity(alerts, _PAGES) for route in routes(tree, labels)]
    muted = [
        ("mute_time_intervals", f"The time interval '{interval}' mutes pages", name)
        for name, route in pages
        for interval in route.muted_by
    ]
    muted += [
        ("active_time_intervals", f"Pages are sent only in the time interval '{' or '.join(route.active_in)}'", name)
        for name, route in pages
        if route.active_in
    ]
    if muted:
        setting, sentence, name = muted[0]
        return warning(
            "mute-times",
            f"{sentence}, such as {name}.",
            f"Remove {setting} from their route, or accept that evictions then page nobody.",
            _SET_UP,
        )
    return ok("mute-times", "No time interval mutes pages.")


def _inhibitions(inhibitions: Sequence[Mapping[str, Any]], alerts: _Alerts) -> Finding:
    """Check that inhibitions mute the warnings of an event that pages, and that none mutes all pages."""
    ours = [rule for rule in inhibitions if "event_id" in (rule.get("equal") or ())]
    event = {"alertname": "AzureScheduledEventReboot", "event_id": "1", "event_type": "Reboot"}
    page, ticket = {**event, "severity": _PAGES}, {**event, "severity": _TICKETS}
    broad = [
        rule
        for rule in inhibitions
        if rule not in ours
        for _, labels in _with_severity(alerts, _PAGES)
        if "event_id" in labels
        and all(matcher.matches(labels) for matcher in matchers_of(rule, "target_"))
        and not any(labels.get(label) for label in rule.get("equal") or ())  # absent from both is equal
    ]
    if broad:
        sources = " and ".join(f"{m.name}{m.operator}{m.value}" for m in matchers_of(broad[0], "source_"))
        equal = broad[0].get("equal")
        how = f"whose 'equal' has no label of ours ({', '.join(equal)})" if equal else "without 'equal'"
        return warning(
            "inhibitions",
            f"While an alert with {sources} fires, an inhibition {how} keeps our pages silent.",
            "Give that inhibition labels of our alerts in 'equal', or exempt alertname=~\"AzureScheduledEvent.+\".",
            _SET_UP,
        )
    if not any(inhibits(rule, page, ticket) for rule in ours):
        return warning(
            "inhibitions",
            "Our inhibitions are missing: an event that pages makes tickets too.",
            "Copy inhibit_rules of the shipped alertmanager.yml.",
            _SET_UP,
        )
    return ok("inhibitions", "A page of an event keeps its warnings silent.")


def _silences(silences: Sequence[Mapping[str, Any]], alerts: _Alerts) -> Finding:
    for silence in silences:
        if silence["status"]["state"] != "active":
            continue
        covered = sorted(name for name, labels in alerts.items() if silenced_by(silence, labels))
        if covered:
            return wrong(
                "silences",
                f"A silence of {silence.get('createdBy') or 'nobody'} covers {len(covered)} of our alerts, such as "
                f"{covered[0]}, until {silence['endsAt']}: {silence.get('comment') or 'no comment'}.",
                f"Expire it if it is not meant for them: amtool silence expire {silence['id']}.",
                _SET_UP,
            )
    return ok("silences", "No active silence covers an alert of this VM.")
