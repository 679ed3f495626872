"""The queries with which texts of Prometheus and vmalert find names and times.

Each is what a text begins with; it leaves variables that the text uses. A text has one query, of
few series, since vmalert asks for each over HTTP; a second one only while the first finds nothing.
They use only functions that Prometheus and vmalert 1.79 share.
"""

from typing import Final

from azure_scheduled_events_exporter.alerts.series import (
    APPROVAL_DUE,
    APPROVED,
    EVENT_IMPACT,
    INFO,
    INSTANCE,
    PAUSED_LONGER,
    VM_AWAY,
)

LONGEST_GROUP = 32
LONGEST_TYPE = 22
"""Characters of a resource group, and of a type, in a title that is the subject of a mail."""
MOST_NAMES = 10
"""Names of VMs in a text."""
UNKNOWN_TIME = "(time unknown)"
NO_VMS = "the VMs of event"
UNKNOWN_REFUSED = "The event that the log of the exporter names still begins at its time or later."

UTC: Final = r'reReplaceAll "(\\.[0-9]+)? \\+0000" ""'
"""Shortens a time as Prometheus writes it.

``2026-11-28 11:52:52.5 +0000 UTC`` becomes ``2026-11-28 11:52:52 UTC``.
"""

SHORT_TYPE: Final = f'reReplaceAll "^(.{{{LONGEST_TYPE}}}).+" "${{1}}…"'
SHORT_GROUP: Final = f'reReplaceAll "^(.{{{LONGEST_GROUP}}}).+" "${{1}}…"'

_KNOWN = f"""\
{{{{ $known := printf "topk(1, {INFO}{{event_id=%q,scope=\\"self\\",resource_group!=\\"\\"}})"\
 $labels.event_id | query -}}}}
{{{{ if not $known }}}}{{{{ $known = printf "topk(1, {INFO}{{event_id=%q,resource_group!=\\"\\"}})"\
 $labels.event_id | query }}}}{{{{ end -}}}}
{{{{ if not $known }}}}{{{{ $known = printf "topk(1, last_over_time({INFO}{{event_id=%q}}[1h]))"\
 $labels.event_id | query }}}}{{{{ end -}}}}
"""
"""What a VM of the event says of it now; if none does, what any exporter says; else what one said.

The VMs of an event are asked first because they are few: a hundred others may see it, and an engine
runs this query for each text at each evaluation.
"""

EVENT = f"""\
{{{{ $vms := printf "{NO_VMS} %s" $labels.event_id }}}}{{{{ $word := "at" -}}}}
{_KNOWN}{{{{ range $known -}}}}
{{{{ with or (label "vms" .) (label "resources" . | reReplaceAll "," ", ") }}}}\
{{{{ $vms = . }}}}{{{{ end -}}}}
{{{{ with label "resource_group" . | {SHORT_GROUP} }}}}\
{{{{ $vms = printf "%s (resource group %s)" $vms . }}}}{{{{ end -}}}}
{{{{ if eq (label "event_status" .) "Started" }}}}{{{{ $word = "since" }}}}{{{{ end -}}}}
{{{{ end -}}}}
"""

TIME = f"""\
{{{{ $when := "{UNKNOWN_TIME}" -}}}}
{{{{ if gt $value 0.0 }}}}\
{{{{ $when = printf "%s %s" $word (humanizeTimestamp $value | {UTC}) }}}}{{{{ end -}}}}
"""

TARGET = f"""\
{{{{ $vm := $labels.instance -}}}}
{{{{ range printf "topk(1, last_over_time({INSTANCE}{{job=%q,instance=%q}}[1h]))"\
 $labels.job $labels.instance | query -}}}}
{{{{ $place := $labels.instance -}}}}
{{{{ with label "resource_group" . | {SHORT_GROUP} }}}}\
{{{{ $place = printf "resource group %s, %s" . $labels.instance }}}}{{{{ end -}}}}
{{{{ with label "vm_name" . }}}}{{{{ $vm = printf "%s (%s)" . $place }}}}{{{{ end -}}}}
{{{{ end -}}}}
"""

PAUSED = f"""\
{{{{ $vm := $labels.instance }}}}{{{{ $announced := "less" -}}}}
{{{{ range printf "topk(1, last_over_time({PAUSED_LONGER}\
{{event_id=%[1]q,job=%[2]q,instance=%[3]q,vm_name!=\\"\\"}}[1h]))\
 * on (job, instance) group_left (resource_group)\
 topk(1, last_over_time({INSTANCE}{{job=%[2]q,instance=%[3]q}}[1h]))"\
 $labels.event_id $labels.job $labels.instance | query -}}}}
{{{{ $vm = label "vm_name" . }}}}{{{{ $announced = printf "%s s" (label "announced" .) -}}}}
{{{{ with label "resource_group" . | {SHORT_GROUP} }}}}\
{{{{ $vm = printf "%s (resource group %s)" $vm . }}}}{{{{ end -}}}}
{{{{ end -}}}}
"""

BEGUN = f"""\
{{{{ $begun := "an unknown time" -}}}}
{{{{ range printf "topk(1, last_over_time({EVENT_IMPACT}{{event_id=%q,job=%q,instance=%q}}[2h]))"\
 $labels.event_id $labels.job $labels.instance | query -}}}}
{{{{ if gt (value .) 0.0 }}}}{{{{ $begun = humanizeTimestamp (value .) | {UTC} }}}}{{{{ end -}}}}
{{{{ end -}}}}
"""

REFUSED = f"""\
{{{{ $refused := "{UNKNOWN_REFUSED}" -}}}}
{{{{ range printf "bottomk(1,\
 max by (event_id, event_type) ({EVENT_IMPACT}{{job=%[1]q,instance=%[2]q}})\
 * on (event_id) group_left (vms, resources)\
 topk by (event_id) (1, {INFO}{{job=%[1]q,instance=%[2]q}})\
 and on (event_id) ({APPROVAL_DUE}{{job=%[1]q,instance=%[2]q}} < time()\
 unless on (event_id) {APPROVED}{{job=%[1]q,instance=%[2]q}} == 1))"\
 $labels.job $labels.instance | query -}}}}
{{{{ $time := "an unknown time" }}}}{{{{ if gt (value .) 0.0 -}}}}
{{{{ $time = printf "%s or later" (humanizeTimestamp (value .) | {UTC}) }}}}{{{{ end -}}}}
{{{{ $vms := or (label "vms" .) (label "resources" . | reReplaceAll "," ", ") -}}}}
{{{{ $refused = printf "The %s of %s still begins at %s (event %s)."\
 (label "event_type" . | {SHORT_TYPE}) $vms $time (label "event_id" .) -}}}}
{{{{ end -}}}}
"""

HOOK = f"""\
{{{{ $vm := $labels.instance -}}}}
{{{{ $type := $labels.event_type | {SHORT_TYPE} }}}}{{{{ $event := printf "a %s" $type -}}}}
{{{{ range printf "topk(1, min by (job, instance)\
 (last_over_time({EVENT_IMPACT}\
{{job=%[1]q,instance=%[2]q,event_type=%[3]q,scope=\\"self\\"}}[2m]))\
 * on (job, instance) group_left (vm_name, resource_group)\
 topk(1, last_over_time({INSTANCE}{{job=%[1]q,instance=%[2]q}}[1h]))\
 or on (job, instance) last_over_time({INSTANCE}{{job=%[1]q,instance=%[2]q}}[1h]))"\
 $labels.job $labels.instance $labels.event_type | query -}}}}
{{{{ with label "vm_name" . }}}}{{{{ $vm = . }}}}{{{{ end -}}}}
{{{{ with label "resource_group" . | {SHORT_GROUP} }}}}\
{{{{ $vm = printf "%s (resource group %s)" $vm . }}}}{{{{ end -}}}}
{{{{ if and (eq $labels.phase "prepare") (gt (value .) 1.0) }}}}\
{{{{ $event = printf "the %s at %s" $type (humanizeTimestamp (value .) | {UTC}) }}}}\
{{{{ end -}}}}
{{{{ end -}}}}
"""

AWAY = f"""\
{{{{ $away := "" -}}}}
{{{{ range $number, $each := printf "bottomk({MOST_NAMES + 1}, min by (vm_name)\
 ({VM_AWAY}{{subscription_id=%q,resource_group=%q,scale_set=%q}}))"\
 $labels.subscription_id $labels.resource_group $labels.scale_set\
 | query | sortByLabel "vm_name" -}}}}
{{{{ $name := printf "%s (at %s)" (label "vm_name" $each)\
 (humanizeTimestamp (value $each) | {UTC}) -}}}}
{{{{ if eq $number 0 }}}}{{{{ $away = $name }}}}\
{{{{ else if lt $number {MOST_NAMES} }}}}{{{{ $away = printf "%s, %s" $away $name }}}}\
{{{{ else }}}}{{{{ $away = printf "%s and others" $away }}}}{{{{ end -}}}}
{{{{ end -}}}}
"""

BOARD_OF_EVENT = f"""\
{{{{ $board := "fleet" -}}}}
{_KNOWN}{{{{ range $known -}}}}
{{{{ with label "resource_group" . }}}}\
{{{{ $board = printf "fleet?var-resource_group=%s" (urlquery .) }}}}{{{{ end -}}}}
{{{{ $names := label "resources" . -}}}}
{{{{ if match "^[^,]+$" $names }}}}\
{{{{ $board = printf "vm?var-vm=%s" (urlquery $names) }}}}{{{{ end -}}}}
{{{{ end -}}}}
"""
