"""Generates the configuration of Alertmanager: one page for each event, without duplicates."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from azure_scheduled_events_exporter.alerts.groups import full_name
from azure_scheduled_events_exporter.alerts.rule import PREFIX
from azure_scheduled_events_exporter.alerts.settings import (
    MAINTENANCE_TARGETS,
    MATCHER,
    PLACEHOLDERS,
    Settings,
)
from azure_scheduled_events_exporter.alerts.vms import MAINTENANCE, NOT_BACK

from .yaml_text import to_yaml

_SUBJECT = '{{ template "azure_scheduled_events.subject" . }}'
_TEXT = '{{ template "azure_scheduled_events.text" . }}'
_OURS = f'alertname=~"{PREFIX}.+"'
_EVENT = 'event_id!=""'
RESEND_DELAY = "10s"
"""How often Prometheus has to send its alerts again, so that an Alertmanager that restarts knows of a maintenance
before the alerts that it inhibits have waited for their ``group_wait``. Prometheus' default is a
minute."""


def _inhibition(source: Sequence[str], target: Sequence[str], *equal: str) -> dict[str, Any]:
    return {"source_matchers": [*source], "target_matchers": [*target], "equal": [*equal]}


_STACK_INHIBITIONS = (
    _inhibition(['severity="critical"'], ['severity=~"warning|info"'], "namespace", "alertname"),
    _inhibition(['severity="warning"'], ['severity="info"'], "namespace", "alertname"),
    _inhibition(['alertname="InfoInhibitor"'], ['severity="info"'], "namespace"),
    {"target_matchers": ['alertname="InfoInhibitor"']},
)
"""The chart's own inhibitions, as of kube-prometheus-stack 80."""


def alertmanager_config(settings: Settings) -> str:
    """Return the configuration file; its templates are in the same folder."""
    parts = _parts(settings)
    mail = {
        "smtp_smarthost": settings.text("tickets.email-smarthost"),
        "smtp_from": settings.text("tickets.email-from"),
    }
    config = {
        "global": {"resolve_timeout": "5m", **(mail if settings.text("tickets.email-to") else {})},
        **parts,
        "route": {**_times(settings), **parts["route"]},
    }
    return _written(
        config,
        "Alertmanager for azure-scheduled-events-exporter: critical pages, warning makes a ticket,"
        " info only shows.",
    )


def fragment(settings: Settings) -> str:
    """Return what an existing configuration needs: its lists get the items of the lists here."""
    return _written(
        _parts(settings, "azure-"),
        "For an Alertmanager that you have: add the items of each list to the list of the same name"
        " in your file, the",
        "route before your own routes. Replace the receivers by yours, or fill them in.",
    )


def kube_prometheus_stack_values(settings: Settings) -> str:
    """Return values for the Helm chart kube-prometheus-stack, whose lists a values file replaces as a whole."""
    ours = _parts(settings, "azure-")
    quiet = {"matchers": ['alertname="Watchdog"'], "receiver": "null"}
    config = {
        "route": {"receiver": "null", "routes": [*ours["route"]["routes"], quiet]},
        "inhibit_rules": [*_STACK_INHIBITIONS, *ours["inhibit_rules"]],
        "receivers": [{"name": "null"}, *ours["receivers"]],
        "templates": ["/etc/alertmanager/config/*.tmpl"],
    }
    values = {
        "alertmanager": {
            "config": config,
            "templateFiles": {"azure-scheduled-events.tmpl": TEMPLATES},
        },
        "prometheus": {
            "prometheusSpec": {
                "ruleSelectorNilUsesHelmValues": False,
                "podMonitorSelectorNilUsesHelmValues": False,
                "serviceMonitorSelectorNilUsesHelmValues": False,
                "additionalArgs": [{"name": "rules.alert.resend-delay", "value": RESEND_DELAY}],
            }
        },
    }
    return _written(
        values,
        "Values for the chart kube-prometheus-stack: helm upgrade … --values THIS-FILE. They"
        " contain its own routes",
        "and inhibitions, since Helm replaces lists. Add your receivers and routes.",
    )


def _parts(settings: Settings, prefix: str = "") -> dict[str, Any]:
    """Return what every configuration has, with a prefix before the names of receivers."""
    return {
        "templates": ["templates/*.tmpl"],
        "route": {"routes": [_route(settings, prefix)]},
        "inhibit_rules": _inhibitions(settings),
        "receivers": _receivers(settings, prefix),
    }


def _written(content: Mapping[str, Any], *comments: str) -> str:
    fill_in = "Fill in what begins with REPLACE or ends with example.com, here or in a values file."
    unfilled = any(sign in str(content) for sign in PLACEHOLDERS)
    return to_yaml(content, *comments, *([fill_in] if unfilled else []))


def _times(settings: Settings, prefix: str = "") -> dict[str, Any]:
    return {
        "receiver": f"{prefix}tickets",
        "group_by": ["alertname", "job"],
        "group_wait": settings.text("group.wait"),
        "group_interval": settings.text("group.interval"),
        "repeat_interval": settings.text("group.repeat"),
    }


def _route(settings: Settings, prefix: str = "") -> dict[str, Any]:
    """The tree of routes; a group is one page, so events are grouped by nothing but their id.

    VmNotBack is a page of its own: in the event's group it would wait for ``group_interval``, and
    an incident that somebody has acknowledged would not ring again. A VM that is evicted has
    seconds, and one that went down without notice is down, so their tickets do not wait.
    """
    at_once, by_event = {"group_wait": "0s"}, {"group_by": ["event_id"]}
    alone = {"matchers": [f'alertname="{NOT_BACK}"'], "group_by": ["alertname", "event_id"]}
    by_place = {"group_by": ["alertname", "subscription_id", "resource_group", "scale_set"]}
    critical = {
        "matchers": ['severity="critical"'],
        "receiver": f"{prefix}pager",
        **at_once,
        **by_place,
        "routes": [alone, {"matchers": [_EVENT], **by_event}],
    }
    urgent = {
        "matchers": [_EVENT, f'alertname=~"{PREFIX}(Preempt|WithoutNotice)"'],
        **at_once,
        **by_event,
    }
    return {
        "matchers": [_OURS],
        **_times(settings, prefix),
        "routes": [
            {"matchers": ['severity="info"'], "receiver": f"{prefix}show"},
            critical,
            {**alone, **at_once},
            urgent,
            {"matchers": [_EVENT], **by_event},
            # A group of many exporters: without this, one mail every 30 s while a fleet is rolled
            # out or scaled in.
            {"matchers": ['component="exporter"'], "group_interval": "5m"},
        ],
    }


def _inhibitions(settings: Settings) -> list[dict[str, Any]]:
    """Return the inhibitions of alerts that repeat or follow from another alert.

    Only alerts of events have an event_id: without that matcher, two alerts that lack it would
    count as equal. The alerts that say something new about an event are excluded.

    Alertmanager never reports an alert as resolved that ends while it is inhibited
    (https://github.com/prometheus/alertmanager/issues/2754): its ticket would stay open. So no
    alert is inhibited here that is usually delivered before the one that would inhibit it.
    """
    beside = "|".join(
        map(full_name, ("Overdue", "StartedTooLong", "NotApproved", "VmNotBack", "DegradedHost"))
    )
    down, invalid, unreachable = map(
        full_name, ("ExporterDown", "DocumentInvalid", "ImdsUnreachable")
    )
    target = dict.fromkeys(("job", "instance", *settings.items("maintenance.within")))
    return [
        _inhibition(
            [_OURS, _EVENT, 'severity="critical"', f'alertname!="{NOT_BACK}"'],
            [_OURS, _EVENT, 'severity=~"warning|info"', f'alertname!~"{beside}"'],
            "event_id",
        ),
        _inhibition(
            [f'alertname="{down}"'],
            [_OURS, 'component="exporter"', f'alertname!="{down}"'],
            *target,
        ),
        _inhibition([f'alertname="{invalid}"'], [f'alertname="{unreachable}"'], *target),
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
            matchers = [*_matchers(target), f'alertname!~"{PREFIX}.+"', there]
            yield _inhibition(
                [f'alertname="{MAINTENANCE}"', there],
                matchers,
                *dict.fromkeys((label, *settings.items("maintenance.within"))),
            )


def _matchers(target: str) -> list[str]:
    if target in MAINTENANCE_TARGETS:
        return [f'alertname=~"{MAINTENANCE_TARGETS[target]}"']
    found = [each.groups() for each in MATCHER.finditer(target)]
    matchers = [
        f'{label}{sign}"{plain if quoted is None else quoted}"'
        for label, sign, quoted, plain in found
    ]
    return matchers or [f'alertname="{target}"']


def _receivers(settings: Settings, prefix: str = "") -> list[dict[str, Any]]:
    """Return the receivers, each with what its settings fill in."""
    text = settings.text
    of_slack = {
        "api_url": text("chat.slack-url"),
        "channel": text("chat.slack-channel"),
        "send_resolved": True,
    }
    slack = ("chat.slack-url", "slack_configs", {**of_slack, "title": _SUBJECT, "text": _TEXT})
    pagerduty = {"severity": "critical", "description": _SUBJECT, "details": {"text": _TEXT}}
    opsgenie = {"message": _SUBJECT, "description": _TEXT, "priority": "P1"}
    mail = {
        "to": text("tickets.email-to"),
        "send_resolved": True,
        "headers": {"Subject": _SUBJECT},
        "text": _TEXT,
        "html": "",  # the text alone
    }

    def receiver(name: str, *configs: tuple[str, str, dict[str, Any]]) -> dict[str, Any]:
        return {
            "name": f"{prefix}{name}",
            **{key: [config] for setting, key, config in configs if text(setting)},
        }

    def webhook(name: str) -> tuple[str, str, dict[str, Any]]:
        return name, "webhook_configs", {"url": text(name), "send_resolved": True}

    return [
        receiver(
            "pager",
            (
                "pager.pagerduty-key",
                "pagerduty_configs",
                {"routing_key": text("pager.pagerduty-key"), **pagerduty},
            ),
            (
                "pager.opsgenie-key",
                "opsgenie_configs",
                {"api_key": text("pager.opsgenie-key"), **opsgenie},
            ),
            webhook("pager.webhook-url"),
            slack,
        ),
        receiver(
            "tickets",
            webhook("tickets.webhook-url"),
            ("tickets.email-to", "email_configs", mail),
            slack,
        ),
        receiver("show"),
    ]


TEMPLATES = """\
{{/* Notification templates for azure-scheduled-events-exporter.
     Generated by `python -m alerts`; change exporter/azure_scheduled_events_exporter/alerts instead. */}}

{{/* "DRILL " while a team tries its own paging. */}}
{{ define "azure_scheduled_events.drill" -}}
{{ if and (eq .CommonLabels.drill "true") (not (match "^DRILL" .CommonAnnotations.summary)) }}DRILL {{ end }}
{{- end }}

{{/* What happens: the alerts' names without their prefix. */}}
{{ define "azure_scheduled_events.what" -}}
{{ if .CommonLabels.alertname -}}
{{ reReplaceAll "^AzureScheduledEvents?" "" .CommonLabels.alertname }}
{{- else if .CommonLabels.event_type }}{{ .CommonLabels.event_type }}
{{- else }}{{ len .Alerts }} alerts{{ end }}
{{- end }}

{{/* To whom: one event, or so many. */}}
{{ define "azure_scheduled_events.whom" -}}
{{ if .CommonLabels.event_id }}event {{ .CommonLabels.event_id }}
{{- else }}{{ len .Alerts }} of them{{ end }}
{{- end }}

{{/* One line for a phone. */}}
{{ define "azure_scheduled_events.subject" -}}
{{ template "azure_scheduled_events.drill" . }}
{{- if eq .Status "resolved" }}Resolved: {{ end }}
{{- if .CommonAnnotations.summary }}{{ .CommonAnnotations.summary }}
{{- else }}{{ template "azure_scheduled_events.what" . }}: {{ template "azure_scheduled_events.whom" . }}{{ end }}
{{- end }}

{{/* The same with the sentences and the links, for pagers, chats and mails. */}}
{{ define "azure_scheduled_events.text" -}}
{{ range .Alerts -}}
{{ if eq .Status "resolved" }}Resolved: {{ end }}{{ .Annotations.summary }}
{{ .Annotations.description }}
{{ with .Annotations.runbook_url }}Runbook: {{ . }}
{{ end }}{{ with .Annotations.dashboard_url }}Dashboard: {{ . }}
{{ end }}
{{ end }}
{{- end }}
"""
"""What people read on a phone, in a chat and in a mail."""
