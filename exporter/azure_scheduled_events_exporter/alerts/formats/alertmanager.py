"""Generates the configuration of Alertmanager, in three forms.

The forms are a whole file, items to append to a file that a team has, and values for the chart
kube-prometheus-stack. Alertmanager loads each as it is, because nothing in it depends on
Alertmanager's own section ``global``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from azure_scheduled_events_exporter.alerts.settings import Settings
from azure_scheduled_events_exporter.alerts.settings_table import PLACEHOLDERS
from azure_scheduled_events_exporter.alerts.severities import INFO, paging, word_of

from .routes import defaults, inhibitions, route
from .yaml_text import to_yaml

_SUBJECT = '{{ template "azure_scheduled_events.subject" . }}'
_TEXT = '{{ template "azure_scheduled_events.text" . }}'
_PREFIX = "azure-"
"""The prefix of our receivers' names in a configuration that has receivers of a team."""
PAGES_NOBODY = frozenset(
    f"{prefix}{name}" for prefix in ("", _PREFIX) for name in ("tickets", "show")
)
"""The names of our receivers that get no pages, in every form of the configuration."""
RESEND_DELAY = "10s"
"""What ``--rules.alert.resend-delay`` of Prometheus has to be; its default is a minute.

An Alertmanager that restarts has to know of a maintenance before the alerts that it inhibits have
waited for their ``group_wait``.
"""
_TEMPLATE_FILES = ["templates/*.tmpl"]
_MERGED = """\
{{- $theirs := .Values.alertmanager.config -}}
{{- $ours := .Values.azureScheduledEvents -}}
{{- $routes := concat $ours.routes ($theirs.route.routes | default list) -}}
{{- $receivers := concat ($theirs.receivers | default list) $ours.receivers -}}
{{- $inhibitions := concat ($theirs.inhibit_rules | default list) $ours.inhibit_rules -}}
{{- $templates := concat ($theirs.templates | default list) $ours.templates | uniq -}}
{{- $route := merge (dict "routes" $routes) $theirs.route -}}
{{- $lists := dict "receivers" $receivers "inhibit_rules" $inhibitions "templates" $templates -}}
{{ toYaml (merge (dict "route" $route) $lists $theirs) }}
"""
"""Helm's template of a configuration: all that the chart's values have, and our items in its lists.

Helm replaces lists, so a values file with lists of Alertmanager's would delete those of a team.
Where two dictionaries of ``merge`` have the same key, the first one counts.
"""


def alertmanager_config(settings: Settings) -> str:
    """Return the configuration file; its templates are in the same folder."""
    config = {
        "global": {"resolve_timeout": "5m"},
        "templates": _TEMPLATE_FILES,
        "route": {**defaults(settings), "routes": [route(settings)]},
        "inhibit_rules": inhibitions(settings),
        "receivers": _receivers(settings),
    }
    meaning = (
        "Alertmanager for azure-scheduled-events-exporter:"
        f" {', '.join(paging(settings))} pages, {word_of(INFO, settings)} only shows, all else"
        " makes a ticket."
    )
    return to_yaml(config, meaning, *_to_fill_in(config))


def fragment(settings: Settings) -> str:
    """Return items to append to a configuration that a team has, each below a comment with where.

    Alertmanager loads it as it is, so that it can be checked before it is copied.
    """
    # By key of the configuration: what it has, and the comment above it.
    parts: Mapping[str, tuple[Any, str]] = {
        "templates": (_TEMPLATE_FILES, "Append this item to your `templates`, and copy its files."),
        "route": (
            {"receiver": f"{_PREFIX}show", "routes": [route(settings, _PREFIX)]},
            (
                "Put the one item of `routes`, with all that is below it, first in your"
                " `route.routes`, but after routes with `continue: true`. Ignore the `receiver`"
                " above it, and keep yours."
            ),
        ),
        "inhibit_rules": (inhibitions(settings), "Append these items to your `inhibit_rules`."),
        "receivers": (
            _receivers(settings, _PREFIX),
            "Append these items to your `receivers`, or give their names to receivers of yours.",
        ),
    }
    head = (
        "For an Alertmanager that you have: items to append, and where they go in your file.",
        "In the values of kube-prometheus-stack, that is below `alertmanager.config`.",
        *_to_fill_in(parts),
    )
    texts = [to_yaml({name: items}, where, note=False) for name, (items, where) in parts.items()]
    return to_yaml(None, *head) + "".join(texts)


def kube_prometheus_stack_values(settings: Settings) -> str:
    """Return values for the Helm chart kube-prometheus-stack that keep all that a team has."""
    values = {
        "alertmanager": {
            "tplConfig": True,
            "stringConfig": _MERGED,
            "templateFiles": {"azure-scheduled-events.tmpl": TEMPLATES},
        },
        "azureScheduledEvents": {
            "routes": [route(settings, _PREFIX)],
            "inhibit_rules": inhibitions(settings),
            "receivers": _receivers(settings, _PREFIX),
            "templates": ["/etc/alertmanager/config/*.tmpl"],
        },
    }
    return to_yaml(
        values,
        "Values for the chart kube-prometheus-stack 45.1 or newer, beside your own: helm upgrade …"
        " --values YOURS --values THIS-FILE.",
        "`stringConfig` is your `alertmanager.config` with our items added to its lists. If you"
        " set `stringConfig` or",
        "`tplConfig` yourself, append the items of fragment.yml to your configuration instead.",
        *_to_fill_in(values),
    )


def _to_fill_in(content: object) -> tuple[str, ...]:
    """Return the comment about placeholders, if ``content`` has any."""
    if not any(sign in str(content) for sign in PLACEHOLDERS):
        return ()
    return ("Fill in what begins with REPLACE or ends with example.com, here or in a values file.",)


@dataclass(frozen=True, slots=True)
class _Integration:
    """One way in which a receiver notifies.

    Attributes:
        setting: which setting has its address or key. If that is empty, the integration is left
            out.
        key: its list in the configuration of a receiver.
        config: its only item there.
    """

    setting: str
    key: str
    config: Mapping[str, Any]


def _receivers(settings: Settings, prefix: str = "") -> list[dict[str, Any]]:
    """Return the receivers, each with the integrations whose setting is not empty."""

    def receiver(name: str, *integrations: _Integration) -> dict[str, Any]:
        chosen = {each.key: [each.config] for each in integrations if settings.text(each.setting)}
        return {"name": f"{prefix}{name}", **chosen}

    chat = _chat(settings)
    pager = receiver(
        "pager",
        _pagerduty(settings),
        _opsgenie(settings),
        _webhook(settings, "pager.webhook-url"),
        chat,
    )
    tickets = receiver("tickets", _webhook(settings, "tickets.webhook-url"), _mail(settings), chat)
    show = receiver("show")  # notifies nobody: its alerts are only seen in Alertmanager
    return [pager, tickets, show]


def _pagerduty(settings: Settings) -> _Integration:
    setting = "pager.pagerduty-key"
    config = {
        "routing_key": settings.text(setting),
        "severity": "critical",
        "description": _SUBJECT,
        "details": {"text": _TEXT},
    }
    return _Integration(setting, "pagerduty_configs", config)


def _opsgenie(settings: Settings) -> _Integration:
    setting = "pager.opsgenie-key"
    config = {
        "api_key": settings.text(setting),
        "message": _SUBJECT,
        "description": _TEXT,
        "priority": "P1",
    }
    return _Integration(setting, "opsgenie_configs", config)


def _webhook(settings: Settings, setting: str) -> _Integration:
    config = {"url": settings.text(setting), "send_resolved": True}
    return _Integration(setting, "webhook_configs", config)


def _chat(settings: Settings) -> _Integration:
    setting = "chat.slack-url"
    config = {
        "api_url": settings.text(setting),
        "channel": settings.text("chat.slack-channel"),
        "send_resolved": True,
        "title": _SUBJECT,
        "text": _TEXT,
    }
    return _Integration(setting, "slack_configs", config)


def _mail(settings: Settings) -> _Integration:
    """Return the mail with its server: a fragment has no ``global`` to take it from."""
    setting = "tickets.email-to"
    config = {
        "to": settings.text(setting),
        "from": settings.text("tickets.email-from"),
        "smarthost": settings.text("tickets.email-smarthost"),
        "send_resolved": True,
        "headers": {"Subject": _SUBJECT},
        "text": _TEXT,
        "html": "",  # the text alone
    }
    return _Integration(setting, "email_configs", config)


TEMPLATES = """\
{{/* Notification templates for azure-scheduled-events-exporter.
     Generated by `python -m alerts`;
     change exporter/azure_scheduled_events_exporter/alerts instead. */}}

{{/* "DRILL " while a team tries its own paging. */}}
{{ define "azure_scheduled_events.drill" -}}
{{ if and (eq .CommonLabels.drill "true") (not (match "^DRILL" .CommonAnnotations.summary)) -}}
DRILL {{ end }}
{{- end }}

{{/* One line for a phone: the first alert that fires, and how many there are besides. */}}
{{ define "azure_scheduled_events.subject" -}}
{{ template "azure_scheduled_events.drill" . }}
{{- if eq .Status "resolved" }}Resolved: {{ end }}
{{- if .CommonAnnotations.summary }}{{ .CommonAnnotations.summary }}
{{- else -}}
{{ $alerts := .Alerts }}{{ if .Alerts.Firing }}{{ $alerts = .Alerts.Firing }}{{ end -}}
{{ range $number, $alert := $alerts -}}
{{ if eq $number 0 }}{{ .Annotations.summary }} ({{ len $alerts }} alerts in this message){{ end }}
{{- end }}
{{- end }}
{{- end }}

{{/* The same with the sentences and the links, for pagers, chats and mails. */}}
{{ define "azure_scheduled_events.text" -}}
{{ range .Alerts -}}
{{ if eq .Status "resolved" }}Resolved: {{ .Annotations.summary }}
{{ else }}{{ .Annotations.summary }}
{{ .Annotations.description }}
{{ end }}{{ with .Annotations.runbook_url }}Runbook: {{ . }}
{{ end }}{{ with .Annotations.dashboard_url }}Dashboard: {{ . }}
{{ end }}{{ with .Labels.cluster }}Cluster: {{ . }}
{{ end }}{{ with .Labels.event_id }}Event: {{ . }}
{{ end }}Alert since: {{ .StartsAt.UTC.Format "2006-01-02 15:04:05" }} UTC
{{ if eq .Status "resolved" }}Resolved at: {{ .EndsAt.UTC.Format "2006-01-02 15:04:05" }} UTC
{{ end }}
{{ end }}
{{- end }}
"""
"""What people read on a phone, in a chat and in a mail."""
