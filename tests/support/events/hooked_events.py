"""Events of a VM with a hook, runs of its script, and what the hook sees of them."""

from collections.abc import Collection, Sequence

from azure_scheduled_events_exporter.commands.hook.view import View
from azure_scheduled_events_exporter.core.document import ScheduledEvent, Scope
from azure_scheduled_events_exporter.core.kinds import SHORT_FREEZE_SECONDS, with_kind
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle, State
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.snapshot.hooks import HookRun, Phase

NOW = 1_700_000_000.0


def life(
    event_type: str = "Reboot",
    *,
    event_id: str = "A",
    left: float | None = 600.0,
    state: State = State.SCHEDULED,
    scope: Scope = Scope.SELF,
    resources: tuple[str, ...] = ("vm_0",),
    duration: float | None = None,
) -> Lifecycle:
    """Return an event of this VM that was seen a minute ago."""
    not_before = None if left is None else NOW + left
    status = State.STARTED if state is State.STARTED else State.SCHEDULED
    event = ScheduledEvent(
        event_id,
        event_type,
        status,
        resources=resources,
        not_before=not_before,
        duration_seconds=duration,
    )
    seen = Timestamp(NOW - 60)
    found = Lifecycle(
        event,
        state,
        scope,
        seen,
        not_before=not_before,
        most_resources=len(resources),
        own_name="vm_0" if scope is Scope.SELF else "",
    )
    return with_kind(found, NOW, SHORT_FREEZE_SECONDS)


def ran(event_id: str, phase: Phase, at: float, outcome: str | None = "ok") -> HookRun:
    """Return a run that began ``at``."""
    return HookRun(f"{event_id}-{phase}-{at}", "c", event_id, "Reboot", phase, at, outcome)


def seen(
    events: Sequence[Lifecycle] = (),
    runs: Sequence[HookRun] = (),
    *,
    active: Collection[str] = (),
    now: float = NOW,
    missing: int = 0,
    ended: Sequence[Lifecycle] = (),
) -> View:
    """Return what a hook sees: the current events, its runs, the ids of those whose command runs,
    how many documents have lacked the other events of runs, and the events that ended.
    """
    current = {each.event_id: each for each in events}
    gone = {run.event_id: missing for run in runs if run.event_id not in current}
    return View(current, now, runs, active, {each.event_id: each for each in ended}, gone)
