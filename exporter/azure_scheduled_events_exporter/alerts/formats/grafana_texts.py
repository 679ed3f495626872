"""How Grafana writes the texts of alerts: as templates that cannot query.

A second query of each rule whose texts name VMs has the names (``grafana``).
"""

from .go_templates import UTC, ahead, hook, loss, with_constants
from .texts import Form
from .wording import NO_VMS, UNKNOWN_REFUSED, UNKNOWN_TIME

NAMES = "E"
"""The step of a Grafana rule whose result has the names of VMs as labels.

It also has ``event_status`` and ``resources``, the VMs of the event.
"""
_LAST_VALUE = "B"
"""The step of a Grafana rule whose result has the alert's value (``grafana``)."""


def _template(text: str, **more: str) -> str:
    """Return ``text`` with constants in the place of words in capitals.

    NAMES stands for the labels with the names of VMs, VALUE for the alert's value. A template has
    no dollar sign, which Grafana would expand in a provisioned file.
    """
    return with_constants(
        text,
        NAMES=f'(index .Values "{NAMES}").Labels',
        VALUE=f'(index .Values "{_LAST_VALUE}").Value',
        UTC=UTC,
        **more,
    )


_IN_GROUP = _template("{{ with NAMES.resource_group }} (resource group {{ . }}){{ end }}")
_VM_NAME = _template("{{ with NAMES.vm_name }}{{ . }}{{ else }}the VM{{ end }}")
_WORD = _template(
    '{{ with NAMES.event_status }}{{ if eq . "Started" }}since{{ else }}at{{ end }}'
    "{{ else }}at{{ end }}"
)
"""The word before the time of an event's impact."""

FOR_GRAFANA = Form(
    facts={
        "vms": _template(
            "{{ with NAMES.vms }}{{ . }}{{ else }}NO_VMS {{ .Labels.event_id }}{{ end }}IN_GROUP",
            NO_VMS=NO_VMS,
            IN_GROUP=_IN_GROUP,
        ),
        "when": _template(
            "{{ if gt VALUE 0.0 }}WORD {{ humanizeTimestamp VALUE | UTC }}"
            "{{ else }}UNKNOWN_TIME{{ end }}",
            WORD=_WORD,
            UNKNOWN_TIME=UNKNOWN_TIME,
        ),
        "loss": loss(".Labels."),
        "ahead": ahead(".Labels."),
        "away": "its VMs",
        "vm": _VM_NAME + " at {{ .Labels.instance }}" + _IN_GROUP,
        "paused_vm": _VM_NAME + _IN_GROUP,
        "refused": UNKNOWN_REFUSED,
        **hook(".Labels."),
        "hook_vm": _VM_NAME + _IN_GROUP,
        "hook_event": "a {{ .Labels.event_type }}",
        "seconds": _template('{{ printf "%.0f s" VALUE }}'),
        "place": "{{ with .Labels.resource_group }} (resource group {{ . }}){{ end }}",
        "time": _template("{{ humanizeTimestamp VALUE | UTC }}"),
        # No query has these two facts, so these are words that fit into the sentence of any event.
        "announced": "less",
        "begun": "a time that the dashboard shows",
    },
    label=".Labels.",
    value=_template("VALUE"),
    # The dashboard of the fleet if the event has several VMs, or if they are not known.
    event_board=_template(
        '{{ with NAMES.resources }}{{ if match "," . }}fleet?{{ else }}vm?var-vm={{ urlquery . }}'
        "{{ end }}{{ else }}fleet?{{ end }}"
        "{{ with NAMES.resource_group }}&var-resource_group={{ urlquery . }}{{ end }}"
    ),
)
