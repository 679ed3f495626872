"""The alerts of events that are late, or that did more than was announced."""

from .exporters import SEEING
from .rule import PREFIX, Alert, promql
from .series import (
    APPROVAL_DUE,
    APPROVED,
    NOT_BEFORE,
    PAUSED_LONGER,
    RECORDED_END,
    RECORDED_SEEN,
    STARTED,
)

_OVERDUE = 600
"""Seconds after NotBefore: an event may start some minutes late."""
_TOO_LONG = 1800
"""Seconds in the state Started, which usually lasts for ten minutes."""
_NOT_APPROVED = 60
"""Seconds after an approval was due: it is sent at the next poll."""


def late_alerts() -> tuple[Alert, ...]:
    """Return the alerts of events that are late, or did more than was announced.

    Overdue and StartedTooLong take the word of exporters that can read IMDS (``SEEING``): another
    one does not see that an event has started, ended or been moved. NotApproved is about what an
    exporter has not done itself, whether it can read IMDS or not.
    """
    return (_overdue(), _started_too_long(), _not_approved(), _paused_longer())


def _overdue() -> Alert:
    # If exporters differ, the event was moved between their polls. The latest NotBefore counts, so
    # that nothing is overdue too early.
    return Alert(
        name=f"{PREFIX}Overdue",
        expression=promql(f"""
            max by (event_id, event_type) ({NOT_BEFORE} {SEEING}) < time() - {_OVERDUE}
            and on (event_id) {RECORDED_SEEN}{{kind!="harmless"}}
            unless on (event_id) {STARTED}
            unless on (event_id) {RECORDED_END}
        """),
        severity="warning",
        summary="A {event_type} of {vms} was due at {time} and has not started.",
        description="It may start at any moment. {loss}",
        advice=(
            "Drain each VM that the event names, unless that is done, and copy what you need from"
            " the disks that will be lost. Keep it drained until the event has ended."
        ),
        dashboard="event",
        meaning=(
            f"An event that is not harmless is still Scheduled {_OVERDUE // 60} minutes after its"
            " NotBefore."
        ),
        ends=(
            "The alert resolves when the event starts, is moved to a later time, or ends, or while"
            " no exporter shows it that answers scrapes and reads IMDS."
        ),
    )


def _started_too_long() -> Alert:
    # Exporters may have seen the start at different times: the earliest counts.
    return Alert(
        name=f"{PREFIX}StartedTooLong",
        expression=promql(f"""
            min by (event_id, event_type) ({STARTED} {SEEING}) < time() - {_TOO_LONG}
            unless on (event_id) {RECORDED_END}
        """),
        severity="warning",
        summary="A {event_type} of {vms} started at {time} and has not ended.",
        description="The VM may be stuck, or another impact may follow.",
        advice="Check that the VM works. If it does not, restart it.",
        dashboard="event",
        meaning=(
            f"An exporter that can read IMDS has shown an event as Started for {_TOO_LONG // 60}"
            " minutes."
        ),
        ends=(
            "The alert resolves when the event has ended, and while no exporter shows it that"
            " answers scrapes and reads IMDS."
        ),
    )


def _not_approved() -> Alert:
    return Alert(
        name=f"{PREFIX}NotApproved",
        expression=promql(f"""
            min by (event_id, event_type) ({APPROVAL_DUE}) < time() - {_NOT_APPROVED}
            unless on (event_id) {APPROVED} == 1
            unless on (event_id) {STARTED}
            unless on (event_id) {RECORDED_END}
        """),
        severity="warning",
        summary=(
            "The policy has not approved a {event_type} of {vms}. Its approval was due at {time}."
        ),
        description="Without an approval, the event begins at its announced time or later.",
        advice=(
            "If all VMs of the event are drained, approve it yourself (the runbook has the"
            " command)."
        ),
        dashboard="event",
        meaning=(
            f"The approval policy should have approved an event {_NOT_APPROVED} s ago. The event"
            " is not approved, and has not started."
        ),
        ends=(
            "The alert resolves when the event is approved, starts, or ends, and while the exporter"
            " cannot be scraped."
        ),
    )


def _paused_longer() -> Alert:
    return Alert(
        name=f"{PREFIX}PausedLonger",
        expression=promql(f"""
            max by (event_id, event_type, job, instance) (last_over_time({PAUSED_LONGER}[10m]))
        """),
        severity="warning",
        summary="{paused_vm} stood still for {seconds}; Azure had announced {announced}.",
        description=(
            "It was paused by the {event_type} that began at {begun}. Nothing on it answered during"
            " that time: sessions and leases may be lost."
        ),
        advice=(
            "Check the services of the VM, and restart those that have lost their sessions."
            " Before the next Freeze, move away the services that do not survive such a pause (the"
            " runbook says how)."
        ),
        dashboard="event",
        meaning=(
            "An event paused a VM for longer than Azure had announced, and for longer than the"
            " setting `--freeze.harmless-below` of its exporter (9 s by default)."
        ),
        ends=(
            "The alert resolves 70 minutes after the event has ended. The exporter shows the pause"
            " for an hour after the end, and the rule remembers it for 10 minutes more."
        ),
    )
