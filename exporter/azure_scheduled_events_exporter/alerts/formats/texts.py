"""The texts of alerts.

In the table, facts stand in braces, as exporters that push alerts fill them in.

``{vms}`` are the VMs of the event, after a space; ``{time}`` is a sentence with its time, which
rules add to the VMs. Another word in braces stands for the label with that name; ``{value FORMAT}``
is the value of the expression.
"""

import re
from collections.abc import Mapping

from azure_scheduled_events_exporter.alerts.series import IMPACT, INFO

_LABEL_OR_VALUE = re.compile(r"(?<!\{)\{(\w+)(?: (\w+))?\}")
_VMS, _TIME = " {vms}", "{time} "


def _query(action: str, vector: str) -> str:
    return f'{{{{{action} printf "{vector}" $labels.event_id | query}}}}'


# Queries are most of an evaluation: an alert has one, of few series. Peers are read only if the VM
# has no exporter.
_VMS_OF_RULES = (
    _query("range", f"last_over_time({IMPACT}{{event_id=%q}}[1h])")
    + " {{.Labels.vm_name}} (resource group {{.Labels.resource_group}}, at {{humanizeTimestamp"
    " .Value}})"
    + "{{else}}"
    + _query("with", f"{INFO}{{event_id=%q}}")
    + " {{(first .).Labels.resources}}{{end}}{{end}}"
)


def for_rules(text: str) -> str:
    """Return the text as a template of Prometheus and vmalert."""
    return _filled(text, {_VMS: _VMS_OF_RULES, _TIME: ""}, "$labels.", "$value")


def for_azure_monitor(text: str) -> str:
    """Return the same without queries, which Azure Monitor cannot do."""
    return _filled(text, {_VMS: " the VMs of event {event_id}", _TIME: ""}, "$labels.", "$value")


def for_grafana(text: str) -> str:
    """Return a template of Grafana, which cannot query either."""
    return _filled(
        text,
        {_VMS: " the VMs of event {event_id}", _TIME: ""},
        ".Labels.",
        '(index .Values "B").Value',
    )


def _filled(text: str, facts: Mapping[str, str], label: str, value: str) -> str:
    for name, template in facts.items():
        text = text.replace(name, template)
    return _LABEL_OR_VALUE.sub(
        lambda found: f"{{{{{value} | {found[2]}}}}}" if found[2] else f"{{{{{label}{found[1]}}}}}",
        text,
    )
