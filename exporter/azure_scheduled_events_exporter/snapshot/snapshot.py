"""The immutable snapshot that the poller publishes for all readers (scrapes, status page).

Readers never lock or wait: they take the newest :class:`Snapshot` and use it for the whole answer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from azure_scheduled_events_exporter.core.document import comparable_name
from azure_scheduled_events_exporter.core.histogram import Histogram
from azure_scheduled_events_exporter.core.instance import Instance
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle, Lifecycles
from azure_scheduled_events_exporter.core.statistics import Statistics
from azure_scheduled_events_exporter.errors import Outcome

from .approvals import ApprovalOutcome, Decision, no_requests
from .hooks import HookRun, HookStatistics
from .journal_state import JournalState
from .pushes import Pushes

POLL_BOUNDS = (0.01, 0.1, 1.0, 10.0, 130.0)
"""Upper bounds of the buckets for the duration of a poll, in seconds.

From a healthy answer (6 ms) over a late one to the request timeout (10 s) and that of the first
request (130 s).
"""

ENDED_SECONDS = 3600.0
"""For how long metrics show that an event has ended, in seconds.

While no exporter shows an event, its alert is held for at most as long (``alerts.events.HOLDS``).
So a VM that comes back within that time still shows the end.
"""

ALL_ENDED_SECONDS = 300.0
"""For how long metrics show every end, in seconds, however many events end at once.

So the rules learn of each end. Only the number of older ones has a limit, :data:`MOST_ENDED`.
"""

MOST_ENDED = 100
"""How many ended events metrics show, the newest ones.

There are more only if more have ended within :data:`ALL_ENDED_SECONDS`.
"""

RECENT = 20
"""How many ended events the status page shows; the journal has all."""


@dataclass(frozen=True, slots=True)
class Polls:
    """How polls went: counters, which begin at 0 with the process, and the result of the last one.

    Attributes:
        outcomes: number of polls, by outcome.
        documents: number of polls that brought a document that could be read as a whole. An empty
            body counts once it is believed.
        durations: seconds that polls took.
        up: whether the last poll gave a valid answer.
        last_success: wall-clock time of the last valid answer; None before the first.
        failure: why ``up`` is False, for people; ``""`` when it is True.
        partial: whether a part of the last document could not be read; the events in the rest of
            it are shown.
        hanging: whether the current poll takes longer than all its time limits together, and so may
            never end.
    """

    outcomes: Mapping[Outcome, int] = field(default_factory=lambda: dict.fromkeys(Outcome, 0))
    documents: int = 0
    durations: Histogram = field(default_factory=lambda: Histogram.empty(POLL_BOUNDS))
    up: bool = False
    last_success: float | None = None
    failure: str = "no poll has ended yet"
    partial: bool = False
    hanging: bool = False


@dataclass(frozen=True, slots=True)
class Deliveries:
    """Numbers of trace spans.

    Attributes:
        exported: those that the collector has accepted since the process began.
        failed: those that it has refused for good since then.
        queued: those that wait for delivery now.
    """

    exported: int = 0
    failed: int = 0
    queued: int = 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of the exporter at one moment.

    A field whose value has not changed is the same object as before, so readers can cache by
    identity.

    Attributes:
        poll_interval: seconds between polls as configured.
        polls: how polls went.
        clock_ahead: seconds that the clock of this VM is ahead of that of IMDS, negative if it is
            behind; 0 while they agree, and before the first answer.
        vm_name: this VM's name as Resources spell it; None while unknown.
        identity: this VM in the instance metadata; None while unknown.
        incarnation: of the newest document; None if it carried none.
        document_changes: number of documents that differed from the one before.
        events_dropped: how many events that documents showed were left out, because as many are
            known as ``core.bounds`` permits.
        current: the current events by EventId.
        shown: the current events that documents of this run have shown, by EventId; the others are
            known from the journal only.
        seen: when a document last showed each of the events in ``shown``, seconds since the epoch
            by the clock of IMDS.
        ended: the events that ended within the last :data:`ENDED_SECONDS`, the newest last, also of
            earlier runs; at most :data:`MOST_ENDED`, or all of the last
            :data:`ALL_ENDED_SECONDS` if these are more.
        statistics: of all transitions, also of earlier runs.
        recent: the :data:`RECENT` events that ended last, also of earlier runs, the newest last.
        approval_policy: what approves events: off, documented, documented-all or file.
        approval_statuses: why a current event is not approved yet, by EventId; without those that
            are approved or have started.
        approval_requests: number of requests to approve so far, by outcome.
        journal: whether the journal is on disk.
        deliveries: how many spans were delivered, and how many wait.
        hooks: statistics of the runs of hooks on this VM.
        hook_runs: these runs, the oldest first.
        pushes: whether pushes to Alertmanager succeed, and how many alerts were posted.
    """

    poll_interval: float = 1.0
    polls: Polls = field(default_factory=Polls)
    clock_ahead: float = 0.0
    vm_name: str | None = None
    identity: Instance | None = None
    incarnation: int | None = None
    document_changes: int = 0
    events_dropped: int = 0
    current: Mapping[str, Lifecycle] = field(default_factory=dict)
    shown: Mapping[str, Lifecycle] = field(default_factory=dict)
    seen: Mapping[str, float] = field(default_factory=dict)
    ended: tuple[Lifecycle, ...] = ()
    statistics: Statistics = field(default_factory=Statistics)
    recent: tuple[Lifecycle, ...] = ()
    approval_policy: str = "off"
    approval_statuses: Mapping[str, Decision] = field(default_factory=dict)
    approval_requests: Mapping[ApprovalOutcome, int] = field(default_factory=no_requests)
    journal: JournalState = field(default_factory=JournalState)
    deliveries: Deliveries = field(default_factory=Deliveries)
    hooks: HookStatistics = field(default_factory=HookStatistics)
    hook_runs: Sequence[HookRun] = ()
    pushes: Pushes = field(default_factory=Pushes)

    @property
    def is_misnamed(self) -> bool:
        """Whether ``--instance.name`` is not this VM's name in IMDS.

        If so, its own events count as another VM's.
        """
        if not self.vm_name or self.identity is None or not self.identity.vm_name:
            return False
        return comparable_name(self.vm_name) != comparable_name(self.identity.vm_name)

    def with_events(self, known: Lifecycles, now: float) -> "Snapshot":
        """Return the snapshot with the events of ``known`` as they are at ``now``, Unix seconds."""
        return replace(
            self,
            current=known.current,
            shown=known.shown,
            seen=known.seen,
            ended=known.ended_since(
                since=now - ENDED_SECONDS,
                at_most=MOST_ENDED,
                all_since=now - ALL_ENDED_SECONDS,
            ),
            recent=tuple(known.ended.values())[-RECENT:],
        )

    def sharing(self, before: "Snapshot") -> "Snapshot":
        """Return this snapshot with the value of ``before`` in each field whose value is equal."""
        same: dict[str, Any] = {}
        for each in fields(self):
            old = getattr(before, each.name)
            new = getattr(self, each.name)
            if new is not old and new == old:
                same[each.name] = old
        if not same:
            return self
        return replace(self, **same)
