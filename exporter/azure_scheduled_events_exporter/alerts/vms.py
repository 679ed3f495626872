"""The alerts of VMs: many of a scale set are away at once, one has not come back, Azure works on one."""

from azure_scheduled_events_exporter.core.event_types import EventType

from .rule import PREFIX, Alert, Recording, promql
from .series import (
    BLIND,
    ENDED,
    EVENT,
    EXPORTERS,
    IMPACT,
    INSTANCE,
    SCALE_SET_VMS,
    UP,
    VM_AWAY,
    VM_BACK,
)
from .settings import EQUAL_SOURCE, Settings

MAINTENANCE = f"{PREFIX}Maintenance"
NOT_BACK = f"{PREFIX}VmNotBack"
_DELETES = f'event_type=~"{"|".join(each for each in EventType if each.facts.deletes)}"'
_RETURNS = _DELETES.replace("=~", "!~")
_SET = "subscription_id, resource_group, scale_set"
_HOST = r"(\\[.+\\]|[^:]+)(:[0-9]+)?"
"""The host of an instance: an IPv6 address with a port has brackets.

One without them has no port.
"""


def vm_recordings(settings: Settings) -> tuple[Recording, ...]:
    """Return the recordings, a row for each event and VM; an end counts also if it is shown between two evaluations."""
    more = _listed(settings.items("labels.keep"), settings.items("maintenance.within"))
    back = promql(f"""
        max by (event_id, job, instance) (
          last_over_time({IMPACT}[2h]) and on (job, instance) {UP} == 1 unless on (event_id, job, instance) {IMPACT}
          or last_over_time({IMPACT}[2h]) and on (event_id, job, instance) last_over_time({ENDED}{{scope="self"}}[2m])
        )
    """)
    away = promql(f"""
        max by (vm_id, vm_name, computer_name, {_SET}, event_id, job, instance{more}) (
          last_over_time({IMPACT}{{{_DELETES}}}[10m]) < time() + 60
          or last_over_time({IMPACT}{{{_RETURNS}}}[30m]) < time() + 60
        )
        unless on (event_id, job, instance) last_over_time({VM_BACK}[30m])
        unless on (event_id, job, instance) {IMPACT} < time() - 120
    """)
    blind = f'up{{job=~"{settings.text("job")}"}} == 0 or ({UP} == 0) + 1'
    return (
        Recording(BLIND, blind, "0 for an exporter that is down, 1 for one without IMDS"),
        Recording(
            VM_BACK, back, "VMs whose exporter answers and shows the event no longer, or its end"
        ),
        Recording(
            VM_AWAY,
            away,
            "VMs from 60 s before an impact to vm_back: 30m (deleted: 10m), or 120 s if they"
            " answer, at most",
        ),
    )


def fleet_recordings() -> tuple[Recording, ...]:
    """Return the recordings of counts: exporters that work, VMs of each scale set.

    No page waits for them.
    """
    vms = (
        f"count without (vm_id) (group by ({_SET}, vm_id)"
        f" (last_over_time({INSTANCE}{{scale_set!=''}}[30m])))"
    )
    exporters = f"{BLIND} * 0 or count by (job) ({UP} == 1)"
    return (
        Recording(EXPORTERS, exporters, "0 for each in blind; by job, how many others"),
        Recording(SCALE_SET_VMS, vms, "how many VMs a scale set had in the last 30m"),
    )


def vm_alerts(settings: Settings) -> tuple[Alert, ...]:
    """Return the alerting rules."""
    return (_scale_set_hit(), _not_back(settings), _maintenance(settings))


def _scale_set_hit() -> Alert:
    """At least two events, so that no event pages twice; both shares count VMs, not their events."""
    return Alert(
        f"{PREFIX}ScaleSetHit",
        promql(f"""
            (count without (vm_id) (group by ({_SET}, vm_id) ({VM_AWAY}{{scale_set!=""}})) >= 2)
            / {SCALE_SET_VMS} >= 0.5
            and count without (event_id) (group by ({_SET}, event_id) (
              {VM_AWAY} unless on (event_id) last_over_time({EVENT}{{kind="requested"}}[30m]))) >= 2
        """),
        "critical",
        "{value humanizePercentage} of scale set {scale_set} are away or about to be.",
        "At least two events do this. Resource group {resource_group}. Its capacity, memory "
        "and ephemeral disks may be lost at once.",
        "fleet",
        "At least two events, and half of the VMs of a scale set are away or will be within 60 s. "
        "Events that follow each other do not raise it.",
    )


def _not_back(settings: Settings) -> Alert:
    """An event that peers saw cancelled is not the reason why a VM is away."""
    kept = _listed(settings.items("labels.keep"))
    return Alert(
        NOT_BACK,
        promql(f"""
            max by (event_id, event_type, vm_name, job, instance{kept}) (
              last_over_time({IMPACT}{{{_RETURNS}}}[2h]) < time())
            unless on (event_id, job, instance) last_over_time({VM_BACK}[2h])
            unless on (event_id) last_over_time({ENDED}{{outcome="cancelled"}}[2h])
            and on (job, instance) {BLIND} == 0
        """),
        "critical",
        "{vm_name} has not come back from its {event_type}.",
        "Its exporter has not answered for 15 minutes since the event began at {value"
        " humanizeTimestamp}, and has not seen its end.",
        "vm",
        "The impact of an event has begun, and the VM has not answered for 15 minutes. Ends when it"
        " answers, or 2 h after it last did.",
        holds="15m",
    )


def _maintenance(settings: Settings) -> Alert:
    """The labels are those that the team's own alerts have: an inhibition compares them."""
    # At most 2 h: an exporter that IMDS no longer answers shows an event for days.
    rows = f"last_over_time({VM_AWAY}[5m]) or {IMPACT} < time() + 60 > time() - 7200"
    by = ["vm_id", "vm_name", "instance", *settings.items("maintenance.within")]
    for item in settings.items("maintenance.equal"):
        label, _, form = item.partition("=")
        if form and (source := EQUAL_SOURCE.match(form)):
            regex, name = (_HOST, "instance") if source[0] == "host" else ("(.+)", source[0])
            rows = (
                f'label_replace({rows}, "{label}", "${{1}}{form[source.end() :]}", "{name}",'
                f' "{regex}")'
            )
        by.append(label)
    labels = ", ".join(dict.fromkeys(by))
    return Alert(
        MAINTENANCE,
        f"max by ({labels}) (\n  {rows}\n)",
        "info",
        "Azure works on {vm_name}.",
        "It may be away for minutes. Your own alerts about it can be inhibited.",
        "vm",
        "From 60 s before the impact of an event, for 2 h while its exporter shows it, and until 5"
        " minutes after the VM was last away; at most 35 minutes (Preempt, Terminate 15) after its"
        " exporter last answered.",
    )


def _listed(*labels: tuple[str, ...]) -> str:
    return "".join(f", {each}" for each in dict.fromkeys(name for some in labels for name in some))
