"""The texts of alerts.

In the texts of the table of alerts (``alerts.groups``), facts stand in braces:

- ``{vms}``: the VMs of the event and their resource group; ``{when}``: when its impact begins or
  began, with the word that fits. Exporters that push alerts fill them in with the same words.
- ``{event_type}``: its type, cut so that a title stays short; ``{loss}``: what such an event costs.
- ``{vm}``: the VM of an exporter, with its resource group and its address.
- ``{ahead}``: what to do about an event of this type that is days ahead.
- ``{away}``: VMs of a scale set that are away, at most ten, each with the time of its impact.
- ``{paused_vm}``, ``{announced}``: the VM of an exporter, and the pause that Azure announced for
  the event, or "less" where an engine cannot look it up.
- ``{begun}``: when the event began; ``{seconds}``: the alert's value, in seconds.
- ``{refused}``: a sentence about the event whose approval was refused: its VMs and its time.
- ``{hook_vm}``, ``{hook_state}``: the VM of a hook, and in which state it may be;
  ``{hook_outcome}``, ``{hook_event}``: what the hook did, and before or after which event;
  ``{by_hand}``: what is to be done instead of it.
- ``{place}``: the resource group of a VM, in parentheses; ``{time}``: the alert's value as a time.
- ``{value FORMAT}``: the value of the expression; another word: the label with that name.

``queries`` has what the rules ask for names and times. The query of one fact may give several: a
text with ``{when}`` also has ``{vms}``, one with ``{announced}`` has ``{paused_vm}``, and one with
``{hook_event}`` has ``{hook_vm}``.
"""

import re
from dataclasses import dataclass, field
from typing import Final

from azure_scheduled_events_exporter.core.event_types import EVENT_FACTS, EventType

from .queries import (
    AWAY,
    BEGUN,
    BOARD_OF_EVENT,
    EVENT,
    HOOK,
    LONGEST_GROUP,
    LONGEST_TYPE,
    NO_VMS,
    PAUSED,
    REFUSED,
    SHORT_GROUP,
    SHORT_TYPE,
    TARGET,
    TIME,
    UNKNOWN_REFUSED,
    UNKNOWN_TIME,
    UTC,
)

OF_TARGETS = ("{vm}", "{paused_vm}", "{hook_vm}")
"""Facts that are the names of VMs of exporters."""

_FACT = re.compile(r"(?<!\{)\{(\w+)(?: (\w+))?\}")
_UNKNOWN_LOSS: Final = "This version of the exporter does not know what such an event does."
_AHEAD: Final = (
    "Drain each VM that the event names, and copy what you need from its ephemeral disks. Then"
    " redeploy it, as Microsoft recommends: that moves it to a healthy host at once (the runbook"
    " has the command). Do this within a day; it need not be at night."
)
_PAUSE_AHEAD: Final = (
    "Be ready for a pause of seconds. To choose its time, approve the event (the runbook has the"
    " command)."
)
_PREPARE: Final = (
    "Drain the VM by hand, or hand the role of its database over, before the event begins. If it"
    " has begun, check the VM when it is back."
)
_RECOVER: Final = "Put the VM back into service by hand."


@dataclass(frozen=True, slots=True)
class Form:
    """How one engine writes facts.

    Attributes:
        facts: the template of each fact that is neither a label nor the value.
        preludes: the query of the fact of this name, with which a text that has it begins. It sets
            the variables (``$vms``) that the templates in ``facts`` use.
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
        if not variables:
            return prefix + name
        filled = []
        for each in variables.split("&"):
            variable, _, label = each.partition("=")
            filled.append(f"var-{variable}={{{{ {self.escape}{self.label}{label} }}}}")
        return f"{prefix}{name}?{'&'.join(filled)}"

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


def _ahead(label: str) -> str:
    """Return the template of what to do about an event of this type that is days ahead."""
    freeze = f'if eq {label}event_type "{EventType.FREEZE}"'
    return f"{{{{ {freeze} }}}}{_PAUSE_AHEAD}{{{{ else }}}}{_AHEAD}{{{{ end }}}}"


def _hook(label: str) -> dict[str, str]:
    """Return the templates of what a hook has not done."""
    outcome = f"{label}outcome"

    def by_phase(recover: str, prepare: str) -> str:
        is_recover = f'if eq {label}phase "recover"'
        return f"{{{{ {is_recover} }}}}{recover}{{{{ else }}}}{prepare}{{{{ end }}}}"

    return {
        "hook_state": f"is perhaps not {by_phase('back in service', 'drained')}",
        "hook_outcome": (
            f'{{{{ if eq {outcome} "too_late" }}}}was too late for{{{{ else -}}}}\n'
            f'{{{{ if eq {outcome} "timeout" }}}}timed out{{{{ else }}}}failed{{{{ end }}}} '
            f"{by_phase('after', 'before')}{{{{ end }}}}"
        ),
        "by_hand": by_phase(_RECOVER, _PREPARE),
    }


FOR_RULES = Form(
    facts={
        "vms": "{{ $vms }}",
        "when": "{{ $when }}",
        "event_type": f"{{{{ $labels.event_type | {SHORT_TYPE} }}}}",
        "loss": _loss("$labels."),
        "ahead": _ahead("$labels."),
        "away": "{{ $away }}",
        "vm": "{{ $vm }}",
        "paused_vm": "{{ $vm }}",
        "announced": "{{ $announced }}",
        "begun": "{{ $begun }}",
        "refused": "{{ $refused }}",
        **_hook("$labels."),
        "hook_vm": "{{ $vm }}",
        "hook_event": "{{ $event }}",
        "seconds": '{{ printf "%.0f s" $value }}',
        "place": (
            f"{{{{ with $labels.resource_group | {SHORT_GROUP} }}}} (resource group {{{{ . }}}})"
            "{{ end }}"
        ),
        "time": f"{{{{ humanizeTimestamp $value | {UTC} }}}}",
    },
    preludes={
        "vms": EVENT,
        "when": TIME,
        "vm": TARGET,
        "paused_vm": PAUSED,
        "begun": BEGUN,
        "refused": REFUSED,
        "hook_vm": HOOK,
        "away": AWAY,
    },
    event_board="{{ $board }}",
    event_prelude=BOARD_OF_EVENT,
)
"""Templates of Prometheus and vmalert."""

FOR_AZURE_MONITOR = Form(
    facts={
        "vms": "{{ $labels.vms }} (resource group {{ $labels.resource_group }})",
        "when": "at {{ $value | humanizeTimestamp }}",
        "loss": "It has the same effect as an event of this type that Azure starts itself.",
        "ahead": f"For a Freeze: {_PAUSE_AHEAD} For any other type: {_AHEAD}",
        "away": "its VMs",
        "vm": (
            "{{ $labels.vm_name }}"
            " (resource group {{ $labels.resource_group }}, {{ $labels.instance }})"
        ),
        "paused_vm": "{{ $labels.vm_name }} (resource group {{ $labels.resource_group }})",
        "announced": "less",
        "begun": "a time that the dashboard shows",
        "refused": UNKNOWN_REFUSED,
        "hook_vm": "{{ $labels.vm_name }} (resource group {{ $labels.resource_group }})",
        "hook_state": "is perhaps not drained, or not back in service",
        "hook_outcome": "went wrong ({{ $labels.outcome }}) in phase {{ $labels.phase }} of",
        "hook_event": "a {{ $labels.event_type }}",
        "by_hand": f"In phase prepare: {_PREPARE} In phase recover: {_RECOVER}",
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
    return named.replace("VALUE", '(index .Values "B").Value').replace("UTC", UTC)


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
        "ahead": _ahead(".Labels."),
        "away": "its VMs",
        "vm": _grafana(f"{_GRAFANAS_VM} at {{{{ .Labels.instance }}}}{_IN_GROUP}"),
        "paused_vm": _grafana(f"{_GRAFANAS_VM}{_IN_GROUP}"),
        "announced": "less",
        "begun": "a time that the dashboard shows",
        "refused": UNKNOWN_REFUSED,
        **_hook(".Labels."),
        "hook_vm": _grafana(f"{_GRAFANAS_VM}{_IN_GROUP}"),
        "hook_event": "a {{ .Labels.event_type }}",
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


def ahead_of(event_type: str) -> str:
    """Return what ``{ahead}`` stands for."""
    return _PAUSE_AHEAD if event_type == EventType.FREEZE else _AHEAD


def _cut(text: str, longest: int) -> str:
    return f"{text[:longest]}…" if len(text) > longest else text


def filled(text: str, facts: dict[str, str]) -> str:
    """Return the text of a pushed alert. What a fact contains is not replaced again."""
    return _FACT.sub(lambda found: facts.get(found[1], found[0]), text)
