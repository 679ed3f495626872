"""The receivers of Alertmanager, and the templates of what they send.

Who gets what is in ``routes``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from azure_scheduled_events_exporter.alerts.settings import Settings

_SUBJECT = '{{ template "azure_scheduled_events.subject" . }}'
_TEXT = '{{ template "azure_scheduled_events.text" . }}'
PREFIX = "azure-"
"""The prefix of our receivers' names in a configuration that has receivers of a team."""
WITHOUT_PAGER = frozenset(
    f"{prefix}{name}" for prefix in ("", PREFIX) for name in ("tickets", "show")
)
"""The names of our receivers that page nobody, with and without :data:`PREFIX`."""


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


def receivers(settings: Settings, prefix: str = "") -> list[dict[str, Any]]:
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


def notifies_nobody(settings: Settings) -> list[str]:
    """Return the receivers of pages and tickets that have no integration."""
    *notifying, _show = receivers(settings)
    # A receiver without integrations has its name alone.
    return [each["name"] for each in notifying if len(each) == 1]


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
     Generated: the next export replaces it. Put templates of your own into another file. */}}

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
{{ with $alerts -}}
{{ (index . 0).Annotations.summary }} ({{ len . }} alerts in this message)
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
