"""Generates the parts of descriptions that are not labels: templates look them up when the text is written.

Names and times may change while an alert fires, and an alert whose labels change is another alert. So they are looked
up by templates that ask Prometheus, or vmalert. Grafana's templates cannot ask: there, an alert names the event.
"""

from azure_scheduled_events_exporter.core.document import RESOURCES_SHOWN
from azure_scheduled_events_exporter.core.event_types import NO_INTERRUPTION

from .rule import AWAY, FIRST_VM, IMPACT, TIME, VMS, Alert, Dashboard
from .series import DURATION, EVENT, INFO, INSTANCE, NOT_BEFORE, PLANNED, STARTED, VM_EVENT, VMS_OF_EVENT

_ONE = "{event_id='%[1]s'}"
_STARTED_ONE = "{event_id='%[1]s',event_status='Started'}"


def _ask(query: str, then: str, otherwise: str = "") -> str:
    """Return a template that writes ``then`` about the first series of ``query``, and ``otherwise`` without one."""
    other = f"{{{{ else }}}}{otherwise}" if otherwise else ""
    ask = f'{{{{ with printf "{query}" $labels.event_id | query }}}}'
    return f'{ask}{{{{ with . | sortByLabel "resources" | first }}}}{then}{{{{ end }}}}{other}{{{{ end }}}}'


# The texts of an alert are written at each evaluation, and vmalert sends a request for each query in them. So a
# description has one query for all that is recorded about the event, and others only if nothing is recorded yet.
def _and_more(names: str) -> str:
    """Return the template for how many more VMs an event has than ``names``, a template's value, if there are ten."""
    number = f"max by (event_id) (last_over_time({VMS_OF_EVENT}{_ONE}[@MEMORY@])) - {RESOURCES_SHOWN} > 0"
    ask = f'{{{{ with printf "{number}" $labels.event_id | query }}}} and {{{{ . | first | value }}}} more{{{{ end }}}}'
    return f'{{{{ if match "^([^,]+,){{{RESOURCES_SHOWN - 1}}}[^,]+$" {names} }}}}{ask}{{{{ end }}}}'


_RESOURCES = f"{{{{ .Labels.resources }}}}{_and_more('.Labels.resources')}"
_SCALE_SET = " (scale set {{ .Labels.scale_set }})"
_PLACE = f"{{{{ if .Labels.scale_set }}}}{_SCALE_SET}{{{{ end }}}}"
_PLACE_OF_EXPORTER = (
    f"{{{{ with printf `{INSTANCE}{{job=%q,instance=%q,scale_set!=''}}` .Labels.job .Labels.instance | query }}}}"
    f"{{{{ with . | first }}}}{_SCALE_SET}{{{{ end }}}}{{{{ end }}}}"
)
# The names of the VMs that a query has returned.
_NAMES = (
    f'{{{{ range $number, $vm := . | sortByLabel "vm_name" }}}}{{{{ if lt $number {RESOURCES_SHOWN} }}}}'
    "{{ if $number }}, {{ end }}{{ $vm.Labels.vm_name }}{{ end }}{{ end }}"
    f'{{{{ if gt (len .) {RESOURCES_SHOWN} }}}}{{{{ with printf "vector(%d - {RESOURCES_SHOWN})" (len .) | query }}}}'
    " and {{ . | first | value }} more{{ end }}{{ end }}"
)
_VMS_HIT = f"topk by (vm_name) (1, last_over_time({VM_EVENT}{{event_id='%[1]s',vm_name!=''}}[1d]))"
_SHOWN_VMS = _ask(
    f"{INFO}{_ONE}",
    _RESOURCES + _PLACE_OF_EXPORTER,
    f'{{{{ with printf "{_VMS_HIT}" $labels.event_id | query }}}}'
    f"{_NAMES}{{{{ with . | first }}}}{_PLACE}{{{{ end }}}}{{{{ else }}}}A VM{{{{ end }}}}",
)
_VMS = f"{{{{ if $vms }}}}{{{{ $vms }}}}{_and_more('$vms')}{{{{ $place }}}}{{{{ else }}}}{_SHOWN_VMS}{{{{ end }}}}"
_VMS_ALONE = _ask(f"{EVENT}{_ONE}", _RESOURCES + _PLACE, _SHOWN_VMS)

_MOMENT = '.Value | humanizeTimestamp | reReplaceAll " \\\\+0000 UTC" ""'
_LEFT = (
    '{{ with printf "round(vector(%f) - time()) > 0" .Value | query }}'
    " (in {{ . | first | value | humanizeDuration }}){{ end }}"
)
_HAS_STARTED = "The event has started."
_OR_EARLIER = ", or earlier if approved."
_SHOWN_TIME = _ask(
    f"min by (event_id) ({NOT_BEFORE}{_ONE}) unless on (event_id) {INFO}{_STARTED_ONE}"
    f" or on (event_id) group by (event_id) ({INFO}{_STARTED_ONE}) * 0",
    f"{{{{ if eq .Value 0.0 }}}}{_HAS_STARTED}{{{{ else }}}}"
    f"The event starts at {{{{ {_MOMENT} }}}} UTC{_LEFT}{_OR_EARLIER}{{{{ end }}}}",
    "The event may start at any moment, or has started.",
)
_TIME = (
    f"{{{{ if $time }}}}The event starts at {{{{ $time }}}} UTC{{{{ $left }}}}{_OR_EARLIER}"
    f"{{{{ else if $started }}}}{_HAS_STARTED}{{{{ else }}}}{_SHOWN_TIME}{{{{ end }}}}"
)
# The last NotBefore counts also while no exporter answers. ``or`` ignores names: it is left out once the event started.
_PLANNED_ONE = f"last_over_time({PLANNED}{_ONE}[@MEMORY@])"
_SET_RECORDED = (
    '{{ $vms := "" }}{{ $place := "" }}{{ $time := "" }}{{ $left := "" }}{{ $started := false }}'
    f'{{{{ range printf "{EVENT}{_ONE} or {STARTED}{_ONE} or {_PLANNED_ONE}'
    f" or label_replace(round({_PLANNED_ONE} - time()) > 0, 'left', 'yes', '', '')\" $labels.event_id"
    ' | query | sortByLabel "resources" }}'
    '{{ if .Labels.left }}{{ $left = printf " (in %s)" (.Value | humanizeDuration) }}'
    f'{{{{ else if eq .Labels.__name__ "{PLANNED}" }}}}'
    f"{{{{ $time = {_MOMENT} }}}}"
    f'{{{{ else if eq .Labels.__name__ "{STARTED}" }}}}{{{{ $started = true }}}}'
    "{{ else if not $vms }}{{ $vms = .Labels.resources }}"
    '{{ if .Labels.scale_set }}{{ $place = printf " (scale set %s)" .Labels.scale_set }}{{ end }}'
    "{{ end }}{{ end }}"
)
_IMPACT = _ask(f"min by (event_id) ({DURATION}{_ONE}) == 0", f"{NO_INTERRUPTION} ")

_TARGETS = (
    "{{ $targets := `-` }}{{ range $rows }}{{ $targets = printf `%s|\\\\Q%s\\\\E` $targets .Labels.instance }}{{ end }}"
)
_SOME_VM_AWAY = "a VM does not answer: it has"
_AWAY = _NAMES + "{{ if eq (len .) 1 }} does not answer: it has{{ else }} do not answer: they have{{ end }}"

_FIRST_VM = '{{ .Labels.resources | reReplaceAll ",.*" "" }}'
_PARAMETERS = {
    Dashboard.FLEET: "{{ with $labels.scale_set }}?var-scale_set={{ . }}{{ end }}",
    Dashboard.EXPORTER: "{{ with $labels.instance }}?var-instance={{ . }}{{ end }}",
    Dashboard.VM: "{{ with $labels.vm_name }}?var-vm={{ . }}{{ end }}",
}


def dashboard_parameters(alert: Alert) -> str:
    """Return the end of a dashboard's address that makes it open with the alert's VM, scale set or exporter."""
    return with_first_vm(f"?var-vm={FIRST_VM}", alert) if VMS in alert.description else _PARAMETERS[alert.dashboard]


def with_first_vm(text: str, alert: Alert) -> str:
    """Return ``text``, which contains :data:`FIRST_VM`, for Prometheus and vmalert; nothing if no VM is known."""
    found = text.replace(FIRST_VM, _FIRST_VM)
    of_event = _ask(f"{EVENT}{_ONE}", found, _ask(f"{INFO}{_ONE}", found))
    away = text.replace(FIRST_VM, "{{ .Labels.vm_name }}")
    return _ask_away(f'{{{{ with . | sortByLabel "vm_name" | first }}}}{away}{{{{ end }}}}', of_event, alert)


def _ask_away(then: str, otherwise: str, alert: Alert) -> str:
    """Return a template that writes ``then`` about the VMs that are away, and ``otherwise`` without any.

    If only one VM of the event can be away, it is the one. Of several, the query gets their targets: it would take ten
    times as long if it read all exporters that do not answer.
    """
    if not alert.away:
        return otherwise
    any_vm = f'{{{{ $rows := printf "{alert.away.any_vm}" $labels.event_id | query }}}}'
    query = " ".join(alert.away.of_several.split())
    several = f'{{{{ $rows = printf "{query}" $labels.event_id $value $targets | query }}}}'
    found = f"{any_vm}{{{{ if gt (len $rows) 1 }}}}{_TARGETS}{several}{{{{ end }}}}"
    return f"{found}{{{{ with $rows }}}}{then}{{{{ else }}}}{otherwise}{{{{ end }}}}"


def vms(alert: Alert, memory: str) -> str:
    """Return the VMs that the alert is about, and their scale set, for Prometheus and vmalert."""
    place = _ask(f"{EVENT}{_ONE}", _PLACE, _ask(_VMS_HIT, _PLACE))
    return _ask_away(_NAMES + place, _VMS_ALONE, alert).replace("@MEMORY@", memory)


def description(alert: Alert, memory: str) -> str:
    """Return the description for Prometheus and vmalert: a template that asks for VMs and times.

    ``memory``: for how long the last NotBefore and the last number of VMs count while no exporter answers, as
    Prometheus writes durations.
    """
    text = alert.description
    recorded = _SET_RECORDED if VMS in text or TIME in text else ""
    within = text.replace(f" of {VMS}", f" of {_VMS.replace('A VM', 'a VM')}")
    asked = within.replace(VMS, _VMS).replace(TIME, _TIME).replace(IMPACT, _IMPACT)
    asked = asked.replace(AWAY, _ask_away(_AWAY, _SOME_VM_AWAY, alert))
    return (recorded + asked).replace("@MEMORY@", memory)


def plain(text: str) -> str:
    """Return ``text`` for Grafana."""
    within = text.replace(f" of {VMS}", " of a VM")
    return within.replace(VMS, "A VM").replace(AWAY, _SOME_VM_AWAY).replace(f"{TIME} ", "").replace(IMPACT, "")
