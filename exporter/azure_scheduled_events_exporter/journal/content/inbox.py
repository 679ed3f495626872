"""What other processes write for a running exporter: approval requests and hook runs.

``approve`` and ``hook`` open the journal with ``journal.access.writable`` and add rows in short
transactions. The journal's thread notices that, and reads them into an :class:`Inbox`. Runs are
kept when events are pruned, because counters must not fall; one takes less than 1 KiB. Must not
know when a request is sent (``approval``), or how a command is run (``commands.hook``).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from azure_scheduled_events_exporter.core.lifecycle import Approver, Lifecycle
from azure_scheduled_events_exporter.snapshot.hooks import HookRun, HookStatistics


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A request of an operator or a hook to approve an event.

    Attributes:
        life: the event as the operator saw it; the request is not valid for a changed one.
        operator: login name, or the name of the hook's script.
        created: Unix seconds.
        expires: Unix seconds after which the request is not sent.
        number: identifies the request once it is queued.
        approver: operator or hook.
    """

    life: Lifecycle
    operator: str
    created: float
    expires: float
    number: int = 0
    approver: Approver = Approver.OPERATOR


@dataclass(frozen=True, slots=True)
class Inbox:
    """What other processes have written.

    Attributes:
        requests: those without a result, the oldest first.
        runs: all runs of hooks' commands, the oldest first, also those that have ended.
        hooks: the statistics of these runs.
    """

    requests: Sequence[ApprovalRequest] = ()
    runs: Sequence[HookRun] = ()
    hooks: HookStatistics = field(default_factory=HookStatistics)
