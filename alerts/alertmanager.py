"""Generates the configuration of Alertmanager: one page for each event, without duplicates."""

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from .exporters import DOCUMENT_INVALID, EXPORTER_DOWN, IMDS_UNREACHABLE, LATE
from .rule import PREFIX
from .settings import MAINTENANCE_TARGETS, MATCHER, PLACEHOLDERS, Settings
from .templates import TEMPLATES
from .vms import MAINTENANCE, NOT_BACK
from .yaml_text import to_yaml

_SUBJECT = '{{ template "azure_scheduled_events.subject" . }}'
_TEXT = '{{ template "azure_scheduled_events.text" . }}'
_OURS = f'alertname=~"{PREFIX}.+"'
_EVENT = 'event_id!=""'
RESEND_DELAY = "10s"
"""How often Prometheus has to send its alerts again, so that an Alertmanager that restarts knows of a maintenance
before the alerts that it inhibits have waited for their ``group_wait``. Prometheus' default is a minute."""

_STACK_INHIBITIONS: tuple[dict[str, Any], ...] = (
    {
        "source_matchers": ['severity="critical"'],
        "target_matchers": ['severity=~"warning|info"'],
        "equal": ["namespace", "alertname"],
    },
    {
        "source_matchers": ['severity="warning"'],
        "target_matchers": ['severity="info"'],
        "equal": ["namespace", "alertname"],
    },
    {
        "source_matchers": ['alertname="InfoInhibitor"'],
        "target_matchers": ['severity="info"'],
        "equal": ["namespace"],
    },
    {"target_matchers": ['alertname="InfoInhibitor"']},
)
"""The chart's own inhibitions, as of kube-prometheus-stack 80."""


def alertmanager_config(settings: Settings) -> str:
    """Return the configuration file; its templates are in the same folder."""
    config = {
        "global": _global(settings),
        "templates": ["templates/*.tmpl"],
        "route": {**_times(settings), "routes": [_route(settings)]},
        "inhibit_rules": _inhibitions(settings),
        "receivers": _receivers(settings),
    }
    return to_yaml(
        config,
        "Alertmanager for azure-scheduled-events-exporter: critical pages, warning makes a ticket, info only shows.",
        *_unfilled(config),
    )


def fragment(settings: Settings) -> str:
    """Return what an existing configuration needs: its lists get the items of the lists here."""
    names = {"tickets": "azure-tickets", "pager": "azure-pager", "show": "azure-show"}
    content = {
        "templates": ["templates/*.tmpl"],
        "route": {"routes": [_renamed(_route(settings), names)]},
        "inhibit_rules": _inhibitions(settings),
        "receivers": [{**each, "name": names[each["name"]]} for each in _receivers(settings)],
    }
    return to_yaml(
        content,
        "For an Alertmanager that you have: add the items of each list to the list of the same name in your file, the",
        "route before your own routes. Replace the receivers by yours, or fill them in.",
        *_unfilled(content),
    )


def kube_prometheus_stack_values(settings: Settings) -> str:
    """Return values for the Helm chart kube-prometheus-stack, whose lists a values file replaces as a whole."""
    ours = yaml.safe_load(fragment(settings))
    quiet = {"matchers": ['alertname="Watchdog"'], "receiver": "null"}
    config = {
        "route": {"receiver": "null", "routes": [*ours["route"]["routes"], quiet]},
        "inhibit_rules": [*_STACK_INHIBITIONS, *ours["inhibit_rules"]],
        "receivers": [{"name": "null"}, *ours["receivers"]],
        "templates": ["/etc/alertmanager/config/*.tmpl"],
    }
    values = {
        "alertmanager": {"config": config, "templateFiles": {"azure-scheduled-events.tmpl": TEMPLATES}},
        "prometheus": {
            "prometheusSpec": {
                "ruleSelectorNilUsesHelmValues": False,
                "podMonitorSelectorNilUsesHelmValues": False,
                "serviceMonitorSelectorNilUsesHelmValues": False,
                "additionalArgs": [{"name": "rules.alert.resend-delay", "value": RESEND_DELAY}],
            }
        },
    }
    return to_yaml(
        values,
        "Values for the chart kube-prometheus-stack: helm upgrade … --values THIS-FILE. They contain its own routes",
        "and inhibitions, since Helm replaces lists. Add your receivers and routes.",
        *_unfilled(config),
    )


def _unfilled(config: Mapping[str, Any]) -> tuple[str, ...]:
    if any(sign in str(config) for sign in PLACEHOLDERS):
        return ("Fill in what begins with REPLACE or ends with example.com, here or in a values file.",)
    return ()


def _renamed(route: Any, names: Mapping[str, str]) -> Any:  # noqa: ANN401 - a part of a route
    """Return ``route`` with other names of receivers."""
    if isinstance(route, dict):
        return {
            key: names[value] if key == "receiver" else _renamed(value, names) if key == "routes" else value
            for key, value in route.items()
        }
    return [_renamed(each, names) for each in route]


def _global(settings: Settings) -> dict[str, Any]:
    if not settings.text("tickets.email-to"):
        return {"resolve_timeout": "5m"}
    return {
        "resolve_timeout": "5m",
        "smtp_smarthost": settings.text("tickets.email-smarthost"),
        "smtp_from": settings.text("tickets.email-from"),
    }


def _times(settings: Settings) -> dict[str, Any]:
    return {
        "receiver": "tickets",
        "group_by": ["alertname", "job"],
        "group_wait": settings.duration("group.wait"),
        "group_interval": settings.duration("group.interval"),
        "repeat_interval": settings.duration("group.repeat"),
    }


def _route(settings: Settings) -> dict[str, Any]:
    """The tree of routes; a group is one page, so events are grouped by nothing but their id.

    VmNotBack is a page of its own: in the event's group it would wait for ``group_interval``, and an incident that
    somebody has acknowledged would not ring again. A VM that is evicted has seconds, and one that went down without
    notice is down, so their tickets do not wait.
    """
    at_once, by_event = {"group_wait": "0s"}, {"group_by": ["event_id"]}
    alone = {"matchers": [f'alertname="{NOT_BACK}"'], "group_by": ["alertname", "event_id"]}
    by_place = {"group_by": ["alertname", "subscription_id", "resource_group", "scale_set"]}
    critical = {
        "matchers": ['severity="critical"'],
        "receiver": "pager",
        **at_once,
        **by_place,
        "routes": [alone, {"matchers": [_EVENT], **by_event}],
    }
    urgent = {"matchers": [_EVENT, f'alertname=~"{PREFIX}(Preempt|WithoutNotice)"'], **at_once, **by_event}
    return {
        "matchers": [_OURS],
        **_times(settings),
        "routes": [
            {"matchers": ['severity="info"'], "receiver": "show"},
            critical,
            {**alone, **at_once},
            urgent,
            {"matchers": [_EVENT], **by_event},
            # A group of many exporters: without this, one mail every 30 s while a fleet is rolled out or scaled in.
            {"matchers": ['component="exporter"'], "group_interval": "5m"},
        ],
    }


def _inhibitions(settings: Settings) -> list[dict[str, Any]]:
    """Return the inhibitions of alerts that repeat or follow from another alert.

    Only alerts of events have an event_id: without that matcher, two alerts that lack it would count as equal. The
    alerts that say something new about an event are excluded.

    Alertmanager never reports an alert as resolved that ends while it is inhibited
    (https://github.com/prometheus/alertmanager/issues/2754): its ticket would stay open. So no alert is inhibited
    here that is usually delivered before the one that would inhibit it.
    """
    beside = "|".join((*LATE, NOT_BACK, f"{PREFIX}DegradedHost"))
    target = ("job", "instance", *_within(settings, "job", "instance"))
    return [
        {
            "source_matchers": [_OURS, _EVENT, 'severity="critical"', f'alertname!="{NOT_BACK}"'],
            "target_matchers": [_OURS, _EVENT, 'severity=~"warning|info"', f'alertname!~"{beside}"'],
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
        *_maintenance(settings),
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


def _receivers(settings: Settings) -> list[dict[str, Any]]:
    return [_pager(settings), _tickets(settings), {"name": "show"}]


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
