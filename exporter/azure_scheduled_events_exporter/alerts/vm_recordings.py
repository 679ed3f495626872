"""The recordings of VMs: which events hit them, which answer, are away, are back or are missing.

What a VM that is down cannot say, its peers do. The counts of exporters and VMs of a fleet are
here too. Must not decide whom an alert tells.
"""

from collections.abc import Iterable

from azure_scheduled_events_exporter.core.event_types import EventType
from azure_scheduled_events_exporter.times import format_duration, parse_duration

from .rule import TIME, Recording, promql
from .series import (
    BLIND,
    ENDED,
    EXPORTERS,
    INSTANCE,
    PEER_IMPACT,
    RECORDED_END,
    SCALE_SET_VMS,
    SET_KEY,
    UP,
    VM,
    VM_ANSWERS,
    VM_AWAY,
    VM_BACK,
    VM_HIT,
    VM_IMPACT,
    VM_KEY,
    VM_MISSING,
)
from .settings import Settings

BEFORE = 60
"""Seconds before an impact from which its VM counts as away: clocks are not exact."""
AFTER = 120
"""Seconds after the beginning of an impact, after which a VM that answers counts as present.

Its answer counts only if its exporter reads IMDS, or if the VM is back: otherwise it may still be
about to go down.
"""
BACK_AFTER = 180
"""Seconds after the beginning of an impact, after which a VM that answers may be back.

What its exporter answered before the VM failed is read for up to a scrape interval, which is at
most two minutes; then the scrape that fails may take 10 s. Clocks may differ by 30 s.
"""
_LONGEST = 6900
"""Seconds after its beginning, after which an impact is over.

An exporter without IMDS may go on showing it. Together with the 5 minutes for which Maintenance is
held, this is two hours.
"""
_SHOWN = "3m"
"""So long after a VM has shown its own event, it counts as showing it still.

That is more than the longest scrape interval, which is two minutes.
"""
_KEY_AND_EVENT = f"{VM_KEY}, event_id"
_DELETES = f'{{event_type=~"{"|".join(each for each in EventType if each.facts.deletes)}"}}'
"""The matcher of events that delete their VM."""
_RETURNS = _DELETES.replace("=~", "!~")
"""The matcher of all others, after which the VM comes back."""
_BY_NAME = (
    "`on (vm_name)` alone also lets VMs of that name in other groups pass. It is cheaper in a large"
    " fleet, and does no harm, because every reader compares all four labels of a VM."
)
"""The note of recordings that look for a VM by its name first."""


def vm_recordings(settings: Settings, remembered: str) -> tuple[Recording, ...]:
    """Return the recordings of VMs that events hit.

    ``remembered`` is a duration of some evaluations: for so long, a recording that reads itself
    finds its last value.
    """
    return (
        _blind(settings),
        _hit(),
        _targets((*settings.items("labels.keep"), *settings.items("maintenance.within"))),
        _answers(),
        _back(remembered),
        _away(remembered, parse_duration(settings.text("scrape.interval"))),
        _missing(remembered),
    )


def _blind(settings: Settings) -> Recording:
    return Recording(
        BLIND,
        expression=f'(up{{job=~"{settings.text("job")}"}} == 0) or (({UP} == 0) + 1)',
        meaning="0 for an exporter that is down, 1 for one that cannot read IMDS",
        rows="such exporter (scrape target)",
        value="0 or 1",
        note=(
            "The second half adds 1 to the 0 of azure_scheduled_events_up, which tells it from a"
            " target that is down. The dashboard of exporters reads this recording too."
        ),
    )


def _hit() -> Recording:
    return Recording(
        VM_HIT,
        expression=f"max by ({_KEY_AND_EVENT}, event_type) ({VM_IMPACT} or {PEER_IMPACT})",
        meaning=(
            "when the impact of an event on a VM begins or began, as that VM or others export it"
        ),
        rows="VM and event",
        value=TIME,
        note=(
            "A VM that is down exports nothing. Its peers do, once the event is Started. Events of"
            " the kinds harmless and advisory have no row; requested ones have."
        ),
    )


def _targets(labels: Iterable[str]) -> Recording:
    """Return the recording of targets, which has all names of their VM, and ``labels``."""
    by = ", ".join(dict.fromkeys(("vm_id", "computer_name", VM_KEY, "job", "instance", *labels)))
    return Recording(
        VM,
        expression=promql(f"""
            max by ({by}) (
              (last_over_time({INSTANCE}[10m]) and on (vm_name) last_over_time({VM_HIT}[1h]))
              or (last_over_time({VM}[5m]) and on ({VM_KEY}) last_over_time({VM_MISSING}[5m]))
            )
        """),
        meaning="the targets of VMs that an event hits, or that are missing after one",
        rows="exporter (scrape target) of such a VM, with all names of the VM",
        value="1",
        note=(
            f"{_BY_NAME} Line 3: a row is kept as long as its target exists and fails. For that,"
            f" this rule and {_short(VM_MISSING)} each read what the other one recorded at the"
            " evaluation before."
        ),
    )


def _answers() -> Recording:
    """Return the recording of VMs that answer.

    An exporter that has restarted without IMDS does not know its VM. Its target tells which one it
    is: the exporter exported it there before, and ``VM`` keeps the targets of VMs that are hit.
    """
    return Recording(
        VM_ANSWERS,
        expression=promql(f"""
            max by ({VM_KEY}) (
              (
                ({INSTANCE} or on (job, instance) last_over_time({VM}[1h]))
                and on (vm_name) last_over_time({VM_HIT}[2h])
              )
              * on (job, instance) group_left () max by (job, instance) ({UP} * timestamp({UP}))
            )
        """),
        meaning=(
            "VMs that an event hit and whose exporter answers: when it was scraped; 0 if it cannot"
            " read IMDS"
        ),
        rows="VM that answers",
        value=f"{TIME}, or 0",
        note=(
            f"{_BY_NAME} Line 3, after `or`: an exporter that has restarted without IMDS does"
            " not know its VM, so the VM is the one that its target had within 1h. Line 6: `max`,"
            " because VMs of two networks may have the same address."
        ),
    )


def _back(remembered: str) -> Recording:
    """Return the recording of VMs that are back.

    A document may miss the event for a moment, just before its VM goes away. So a VM is not back
    while it has shown its own event within ``_SHOWN``.

    If the VM's host failed, the VM never showed the event, and its last answer from before the
    failure counts for a while: see ``BACK_AFTER``. If the event begins later than announced, its
    impact is newer than the answer, and ``BACK_AFTER`` begins again.

    A VM whose event was cancelled is not hit. An exporter that missed the start of the event may
    call it cancelled, so that counts only if none has seen it complete. An event that has completed
    before its announced time was approved, so its VM is to come back.
    """
    hit = f"last_over_time({VM_HIT}[1h])"
    began = f"{hit} < time() - {BACK_AFTER}"
    was_back = f"last_over_time({VM_BACK}[{remembered}])"
    cancelled = (
        f'{RECORDED_END} and on (event_id) {ENDED}{{outcome="cancelled"}}'
        f' unless on (event_id) {ENDED}{{outcome="completed"}}'
    )
    was_cancelled = f"{hit} > on (event_id) group_left () ({cancelled})"
    shows_event = f"last_over_time({VM_IMPACT}[{_SHOWN}])"
    return Recording(
        VM_BACK,
        expression=promql(f"""
            (
              {began} and on ({VM_KEY}) {VM_ANSWERS}
              or {began} and {was_back}
            )
            unless on (event_id, vm_name) {shows_event}
            or {was_cancelled}
        """),
        meaning=(
            f"impacts that began over {BACK_AFTER} s ago, whose VM answers and has not shown the"
            f" event for {_SHOWN}; and those of events that were cancelled"
        ),
        rows="VM and event",
        value=f"when the impact began, {TIME}",
        note=(
            f"Line 2: the impact began over {BACK_AFTER} s ago, and the VM answers. Earlier, an"
            " answer may be the last one of a VM that has just failed. Line 3: this rule recorded"
            " the row before, and the event has not begun again since. Line 5: not while the VM"
            f" shows the event itself, or did within {_SHOWN}, because a document can miss an event"
            " for a moment (the VMs of one event have different names). Last line: the event was"
            " cancelled before its impact; an exporter that has seen it complete knows better."
        ),
    )


def _away(remembered: str, scrape_interval: float) -> Recording:
    """Return the recording of VMs that are away.

    From ``AFTER`` seconds after the beginning of the impact, a scrape shows that the VM is present.
    It counts for a while, so that a single scrape that fails does not make the VM away again: a
    failed scrape leaves no sample until the next one. ``scrape_interval``: seconds.

    VMs without an exporter are left out here, for all readers: nobody knows how many of them a
    scale set has, and they have no target.
    """
    impact = f"last_over_time({VM_HIT}{_RETURNS}[30m]) or last_over_time({VM_HIT}{_DELETES}[10m])"
    has_exporter = f"last_over_time({VM}[1h])"
    is_back = f"last_over_time({VM_BACK}[{remembered}])"
    memory = format_duration(parse_duration(remembered) + scrape_interval)
    answered = f"max_over_time({VM_ANSWERS}[{memory}])"
    is_present = (
        f"last_over_time({VM_HIT}[30m]) + {AFTER} <= on ({VM_KEY}) group_left () {answered}"
    )
    return Recording(
        VM_AWAY,
        # In PromQL, ``and`` and ``unless`` come before ``or``.
        expression=promql(f"""
            ({impact})
            < time() + {BEFORE} > time() - {_LONGEST}
            and on ({VM_KEY}) {has_exporter}
            unless (
              {is_back}
              or {is_present}
            )
            unless on (event_id) {RECORDED_END}
        """),
        meaning=(
            f"impacts from {BEFORE} s before to {AFTER} s after they begin, whether the VM"
            " answers or not, and then unless its exporter answers and reads IMDS; not if the VM is"
            " back or the event has ended; at most 30m after they were last exported"
            f" (Preempt, Terminate: 10m), and {_LONGEST // 60}m after they began; only of VMs that"
            " have an exporter"
        ),
        rows="VM and event",
        value=f"when the impact begins or began, {TIME}",
        note=(
            f"Lines 1 and 2: the impact begins within {BEFORE} s or has begun, at most"
            f" {_LONGEST} s ({_LONGEST // 60}m) ago. Line 3: the VM has an exporter, or had one"
            " within the last hour. Line 5: not if the VM is back. Line 6: not if a scrape from"
            f" {AFTER} s after the impact or later shows that the VM answers and reads IMDS (a"
            f" failed scrape changes nothing for {memory}). Last line: not if the event has ended."
        ),
    )


def _missing(remembered: str) -> Recording:
    """Return the recording of VMs that have not come back.

    It reads itself: a VM is missing until it answers, is deleted, or its target is gone. It reads
    itself over 5 minutes, because a target is gone for a moment when the configuration of its
    scrape job changes.
    """
    impact_began = f"last_over_time({VM_HIT}{_RETURNS}[30m]) < time()"
    was_missing = f"last_over_time({VM_MISSING}[5m])"
    scrapes_fail = f"last_over_time({BLIND}[{remembered}]) == 0"
    may_be_deleted = f"last_over_time({VM_HIT}{_DELETES}[30m])"
    return Recording(
        VM_MISSING,
        expression=promql(f"""
            max by ({VM_KEY}) (
              (
                {impact_began}
                unless last_over_time({VM_BACK}[{remembered}])
              )
              or {was_missing}
            )
            and on ({VM_KEY}) (
              last_over_time({VM}[1h])
              and on (job, instance) ({scrapes_fail})
            )
            unless on ({VM_KEY}) ({VM_ANSWERS} or {may_be_deleted})
        """),
        meaning=(
            "VMs that an event took down, until they answer or their target is removed; except"
            " those that a Preempt or Terminate deletes"
        ),
        rows="VM",
        value=f"when the impact began, {TIME}",
        note=(
            "Lines 3 and 4: an impact that was exported within 30m has begun, and the VM is not"
            " back from it (both series carry the same labels). Line 6: a VM that this rule"
            " recorded within 5m stays, without limit, while two conditions hold. So one that"
            " answers and falls silent again within 5m is missing again. Lines 8 to 11: its"
            f" target still exists and its scrapes fail (0 in {_short(BLIND)}). Last line: it does"
            " not answer, and no Preempt or Terminate of it was exported within 30m, not even as"
            " announced."
        ),
    )


def fleet_recordings() -> tuple[Recording, ...]:
    """Return the recordings of counts: exporters that work, VMs of each scale set."""
    return (
        Recording(
            EXPORTERS,
            expression=f"{BLIND} * 0 or count by (job) ({UP} == 1)",
            meaning="0 for each exporter in blind; how many others each job has",
            rows="exporter in blind, and one for each scrape job",
            value="0; of a job, how many of its exporters can read IMDS",
            note=(
                "No rule reads it. The dashboards do, so that they need not read a series of each"
                " exporter of a large fleet: they count the exporters that do not see events."
            ),
        ),
        Recording(
            SCALE_SET_VMS,
            expression=promql(f"""
                count by ({SET_KEY}) (
                  group by ({VM_KEY}) (last_over_time({INSTANCE}{{scale_set!=""}}[30m]))
                )
            """),
            meaning="how many VMs a scale set had in the last 30m",
            rows="scale set",
            value="a number of VMs",
        ),
    )


def _short(recording: str) -> str:
    """Return the name of a recording without the prefix that all have."""
    return recording.removeprefix("azure_scheduled_events")
