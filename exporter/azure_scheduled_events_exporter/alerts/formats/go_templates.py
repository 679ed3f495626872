"""Parts of templates of Go, in which Prometheus, vmalert and Grafana write the texts of alerts.

In a template, ``{{`` and ``}}`` enclose an action. The texts of alerts name facts, such as
``{loss}``: ``loss``, ``ahead`` and ``hook`` return the templates of some. They get ``labels``: what
precedes the name of a label of the alert, such as ``$labels.``.
"""

import re

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
"""A word in capitals."""


def with_constants(template: str, **constants: str) -> str:
    """Return ``template`` with the constants in the place of their names, words in capitals.

    What a constant contains is not replaced again.
    """
    return _CONSTANT.sub(lambda found: constants.get(found[0], found[0]), template)


def loss(labels: str) -> str:
    """Return the template of ``{loss}``: what an event of this type costs.

    It has a branch for each type: ``{{ if … }}…{{ else if … }}…{{ else }}…{{ end }}``.
    """
    template = ""
    keyword = "if"
    for each in EventType:
        template += with_constants(
            '{{ KEYWORD eq EVENT_TYPE "TYPE" }}LOSS',
            KEYWORD=keyword,
            EVENT_TYPE=f"{labels}event_type",
            TYPE=each,
            LOSS=each.facts.loss,
        )
        keyword = "else if"
    return template + with_constants("{{ else }}UNKNOWN_LOSS{{ end }}", UNKNOWN_LOSS=UNKNOWN_LOSS)


def ahead(labels: str) -> str:
    """Return the template of ``{ahead}``: what to do about an event that is days ahead."""
    return with_constants(
        '{{ if eq EVENT_TYPE "FREEZE" }}PAUSE_AHEAD{{ else }}AHEAD{{ end }}',
        EVENT_TYPE=f"{labels}event_type",
        FREEZE=EventType.FREEZE,
        PAUSE_AHEAD=PAUSE_AHEAD,
        AHEAD=AHEAD,
    )


def hook(labels: str) -> dict[str, str]:
    """Return the templates of what a hook has not done, by the names of the facts."""

    def by_phase(recover: str, prepare: str) -> str:
        return with_constants(
            '{{ if eq PHASE "recover" }}RECOVER{{ else }}PREPARE{{ end }}',
            PHASE=f"{labels}phase",
            RECOVER=recover,
            PREPARE=prepare,
        )

    # "-}}" removes the line break after it, so the break is in the template, not in the text.
    outcome = with_constants(
        '{{ if eq OUTCOME "too_late" }}was too late for{{ else -}}\n'
        '{{ if eq OUTCOME "timeout" }}timed out{{ else }}failed{{ end }} WHEN{{ end }}',
        OUTCOME=f"{labels}outcome",
        WHEN=by_phase(recover="after", prepare="before"),
    )
    state = by_phase(recover="back in service", prepare="drained")
    return {
        "hook_state": f"is perhaps not {state}",
        "hook_outcome": outcome,
        "by_hand": by_phase(recover=RECOVER, prepare=PREPARE),
    }
