"""What is wrong with how an event goes, and how much of a scale set or zone it hits."""

from types import MappingProxyType

from .event_recordings import EVENT, INFO, LEFT, NOT_BEFORE, SAME_TARGET, STARTED
from .rule import PREFIX, Alert, Dashboard, Group, Recording, expression
from .settings import Settings

NOTICE = "azure_scheduled_events:event_notice_seconds"
SEVERE = "azure_scheduled_events:event_severe"
HIT = "azure_scheduled_events:vm_hit"
SCALE_SET_VMS = "azure_scheduled_events:scale_set_vms"
ZONE_VMS = "azure_scheduled_events:zone_vms"
SCALE_SET_HIT = "azure_scheduled_events:scale_set_hit:ratio"
ZONE_HIT = "azure_scheduled_events:zone_hit:ratio"

_INSTANCE = "azure_scheduled_events_instance_info"
_FIRST_SEEN = "azure_scheduled_events_event_first_seen_timestamp_seconds"
_WHO = (
    "The {{ $labels.event_type }} of {{ $labels.resources }}{{ with $labels.scale_set }} of scale set {{ . }}{{ end }}"
)
_EVENT = "Event {{ $labels.event_id }}."
_SCHEDULED = MappingProxyType({"event_status": "Scheduled"})
_STARTED = MappingProxyType({"event_status": "Started"})


def life_group(settings: Settings) -> Group:
    """Return the group of single events that need a closer look."""
    rules: tuple[Recording | Alert, ...] = (
        _notice(settings),
        _overdue(settings),
        _started_too_long(settings),
        _short_notice(settings),
        _degraded_host(settings),
    )
    return Group("azure-scheduled-events-lives", settings.duration("evaluation.interval"), rules)


def impact_groups(settings: Settings) -> tuple[Group, Group]:
    """Return the groups of scale sets and zones: their sizes, which change slowly, and how much of them is hit."""
    rules: tuple[Recording | Alert, ...] = (*_hits(settings), _scale_set_hit(settings), _zone_hit(settings))
    return (
        Group("azure-scheduled-events-places", settings.duration("evaluation.watcher-interval"), _places()),
        Group("azure-scheduled-events-impact", settings.duration("evaluation.interval"), rules),
    )


def approval_groups(settings: Settings) -> tuple[Group, Group]:
    """Return the groups of approvals that are missing and that were refused."""
    interval = settings.duration("evaluation.watcher-interval")
    return (
        Group("azure-scheduled-events-approvals", interval, (_not_approved(settings),)),
        Group("azure-scheduled-events-refusals", interval, (_approval_refused(),)),
    )


def _notice(settings: Settings) -> Recording:
    return Recording(
        NOTICE,
        expression(f"""
                {EVENT} * 0 + on (event_id) group_left ()
                (
                  {NOT_BEFORE}
                  -
                  min by (event_id) (
                    {_FIRST_SEEN}{{scope="self"}}
                    > {SAME_TARGET} group_left ()
                    process_start_time_seconds{{job=~"{settings.text("job")}"}} + 30
                  )
                )
            """),
        "the notice really given, by the event's own VM if it was watching when the event appeared",
    )


def _places() -> tuple[Recording, ...]:
    return (
        Recording(
            SCALE_SET_VMS,
            f'count by (scale_set) ({_INSTANCE}{{scale_set!=""}})',
            "the exporters of a scale set that answer",
        ),
        Recording(
            ZONE_VMS,
            f'count by (location, zone) ({_INSTANCE}{{zone!=""}})',
            "the exporters in a zone that answer",
        ),
    )


def _hits(settings: Settings) -> tuple[Recording, ...]:
    memory = settings.duration("memory")
    return (
        Recording(
            SEVERE,
            expression(f"""
                max by (event_id) (
                  {LEFT}{{event_type!="Freeze",event_source!="User"}} <= {settings.number("hit.together")}
                )
            """),
            "events that hit now or soon, neither requested nor a mere pause",
        ),
        Recording(
            HIT,
            expression(f"""
                max by (event_id, job, instance, scale_set, location, zone) (
                  ({INFO}{{scope="self"}} and on (event_id) {SEVERE})
                  * {SAME_TARGET} group_left (scale_set, location, zone)
                  {_INSTANCE}
                )
                or on (event_id, job, instance)
                ({HIT} and on (event_id) {SEVERE})
            """),
            "the VMs that such events are about, also when they are down already",
        ),
        Recording(SCALE_SET_HIT, _share(SCALE_SET_VMS, "scale_set", memory), "the share of a scale set that is hit"),
        Recording(ZONE_HIT, _share(ZONE_VMS, "location, zone", memory), "the share of a zone that is hit"),
    )


def _share(vms: str, place: str, memory: str) -> str:
    """VMs that are gone already still count as part of the whole."""
    return expression(f"""
        count by ({place}) (max by (job, instance, {place}) ({HIT}))
        / on ({place}) max_over_time({vms}[{memory}])
    """)


def _not_approved(settings: Settings) -> Alert:
    return Alert(
        f"{PREFIX}NotApproved",
        expression(f"""
            ({LEFT} > 0) < {settings.number("not-approved.within")}
            and on (event_id)
            (
              {INFO}{{scope="self"}}
              and on (job, instance)
              azure_scheduled_events_approval_policy_info{{policy!="off"}}
            )
            unless on (event_id)
            azure_scheduled_events_event_approved == 1
        """),
        "warning",
        "An event is due and has not been approved, where a policy approves events.",
        f"{_WHO} begins in {{{{ $value | humanizeDuration }}}} without approval: "
        f"the workload may not be drained. {_EVENT}",
        Dashboard.VM,
        labels=_SCHEDULED,
    )


def _overdue(settings: Settings) -> Alert:
    return Alert(
        f"{PREFIX}Overdue",
        f"{LEFT} < -{settings.number('overdue.after')}",
        "warning",
        "An event should have begun long ago and is still scheduled.",
        f"{_WHO} is still Scheduled although its NotBefore has passed. It may begin at any moment. {_EVENT}",
        Dashboard.VM,
        labels=_SCHEDULED,
    )


def _started_too_long(settings: Settings) -> Alert:
    return Alert(
        f"{PREFIX}StartedTooLong",
        f"{EVENT} and on (event_id) {STARTED}",
        "warning",
        "An event began long ago and has not ended.",
        f"{_WHO} has been Started for more than {settings.duration('started.limit')}: "
        f"the VM may be stuck, or a second impact may follow. {_EVENT}",
        Dashboard.VM,
        holds=settings.duration("started.limit"),
        labels=_STARTED,
    )


def _short_notice(settings: Settings) -> Alert:
    types = ("Freeze", "Reboot", "Redeploy", "Terminate", "Preempt")
    parts = (f'{NOTICE}{{event_type="{each}"}} < {settings.number(f"notice.{each.lower()}")}' for each in types)
    return Alert(
        f"{PREFIX}ShortNotice",
        "\nor\n".join(parts),
        settings.text("short-notice.severity"),
        "An event was announced with less notice than documented.",
        f"{_WHO} was announced only {{{{ $value | humanizeDuration }}}} ahead: "
        f"draining has less time than planned. {_EVENT}",
        Dashboard.VM,
        labels=_SCHEDULED,
    )


def _degraded_host(settings: Settings) -> Alert:
    return Alert(
        f"{PREFIX}DegradedHost",
        f"{LEFT} > {settings.number('degraded-host.notice')}",
        "warning",
        "A VM is on a host that is predicted to fail.",
        f"{_WHO} is {{{{ $value | humanizeDuration }}}} ahead: "
        "its host is predicted to fail, and may fail sooner. "
        f"Redeploy the VM now, at a time that suits you. {_EVENT}",
        Dashboard.VM,
        labels=_SCHEDULED,
    )


def _hit(ratio: str, place: str, settings: Settings) -> str:
    share, least = settings.number("hit.share"), settings.number("hit.least-vms")
    return expression(f"""
        {ratio} >= {share}
        and on ({place}) count by ({place}) (max by (job, instance, {place}) ({HIT})) >= {least}
    """)


def _scale_set_hit(settings: Settings) -> Alert:
    return Alert(
        f"{PREFIX}ScaleSetHit",
        _hit(SCALE_SET_HIT, "scale_set", settings),
        "critical",
        "Events hit a large part of a scale set at the same time.",
        "{{ $value | humanizePercentage }} of the VMs of scale set {{ $labels.scale_set }} are hit by events that are "
        "Started or due: their capacity, memory and ephemeral disks may be lost at once.",
        Dashboard.FLEET,
    )


def _zone_hit(settings: Settings) -> Alert:
    return Alert(
        f"{PREFIX}ZoneHit",
        _hit(ZONE_HIT, "location, zone", settings),
        "critical",
        "Events hit a large part of a zone at the same time.",
        "{{ $value | humanizePercentage }} of the VMs in zone {{ $labels.zone }} of {{ $labels.location }} are hit by "
        "events that are Started or due: their capacity, memory and ephemeral disks may be lost at once.",
        Dashboard.FLEET,
    )


def _approval_refused() -> Alert:
    return Alert(
        f"{PREFIX}ApprovalRefused",
        expression("""
            sum without (outcome) (
              increase(azure_scheduled_events_approval_requests_total{outcome=~"rejected|error"}[5m])
            ) > 0
        """),
        "warning",
        "The metadata service refused an approval.",
        "IMDS refused or failed an approval that {{ $labels.instance }} asked for: "
        "the event begins at its NotBefore instead, and not before.",
        Dashboard.EXPORTER,
        labels=MappingProxyType({"component": "exporter"}),
    )
