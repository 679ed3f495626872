"""The alerts of VMs: half of a scale set is away, one has not come back, Azure works on one.

Knows what ``vm_recordings`` records of a VM, but not how that follows from what exporters show.
"""

from azure_scheduled_events_exporter.core.lifecycle import Kind

from .rule import PREFIX, Alert, promql
from .series import (
    INSTANCE,
    RECORDED_SEEN,
    SCALE_SET_VMS,
    SET_KEY,
    VM,
    VM_AWAY,
    VM_KEY,
    VM_MISSING,
)
from .settings import Settings
from .vm_labels import vm_labels
from .vm_recordings import AFTER, BACK_AFTER, BEFORE

MAINTENANCE = f"{PREFIX}Maintenance"
MADE_PREFIX = "maintenance_"
"""The prefix of the labels that are made for Maintenance, and copied to the names of the team.

The alert has both.
"""
NOT_BACK = f"{PREFIX}VmNotBack"


def vm_alerts(settings: Settings) -> tuple[Alert, ...]:
    """Return the alerting rules."""
    return (_scale_set_hit(), _not_back(settings), _maintenance(settings))


def _half_of_a_set() -> str:
    """Return the PromQL of scale sets of which at least half is away because of several events.

    The first condition is the share of VMs that are away. The second asks for several events: no
    event alone hits as many VMs as all events together. For a set that one event takes away, that
    event has an alert of its own, which need not page twice.

    Events that a user requested are left out of the second condition, while their VMs count as
    away in the first. Otherwise one request for the whole set would alone hit all VMs that are
    away, and so hide two other events.

    Both conditions count the VMs of ``VM_AWAY``, all of which have an exporter, as those of
    ``SCALE_SET_VMS`` have. A set may have VMs away that are not counted as its VMs yet, so the
    share is cut off at 1.
    """
    requested = f'last_over_time({RECORDED_SEEN}{{kind="{Kind.REQUESTED}"}}[30m])'
    unrequested = f"{VM_AWAY} unless on (event_id) {requested}"
    of_each_event = f"count by ({SET_KEY}, event_id) (group without (event_type) ({unrequested}))"
    return promql(f"""
        clamp_max(
          count by ({SET_KEY}) (group without (event_id, event_type) ({VM_AWAY}))
          / on ({SET_KEY}) {SCALE_SET_VMS}, 1
        ) >= 0.5
        and
        count by ({SET_KEY}) (group without (event_id, event_type) ({unrequested}))
        > max without (event_id) ({of_each_event})
    """)


def _scale_set_hit() -> Alert:
    return Alert(
        name=f"{PREFIX}ScaleSetHit",
        expression=_half_of_a_set(),
        severity="critical",
        summary=(
            "{value humanizePercentage} of the VMs of scale set {scale_set}{place} are down or"
            " about to go down."
        ),
        description=(
            "Two or more events take down {away}. Capacity, memory and ephemeral disks"
            " (temporary and local) may be lost together."
        ),
        advice=(
            "Add capacity elsewhere. Drain the VMs whose time has not come yet. If other VMs of the"
            " set are left, shed load before they are overloaded."
        ),
        dashboard="fleet?resource_group=resource_group",
        meaning=(
            "At least half of the VMs of a scale set are away now, or will be within"
            f" {BEFORE} s. At least two events that no user requested take part in this. A single"
            " event raises its own alert instead."
        ),
        ends=(
            "The alert resolves when less than half of the VMs of the scale set are away, or when"
            " one event alone takes all VMs that unrequested events take. Events that a user"
            " requested do not count as events here, but their VMs count as away."
        ),
    )


def _not_back(settings: Settings) -> Alert:
    kept = settings.items("labels.keep")
    expression = VM_MISSING
    if kept:
        by = ", ".join((VM_KEY, *kept))
        # The right side has the kept labels, and is 1 always, so the value stays.
        expression = promql(f"""
            {VM_MISSING}
            * on ({VM_KEY}) group_right () max by ({by}) (last_over_time({VM}[1h]))
        """)
    return Alert(
        name=NOT_BACK,
        expression=expression,
        severity="critical",
        summary="{vm_name}{place} has not come back from its event of {time}.",
        description=(
            "Its exporter has not answered for 15 minutes. What ran on the VM probably does not"
            " run."
        ),
        advice=(
            "Look at the VM's state in Azure. If it is stopped, start it. If its services answer,"
            " restart only the exporter. If it runs but nothing on it answers, restart it, and then"
            " redeploy it (ephemeral disks are lost). If that fails, replace it."
        ),
        dashboard="vm?vm=vm_name",
        meaning=(
            "The announced time of a VM's event has passed, or the event has begun, and the VM's"
            " exporter has not answered for 15 minutes. You get one alert for a VM, however many"
            " events hit it. Events that delete the VM (Preempt, Terminate) raise none."
        ),
        ends=(
            "The alert resolves when the VM answers, when an exporter shows a Preempt or Terminate"
            " of the VM, or when its scrape target is removed."
        ),
        pending_for="15m",
    )


def _maintenance(settings: Settings) -> Alert:
    return Alert(
        name=MAINTENANCE,
        expression=_in_the_words_of_the_team(settings),
        severity="info",
        summary="Azure works on {vm_name}.",
        description="It may be away for minutes. Alertmanager can mute your own alerts about it.",
        advice="There is nothing to do: no receiver is meant to get this alert.",
        dashboard="vm?vm=vm_name",
        meaning=(
            f"Azure is working on a VM, or will within {BEFORE} s. This alert only mutes alerts"
            " of your own."
        ),
        ends=(
            "The alert resolves 5 minutes after the VM has answered again, or after an exporter has"
            f" seen the end of the event. An answer counts from {AFTER} s after the beginning of"
            " the impact if the VM reads IMDS. One of a VM that does not read IMDS counts from"
            f" {BACK_AFTER} s on, if the VM has not shown the event for 3 minutes. If the VM does"
            " not answer and no exporter sees the end, the alert resolves 35 minutes after an"
            " exporter last showed the event (15 minutes for a Preempt or Terminate), and at the"
            " latest 2 hours after the impact began."
        ),
    )


def _in_the_words_of_the_team(settings: Settings) -> str:
    """Return the PromQL of the VMs in maintenance, with the labels that the team's own alerts have.

    An inhibition compares these labels. The exporter's series may have a label of the team in
    another form: ``vm_labels`` has the label and its source. Such a label is made in two steps,
    because the series may have a label with the team's name and another value:

    1. The label is made under its name with ``MADE_PREFIX``, so that it overwrites nothing. Then
       ``max by`` keeps only the labels that tell two VMs apart.
    2. The made label is copied to the team's name.

    For example, if the team writes ``vm_name=computer_name``, its label ``vm_name`` has the value
    of ``computer_name``, and the result is, with ``ROWS`` for the rows::

        label_replace(
          max by (vm_id, maintenance_vm_name) (
            label_replace(ROWS, "maintenance_vm_name", "${1}", "computer_name", "(.+)")
          ), "vm_name", "$1", "maintenance_vm_name", "(.+)")
    """
    rows = promql(f"""
        last_over_time({VM}[1h]) and on ({VM_KEY}) last_over_time({VM_AWAY}[5m])
    """)
    labels = list(vm_labels(settings))
    # The label with the prefix, by the label of the team. A label without a source is not made: the
    # VM has it as it is.
    made = {label.name: f"{MADE_PREFIX}{label.name}" for label in labels if label.source}
    for label in labels:
        if label.source:
            value = f"${{1}}{label.suffix}"
            rows = (
                f'label_replace({rows}, "{made[label.name]}", "{value}", "{label.series_label}",'
                f' "{label.series_pattern}")'
            )
    names = ["vm_id", "vm_name", *settings.items("maintenance.within")]
    names += [label.name for label in labels]
    # A made label stands in the place of a label of the series that has the team's name.
    kept = dict.fromkeys(made.get(name, name) for name in names)  # each once
    expression = f"max by ({', '.join(kept)}) (\n  {rows}\n)"
    for name, prefixed in made.items():
        expression = f'label_replace({expression}, "{name}", "$1", "{prefixed}", "(.+)")'
    return expression


def of_every_vm(query: str) -> str:
    """Return the query of the rule of Maintenance without its condition that the VM is away.

    The result has a row for each VM whose exporter is scraped. The command ``drill`` looks there
    for the labels that the alert would have.

    ``query`` may be in the form in which a Prometheus shows the rule that it has loaded.
    """
    # Both the VMs and those that are away become what each scraped exporter shows of its VM, so
    # each of these VMs meets the condition. VM_AWAY first: its name begins with that of VM.
    return query.replace(VM_AWAY, INSTANCE).replace(VM, INSTANCE)
