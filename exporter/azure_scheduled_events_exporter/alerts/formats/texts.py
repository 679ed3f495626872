"""The texts of alerts.

In the table, facts stand in braces:

- ``{vms}``: the VMs of the event and their resource group; ``{when}``: when its impact begins or
  began, with the word that fits. Exporters that push alerts fill them in with the same words.
- ``{event_type}``: its type, cut so that a title stays short; ``{loss}``: what such an event costs.
- ``{vm}``: the VM of an exporter, with its resource group and its address.
- ``{away}``: VMs of a scale set that are away, at most ten.
- ``{paused_vm}``, ``{announced}``: the VM of an exporter, and the pause that Azure announced for
  the event; ``{seconds}``: the alert's value, in seconds.
- ``{place}``: the resource group of a VM, in parentheses; ``{time}``: the alert's value as a time.
- ``{value FORMAT}``: the value of the expression; another word: the label with that name.

A text of the rules has one query at most, of few series, since vmalert asks for each over HTTP. It
uses only functions that Prometheus and vmalert 1.79 share.
"""

import re
from dataclasses import dataclass, field
from typing import Final

from azure_scheduled_events_exporter.alerts.series import (
    INFO,
    INSTANCE,
    PAUSED_LONGER,
    VM_AWAY,
)
from azure_scheduled_events_exporter.core.event_types import EVENT_FACTS, EventType

LONGEST_GROUP = 32
LONGEST_TYPE = 22
"""Characters of a resource group, and of a type, in a title that is the subject of a mail."""
MOST_NAMES = 10
"""Names of VMs in a text."""
UNKNOWN_TIME = "(time unknown)"
NO_VMS = "the VMs of event"

_FACT = re.compile(r"(?<!\{)\{(\w+)(?: (\w+))?\}")
_UNKNOWN_LOSS: Final = "This version of the exporter does not know what such an event does."
_UTC: Final = r'reReplaceAll "(\\.[0-9]+)? \\+0000" ""'
"""Prometheus writes ``2026-11-28 11:52:52 +0000 UTC``."""

_SHORT_GROUP: Final = f'reReplaceAll "^(.{{{LONGEST_GROUP}}}).+" "${{1}}…"'

_THIS_EVENT = (
    f'printf "topk(1, {INFO}{{event_id=%[1]q,resource_group!=\\"\\"}}'
    f' or on (event_id) last_over_time({INFO}{{event_id=%[1]q}}[1h]))" $labels.event_id | query'
)
"""What any exporter says of the event now, or said last."""

_EVENT = f"""\
{{{{ $vms := printf "{NO_VMS} %s" $labels.event_id }}}}{{{{ $word := "at" -}}}}
{{{{ range {_THIS_EVENT} -}}}}
{{{{ with or (label "vms" .) (label "resources" . | reReplaceAll "," ", ") }}}}\
{{{{ $vms = . }}}}{{{{ end -}}}}
{{{{ with label "resource_group" . | {_SHORT_GROUP} }}}}\
{{{{ $vms = printf "%s (resource group %s)" $vms . }}}}{{{{ end -}}}}
{{{{ if eq (label "event_status" .) "Started" }}}}{{{{ $word = "since" }}}}{{{{ end -}}}}
{{{{ end -}}}}
"""

_TIME = f"""\
{{{{ $when := "{UNKNOWN_TIME}" -}}}}
{{{{ if gt $value 0.0 }}}}\
{{{{ $when = printf "%s %s" $word (humanizeTimestamp $value | {_UTC}) }}}}{{{{ end -}}}}
"""

_TARGET = f"""\
{{{{ $vm := $labels.instance -}}}}
{{{{ range printf "topk(1, last_over_time({INSTANCE}{{job=%q,instance=%q}}[1h]))"\
 $labels.job $labels.instance | query -}}}}
{{{{ $place := $labels.instance -}}}}
{{{{ with label "resource_group" . | {_SHORT_GROUP} }}}}\
{{{{ $place = printf "resource group %s, %s" . $labels.instance }}}}{{{{ end -}}}}
{{{{ with label "vm_name" . }}}}{{{{ $vm = printf "%s (%s)" . $place }}}}{{{{ end -}}}}
{{{{ end -}}}}
"""

_PAUSED = f"""\
{{{{ $vm := $labels.instance }}}}{{{{ $announced := "less" -}}}}
{{{{ range printf "topk(1, last_over_time({PAUSED_LONGER}\
{{event_id=%[1]q,job=%[2]q,instance=%[3]q,vm_name!=\\"\\"}}[1h]))\
 * on (job, instance) group_left (resource_group)\
 topk(1, last_over_time({INSTANCE}{{job=%[2]q,instance=%[3]q}}[1h]))"\
 $labels.event_id $labels.job $labels.instance | query -}}}}
{{{{ $vm = label "vm_name" . }}}}{{{{ $announced = printf "%s s" (label "announced" .) -}}}}
{{{{ with label "resource_group" . | {_SHORT_GROUP} }}}}\
{{{{ $vm = printf "%s (resource group %s)" $vm . }}}}{{{{ end -}}}}
{{{{ end -}}}}
"""

_AWAY = f"""\
{{{{ $away := "" -}}}}
{{{{ range $number, $each := printf "topk({MOST_NAMES + 1}, group by (vm_name)\
 ({VM_AWAY}{{subscription_id=%q,resource_group=%q,scale_set=%q}}))"\
 $labels.subscription_id $labels.resource_group $labels.scale_set\
 | query | sortByLabel "vm_name" -}}}}
{{{{ $name := label "vm_name" $each -}}}}
{{{{ if eq $number 0 }}}}{{{{ $away = $name }}}}\
{{{{ else if lt $number {MOST_NAMES} }}}}{{{{ $away = printf "%s, %s" $away $name }}}}\
{{{{ else }}}}{{{{ $away = printf "%s and others" $away }}}}{{{{ end -}}}}
{{{{ end -}}}}
"""

_BOARD_OF_EVENT = f"""\
{{{{ $board := "fleet" -}}}}
{{{{ range {_THIS_EVENT} -}}}}
{{{{ with label "resource_group" . }}}}\
{{{{ $board = printf "fleet?var-resource_group=%s" (urlquery .) }}}}{{{{ end -}}}}
{{{{ $names := label "resources" . -}}}}
{{{{ if match "^[^,]+$" $names }}}}\
{{{{ $board = printf "vm?var-vm=%s" (urlquery $names) }}}}{{{{ end -}}}}
{{{{ end -}}}}
"""


@dataclass(frozen=True, slots=True)
class Form:
    """How one engine writes facts.

    Attributes:
        facts: the template of each fact that is neither a label nor the value.
        preludes: what a text begins with if it has the fact of this name.
        label: what precedes the name of a label.
        value: the value of the alert.
        escape: the function that escapes a label in an address; "" if there is none.
        event_board: the end of the address of an event's dashboard.
        event_prelude: what stands before that address.
    """

    facts: dict[str, str]
    preludes: dict[str, str] = field(default_factory=dict)
    label: str = "$labels."
    value: str = "$value"
    escape: str = "urlquery "
    event_board: str = "fleet"
    event_prelude: str = ""

    def text(self, text: str) -> str:
        """Return the text as a template."""
        names = {found[1] for found in _FACT.finditer(text)}
        preludes = [prelude for name, prelude in self.preludes.items() if name in names]
        return "".join(preludes) + _FACT.sub(self._fact, text)

    def dashboard(self, board: str, url: str) -> str:
        """Return the address of a dashboard with its variables filled."""
        prefix = f"{url}/azure-scheduled-events-"
        if board == "event":
            return f"{self.event_prelude}{prefix}{self.event_board}"
        name, _, variables = board.partition("?")
        filled = [
            f"var-{variable}={{{{ {self.escape}{self.label}{label} }}}}"
            for variable, _, label in (each.partition("=") for each in variables.split("&"))
            if label
        ]
        return prefix + name + ("?" + "&".join(filled) if filled else "")

    def _fact(self, found: re.Match[str]) -> str:
        name = found[1]
        value_format = found[2]
        if name in self.facts:
            return self.facts[name]
        if value_format:
            return f"{{{{ {self.value} | {value_format} }}}}"
        return f"{{{{ {self.label}{name} }}}}"


def _place(label: str) -> str:
    return f"{{{{ with {label}resource_group }}}} (resource group {{{{ . }}}}){{{{ end }}}}"


def _loss(label: str) -> str:
    """Return the template of what an event of this type costs."""
    known = " else ".join(
        f'if eq {label}event_type "{each}" }}}}{each.facts.loss}{{{{' for each in EventType
    )
    return f"{{{{ {known} else }}}}{_UNKNOWN_LOSS}{{{{ end }}}}"


FOR_RULES = Form(
    facts={
        "vms": "{{ $vms }}",
        "when": "{{ $when }}",
        "event_type": (
            f'{{{{ reReplaceAll "^(.{{{LONGEST_TYPE}}}).+" "${{1}}…" $labels.event_type }}}}'
        ),
        "loss": _loss("$labels."),
        "away": "{{ $away }}",
        "vm": "{{ $vm }}",
        "paused_vm": "{{ $vm }}",
        "announced": "{{ $announced }}",
        "seconds": '{{ printf "%.0f s" $value }}',
        "place": _place("$labels."),
        "time": f"{{{{ humanizeTimestamp $value | {_UTC} }}}}",
    },
    preludes={
        "vms": _EVENT,
        "when": _TIME,
        "vm": _TARGET,
        "paused_vm": _PAUSED,
        "away": _AWAY,
    },
    event_board="{{ $board }}",
    event_prelude=_BOARD_OF_EVENT,
)
"""Templates of Prometheus and vmalert."""

FOR_AZURE_MONITOR = Form(
    facts={
        "vms": "{{ $labels.vms }} (resource group {{ $labels.resource_group }})",
        "when": "at {{ $value | humanizeTimestamp }}",
        "loss": "It has the same effect as an event of this type that Azure starts itself.",
        "away": "the VMs",
        "vm": (
            "{{ $labels.vm_name }}"
            " (resource group {{ $labels.resource_group }}, {{ $labels.instance }})"
        ),
        "paused_vm": "{{ $labels.vm_name }} (resource group {{ $labels.resource_group }})",
        "announced": "less",
        "seconds": "{{ $value | humanizeDuration }}",
        "place": " (resource group {{ $labels.resource_group }})",
        "time": "{{ $value | humanizeTimestamp }}",
    },
    escape="",
    event_board="fleet?var-resource_group={{ $labels.resource_group }}",
)
"""The same without queries, which Azure Monitor cannot do: its expressions add the names."""

NAMES = "E"
"""The expression of a Grafana rule that has the names of VMs as labels."""


def _grafana(template: str) -> str:
    """Return a template with VALUE and NAMES as Grafana has them: the alert's value, the labels.

    It has no dollar sign, which Grafana would expand in a provisioned file.
    """
    named = template.replace("NAMES", f'(index .Values "{NAMES}").Labels')
    return named.replace("VALUE", '(index .Values "B").Value').replace("UTC", _UTC)


_IN_GROUP = "{{ with NAMES.resource_group }} (resource group {{ . }}){{ end }}"
_GRAFANAS_VM = "{{ with NAMES.vm_name }}{{ . }}{{ else }}the VM{{ end }}"
_WORD = (
    '{{ with NAMES.event_status }}{{ if eq . "Started" }}since{{ else }}at{{ end }}'
    "{{ else }}at{{ end }}"
)

FOR_GRAFANA = Form(
    facts={
        "vms": _grafana(
            "{{ with NAMES.vms }}{{ . }}"
            f"{{{{ else }}}}{NO_VMS} {{{{ .Labels.event_id }}}}{{{{ end }}}}{_IN_GROUP}"
        ),
        "when": _grafana(
            f"{{{{ if gt VALUE 0.0 }}}}{_WORD} {{{{ humanizeTimestamp VALUE | UTC }}}}"
            f"{{{{ else }}}}{UNKNOWN_TIME}{{{{ end }}}}"
        ),
        "loss": _loss(".Labels."),
        "away": "its VMs",
        "vm": _grafana(f"{_GRAFANAS_VM} at {{{{ .Labels.instance }}}}{_IN_GROUP}"),
        "paused_vm": _grafana(f"{_GRAFANAS_VM}{_IN_GROUP}"),
        "announced": "less",
        "seconds": _grafana('{{ printf "%.0f s" VALUE }}'),
        "place": _place(".Labels."),
        "time": _grafana("{{ humanizeTimestamp VALUE | UTC }}"),
    },
    label=".Labels.",
    value=_grafana("VALUE"),
    event_board=_grafana(
        '{{ with NAMES.resources }}{{ if match "," . }}fleet?{{ else }}vm?var-vm={{ urlquery . }}'
        "{{ end }}{{ else }}fleet?{{ end }}"
        "{{ with NAMES.resource_group }}&var-resource_group={{ urlquery . }}{{ end }}"
    ),
)
"""Templates of Grafana, which cannot query either: a second query of each rule has the names."""


def vms_in_place(vms: str, resource_group: str) -> str:
    """Return what ``{vms}`` stands for."""
    if not resource_group:
        return vms
    return f"{vms} (resource group {_cut(resource_group, LONGEST_GROUP)})"


def type_in_title(event_type: str) -> str:
    """Return what ``{event_type}`` stands for."""
    return _cut(event_type, LONGEST_TYPE)


def loss_of(event_type: str) -> str:
    """Return what ``{loss}`` stands for."""
    facts = EVENT_FACTS.get(event_type)
    return facts.loss if facts else _UNKNOWN_LOSS


def _cut(text: str, longest: int) -> str:
    return f"{text[:longest]}…" if len(text) > longest else text


def filled(text: str, facts: dict[str, str]) -> str:
    """Return the text of a pushed alert. What a fact contains is not replaced again."""
    return _FACT.sub(lambda found: facts.get(found[1], found[0]), text)
