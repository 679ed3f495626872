"""One row per event, whatever the number of exporters that report it.

Every VM of a placement group reports every event of the group, each exporter polls and is scraped at its own
moment, and the VM an event is about goes away in the middle of it. So the rows must not depend on who answers just
now: an event is over when an exporter that knew it answers without it, not when everybody who knew it fell silent.
"""

from azure_scheduled_events_exporter.metrics.collector import SPECS

from .rule import Group, Recording, expression
from .settings import Settings

INFO = "azure_scheduled_events_event_info"
EVENT = "azure_scheduled_events:event"
LEFT = "azure_scheduled_events:event_seconds_left"
ANNOUNCED = "azure_scheduled_events:event_announced"
STARTED = "azure_scheduled_events:event_started"
DURATION = "azure_scheduled_events:event_duration_seconds"
NOT_BEFORE = "azure_scheduled_events:event_not_before_timestamp_seconds"
OVER = "azure_scheduled_events:event_over"
REMEMBERED = "azure_scheduled_events:event_remembered"
LIVE = "azure_scheduled_events:event_live"

# What is left are the target's own labels, which Prometheus keeps unique: unlike ``on (job, instance)``, this cannot
# find two partners, and a rule that does would fail as a whole.
SAME_TARGET = f"ignoring ({', '.join(sorted({*SPECS['event_info'].labels, *SPECS['instance_info'].labels}))})"


def event_recordings(settings: Settings) -> tuple[Recording, ...]:
    """Return the rules, in the order in which they need each other."""
    memory = settings.duration("memory")
    return (
        Recording(
            LIVE,
            f"count by (event_id, event_type, event_source, event_status, resources) ({INFO})",
            "what exporters show just now: how many of them say the same of an event",
        ),
        Recording(
            REMEMBERED,
            f"max by (event_id) (last_over_time({LIVE}[{memory}])) unless on (event_id) {OVER}",
            "recent events that nobody has called over: a missed scrape and a rebooting VM end no event",
        ),
        Recording(EVENT, _event(), "one row per event: how many exporters report it"),
        Recording(
            STARTED,
            expression(f"""
                max by (event_id) ({LIVE}{{event_status="Started"}})
                or on (event_id)
                ({STARTED} and on (event_id) {EVENT})
            """),
            "current events that have started; nothing un-starts",
        ),
        Recording(
            ANNOUNCED,
            expression(f"""
                max by (event_id) ({LIVE}{{event_status!="Started"}})
                or on (event_id)
                (last_over_time({ANNOUNCED}[1h]) and on (event_id) {EVENT})
            """),
            "current events that were seen before they started",
        ),
        Recording(
            NOT_BEFORE,
            expression(f"""
                (
                  max by (event_id) (azure_scheduled_events_event_not_before_timestamp_seconds)
                  or on (event_id)
                  ({NOT_BEFORE} and on (event_id) {REMEMBERED})
                )
                unless on (event_id) {STARTED}
            """),
            "when a scheduled event may begin",
        ),
        Recording(
            DURATION,
            expression(f"""
                max by (event_id) (azure_scheduled_events_event_duration_seconds{{event_type="Freeze"}})
                or on (event_id)
                ({DURATION} and on (event_id) {EVENT})
            """),
            "the announced length of a Freeze; absent when unknown",
        ),
        Recording(
            LEFT,
            expression(f"""
                {EVENT} * 0 + on (event_id) group_left () ({NOT_BEFORE} - time())
                or
                ({EVENT} and on (event_id) {STARTED}) * 0
                or
                {EVENT} * 0 - 1
            """),
            "the row with the time left to NotBefore, negative once overdue; 0 started, -1 unknown",
        ),
    )


def memory_group(settings: Settings) -> Group:
    """Return the group that says which events are over.

    It may be an evaluation behind the rows, which then end that much later: so a page need not wait for it.
    """
    memory = settings.duration("memory")
    over = Recording(
        OVER,
        expression(f"""
            max by (event_id) (
              last_over_time({INFO}[{memory}])
              and on (job, instance)
              azure_scheduled_events_last_success_timestamp_seconds > 0
            )
            unless on (event_id) {LIVE}
        """),
        "recent events that an exporter with eyes knew and does not show any more",
    )
    return Group("azure-scheduled-events-memory", settings.duration("evaluation.interval"), (over,))


def _event() -> str:
    """A row keeps the labels that it began with as long as its event is reported so.

    The scale set is named if any reporter knows it at the beginning. Learnt later, or forgotten by an exporter that
    comes back from the very reboot that it reports, it would make a second row, and that a second page. It is looked
    up for new rows only: that join is the dearest of all rules.
    """
    return expression(f"""
        {EVENT} * 0
        + on (event_id, event_type, event_source, resources) group_left ()
        sum without (event_status) ({LIVE})
        or on (event_id)
        (
          count by (event_id, event_type, event_source, resources, scale_set) (
            ({INFO} unless on (event_id, event_type, event_source, resources) {EVENT})
            * {SAME_TARGET} group_left (scale_set)
            azure_scheduled_events_instance_info{{scale_set!=""}}
          )
          or on (event_id)
          sum without (event_status) ({LIVE})
        )
        or on (event_id)
        ({EVENT} and on (event_id) {REMEMBERED})
    """)
