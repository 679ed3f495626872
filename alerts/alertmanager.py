"""Generates the configuration of Alertmanager: one page for each event, without duplicates."""

from collections.abc import Iterator
from typing import Any

from .rules.life_alerts import BESIDE
from .rules.maintenance import MAINTENANCE
from .rules.not_back import NOT_BACK
from .rules.rule import PREFIX
from .rules.watcher_alerts import DOCUMENT_INVALID, EXPORTER_DOWN, IMDS_UNREACHABLE
from .settings import MAINTENANCE_TARGETS, MATCHER, PLACEHOLDERS, Settings
from .yaml_text import to_yaml

_SUBJECT = '{{ template "azure_scheduled_events.subject" . }}'
_TEXT = '{{ template "azure_scheduled_events.text" . }}'
_OURS = f'alertname=~"{PREFIX}.+"'
_EVENT = 'event_id!=""'


def alertmanager_config(settings: Settings) -> str:
    """Return the configuration file; its templates are in the same folder."""
    config = {
        "global": _global(settings),
        "templates": ["templates/*.tmpl"],
        "route": _route(settings),
        "inhibit_rules": [*_inhibitions(settings), *_maintenance(settings)],
        "receivers": [_pager(settings), _tickets(settings), {"name": "show"}],
    }
    unfilled = any(sign in str(config) for sign in PLACEHOLDERS)
    return to_yaml(
        config,
        "Alertmanager for azure-scheduled-events-exporter: critical pages, warning makes a ticket, info only shows.",
        *("Fill in what begins with REPLACE or ends with example.com, here or in a values file.",) * unfilled,
    )


def _global(settings: Settings) -> dict[str, Any]:
    if not settings.text("tickets.email-to"):
        return {"resolve_timeout": "5m"}
    return {
        "resolve_timeout": "5m",
        "smtp_smarthost": settings.text("tickets.email-smarthost"),
        "smtp_from": settings.text("tickets.email-from"),
    }


def _route(settings: Settings) -> dict[str, Any]:
    """The tree of routes; a group is one page, so events are grouped by nothing but their id.

    VmNotBack is a page of its own: in the event's group it would wait for ``group_interval``, and an incident that
    somebody has acknowledged would not ring again.

    All of it is below one route, which a team copies into its own configuration. Routes that a team adds here inherit
    the times of the root: with Alertmanager's ``group_interval`` of 5 minutes, an alert that maintenance inhibited
    would come so much later.
    """
    defaults = {
        "receiver": "tickets",
        "group_by": ["alertname", "job"],
        "group_wait": settings.duration("group.wait"),
        "group_interval": settings.duration("group.interval"),
        "repeat_interval": settings.duration("group.repeat"),
    }
    at_once = {"group_wait": "0s"}
    by_event = {"group_by": ["event_id"]}
    alone = {"matchers": [f'alertname="{NOT_BACK}"'], "group_by": ["alertname", "event_id"]}
    by_place = {"group_by": ["alertname", "subscription_id", "resource_group", "scale_set", "location", "zone"]}
    ours = {
        "matchers": [_OURS],
        **defaults,
        "routes": [
            {"matchers": ['severity="info"'], "receiver": "show"},
            {
                "matchers": ['severity="critical"'],
                "receiver": "pager",
                **at_once,
                **by_place,
                "routes": [
                    alone,
                    {"matchers": [_EVENT], **by_event},
                ],
            },
            {**alone, **at_once},
            {"matchers": [_EVENT, 'event_type="Preempt"'], **at_once, **by_event},
            {"matchers": [_EVENT, 'event_status="Started"'], **at_once, **by_event},
            {"matchers": [_EVENT], **by_event},
            # A group of many exporters: without this, one mail every 30 s while a fleet is rolled out or scaled in.
            {"matchers": ['component="exporter"'], "group_interval": settings.duration("group.exporters-interval")},
        ],
    }
    return {**defaults, "routes": [ours]}


def _inhibitions(settings: Settings) -> list[dict[str, Any]]:
    """Return the inhibitions of alerts that repeat or follow from another alert.

    Only alerts of events have an event_id: without that matcher, two alerts that lack it would count as equal. The
    alerts that are delivered beside a page are excluded.

    Alertmanager never reports an alert as resolved that ends while it is inhibited
    (https://github.com/prometheus/alertmanager/issues/2754): its ticket would stay open. So no alert is inhibited
    here that is usually delivered before the one that would inhibit it. VmNotBack comes last of all alerts of an event.
    """
    target = ("job", "instance", *_within(settings, "job", "instance"))
    return [
        {
            "source_matchers": [_OURS, _EVENT, 'severity="critical"', f'alertname!="{NOT_BACK}"'],
            "target_matchers": [_OURS, _EVENT, 'severity=~"warning|info"', f'alertname!~"{"|".join(BESIDE)}"'],
            "equal": ["event_id"],
        },
        {
            "source_matchers": [f'alertname="{EXPORTER_DOWN}"'],
            "target_matchers": [_OURS, 'component="exporter"', f'alertname!="{EXPORTER_DOWN}"'],
            "equal": [*target],
        },
        {
            "source_matchers": [f'alertname="{DOCUMENT_INVALID}"'],
            "target_matchers": [f'alertname="{IMDS_UNREACHABLE}"'],
            "equal": [*target],
        },
    ]


def _maintenance(settings: Settings) -> Iterator[dict[str, Any]]:
    """What the owner of a VM need not hear while Azure works on it: nothing, unless asked for.

    An alert without the label would count as equal to any other without it, so both must have it.
    """
    labels = dict.fromkeys(item.partition("=")[0] for item in settings.items("maintenance.equal"))
    for target in settings.items("maintenance.targets"):
        for label in labels:
            there = f'{label}!=""'
            yield {
                "source_matchers": [f'alertname="{MAINTENANCE}"', there],
                "target_matchers": [*_matchers(target), f'alertname!~"{PREFIX}.+"', there],
                "equal": [label, *_within(settings, label)],
            }


def _within(settings: Settings, *but: str) -> list[str]:
    """Return the labels that tell apart clusters in which other labels repeat, besides ``but``."""
    return [label for label in settings.items("maintenance.within") if label not in but]


def _matchers(target: str) -> list[str]:
    if target in MAINTENANCE_TARGETS:
        return [f'alertname=~"{MAINTENANCE_TARGETS[target]}"']
    found = [each.groups() for each in MATCHER.finditer(target)]
    matchers = [f'{label}{sign}"{plain if quoted is None else quoted}"' for label, sign, quoted, plain in found]
    return matchers or [f'alertname="{target}"']


def _slack(settings: Settings) -> dict[str, Any]:
    return {
        "api_url": settings.text("chat.slack-url"),
        "channel": settings.text("chat.slack-channel"),
        "send_resolved": True,
        "title": _SUBJECT,
        "text": _TEXT,
    }


def _webhook(url: str) -> dict[str, Any]:
    return {"url": url, "send_resolved": True}


def _pager(settings: Settings) -> dict[str, Any]:
    receiver: dict[str, Any] = {"name": "pager"}
    if key := settings.text("pager.pagerduty-key"):
        pagerduty = {"routing_key": key, "severity": "critical", "description": _SUBJECT, "details": {"text": _TEXT}}
        receiver["pagerduty_configs"] = [pagerduty]
    if key := settings.text("pager.opsgenie-key"):
        opsgenie = {"api_key": key, "message": _SUBJECT, "description": _TEXT, "priority": "P1"}
        receiver["opsgenie_configs"] = [opsgenie]
    if url := settings.text("pager.webhook-url"):
        receiver["webhook_configs"] = [_webhook(url)]
    if settings.text("chat.slack-url"):
        receiver["slack_configs"] = [_slack(settings)]
    return receiver


def _tickets(settings: Settings) -> dict[str, Any]:
    receiver: dict[str, Any] = {"name": "tickets"}
    if url := settings.text("tickets.webhook-url"):
        receiver["webhook_configs"] = [_webhook(url)]
    if address := settings.text("tickets.email-to"):
        mail = {
            "to": address,
            "send_resolved": True,
            "headers": {"Subject": _SUBJECT},
            "text": _TEXT,
            "html": '{{ template "azure_scheduled_events.html" . }}',
        }
        receiver["email_configs"] = [mail]
    if settings.text("chat.slack-url"):
        receiver["slack_configs"] = [_slack(settings)]
    return receiver
