"""The queries with which texts of Prometheus and vmalert find names and times.

Each is a template with which a text begins, and sets variables that the text uses. A template
queries once, and for few series, because vmalert asks for each query over HTTP. It queries again
only if the first query has found nothing. The templates use only functions that Prometheus and
vmalert 1.79 share.
"""

from collections.abc import Mapping

from azure_scheduled_events_exporter.alerts.series import (
    APPROVAL_DUE,
    APPROVED,
    EVENT_IMPACT,
    INFO,
    INSTANCE,
    PAUSED_LONGER,
    VM_AWAY,
)

from .go_templates import SHORT_GROUP, SHORT_TYPE, UTC, with_constants
from .wording import NO_VMS, UNKNOWN_REFUSED, UNKNOWN_TIME

_MOST_NAMES = 10
"""How many names of VMs a text has at most."""
_CONSTANTS: Mapping[str, str] = {
    "APPROVAL_DUE": APPROVAL_DUE,
    "APPROVED": APPROVED,
    "EVENT_IMPACT": EVENT_IMPACT,
    "INFO": INFO,
    "INSTANCE": INSTANCE,
    "PAUSED_LONGER": PAUSED_LONGER,
    "VM_AWAY": VM_AWAY,
    "MOST_NAMES": str(_MOST_NAMES),
    "ONE_MORE": str(_MOST_NAMES + 1),
    "NO_VMS": NO_VMS,
    "UNKNOWN_REFUSED": UNKNOWN_REFUSED,
    "UNKNOWN_TIME": UNKNOWN_TIME,
    "SHORT_GROUP": SHORT_GROUP,
    "SHORT_TYPE": SHORT_TYPE,
    "UTC": UTC,
}


def template(text: str, **more: str) -> str:
    """Return the template that ``text`` stands for.

    A word in capitals stands for a constant, or one of ``more``. A backslash at the end of a line
    joins it with the next line.
    """
    return with_constants(text.replace("\\\n", ""), **_CONSTANTS, **more)


_KNOWN = template(r"""\
{{ $known := printf "topk(1, INFO{event_id=%q,scope=\"self\",resource_group!=\"\"})"\
 $labels.event_id | query -}}
{{ if not $known }}{{ $known = printf "topk(1, INFO{event_id=%q,resource_group!=\"\"})"\
 $labels.event_id | query }}{{ end -}}
{{ if not $known }}{{ $known = printf "topk(1, last_over_time(INFO{event_id=%q}[1h]))"\
 $labels.event_id | query }}{{ end -}}
""")
"""Sets ``$known``: what a VM of the event says of it now; else any exporter; else what one said.

An exporter that could not read its VM's instance metadata has no ``resource_group``, which texts
name; it is asked last. The VMs of an event are asked first because they are few: a hundred others
may see it, and an engine runs this query for each text at each evaluation.
"""

EVENT = template(
    r"""\
{{ $vms := printf "NO_VMS %s" $labels.event_id }}{{ $word := "at" -}}
KNOWN{{ range $known -}}
{{ with or (label "vms" .) (label "resources" . | reReplaceAll "," ", ") }}\
{{ $vms = . }}{{ end -}}
{{ with label "resource_group" . | SHORT_GROUP }}\
{{ $vms = printf "%s (resource group %s)" $vms . }}{{ end -}}
{{ if eq (label "event_status" .) "Started" }}{{ $word = "since" }}{{ end -}}
{{ end -}}
""",
    KNOWN=_KNOWN,
)
"""Sets ``$vms``, the VMs of the event with their resource group, and ``$word``, for ``TIME``."""

TIME = template(r"""\
{{ $when := "UNKNOWN_TIME" -}}
{{ if gt $value 0.0 }}\
{{ $when = printf "%s %s" $word (humanizeTimestamp $value | UTC) }}{{ end -}}
""")
"""Sets ``$when``: the alert's value as a time, after ``$word``. It follows ``EVENT``."""

TARGET = template(r"""\
{{ $vm := $labels.instance -}}
{{ range printf "topk(1, last_over_time(INSTANCE{job=%q,instance=%q}[1h]))"\
 $labels.job $labels.instance | query -}}
{{ $place := $labels.instance -}}
{{ with label "resource_group" . | SHORT_GROUP }}\
{{ $place = printf "resource group %s, %s" . $labels.instance }}{{ end -}}
{{ with label "vm_name" . }}{{ $vm = printf "%s (%s)" . $place }}{{ end -}}
{{ end -}}
""")
"""Sets ``$vm``: the exporter's VM with its resource group and address, or the address alone."""

PAUSED = template(r"""\
{{ $vm := $labels.instance }}{{ $announced := "less" -}}
{{ range printf "topk(1, last_over_time(PAUSED_LONGER\
{event_id=%[1]q,job=%[2]q,instance=%[3]q,vm_name!=\"\"}[1h]))\
 * on (job, instance) group_left (resource_group)\
 topk(1, last_over_time(INSTANCE{job=%[2]q,instance=%[3]q}[1h]))"\
 $labels.event_id $labels.job $labels.instance | query -}}
{{ $vm = label "vm_name" . }}{{ $announced = printf "%s s" (label "announced" .) -}}
{{ with label "resource_group" . | SHORT_GROUP }}\
{{ $vm = printf "%s (resource group %s)" $vm . }}{{ end -}}
{{ end -}}
""")
"""Sets ``$vm``, the VM that was paused, and ``$announced``, the pause that Azure had announced."""

BEGUN = template(r"""\
{{ $begun := "an unknown time" -}}
{{ range printf "topk(1, last_over_time(EVENT_IMPACT{event_id=%q,job=%q,instance=%q}[2h]))"\
 $labels.event_id $labels.job $labels.instance | query -}}
{{ if gt (value .) 0.0 }}{{ $begun = humanizeTimestamp (value .) | UTC }}{{ end -}}
{{ end -}}
""")
"""Sets ``$begun``: when the event that paused the VM began."""

REFUSED = template(r"""\
{{ $refused := "UNKNOWN_REFUSED" -}}
{{ range printf "bottomk(1,\
 max by (event_id, event_type) (EVENT_IMPACT{job=%[1]q,instance=%[2]q})\
 * on (event_id) group_left (vms, resources)\
 topk by (event_id) (1, INFO{job=%[1]q,instance=%[2]q})\
 and on (event_id) (APPROVAL_DUE{job=%[1]q,instance=%[2]q} < time()\
 unless on (event_id) APPROVED{job=%[1]q,instance=%[2]q} == 1))"\
 $labels.job $labels.instance | query -}}
{{ $time := "an unknown time" }}{{ if gt (value .) 0.0 -}}
{{ $time = printf "%s or later" (humanizeTimestamp (value .) | UTC) }}{{ end -}}
{{ $vms := or (label "vms" .) (label "resources" . | reReplaceAll "," ", ") -}}
{{ $refused = printf "The %s of %s still begins at %s (event %s)."\
 (label "event_type" . | SHORT_TYPE) $vms $time (label "event_id" .) -}}
{{ end -}}
""")
"""Sets ``$refused``: a sentence about the event whose approval was refused.

No series says which event that is. It is one whose approval is due, and which is not approved. If
there are several, it is the one whose impact is next.
"""

HOOK = template(r"""\
{{ $vm := $labels.instance -}}
{{ $type := $labels.event_type | SHORT_TYPE }}{{ $event := printf "a %s" $type -}}
{{ range printf "topk(1, min by (job, instance)\
 (last_over_time(EVENT_IMPACT\
{job=%[1]q,instance=%[2]q,event_type=%[3]q,scope=\"self\"}[2m]))\
 * on (job, instance) group_left (vm_name, resource_group)\
 topk(1, last_over_time(INSTANCE{job=%[1]q,instance=%[2]q}[1h]))\
 or on (job, instance) last_over_time(INSTANCE{job=%[1]q,instance=%[2]q}[1h]))"\
 $labels.job $labels.instance $labels.event_type | query -}}
{{ with label "vm_name" . }}{{ $vm = . }}{{ end -}}
{{ with label "resource_group" . | SHORT_GROUP }}\
{{ $vm = printf "%s (resource group %s)" $vm . }}{{ end -}}
{{ if and (eq $labels.phase "prepare") (gt (value .) 1.0) }}\
{{ $event = printf "the %s at %s" $type (humanizeTimestamp (value .) | UTC) }}\
{{ end -}}
{{ end -}}
""")
"""Sets ``$vm``, the VM of the hook, and ``$event``, with its time if the hook had to prepare it.

The query yields the time of the event's impact. If none is shown, it yields the VM with the value
1, which is no time.
"""

AWAY = template(r"""\
{{ $away := "" -}}
{{ range $number, $each := printf "bottomk(ONE_MORE, min by (vm_name)\
 (VM_AWAY{subscription_id=%q,resource_group=%q,scale_set=%q}))"\
 $labels.subscription_id $labels.resource_group $labels.scale_set\
 | query | sortByLabel "vm_name" -}}
{{ $name := printf "%s (at %s)" (label "vm_name" $each)\
 (humanizeTimestamp (value $each) | UTC) -}}
{{ if eq $number 0 }}{{ $away = $name }}\
{{ else if lt $number MOST_NAMES }}{{ $away = printf "%s, %s" $away $name }}\
{{ else }}{{ $away = printf "%s and others" $away }}{{ end -}}
{{ end -}}
""")
"""Sets ``$away``: the VMs of the scale set that are away, each with the time of its impact.

The query asks for one more than the text names, so that it can say "and others".
"""

BOARD_OF_EVENT = template(
    r"""\
{{ $board := "fleet" -}}
KNOWN{{ range $known -}}
{{ with label "resource_group" . }}\
{{ $board = printf "fleet?var-resource_group=%s" (urlquery .) }}{{ end -}}
{{ $names := label "resources" . -}}
{{ if match "^[^,]+$" $names }}\
{{ $board = printf "vm?var-vm=%s" (urlquery $names) }}{{ end -}}
{{ end -}}
""",
    KNOWN=_KNOWN,
)
"""Sets ``$board``: the board of the event's VM; of several VMs, that of the fleet."""
