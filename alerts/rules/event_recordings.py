"""What the rules remember: the recordings about events and about the VMs that events touch.

No alert needs a recording to fire for the first time. Recordings keep an alert firing while the exporters that
reported its event do not answer, end it when one of them answers without the event, and feed the dashboards. A
recording reads scraped series, its own past, and at most one other level of recordings.
"""

from azure_scheduled_events_exporter.times import format_duration, parse_duration

from ..settings import Settings
from .event_sets import outlasting_alerts, over
from .fragments import (
    at_last_scrapes,
    identified,
    kept,
    known_vms,
    lately,
    lately_at,
    since_recorded,
    slow_interval,
    two_scrapes,
    with_imds,
)
from .rule import Group, Recording, expression
from .series import (
    ANNOUNCED,
    APPROVED,
    DELETING,
    DURATION,
    EVENT,
    EVENT_APPROVED,
    INFO,
    INSTANCE,
    JOB_TARGETS,
    LENGTH,
    NOT_BEFORE,
    OVER,
    PLANNED,
    SEEN,
    SHOWN,
    STARTED,
    UNCONFIRMED,
    UP,
    VM,
    VM_EVENT,
    VM_EVENT_OVER,
    VM_SURVIVED,
    WARNED,
    WITHOUT_IMDS,
)

_OWN = f'{INFO}{{scope="self"}}'
_NO_ACCESS = f"{UP} == 0"


def memory_groups(settings: Settings) -> tuple[Group, ...]:
    """Return groups that record which exporters cannot reach IMDS, and when each event was last seen and ended."""
    interval = slow_interval(settings)
    blind = Recording(
        WITHOUT_IMDS,
        f"({at_last_scrapes(UP, settings)} == 0) ^ 0",  # one that misses a scrape has not regained access
        "1 for each exporter that answers and whose last poll failed",
    )
    seen = Recording(
        SEEN,
        f"max by (event_id, event_type, resources) {with_imds(INFO, _NO_ACCESS)} * 0 + time()",
        "when an exporter that reaches IMDS last showed the event, by the VMs that it named",
    )
    return (
        Group("azure-scheduled-events-blind", settings.duration("evaluation.interval"), (blind,)),
        Group("azure-scheduled-events-memory", interval, (_over(settings),)),
        Group("azure-scheduled-events-sights", interval, (seen,)),
    )


def event_recordings(settings: Settings) -> tuple[Group, ...]:
    """Return the groups of what is recorded about events: what is shown and announced, and the current events."""
    rules = {
        "shown": Recording(
            SHOWN, _shown(settings), "how many exporters show the event, by what they show and their scale set"
        ),
        **_announcements(settings),
        "recordings": Recording(EVENT, _event(settings), "1 for each current event, also while no exporter answers"),
        "started": _started(settings),
    }
    return tuple(
        Group(f"azure-scheduled-events-{name}", slow_interval(settings), (rule,)) for name, rule in rules.items()
    )


def _announcements(settings: Settings) -> dict[str, Recording]:
    """A NotBefore of exporters without IMDS access counts only if no other one is known."""
    planned = since_recorded(NOT_BEFORE, settings)
    return {
        "announcements": Recording(
            WARNED,
            expression(f"""
                group by (event_id, event_type) (
                  {SHOWN}{{event_status!="Started"}}
                  or on (event_id)
                  {lately(ANNOUNCED, settings)} == 1
                  or on (event_id)
                  {lately(APPROVED, settings)} == 1
                  or on (event_id)
                  (last_over_time({WARNED}[{settings.duration("memory")}]) and on (event_id) {SHOWN})
                )
            """),
            "events that somebody saw, or approved, before they started",
        ),
        "approvals": Recording(
            EVENT_APPROVED,
            f"max by (event_id, event_type) ({APPROVED})",
            "1 once an exporter or an operator has approved the event",
        ),
        "times": Recording(
            PLANNED,
            expression(f"""
                (
                  min by (event_id, event_type) {with_imds(NOT_BEFORE, _NO_ACCESS)}
                  or on (event_id)
                  (last_over_time({PLANNED}[{settings.duration("memory")}]) and on (event_id) {planned})
                  or on (event_id)
                  min by (event_id, event_type) ({planned})
                )
                unless on (event_id) {lately(f'{INFO}{{event_status="Started"}}', settings)}
            """),
            "NotBefore of events that have not started",
        ),
        "lengths": Recording(
            LENGTH,
            f"max by (event_id, event_type) ({lately(DURATION, settings)})",
            "the announced length of the impact; absent when unknown",
        ),
    }


def _started(settings: Settings) -> Recording:
    return Recording(
        STARTED,
        expression(f"""
            group by (event_id, event_type) (
              {lately(f'{INFO}{{event_status="Started"}}', settings)} unless on (event_id) {OVER}
              or on (event_id)
              (
                last_over_time({SHOWN}{{event_status="Started"}}[{outlasting_alerts(settings)}])
                and on (event_id) last_over_time({SHOWN}[{settings.duration("memory")}])
                unless on (event_id) {OVER}
              )
            )
        """),
        "1 for each current event that has started",
    )


def _shown(settings: Settings) -> str:
    """Exporters that do not know their VM yet are counted without a scale set, for what no other exporter shows."""
    labels, info = "event_id, event_type, event_source, event_status, resources", lately(INFO, settings)
    return expression(f"""
        count by ({labels}, scale_set) (
          max by ({labels}, job, instance) ({info})
          * on (job, instance) group_left (scale_set)
          topk by (job, instance) (1, {lately(INSTANCE, settings)})
        )
        or on ({labels})
        count by ({labels}) ({info})
    """)


def vm_groups(settings: Settings) -> tuple[Group, ...]:
    """Return the groups of the VMs that events touch."""
    rules = {
        "vms": Recording(VM_EVENT, _vm_event(settings), "when the exporter of a VM last showed an event of this VM"),
        "vms-over": Recording(
            VM_EVENT_OVER,
            _vm_event_over(settings),
            "when the exporter of a VM last answered without an event of this VM that it had shown",
        ),
        "survivors": Recording(
            VM_SURVIVED,
            _vm_survived(),
            "when the exporter of a VM last answered although a Preempt or Terminate of the VM has left",
        ),
    }
    return tuple(
        Group(f"azure-scheduled-events-{name}", slow_interval(settings), (rule,)) for name, rule in rules.items()
    )


def _vm_event(settings: Settings) -> str:
    labels = "".join(f", {label}" for label in kept(settings, *VM.split(", ")))
    shown = lately(_OWN, settings)
    identity = identified(f"and on (job, instance) {shown}", lambda series: lately(series, settings))
    return expression(f"""
        max by (event_id, event_type, event_status, job, instance) (
          {_OWN} * 0 + time()
          or
          ({lately_at(_OWN, settings)} unless on (job, instance) {UP})
        )
        * on (job, instance) group_left ({VM}{labels})
        (
          topk by (job, instance) (1, {identity})
          or on (job, instance)
          group by (job, instance) ({shown})
        )
    """)


def _vm_event_over(settings: Settings) -> str:
    before = f"last_over_time({_OWN}[{outlasting_alerts(settings)}])"
    return expression(f"""
        max by (event_id, vm_id) (
          (
            max by (event_id, job, instance) ({before})
            and on (job, instance) {UP} == 1
            unless on (event_id, job, instance) {INFO}{{scope!="peer"}}
          )
          * on (job, instance) group_left (vm_id)
          topk by (job, instance) (1, {identified(f"and on (job, instance) {before}")})
        ) * 0 + time()
    """)


def _vm_survived() -> str:
    deleting = f'event_type=~"{DELETING}"'
    return expression(f"""
        group by (job, instance) (
          last_over_time({VM_EVENT}{{{deleting}}}[1d]) and on (job, instance) {UP} == 1
        ) * time()
        unless on (job, instance) {INFO}{{scope="self",{deleting}}}
    """)


def _over(settings: Settings) -> Recording:
    """Who reported an event and now answers without it has seen its end.

    An answer without the event counts after the time of two evaluations, so that an event that a faulty answer hid for
    a moment does not page twice. An exporter that was not scraped meanwhile, since Prometheus restarts, has no answer,
    and what one said that could not reach IMDS meanwhile counts neither for the end nor against it. While an exporter
    that cannot reach IMDS still shows the event, the end is kept, unless another one has shown the event since: then
    the last evaluation found no end.
    """
    memory, pause = settings.duration("memory"), two_scrapes(settings)
    shown = at_last_scrapes(INFO, settings)
    return Recording(
        OVER,
        expression(f"""
            (
              (
                max by (event_id) (
                  last_over_time({INFO}[{memory}]) and on (job, instance) min_over_time({UP}[{pause}]) == 1
                )
                or on (event_id)
                ({OVER} and on (event_id) {shown})
              )
              unless on (event_id) {with_imds(shown, f"min_over_time({UP}[{pause}]) == 0")}
            ) * 0 + time()
        """),
        "events that are over: an exporter that showed the event answers without it",
    )


def remembered(settings: Settings) -> str:
    """Return the events that are shown, or were lately, and that nobody has seen the end of.

    In this order: seen later than its end was, if that was seen; shown by an exporter without IMDS access; started,
    and the VM is away. An event that an exporter has from its journal only is no new one. Nor is one that the last
    evaluation found to be over, if nobody shows it: only the replaced exporter of its VM may have seen the end.
    """
    memory, longest, known = settings.duration("memory"), settings.duration("longest"), outlasting_alerts(settings)
    interval = slow_interval(settings)
    evaluated = f"last_over_time({JOB_TARGETS}[{format_duration(2 * parse_duration(interval))}] offset {interval})"
    shown = f"({SHOWN} unless on (event_id) {lately(UNCONFIRMED, settings)})"
    started = f'{VM_EVENT}{{event_status="Started",event_type!~"{DELETING}"}}'
    return expression(f"""
        (
          (
            max by (event_id, event_type) (last_over_time({SEEN}[{memory}]))
            unless on (event_id)
            max by (event_id) (last_over_time({OVER}[{memory}]))
            > on (event_id)
            max by (event_id) (last_over_time({SEEN}[{memory}]))
            or on (event_id)
            max by (event_id, event_type) (
              last_over_time({SHOWN}[{memory}]) unless on (event_id) last_over_time({OVER}[{known}])
            )
            or on (event_id)
            max by (event_id, event_type) (
              last_over_time({started}[{longest}])
              and on (job, instance) (up == 0 or {_NO_ACCESS})
              unless on (event_id) {over(settings)}
            )
          )
          unless on (event_id)
          (
            {lately(UNCONFIRMED, settings)}
            unless on (event_id)
            (last_over_time({EVENT}[{known}]) or on (event_id) last_over_time({SEEN}[{memory}]))
          )
          unless on (event_id)
          (
            last_over_time({VM_EVENT}{{vm_id!=""}}[{known}])
            and on (vm_id) {with_imds(f'{INSTANCE}{{vm_id!=""}}', _NO_ACCESS)}
            unless on (event_id) {with_imds(_OWN, _NO_ACCESS)}
            unless on (event_id) {shown}
            unless on (event_id) {lately(SEEN, settings)}
          )
          unless on (event_id)
          (
            last_over_time({EVENT}[{known}])
            unless on (event_id) {lately(EVENT, settings)}
            unless on (event_id) {shown}
            and on () {evaluated}
          )
        )
    """)


def _kept_labels(new: str, settings: Settings) -> str:
    """Join the labels that alerts carry to new events: those of the VM that is first in Resources.

    If Prometheus does not know that VM, they are the labels that most exporters have that report the event.
    """
    labels = ", ".join(kept(settings))
    if not labels:
        return ""
    place = "subscription_id, resource_group"
    targets = f"topk by (job, instance) (1, {lately(INSTANCE, settings)} and on (job, instance) {new})"
    by_target = f"on (job, instance) group_left ({{}}) {targets}"
    joined = ", ".join(kept(settings, "subscription_id", "resource_group"))
    return expression(f"""
        * on (event_id) group_left ({labels})
        group by (event_id, {labels}) (
          topk by (event_id) (1, count by (event_id, {labels}) (
            group by (event_id, {place}, vm_name) (label_replace(
              max by (event_id, resources, job, instance) ({new}) * {by_target.format(place)},
              "vm_name", "$1", "resources", "([^,]*).*"
            ))
            * on ({place}, vm_name) group_left ({joined})
            {known_vms(settings)}
          ))
          or on (event_id)
          topk by (event_id) (1, count by (event_id, {labels}) (
            max by (event_id, job, instance) ({new}) * {by_target.format(labels)}
          ))
          or on (event_id)
          group by (event_id) ({SHOWN})
        )
    """)


def _event(settings: Settings) -> str:
    """Return the rows.

    A row keeps the labels that it began with: those that most exporters showed when the event appeared.
    """
    memory = settings.duration("memory")
    old = f"last_over_time({EVENT}[{memory}])"
    labels = "event_id, event_type, event_source, resources"
    also = "".join(f", {label}" for label in kept(settings))
    return (
        expression(f"""
        group by ({labels}, scale_set{also}) (
          topk by (event_id) (1, count_over_time({EVENT}[{memory}]))
          or on (event_id)
          topk by (event_id) (1,
            sum by ({labels}, scale_set) ({SHOWN}{{scale_set!=""}} unless on (event_id) {old})
            or on (event_id)
            sum by ({labels}) ({SHOWN} unless on (event_id) {old})
          )
          {_kept_labels(f"({lately(INFO, settings)} unless on (event_id) {old})", settings)}
        )
        and on (event_id)
    """)
        + "\n"
        + remembered(settings)
    )
