"""Generates the configuration of Alertmanager, in three forms.

The forms are a whole file, items to append to a file that a team has, and values for the chart
kube-prometheus-stack. Alertmanager loads each as it is, because nothing in it depends on
Alertmanager's own section ``global``.
"""

from typing import Any

from azure_scheduled_events_exporter.alerts.settings import Settings
from azure_scheduled_events_exporter.alerts.settings_table import PLACEHOLDERS
from azure_scheduled_events_exporter.alerts.severities import INFO, paging, word_of

from .receivers import PREFIX, TEMPLATES, receivers
from .routes import defaults, inhibitions, route
from .yaml_text import to_yaml

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
        "receivers": receivers(settings),
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
    our_route = {"receiver": f"{PREFIX}show", "routes": [route(settings, PREFIX)]}
    parts = (
        _part(
            "templates",
            _TEMPLATE_FILES,
            "Append this item to your `templates`, and copy its files.",
        ),
        _part(
            "route",
            our_route,
            "Put the one item of `routes`, with all that is below it, first in your"
            " `route.routes`, but after routes with `continue: true`. Ignore the `receiver`"
            " above it, and keep yours.",
        ),
        _part(
            "inhibit_rules", inhibitions(settings), "Append these items to your `inhibit_rules`."
        ),
        _part(
            "receivers",
            receivers(settings, PREFIX),
            "Append these items to your `receivers`, or give their names to receivers of yours.",
        ),
    )
    head = (
        "For an Alertmanager that you have: items to append, and where they go in your file.",
        "In the values of kube-prometheus-stack, that is below `alertmanager.config`.",
        *_to_fill_in(parts),
    )
    return to_yaml(None, *head) + "".join(parts)


def _part(key: str, content: Any, where: str) -> str:
    """Return one key of the configuration as YAML, below the comment ``where`` it goes.

    The note that the text is generated is only in the head of the file.
    """
    return to_yaml({key: content}, where, note=False)


def kube_prometheus_stack_values(settings: Settings) -> str:
    """Return values for the Helm chart kube-prometheus-stack that keep all that a team has."""
    values = {
        "alertmanager": {
            "tplConfig": True,
            "stringConfig": _MERGED,
            "templateFiles": {"azure-scheduled-events.tmpl": TEMPLATES},
        },
        "azureScheduledEvents": {
            "routes": [route(settings, PREFIX)],
            "inhibit_rules": inhibitions(settings),
            "receivers": receivers(settings, PREFIX),
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
