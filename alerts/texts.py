"""The texts of alerts. In the table, facts stand in braces, as exporters that push alerts fill them in.

``{vms}`` are the VMs of the event, and ``{time}`` is a sentence with its time. Any other name is a label, and
``{value FORMAT}`` the value of the expression.
"""

import re
from collections.abc import Mapping

from .series import IMPACT, INFO

_LABEL_OR_VALUE = re.compile(r"(?<!\{)\{(\w+)(?: (\w+))?\}")
_VMS, _TIME = "{vms}", "{time} "


def _query(vector: str, found: str, otherwise: str) -> str:
    return f'{{{{with printf "{vector}" $labels.event_id | query}}}}{found}{otherwise}{{{{end}}}}'


# These queries are most of an evaluation, so each reads one series. Only if the VM has no exporter, its peers are read.
_NAMES = '{{first . | label "resources"}}{{else}}'
_PEERS = _query(f"last_over_time({INFO}{{event_id=%q}}[15m])", _NAMES, "a VM")
_FACTS: Mapping[str, str] = {
    _VMS: _query(f"last_over_time({INFO}{{event_id=%q,scope='self'}}[1h])", _NAMES, _PEERS),
    _TIME: _query(
        f"last_over_time({IMPACT}{{event_id=%q}}[1h])",
        "Impact from {{first . | value | humanizeTimestamp}}, ",
        'resource group {{first . | label "resource_group"}}. ',
    ),
}


def for_rules(text: str) -> str:
    """Return the text as a template of Prometheus and vmalert."""
    return _filled(text, _FACTS, "$labels.", "$value")


def for_azure_monitor(text: str) -> str:
    """Return the same without queries, which Azure Monitor cannot do."""
    return _filled(text, {_VMS: "the VMs of event {event_id}", _TIME: ""}, "$labels.", "$value")


def for_grafana(text: str) -> str:
    """Return a template of Grafana, which cannot query either."""
    return _filled(text, {_VMS: "the VMs of event {event_id}", _TIME: ""}, ".Labels.", '(index .Values "B").Value')


def _filled(text: str, facts: Mapping[str, str], label: str, value: str) -> str:
    for name, template in facts.items():
        text = text.replace(name, template)
    return _LABEL_OR_VALUE.sub(
        lambda found: f"{{{{ {value} | {found[2]} }}}}" if found[2] else f"{{{{ {label}{found[1]} }}}}", text
    )
