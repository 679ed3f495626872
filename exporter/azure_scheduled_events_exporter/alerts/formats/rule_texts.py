"""How Prometheus and vmalert write the texts of alerts: as templates that query.

Each text begins with the queries of its facts (``queries``).
"""

from .go_templates import ahead, hook, loss
from .queries import (
    AWAY,
    BEGUN,
    BOARD_OF_EVENT,
    EVENT,
    HOOK,
    PAUSED,
    REFUSED,
    TARGET,
    TIME,
    template,
)
from .texts import Form

FOR_RULES = Form(
    facts={
        "vms": "{{ $vms }}",
        "when": "{{ $when }}",
        "event_type": template("{{ $labels.event_type | SHORT_TYPE }}"),
        "loss": loss("$labels."),
        "ahead": ahead("$labels."),
        "away": "{{ $away }}",
        "vm": "{{ $vm }}",
        "paused_vm": "{{ $vm }}",
        "announced": "{{ $announced }}",
        "begun": "{{ $begun }}",
        "refused": "{{ $refused }}",
        **hook("$labels."),
        "hook_vm": "{{ $vm }}",
        "hook_event": "{{ $event }}",
        "seconds": '{{ printf "%.0f s" $value }}',
        "place": template(
            "{{ with $labels.resource_group | SHORT_GROUP }} (resource group {{ . }}){{ end }}"
        ),
        "time": template("{{ humanizeTimestamp $value | UTC }}"),
    },
    preludes={
        "vms": EVENT,
        "when": TIME,  # after EVENT, whose variable it uses
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
