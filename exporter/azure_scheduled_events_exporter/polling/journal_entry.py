"""Puts together what one observation adds to the journal. Pure."""

from collections.abc import Callable, Collection, Iterable, Sequence

from azure_scheduled_events_exporter.core.lifecycle import Change, Lifecycle, Lifecycles
from azure_scheduled_events_exporter.core.spans import SpanFacts, finished, hook_run
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.journal.hook_runs import HookRun
from azure_scheduled_events_exporter.journal.store import Entry


def hook_spans(
    runs: Iterable[HookRun], sent: Collection[str], known: Lifecycles, is_traced: Callable[[Lifecycle], bool]
) -> list[tuple[str, SpanFacts]]:
    """Return the span of each run of a hook that has ended and is not among ``sent``, with the id of the run."""
    spans = []
    for run in runs:
        life = known.current.get(run.event_id) or known.ended.get(run.event_id)
        if run.outcome is None or run.run in sent or life is None or not is_traced(life):
            continue
        start, end = Timestamp(run.started), Timestamp(run.started + (run.duration or 0.0))
        about = {"phase": run.phase, "outcome": run.outcome}
        spans.append((run.run, hook_run(life, run.run, start, end, about)))
    return spans


def journal_entry(
    before: Lifecycles, after: Lifecycles, changes: Sequence[Change], is_traced: Callable[[Lifecycle], bool]
) -> Entry:
    """Return what to store: ``changes``, each lifecycle that is new or different, and the spans that are complete.

    Args:
        before: the lifecycles that the journal has.
        after: the lifecycles now.
        changes: the transitions from one to the other.
        is_traced: whether this VM sends the spans of an event.
    """
    different = [life for life in after.current.values() if life != before.current.get(life.event_id)]
    ended = [change.lifecycle for change in changes if change.lifecycle.outcome]
    spans = [span for change in changes if is_traced(change.lifecycle) for span in finished(change)]
    return Entry(changes, [*different, *ended], spans)
