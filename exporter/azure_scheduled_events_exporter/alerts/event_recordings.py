"""The recordings of events: when each was last seen, its impact, its former kinds and its end.

Exporters do not agree about an event: some see it later, and some no longer. The newest statement
counts, whoever made it. Must not decide for how long an alert is held.
"""

from azure_scheduled_events_exporter.core.lifecycle import Kind

from .rule import TIME, Recording, promql
from .series import (
    ENDED,
    EVENT_IMPACT,
    OUTDATED,
    RECORDED_END,
    RECORDED_IMPACT,
    RECORDED_SEEN,
    SEEN,
)
from .settings import Settings

_OUTDATED_AFTER = 60
"""Seconds after which another kind or type of an event replaces one that nobody sees any more."""
_PEERS_WAIT = "15s"
"""How long peers must show an event before their labels count.

In that time, the event's own VMs are scraped three times (every 5 s), and they come first.
"""
_LAST_SEEN = f"max_over_time({RECORDED_SEEN}[1h])"
"""When each event and kind was last seen; the largest value is the newest time."""


def event_recordings(settings: Settings) -> tuple[Recording, ...]:
    """Return the recordings that hold and end the alerts.

    They come before the alerts in the same group, so alerts read what was just recorded.
    """
    return (_seen(), _impact(settings.items("labels.keep")), _outdated(), _ended())


def _seen() -> Recording:
    return Recording(
        RECORDED_SEEN,
        expression=f"max by (event_id, event_type, kind) ({SEEN})",
        meaning="when an exporter last saw each event, by the clock of IMDS",
        rows="event and kind",
        value=TIME,
    )


def _impact(kept: tuple[str, ...]) -> Recording:
    """Return the recording of times of impacts.

    With ``kept``, the labels of scrape targets that alerts carry, each row has these labels too.
    """
    meaning = (
        "when the impact of each event begins or began, preferably as exporters say that have just"
        " seen it; 0 if that is unknown"
    )
    rows = "event and kind"
    note = (
        "Line 1: exporters that saw the event within 60 s. Line 2, if there are none: all. Line 3:"
        " the 0 of an event without a known time. Both metrics carry the same labels, so no `on` is"
        " needed."
    )
    if kept:
        meaning = (
            "when the impact of each event begins or began, preferably as the VMs say that the"
            " event names; 0 if that is unknown"
        )
        rows = "event, kind and kept labels"
        note = (
            "Line 1: the VMs that the event names. Line 2: what they said last, while anybody sees"
            " the event, since they may be down. From line 3: other VMs that have seen it for"
            f" {_PEERS_WAIT}, if none that it names has shown this kind of it."
        )
    return Recording(
        RECORDED_IMPACT,
        expression=_impacts(kept),
        meaning=meaning,
        rows=rows,
        value=f"{TIME}, or 0",
        note=note,
    )


def _impacts(kept: tuple[str, ...]) -> str:
    """Return the PromQL of the times of impacts, or 0 for an event without a known time.

    ``kept`` are the labels of scrape targets that alerts carry, such as ``team``: the setting
    ``labels.keep``.

    Without kept labels, what exporters say that have just seen the event comes first. With kept
    labels, what the event's own VMs say comes first, because the alert gets their labels: what one
    has said counts on while others see the event, since it may be down. Peers, which are VMs that
    see the event without being named by it, count only for a kind of the event that no own VM has
    shown, and only after ``_PEERS_WAIT``.
    """
    if not kept:
        return promql(f"""
            max by (event_id, event_type, kind) ({EVENT_IMPACT} unless ({SEEN} < time() - 60))
            or max by (event_id, event_type, kind) ({EVENT_IMPACT})
            or max by (event_id, event_type, kind) ({SEEN}) * 0
        """)
    by = ", ".join(("event_id", "event_type", "kind", "scope", *kept))
    own = '{scope="self"}'
    peers = '{scope!="self"}'
    # What own VMs said last, which this rule itself has recorded.
    own_before = f"last_over_time({RECORDED_IMPACT}{own}[1h])"
    return promql(f"""
        max by ({by}) ({EVENT_IMPACT}{own} or {SEEN}{own} * 0)
        or ({own_before} and on (event_id, kind) {RECORDED_SEEN})
        or (
          max by ({by}) (
            ({EVENT_IMPACT}{peers} or {SEEN}{peers} * 0) and {SEEN} offset {_PEERS_WAIT}
          )
          unless on (event_id, kind) {own_before}
        )
    """)


def _outdated() -> Recording:
    # An exporter that has not seen the announcement gives an event the kind without_notice. Another
    # one may have seen it, so this kind outdates no other.
    others = f'max_over_time({RECORDED_SEEN}{{kind!="{Kind.WITHOUT_NOTICE}"}}[1h])'
    return Recording(
        OUTDATED,
        expression=promql(f"""
            {_LAST_SEEN}
            < on (event_id) group_left ()
            (max by (event_id) ({others}) - {_OUTDATED_AFTER})
        """),
        meaning=(
            "kinds and types that an event had before: an exporter has seen another one"
            f" {_OUTDATED_AFTER} s after an exporter last saw this one"
        ),
        rows="event and kind",
        value=f"when this kind was last seen, {TIME}",
        note=(
            "A kind is compared with the newest kind of its event, not with the present: nothing is"
            " outdated because nobody sees it. The kind without_notice replaces no other kind: an"
            " exporter that starts during an event says it, while others saw the announcement."
        ),
    )


def _ended() -> Recording:
    # Ends that this rule itself has recorded before.
    remembered = f"last_over_time({RECORDED_END}[5m])"
    return Recording(
        RECORDED_END,
        expression=promql(f"""
            min by (event_id) (
              (
                {ENDED}
                or ({remembered} > time() - 3600)
                or ({remembered} and on (event_id) {RECORDED_SEEN})
              )
              >= on (event_id) group_left ()
              max by (event_id) ({_LAST_SEEN})
            )
        """),
        meaning=(
            "when an exporter first saw the end of an event that none has seen since; kept for 1h,"
            " or while an exporter without IMDS still shows the event"
        ),
        rows="event",
        value=TIME,
        note=(
            "Line 3: exporters show an end for 1h. Lines 4 and 5: an end that this rule recorded"
            " before, for 3600 s (1h) after the end, and for longer while anybody shows the event."
            " Lines 7 and 8: an end counts if it is not older than the newest sight of anybody."
        ),
    )
