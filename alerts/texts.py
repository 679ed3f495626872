"""The facts in the texts of event alerts, in the forms that rules, pushed alerts and Grafana need.

A text of the table has :data:`VMS`, :data:`TIME` and ``{event_type}``.
"""

from .series import IMPACT, INFO, NOT_BEFORE

VMS = "@VMS@"
"""In a text: the VMs of the event and their resource group."""
TIME = "@TIME@"
"""In a text: a sentence with the time at which the event starts."""

_VMS = (  # a longer window would take most of an evaluation: each VM of a placement group shows the event
    f"{{{{ with printf \"last_over_time({INFO}{{event_id='%s'}}[15m])\" $labels.event_id | query }}}}"
    '{{ . | first | label "resources" }}{{ else }}a VM{{ end }}'
    f"{{{{ with printf \"{IMPACT}{{event_id='%s'}}\" $labels.event_id | query }}}}"
    ' (resource group {{ . | first | label "resource_group" }}){{ end }}'
)
_TIME = (
    f"{{{{ with printf \"min({NOT_BEFORE}{{event_id='%s'}}) > time()\" $labels.event_id | query }}}}"
    "Starts at {{ . | first | value | humanizeTimestamp }} or once approved."
    "{{ else }}It may have started.{{ end }}"
)


def for_rules(text: str) -> str:
    """Return the text as a template of Prometheus and vmalert, with one short query for each fact."""
    return text.replace("{event_type}", "{{ $labels.event_type }}").replace(VMS, _VMS).replace(TIME, _TIME)


def for_push(text: str) -> str:
    """Return the text for exporters that push: they fill in names in single braces."""
    return text.replace(VMS, "{vms}").replace(TIME, "{time}")


def for_grafana(text: str) -> str:
    """Return a template of :func:`for_rules` in the form that Grafana reads."""
    return without_queries(text).replace("$labels.", ".Labels.").replace("$value", '(index .Values "B").Value')


def without_queries(text: str) -> str:
    """Return a template of :func:`for_rules` without queries, which Grafana and Azure Monitor cannot do."""
    return text.replace(_VMS, "the VMs of event {{ $labels.event_id }}").replace(f"{_TIME} ", "").replace(_TIME, "")
