"""VMs that did not come back from an event within the time that its type may take."""

from math import ceil
from types import MappingProxyType

from azure_scheduled_events_exporter.core.event_types import EventType
from azure_scheduled_events_exporter.times import format_duration, parse_duration

from ..settings import Settings
from .fragments import answering, kept, slow_interval, with_imds
from .maintenance import longest_of, maintenance, rows_of, seconds_back, time_back, within_longest
from .rule import AWAY, PREFIX, VMS, Alert, Away, Dashboard, Group, Recording, expression
from .series import EVENT, JOB_TARGETS, NOT_BEFORE, RECOVERED, UNANSWERED, VM_MAINTENANCE

NOT_BACK = f"{PREFIX}VmNotBack"

_RETURNING = tuple(each for each in EventType if not each.facts.deletes)

_LONGEST_WINDOW, _SHARE_AWAY = 300, 0.4  # a VM is away that does not answer for such a share of so many seconds
_BACK_WINDOW, _SHARE_BACK = 120, 0.8  # a VM is back that answers such a share of the scrapes of so many seconds
_SHARE_UNSEEN = 0.6  # a VM whose event nobody saw Started does not answer for such a share of the time allowed


def not_back_groups(settings: Settings) -> tuple[Group, ...]:
    """Return the group of VMs that are away: which exporters do not answer, which do again, VmNotBack, and Maintenance.

    The order matters. When an event that has started should be over, VmNotBack begins, and the maintenance of its VM
    ends, which inhibits the team's own alerts. Alertmanager gets VmNotBack first, so that those come after it.
    """
    targets = f'up{{job=~"{settings.text("job")}"}}'
    rules = (
        Recording(JOB_TARGETS, f"count by (job) ({targets})", "the targets of each job that scrapes exporters"),
        Recording(
            UNANSWERED,
            f"max by (job, instance) ({targets} == 0) + time()",
            "when a scrape of an exporter failed, while the last one has",
        ),
        _recovered(targets, settings),
        _vm_not_back(settings),
        maintenance(settings),
    )
    return (Group("azure-scheduled-events-not-back", slow_interval(settings), rules),)


def _recovered(targets: str, settings: Settings) -> Recording:
    """A VM that boots in a loop answers for a moment now and then, and has not recovered."""
    period = max(_BACK_WINDOW, 5 * settings.seconds("scrape.interval"))
    window, least = format_duration(period), _SHARE_BACK * period / settings.seconds("scrape.interval")
    longest = max(float(each) for each in longest_of(settings, *_RETURNING).values())
    return Recording(
        RECOVERED,
        expression(f"""
            max by (job, instance) (
              (avg_over_time({targets}[{window}]) >= {_SHARE_BACK} and sum_over_time({targets}[{window}]) >= {least:g})
              and on (job, instance) last_over_time({UNANSWERED}[{_since_away(longest, settings)}])
            ) * 0 + time()
        """),
        f"when an exporter that had failed last answered nearly all scrapes of {window}",
    )


def _vm_not_back(settings: Settings) -> Alert:
    """A VM that is away counts for the event that hit it last."""
    rows, away = f"last_over_time({VM_MAINTENANCE}[{time_back(settings)}])", _away(settings)
    return Alert(
        NOT_BACK,
        _with_labels_of_event(
            expression(f"""
                max by (event_id, event_type) (topk by (event_id) (1,
                  (
                    {_expired(settings)}
                  )
                  and on (event_id, phase, vm_id) topk by (vm_id) (1, {rows})
                  unless on (vm_id)
                  (
                    {within_longest(settings)}
                  )
                  and on (job, instance) {away}
                  {answering(away, settings)}
                  unless on (event_id) (min by (event_id) {with_imds(NOT_BEFORE)} > time())
                ))
            """),
            settings,
        ),
        settings.text("not-back.severity"),
        "A VM has not come back from an event.",
        f"The {{{{ $labels.event_type }}}} of {VMS} should be over, and {AWAY} not come back "
        "within {{ $value | humanizeDuration }}. Event {{ $labels.event_id }}.",
        Dashboard.VM,
        labels=MappingProxyType({"event_status": "Started"}),
        away=_vms_not_back(settings),
    )


def _vms_not_back(settings: Settings) -> Away:
    """Return which VMs of an event are away; the alert's value is the longest maintenance of the event.

    They have to be away for half of that time, as in :func:`_expired`. Every text of the alert asks this, so it reads
    what is recorded of their own targets only.
    """
    rows = rows_of("event_id='%[1]s',vm_name!=''", settings)
    interval = slow_interval(settings)
    step, those = parse_duration(interval), "instance=~'%[3]s'"
    away = _away(settings).replace(UNANSWERED, f"{UNANSWERED}{{{those}}}")
    several = expression(f"""
        max by (vm_name) (
          {rows}
          and on (event_id, phase, vm_id) topk by (vm_id) (1, {rows_of(those, settings)})
          and on (job, instance) {away}
          and on (job, instance) (count_over_time({UNANSWERED}{{{those}}}[%.0[2]fs:{interval}]) * {2 * step:g} >= %[2]f)
        )
    """)
    return Away(f"max by (instance, vm_name) ({rows})", several)


def _expired(settings: Settings) -> str:
    """Return the rows of VMs that should have been back when they last did not answer; the value is the time allowed.

    The VM of an event that has started has to be away for half of the time allowed: it may have been back, and fail
    for another reason. An event that is only due may start late, so its VM has to be away for all of that time: from
    the first scrape that failed to the last one, without having been back in between. One that boots in a loop may be
    back for minutes, but is away most of twice that time.
    """
    last = f"max by (job, instance) (last_over_time({UNANSWERED}[{format_duration(_window(settings))}]))"
    late = f"<= on (job, instance) group_left () {last} -"
    return "\nor\n".join(
        expression(f"""
            (
              {rows_of(matcher, settings, "started")} {late} {longest}
              and on (job, instance) {_unanswered_for(float(longest) / 2, float(longest), settings)}
              or
              {rows_of(matcher, settings, "due")} {late} {longest}
              and on (job, instance) ({last} - on (job, instance) {_first(float(longest), settings)} >= {longest})
              and on (job, instance)
              (
                {_mostly_unanswered(float(longest), settings)}
                unless on (job, instance) ({_back(float(longest), settings)} > on (job, instance) {last} - {longest})
                or
                {_mostly_unanswered(2 * float(longest), settings)}
              )
            ) * 0 + {longest}
        """)
        for matcher, longest in longest_of(settings, *_RETURNING).items()
    )


def _mostly_unanswered(window: float, settings: Settings) -> str:
    """Return the exporters that have not answered for most of the last ``window`` seconds.

    The time for which Prometheus itself was away does not count: nothing was recorded of the job then.
    """
    steps = f"[{format_duration(window)}:{slow_interval(settings)}]"
    share = f"on (job) group_left () {_SHARE_UNSEEN} * count_over_time({JOB_TARGETS}{steps})"
    return f"(count_over_time({UNANSWERED}{steps}) >= {share})"


def _first(longest: float, settings: Settings) -> str:
    """Return the time of the first failed scrape of each exporter."""
    return f"max by (job, instance) (min_over_time({UNANSWERED}[{_since_away(longest, settings)}]))"


def _back(longest: float, settings: Settings) -> str:
    """Return when each exporter was last back, of those that had failed before."""
    return f"max by (job, instance) (last_over_time({RECOVERED}[{_since_away(longest, settings)}]))"


def _since_away(longest: float, settings: Settings) -> str:
    """Return how long ago a VM may have failed that is away for ``longest`` seconds.

    Prometheus may have been away for up to ``memory`` of that time.
    """
    return format_duration(longest + settings.seconds("memory"))


def _away(settings: Settings) -> str:
    """Return the exporters that have not answered for 2 of the last 5 minutes.

    Neither a missed scrape nor a restart makes a VM away, and one that boots in a loop is away all the time.
    """
    window = _window(settings)
    return _unanswered_for(_SHARE_AWAY * window, window, settings)


def _unanswered_for(seconds: float, window: float, settings: Settings) -> str:
    """Return the exporters that have not answered for so many of the last ``window`` seconds."""
    interval = parse_duration(slow_interval(settings))
    least = ceil(seconds / interval)
    return f"(count_over_time({UNANSWERED}[{format_duration(window)}:{format_duration(interval)}]) >= {least})"


def _window(settings: Settings) -> float:
    """Return over how many seconds it counts how often an exporter answers.

    They are fewer if a VM has to be back for less, and more with rare scrapes.
    """
    return max(min(seconds_back(settings), _LONGEST_WINDOW), 5 * settings.seconds("scrape.interval"))


def _with_labels_of_event(text: str, settings: Settings) -> str:
    """Return ``text``, one row per event, with the labels that its alert has, or had, or else those of its VMs.

    They are known for as long as the row of a VM lasts.
    """
    if not (labels := ", ".join(kept(settings))):
        return text
    rows = f"last_over_time({VM_MAINTENANCE}[{time_back(settings)}])"
    return expression(f"""
        (
        {text}
        )
        * on (event_id) group_left ({labels})
        group by (event_id, {labels}) (
          topk by (event_id) (1, count_over_time({EVENT}[1d]))
          or on (event_id)
          topk by (event_id) (1, count by (event_id, {labels}) ({rows}))
        )
    """)
