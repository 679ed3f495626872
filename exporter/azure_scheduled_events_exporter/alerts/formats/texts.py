"""The texts of alerts.

In the table, facts stand in braces:

- ``{vms}``: the VMs of the event and their resource group; ``{when}``: when its impact begins or
  began, with the word that fits. Exporters that push alerts fill them in with the same words.
- ``{vm}``: the VM of an exporter, with its address.
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

from azure_scheduled_events_exporter.alerts.series import INFO, INSTANCE, PAUSED_LONGER

LONGEST_GROUP = 32
"""Characters of a resource group in a title, which must fit into the subject of a mail."""
UNKNOWN_TIME = "(time unknown)"
NO_VMS = "the VMs of event"

_FACT = re.compile(r"(?<!\{)\{(\w+)(?: (\w+))?\}")
_UTC: Final = r'reReplaceAll "(\\.[0-9]+)? \\+0000" ""'
"""Prometheus writes ``2026-11-28 11:52:52 +0000 UTC``."""

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
{{{{ with label "resource_group" . | reReplaceAll "^(.{{{LONGEST_GROUP}}}).+" "${{1}}…" }}}}\
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
{{{{ with label "vm_name" . }}}}{{{{ $vm = printf "%s (%s)" . $labels.instance }}}}{{{{ end -}}}}
{{{{ end -}}}}
"""

_PAUSED = f"""\
{{{{ $vm := $labels.instance }}}}{{{{ $announced := "less" -}}}}
{{{{ range printf "topk(1, last_over_time({PAUSED_LONGER}\
{{event_id=%q,job=%q,instance=%q,vm_name!=\\"\\"}}[1h]))"\
 $labels.event_id $labels.job $labels.instance | query -}}}}
{{{{ $vm = label "vm_name" . }}}}{{{{ $announced = printf "%s s" (label "announced" .) }}}}\
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

    facts: dict[str, str] = field(default_factory=dict)
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


FOR_RULES = Form(
    facts={
        "vms": "{{ $vms }}",
        "when": "{{ $when }}",
        "vm": "{{ $vm }}",
        "paused_vm": "{{ $vm }}",
        "announced": "{{ $announced }}",
        "seconds": '{{ printf "%.0f s" $value }}',
        "place": _place("$labels."),
        "time": f"{{{{ humanizeTimestamp $value | {_UTC} }}}}",
    },
    preludes={"vms": _EVENT, "when": _TIME, "vm": _TARGET, "paused_vm": _PAUSED},
    event_board="{{ $board }}",
    event_prelude=_BOARD_OF_EVENT,
)
"""Templates of Prometheus and vmalert."""

FOR_AZURE_MONITOR = Form(
    facts={
        "vms": "{{ $labels.vms }} (resource group {{ $labels.resource_group }})",
        "when": "at {{ $value | humanizeTimestamp }}",
        "vm": "{{ $labels.vm_name }} ({{ $labels.instance }})",
        "paused_vm": "{{ $labels.instance }}",
        "announced": "less",
        "seconds": "{{ $value | humanizeDuration }}",
        "place": " (resource group {{ $labels.resource_group }})",
        "time": "{{ $value | humanizeTimestamp }}",
    },
    escape="",
    event_board="fleet?var-resource_group={{ $labels.resource_group }}",
)
"""The same without queries, which Azure Monitor cannot do: its expressions add the names."""

_VALUE = '(index .Values "B").Value'

FOR_GRAFANA = Form(
    facts={
        "vms": f"{NO_VMS} {{{{ .Labels.event_id }}}}",
        "when": (
            f"{{{{ if gt {_VALUE} 0.0 }}}}at {{{{ humanizeTimestamp {_VALUE} | {_UTC} }}}}"
            f"{{{{ else }}}}{UNKNOWN_TIME}{{{{ end }}}}"
        ),
        "vm": "{{ .Labels.instance }}",
        "paused_vm": "{{ .Labels.instance }}",
        "announced": "less",
        "seconds": f'{{{{ printf "%.0f s" {_VALUE} }}}}',
        "place": _place(".Labels."),
        "time": f"{{{{ humanizeTimestamp {_VALUE} | {_UTC} }}}}",
    },
    label=".Labels.",
    value=_VALUE,
)
"""Templates of Grafana, which cannot query either."""


def vms_in_place(vms: str, resource_group: str) -> str:
    """Return what ``{vms}`` stands for."""
    if not resource_group:
        return vms
    is_long = len(resource_group) > LONGEST_GROUP
    shown = f"{resource_group[:LONGEST_GROUP]}…" if is_long else resource_group
    return f"{vms} (resource group {shown})"


def filled(text: str, facts: dict[str, str]) -> str:
    """Return the text of a pushed alert. What a fact contains is not replaced again."""
    return _FACT.sub(lambda found: facts.get(found[1], found[0]), text)
