"""Recordings that only the dashboards read, so that a board over thousands of VMs opens within seconds.

No alert depends on them. Each reads scraped series, or recordings that read nothing but scraped series. Exporters
without a problem are not recorded one by one: a graph of 10,000 lines shows nothing, and costs the most.
"""

from types import MappingProxyType

from azure_scheduled_events_exporter.metrics.spec import PREFIX as METRIC
from azure_scheduled_events_exporter.times import format_duration, parse_duration

from ..settings import Settings
from .fragments import over_scrapes, slow_interval
from .rule import Group, Recording, expression
from .series import EVENT_APPROVED, NOT_BEFORE, PLANNED

STATE = "azure_scheduled_events:event_state"
LAST_STATE = "azure_scheduled_events:event_last_state"
FIRST_SEEN = "azure_scheduled_events:event_first_seen_timestamp_seconds"
STARTED_AT = "azure_scheduled_events:event_started_timestamp_seconds"
STARTED_FOR = "azure_scheduled_events:event_started_seconds"
SECONDS_LEFT = "azure_scheduled_events:event_last_seconds_left"
PHASE = "azure_scheduled_events:event_phase_seconds"
URGENCY = "azure_scheduled_events:event_urgency"
APPROVED_BY = "azure_scheduled_events:event_approved_by"
VMS = "azure_scheduled_events:event_vms"
VM_STATE = "azure_scheduled_events:vm_event_state"
VM_LAST_STATE = "azure_scheduled_events:vm_event_last_state"
IMPACT_AT = "azure_scheduled_events:event_impact_timestamp_seconds"
EXPORTER_INFO = "azure_scheduled_events:exporter_info"
BLIND = "azure_scheduled_events:exporter_blind"
BLIND_SECONDS = "azure_scheduled_events:exporter_blind_seconds"
BLIND_SHARE = "azure_scheduled_events:exporters_blind:ratio"
POLLS = "azure_scheduled_events:polls:rate"
FAILED_POLLS = "azure_scheduled_events:exporter_failed_polls:ratio"
THROTTLED_POLLS = "azure_scheduled_events:exporter_throttled_polls:rate"
POLL_DURATION = "azure_scheduled_events:poll_duration_seconds:quantile"
POLL_PACE = "azure_scheduled_events:poll_pace:min"
ANSWER_AGE = "azure_scheduled_events:answer_age_seconds:quantile"
MEMORY = "azure_scheduled_events:process_resident_memory_bytes:quantile"
CPU = "azure_scheduled_events:process_cpu_seconds:quantile"
JOURNAL_OFF = "azure_scheduled_events:exporter_journal_off"
SPANS_QUEUED = "azure_scheduled_events:spans_queued:sum"
SPANS = "azure_scheduled_events:spans:rate"
PUSHED_ALERTS = "azure_scheduled_events:alertmanager_alerts:rate"
APPROVAL_REQUESTS = "azure_scheduled_events:approval_requests:increase5m"

SILENT_SECONDS = 120
"""An exporter whose last answer is older than this plus three poll intervals has stopped polling."""
EARLY_SECONDS = 60
"""An event that starts more than so long before its NotBefore was approved.

It is longer than the usual time between two scrapes, and shorter than the usual notice.
"""
LONGEST_INTERVAL = 120
"""The most seconds between recordings. Prometheus shows a sample for five minutes, and an evaluation may be missed."""
HELD = "1h5m"
"""How long boards know the last row of an event that nobody shows: longer than the rules hold one by default.

Which events are held is not known here: queries ask the recording of current events.
"""
QUANTILES = {"0.5": "median", "0.99": "99 %", "1": "worst"}

_EVENT = "event_id, event_type, event_source, description, resources"
_PLACE = "scale_set, resource_group, location, zone"
_INFO = f"{METRIC}event_info"
_VM_INFO = f"{METRIC}instance_info"
_UP = f"{METRIC}up"
_BY_TARGET = "on (job, instance)"


def board_groups(settings: Settings) -> tuple[Group, ...]:
    """Return the groups. Prometheus evaluates the rules of a group one after another, so costly rules are spread.

    States and approvals of events are recorded often, since a Freeze takes seconds. Places of exporters, polls,
    processes, spans and requests are evaluated half as often as the exporters' state: boards show them over hours. No
    interval is longer than :data:`LONGEST_INTERVAL`.
    """
    fast, events = settings.duration("evaluation.interval"), slow_interval(settings)
    watcher, slow = (format_duration(_watcher_seconds(settings, times)) for times in (1, 2))
    job = f'{{job=~"{settings.text("job")}"}}'
    window = over_scrapes(settings, 60)
    groups = {
        "events": (fast, _states(settings)),
        "starts": (fast, _starts(settings)),
        "approvals": (fast, _approvals(settings)),
        "vms": (events, _vms()),
        "event-times": (events, _times()),
        "impacts": (events, (_impact(),)),
        "blind": (watcher, _blind(settings)),
        "exporters": (slow, _exporters(settings)),
        "shares": (slow, _shares()),
        **{name: (slow, (each,)) for name, each in _polls(window).items()},
        "failures": (slow, _failed_polls(window)),
        **{f"poll-{share}": (slow, (each,)) for share, each in _poll_times(window).items()},
        "pace": (slow, _pace(window)),
        "answers": (slow, tuple(_answer_ages().values())),
        "memory": (slow, tuple(_memory(job).values())),
        **{f"cpu-{share}": (slow, (each,)) for share, each in _cpu(job, window).items()},
        "spans": (slow, _spans(window)),
        "requests": (slow, _requests(settings, window)),
    }
    return tuple(
        Group(f"azure-scheduled-events-board-{name}", interval, rules) for name, (interval, rules) in groups.items()
    )


# ---- Events ---------------------------------------------------------------------------------------------------------


def _states(settings: Settings) -> tuple[Recording, ...]:
    """The state of events, and how long they were in it."""
    interval = settings.number("evaluation.interval")
    return (
        Recording(
            STATE,
            expression(f"""
                topk by (event_id) (1,
                  3 * max by ({_EVENT}) ({_INFO}{{event_status="Started"}})
                  or on (event_id)
                  max by ({_EVENT}) ({_INFO}{{event_status!="Started"}})
                  + on (event_id) group_left () max by (event_id) ({METRIC}event_approved)
                )
            """),
            "one row per event that an exporter shows: 1 waiting, 2 approved, 3 started",
        ),
        Recording(
            LAST_STATE,
            _last_state(),
            "the same, and the last row of an event that no exporter shows any more; whether it is current, "
            "azure_scheduled_events:event tells",
        ),
        Recording(
            PHASE,
            expression(f"""
                {interval} * group by (event_id, event_type, phase) (
                  label_replace({STATE} == 1, "phase", "waiting", "", "")
                  or label_replace({STATE} == 3, "phase", "started", "", "")
                )
            """),
            "the seconds that one sample stands for: the sum over time is how long an event waited or stayed Started",
        ),
    )


def _last_state() -> str:
    return expression(f"""
        {STATE}
        or on (event_id)
        topk by (event_id) (1, last_over_time({STATE}[{HELD}]) unless on (event_id) {STATE})
    """)


def _impact() -> Recording:
    """An event that waits and whose NotBefore nobody knows may begin at any moment, so it counts as due."""
    waiting = f"(({_last_state()}) < 3)"
    return Recording(
        IMPACT_AT,
        expression(f"""
            min by (event_id, event_type) (last_over_time({PLANNED}[{HELD}]) and on (event_id) {waiting})
            or on (event_id)
            min by (event_id, event_type) ({NOT_BEFORE} and on (event_id) {waiting})
            or on (event_id)
            group by (event_id, event_type) {waiting} * 0 + time() - 1
        """),
        "NotBefore of events that wait, also while no exporter shows them; without one, they may begin now",
    )


def _starts(settings: Settings) -> tuple[Recording, ...]:
    """How long events stayed Started, from the first to the last sample: a VM may be down in between."""
    interval, longest = settings.number("evaluation.interval"), settings.duration("longest")
    started = f'{_INFO}{{event_status="Started"}}'
    return (
        Recording(
            STARTED_AT,
            expression(f"""
                min by (event_id, event_type) (min_over_time({STARTED_AT}[{longest}]) and on (event_id) {started})
                or on (event_id)
                group by (event_id, event_type) ({started}) * time()
            """),
            "when an event was first seen Started, while an exporter shows it so",
        ),
        Recording(
            STARTED_FOR,
            f"{interval} + time() - {STARTED_AT}",
            "how long it has been Started, also if nobody showed it in between",
        ),
    )


def _vms() -> tuple[Recording, ...]:
    """The state of the VMs that events happen to."""
    return (
        Recording(
            VM_STATE,
            expression(f"""
                max by (event_id, event_type, vm_name, fault_domain, {_PLACE}) (
                  max by (event_id, event_type, job, instance) (
                    3 * {_INFO}{{scope="self", event_status="Started"}}
                    or on (job, instance, event_id)
                    1 + {METRIC}event_approved{{scope="self"}}
                  )
                  * {_BY_TARGET} group_left (vm_name, fault_domain, {_PLACE})
                  topk by (job, instance) (1, {_VM_INFO} and {_BY_TARGET} {_INFO}{{scope="self"}})
                )
            """),
            "the same state for each VM that an event happens to, with its place",
        ),
        Recording(
            VM_LAST_STATE,
            expression(f"""
                {VM_STATE}
                or
                (
                  {VM_LAST_STATE}
                  and last_over_time({VM_STATE}[{HELD}])
                  unless on (vm_name, {_PLACE}) group by (vm_name, {_PLACE}) ({_VM_INFO})
                  unless ({VM_LAST_STATE}{{resource_group=""}} and on (vm_name) {_VM_INFO})
                )
            """),
            "the same, and the last row of a VM whose exporter has not answered since",
        ),
    )


def _times() -> tuple[Recording, ...]:
    """How many VMs an event names, and when it was first seen."""
    return (
        Recording(
            VMS,
            f"max by (event_id, event_type) ({METRIC}event_resources)",
            "the number of VMs that an event names, also those without an exporter",
        ),
        Recording(
            FIRST_SEEN,
            f"min by (event_id, event_type) ({METRIC}event_first_seen_timestamp_seconds)",
            "when the first exporter saw the event",
        ),
    )


def _approvals(settings: Settings) -> tuple[Recording, ...]:
    """Who approved an event, how long before NotBefore that was, and the order of events in tables.

    The last value before a punctual start is as large as a scrape and an evaluation are apart. Boards compare it with
    a fixed number, so it is recorded as so much less if they are rare.
    """
    apart = settings.seconds("scrape.interval") + settings.seconds("evaluation.interval") - EARLY_SECONDS
    late = f" - {apart:.15g}" if apart > 0 else ""
    return (
        Recording(
            SECONDS_LEFT,
            f"min by (event_id, event_type) ({METRIC}event_seconds_until_not_before){late}",
            "time to NotBefore while the event waits; the last value tells an early start from a punctual one",
        ),
        Recording(
            APPROVED_BY,
            expression(f"""
                max by (event_id, event_type, approved_by) (
                  label_replace(
                    max_over_time({EVENT_APPROVED}[1h]) == 1 and on (event_id) {STATE},
                    "approved_by", "exporter or operator", "", ""
                  )
                  or on (event_id)
                  label_replace(
                    {STATE} == 3 and on (event_id) last_over_time({SECONDS_LEFT}[1h]) > {EARLY_SECONDS},
                    "approved_by", "elsewhere", "", ""
                  ) - 1
                  or on (event_id)
                  label_replace({STATE} == 3, "approved_by", "nobody", "", "")
                )
            """),
            "events that may start, by who approved them: 1 an exporter or operator, also while that exporter is down, "
            "2 elsewhere, 3 nobody: they started at NotBefore. Of several values over time the least is right",
        ),
        Recording(
            URGENCY,
            expression(f"""
                1e11 * max by (event_id) ({STATE})
                - on (event_id)
                (max by (event_id) ({SECONDS_LEFT}) or on (event_id) 0 * max by (event_id) ({STATE}))
            """),
            "the order in which tables show events: started ones, approved ones, then by NotBefore",
        ),
    )


# ---- Exporters ------------------------------------------------------------------------------------------------------


def _watcher_seconds(settings: Settings, times: int = 1) -> float:
    """Return ``times`` the interval of rules that warn, but at most what boards can bear."""
    return min(times * settings.seconds("evaluation.watcher-interval"), LONGEST_INTERVAL)


def _blind(settings: Settings) -> tuple[Recording, ...]:
    job, interval = f'job=~"{settings.text("job")}"', f"{_watcher_seconds(settings):.15g}"
    return (
        Recording(
            BLIND,
            f"max by (job, instance) ({_reason(job)})",
            "exporters that cannot see IMDS, and why: 1 not scraped, 2 IMDS does not answer, 3 polling has stopped",
        ),
        Recording(
            BLIND_SECONDS,
            f"{interval} * {BLIND} ^ 0",
            "the seconds that one sample stands for: the sum over time is how long an exporter was blind",
        ),
    )


def _exporters(settings: Settings) -> tuple[Recording, ...]:
    job = f'job=~"{settings.text("job")}"'
    return (
        Recording(
            EXPORTER_INFO,
            expression(f"""
                max by (job, instance, vm_name, {_PLACE}) ({_VM_INFO})
                or {_BY_TARGET}
                ({EXPORTER_INFO} and {_BY_TARGET} up{{{job}}} == 0)
                or {_BY_TARGET}
                group by (job, instance) (up{{{job}}} or {_UP})
            """),
            "every exporter with its VM and place; one that is down keeps its last, and one without a VM has none",
        ),
    )


def _shares() -> tuple[Recording, ...]:
    return (
        Recording(
            BLIND_SHARE,
            expression(f"""
                avg by (job, {_PLACE}) (
                  {EXPORTER_INFO} and {_BY_TARGET} {BLIND}
                  or {_BY_TARGET} 0 * {EXPORTER_INFO}
                )
            """),
            "the share of the exporters of a place that cannot see IMDS",
        ),
    )


def _reason(job: str) -> str:
    """The exporters that cannot see IMDS, by why."""
    age, allowed = f"time() - {METRIC}last_success_timestamp_seconds", f"3 * {METRIC}poll_interval_seconds"
    silent = f"({age} > {SILENT_SECONDS}) > {SILENT_SECONDS} + {allowed}"
    return f"(up{{{job}}} == 0) + 1 or {_BY_TARGET} ({_UP} == 0) + 2 or {_BY_TARGET} 0 * ({silent}) + 3"


def _polls(window: str) -> dict[str, Recording]:
    """Two groups share the outcomes, which are six series of each exporter."""
    lost = "timeout|connection_error"
    outcomes = {"polls": ("yes", f'outcome!~"{lost}"'), "lost-polls": ("no", f'outcome=~"{lost}"')}
    return {
        name: Recording(
            POLLS,
            f"sum by (job, outcome) (rate({METRIC}polls_total{{{matcher}}}[{window}]))",
            "polls by outcome, of all exporters; whether IMDS answered them",
            MappingProxyType({"answered": answered}),
        )
        for name, (answered, matcher) in outcomes.items()
    }


def _failed_polls(window: str) -> tuple[Recording, ...]:
    polls, every = f"{METRIC}polls_total", f"{METRIC}poll_duration_seconds_count"
    return (
        Recording(
            FAILED_POLLS,
            f'1 - rate({polls}{{outcome="ok"}}[{window}]) / ignoring (outcome) rate({every}[{window}]) > 0.001',
            "the share of polls that failed, of exporters with failed polls",
        ),
        Recording(
            THROTTLED_POLLS,
            f'rate({polls}{{outcome="throttled"}}[{window}]) > 0',
            "polls that IMDS refused because of their number, of exporters with such polls",
        ),
    )


def _poll_times(window: str) -> dict[str, Recording]:
    mean = " / ".join(f"rate({METRIC}poll_duration_seconds_{each}[{window}])" for each in ("sum", "count"))
    return _quantiles(POLL_DURATION, mean, "how long polls take, over the exporters' means")


def _pace(window: str) -> tuple[Recording, ...]:
    made, running = f"rate({METRIC}poll_duration_seconds_count[{window}])", "time() - process_start_time_seconds"
    return (
        Recording(
            POLL_PACE,
            f"min by (job) ({made} * {METRIC}poll_interval_seconds"
            f" and {_BY_TARGET} ({running} > {parse_duration(window):g}))",
            "polls made for each poll that was due, of the slowest exporter",
        ),
    )


def _answer_ages() -> dict[str, Recording]:
    age = f"time() - {METRIC}last_success_timestamp_seconds"
    return _quantiles(ANSWER_AGE, age, "the age of the last valid answer of IMDS, over the exporters")


def _memory(job: str) -> dict[str, Recording]:
    return _quantiles(MEMORY, f"process_resident_memory_bytes{job}", "memory, over the exporters")


def _cpu(job: str, window: str) -> dict[str, Recording]:
    return _quantiles(CPU, f"rate(process_cpu_seconds_total{job}[{window}])", "CPU time, over the exporters")


def _spans(window: str) -> tuple[Recording, ...]:
    return (
        Recording(JOURNAL_OFF, f"{METRIC}journal_up == 0", "exporters whose journal is not on disk"),
        Recording(SPANS_QUEUED, f"sum by (job) ({METRIC}spans_queued)", "trace spans that wait for the collector"),
        Recording(SPANS, f"sum by (job, outcome) (rate({METRIC}spans_total[{window}]))", "trace spans by outcome"),
    )


def _requests(settings: Settings, window: str) -> tuple[Recording, ...]:
    requested = over_scrapes(settings, 300)
    return (
        Recording(
            PUSHED_ALERTS,
            f"sum by (job, outcome) (rate({METRIC}alertmanager_alerts_total[{window}]))",
            "alerts that exporters push, by outcome",
        ),
        Recording(
            APPROVAL_REQUESTS,
            f"sum by (job, outcome) (increase({METRIC}approval_requests_total[{requested}]))",
            "approvals requested from IMDS, by answer",
        ),
    )


def _quantiles(record: str, vector: str, why: str) -> dict[str, Recording]:
    """Return the quantiles of ``vector``, by share. Each is a rule of its own, because each reads all exporters."""
    return {
        share: Recording(record, f"quantile by (job) ({share}, {vector})", why, MappingProxyType({"quantile": name}))
        for share, name in QUANTILES.items()
    }
