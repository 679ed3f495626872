"""Parts of templates of Go, in which Prometheus, vmalert and Grafana write the texts of alerts.

In a template, ``{{`` and ``}}`` enclose an action; an f-string has to double these braces. Functions
get ``labels``: what precedes the name of a label of the alert, such as ``$labels.``.
"""

import re
from collections.abc import Mapping

from azure_scheduled_events_exporter.core.event_types import EventType

from .wording import (
    AHEAD,
    LONGEST_GROUP,
    LONGEST_TYPE,
    PAUSE_AHEAD,
    PREPARE,
    RECOVER,
    UNKNOWN_LOSS,
)

UTC = r'reReplaceAll "(\\.[0-9]+)? \\+0000" ""'
"""Shortens a time as Prometheus writes it.

``2026-11-28 11:52:52.5 +0000 UTC`` becomes ``2026-11-28 11:52:52 UTC``.
"""
SHORT_TYPE = f'reReplaceAll "^(.{{{LONGEST_TYPE}}}).+" "${{1}}…"'
"""Cuts a type after ``LONGEST_TYPE`` characters."""
SHORT_GROUP = f'reReplaceAll "^(.{{{LONGEST_GROUP}}}).+" "${{1}}…"'
"""Cuts a resource group after ``LONGEST_GROUP`` characters."""
_CONSTANT = re.compile(r"\b[A-Z]+(?:_[A-Z]+)*\b")


def with_constants(template: str, constants: Mapping[str, str]) -> str:
    """Return ``template`` with the constants in the place of their names, words in capitals."""
    return _CONSTANT.sub(lambda found: constants.get(found[0], found[0]), template)


def place(labels: str) -> str:
    """Return the template of ``{place}``."""
    return f"{{{{ with {labels}resource_group }}}} (resource group {{{{ . }}}}){{{{ end }}}}"


def loss(labels: str) -> str:
    """Return the template of ``{loss}``: what an event of this type costs."""
    known = " else ".join(
        f'if eq {labels}event_type "{each}" }}}}{each.facts.loss}{{{{' for each in EventType
    )
    return f"{{{{ {known} else }}}}{UNKNOWN_LOSS}{{{{ end }}}}"


def ahead(labels: str) -> str:
    """Return the template of ``{ahead}``: what to do about an event that is days ahead."""
    is_freeze = f'eq {labels}event_type "{EventType.FREEZE}"'
    return f"{{{{ if {is_freeze} }}}}{PAUSE_AHEAD}{{{{ else }}}}{AHEAD}{{{{ end }}}}"


def hook(labels: str) -> dict[str, str]:
    """Return the templates of what a hook has not done, by the names of the facts."""
    outcome = f"{labels}outcome"

    def by_phase(recover: str, prepare: str) -> str:
        is_recover = f'eq {labels}phase "recover"'
        return f"{{{{ if {is_recover} }}}}{recover}{{{{ else }}}}{prepare}{{{{ end }}}}"

    return {
        "hook_state": f"is perhaps not {by_phase('back in service', 'drained')}",
        "hook_outcome": (
            f'{{{{ if eq {outcome} "too_late" }}}}was too late for{{{{ else -}}}}\n'
            f'{{{{ if eq {outcome} "timeout" }}}}timed out{{{{ else }}}}failed{{{{ end }}}} '
            f"{by_phase('after', 'before')}{{{{ end }}}}"
        ),
        "by_hand": by_phase(RECOVER, PREPARE),
    }
