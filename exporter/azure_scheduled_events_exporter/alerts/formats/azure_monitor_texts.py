"""How Azure Monitor writes the texts of alerts: as templates that cannot query.

The expressions of its rules add the names of VMs as labels (``azure_monitor``). Of what else a
query would find, these templates say something general. ``texts`` explains each fact.
"""

from .texts import Form
from .wording import AHEAD, PAUSE_AHEAD, PREPARE, RECOVER, UNKNOWN_REFUSED

FOR_AZURE_MONITOR = Form(
    facts={
        "vms": "{{ $labels.vms }} (resource group {{ $labels.resource_group }})",
        "when": "at {{ $value | humanizeTimestamp }}",
        "loss": "It has the same effect as an event of this type that Azure starts itself.",
        "ahead": f"For a Freeze: {PAUSE_AHEAD} For any other type: {AHEAD}",
        "away": "its VMs",
        "vm": (
            "{{ $labels.vm_name }}"
            " (resource group {{ $labels.resource_group }}, {{ $labels.instance }})"
        ),
        "paused_vm": "{{ $labels.vm_name }} (resource group {{ $labels.resource_group }})",
        "announced": "less",  # "Azure had announced less", where rules say "… announced 5 s"
        "begun": "a time that the dashboard shows",
        "refused": UNKNOWN_REFUSED,
        "hook_vm": "{{ $labels.vm_name }} (resource group {{ $labels.resource_group }})",
        "hook_state": "is perhaps not drained, or not back in service",
        "hook_outcome": "went wrong ({{ $labels.outcome }}) in phase {{ $labels.phase }} of",
        "hook_event": "a {{ $labels.event_type }}",
        "by_hand": f"In phase prepare: {PREPARE} In phase recover: {RECOVER}",
        "seconds": "{{ $value | humanizeDuration }}",
        "place": " (resource group {{ $labels.resource_group }})",
        "time": "{{ $value | humanizeTimestamp }}",
    },
    escape="",
    event_board="fleet?var-resource_group={{ $labels.resource_group }}",
)
