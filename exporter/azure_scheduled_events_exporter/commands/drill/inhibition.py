"""The drill of inhibition: is an alert of the team's own quiet while its VM is in maintenance?"""

import time

from azure_scheduled_events_exporter.alerts.vms import MAINTENANCE
from azure_scheduled_events_exporter.commands.waiting import until
from azure_scheduled_events_exporter.errors import ExporterError
from azure_scheduled_events_exporter.times import format_duration

from .alertmanager import DrilledAlertmanager, HeldAlert
from .event import KEPT_SECONDS, MARK, say
from .maintenance_labels import Labels, shown
from .story import DRILL

_MATCHER = 'drill="true"'
"""Selects the alerts of drills from those that Alertmanager has."""


def check_inhibition(
    alertmanager: DrilledAlertmanager,
    own: Labels,
    maintenance: Labels,
    timeout: float,
    *,
    doctor: str,
) -> None:
    """Raise the alert that a VM is in maintenance, then the team's own one, and resolve both.

    Args:
        alertmanager: that of the team.
        own: the labels of the team's alert.
        maintenance: the labels that the rules give to the alert that this VM is in maintenance.
            They are not copied from ``own``: then the drill would not test what the rules do.
        timeout: seconds until Alertmanager has an alert.
        doctor: the command that looks for the cause of a failure.

    Raises:
        ExporterError: the team's alert is not inhibited.
    """
    name = own["alertname"]
    own_alert = {**own, "drill": "true"}
    inhibiting_alert = {**maintenance, "alertname": MAINTENANCE, "drill": "true"}
    texts = {"summary": f"{DRILL}: {name}.", "description": MARK}
    try:
        # Alertmanager has to know the inhibiting alert first, or the team's own one notifies.
        alertmanager.put(inhibiting_alert, texts, ends_in=KEPT_SECONDS)
        _held(alertmanager, MAINTENANCE, timeout, doctor)
        alertmanager.put(own_alert, texts, ends_in=KEPT_SECONDS)
        found = _held(alertmanager, name, timeout, doctor)
    finally:
        # The inhibiting alert is resolved last, or the team's own one could still notify.
        for labels in (own_alert, inhibiting_alert):
            alertmanager.put(labels, texts, ends_in=0)
    if not found.is_inhibited:
        raise _not_inhibited(own, maintenance)
    say(f"{name} is inhibited while its VM is in maintenance. Both alerts are resolved.")


def _not_inhibited(own: Labels, maintenance: Labels) -> ExporterError:
    """Return (not raise) the error that the team's alert is not inhibited, and what to do."""
    return ExporterError(
        f"{own['alertname']} ({shown(own)}) is not inhibited while {MAINTENANCE}"
        f" ({shown(maintenance)}) fires, so it notifies: set maintenance.targets and"
        " maintenance.equal, and load the rendered inhibit_rules"
    )


def _held(alertmanager: DrilledAlertmanager, name: str, timeout: float, doctor: str) -> HeldAlert:
    """Return the drill's alert called ``name`` once Alertmanager has it.

    Raises ExporterError: it does not have it after ``timeout`` seconds.
    """
    found = until(lambda: alertmanager.holding(_MATCHER, name), time.monotonic() + timeout)
    if found is None:
        limit = format_duration(timeout)
        raise ExporterError(
            f"{name} has not reached {alertmanager.shown} within {limit}: run {doctor}"
        )
    return found
