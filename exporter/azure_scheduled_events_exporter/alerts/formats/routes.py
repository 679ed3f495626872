"""Alertmanager's tree of routes, and which alerts inhibit which.

With both, an event is one page, without duplicates.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from azure_scheduled_events_exporter.alerts.groups import full_name
from azure_scheduled_events_exporter.alerts.rule import PREFIX
from azure_scheduled_events_exporter.alerts.settings import Settings
from azure_scheduled_events_exporter.alerts.settings_table import MAINTENANCE_TARGETS, MATCHER
from azure_scheduled_events_exporter.alerts.severities import (
    INFO,
    other_matcher,
    paging_matcher,
    word_of,
)
from azure_scheduled_events_exporter.alerts.vm_labels import vm_labels
from azure_scheduled_events_exporter.alerts.vms import MAINTENANCE, NOT_BACK

_OURS = f'alertname=~"{PREFIX}.+"'
_EVENT = 'event_id!=""'
_PLACE = ("subscription_id", "resource_group", "scale_set")
_BESIDE = ("Overdue", "StartedTooLong", "NotApproved", "DegradedHost")
"""Alerts that say something new about an event, so that its page does not inhibit them."""


def defaults(settings: Settings, prefix: str = "") -> dict[str, Any]:
    """Return the keys of a route whose alerts make tickets: receiver, grouping and times.

    Routes below it inherit them. ``prefix`` begins the receiver's name.
    """
    return {
        "receiver": f"{prefix}tickets",
        "group_by": ["alertname", "job"],
        "group_wait": settings.text("group.wait"),
        "group_interval": settings.text("group.interval"),
        "repeat_interval": settings.text("group.repeat"),
    }


def route(settings: Settings, prefix: str = "") -> dict[str, Any]:
    """Return the route of our alerts with those below it; ``prefix`` begins the receivers' names.

    An alert takes the first route below that matches it, so their order matters.

    A group is one page, so events are grouped by nothing but their id. Each VM that is not back is
    a page of its own: in a group with others it would wait for ``group_interval``, and an incident
    that somebody has acknowledged would not ring again. The tickets of Preempt and WithoutNotice do
    not wait for a group: a VM that is evicted has seconds, and an event without notice has begun.
    """
    at_once = {"group_wait": "0s"}
    by_event = {"group_by": ["event_id"]}
    event = {"matchers": [_EVENT], **by_event}
    not_back = {
        "matchers": [f'alertname="{NOT_BACK}"'],
        "group_by": ["alertname", *_PLACE, "vm_name"],
    }
    paging = {
        "matchers": [paging_matcher(settings)],
        "receiver": f"{prefix}pager",
        **at_once,
        "group_by": ["alertname", *_PLACE],
        "routes": [not_back, event],
    }
    urgent = {
        "matchers": [_EVENT, f'alertname=~"{PREFIX}(Preempt|WithoutNotice)"'],
        **at_once,
        **by_event,
    }
    # A group of many exporters: without this, one mail every 30 s while a fleet is rolled out or
    # scaled in.
    exporters = {"matchers": ['component="exporter"'], "group_interval": "5m"}
    only_shown = {
        "matchers": [f'severity="{word_of(INFO, settings)}"'],
        "receiver": f"{prefix}show",
    }
    # A team may give VmNotBack a severity that does not page. Each VM is then a ticket of its own.
    not_back_as_ticket = {**not_back, **at_once}
    return {
        "matchers": [_OURS],
        **defaults(settings, prefix),
        "routes": [paging, only_shown, not_back_as_ticket, urgent, event, exporters],
    }


def inhibitions(settings: Settings) -> list[dict[str, Any]]:
    """Return the inhibitions of alerts that repeat or follow from another alert.

    Only alerts of events have an event_id: without that matcher, two alerts that lack it would
    count as equal. The alerts that say something new about an event are excluded.

    If an alert ends while it is inhibited, Alertmanager never reports it as resolved
    (https://github.com/prometheus/alertmanager/issues/2754): its ticket would stay open. So an
    alert that is usually delivered before the one that would inhibit it is not inhibited here.
    """
    beside = "|".join(map(full_name, _BESIDE))
    down = full_name("ExporterDown")
    invalid = full_name("DocumentInvalid")
    unreachable = full_name("ImdsUnreachable")
    target = ("job", "instance", *settings.items("maintenance.within"))
    ticket_of_page = _inhibition(
        [_OURS, _EVENT, paging_matcher(settings)],
        [_OURS, _EVENT, other_matcher(settings), f'alertname!~"{beside}"'],
        ["event_id"],
    )
    exporter_is_down = _inhibition(
        [f'alertname="{down}"'],
        [_OURS, 'component="exporter"', f'alertname!="{down}"'],
        target,
    )
    no_document = _inhibition(
        [f'alertname="{invalid}"'],
        [f'alertname="{unreachable}"'],
        target,
    )
    return [ticket_of_page, exporter_is_down, no_document, *_maintenance(settings)]


def _inhibition(
    source: Sequence[str], target: Sequence[str], equal: Sequence[str]
) -> dict[str, Any]:
    return {
        "source_matchers": [*source],
        "target_matchers": [*target],
        "equal": list(dict.fromkeys(equal)),  # each once: settings may name a label again
    }


def _maintenance(settings: Settings) -> Iterator[dict[str, Any]]:
    """Yield the inhibitions of a team's own alerts while Azure works on their VM.

    There are none unless the setting ``maintenance.targets`` names alerts. An alert without the
    label would count as equal to any other without it, so both must have it.
    """
    for target in settings.items("maintenance.targets"):
        for label in vm_labels(settings):
            there = f'{label.name}!=""'
            yield _inhibition(
                [f'alertname="{MAINTENANCE}"', there],
                [*_matchers(target), f'alertname!~"{PREFIX}.+"', there],
                [label.name, *settings.items("maintenance.within")],
            )


def _matchers(target: str) -> list[str]:
    """Return the matchers of an item of ``maintenance.targets``.

    It is a key of :data:`MAINTENANCE_TARGETS`, matchers with commas, or the name of an alert.
    """
    if target in MAINTENANCE_TARGETS:
        return [f'alertname=~"{MAINTENANCE_TARGETS[target]}"']
    found = []
    for match in MATCHER.finditer(target):
        label, sign, quoted, plain = match.groups()
        value = plain if quoted is None else quoted
        found.append(f'{label}{sign}"{value}"')
    if not found:
        return [f'alertname="{target}"']
    return found
