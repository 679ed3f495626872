"""Stand-ins for exporters in trouble: each raises one alert about an exporter, a VM or a late
event.
"""

import time
from collections.abc import Callable

from support.servers.http_peer import HttpServer, Request, Response

_METRIC = "azure_scheduled_events_"
_STARTED_TOO_LONG = 2400
_OVERDUE = 1200
_NOT_BACK = 1000
_PAUSED = 300
_APART = 20


class Trouble(HttpServer):
    """Serves the series of one VM: what each exporter has, and what :data:`TROUBLES` adds."""

    def __init__(self, vm: str, alert: str, group: str, scale_set: str = "") -> None:
        super().__init__()
        self.vm = vm
        self.alert = alert
        self.group = group
        self.target = f"127.0.0.1:{self.port}"
        self.scale_set = scale_set
        self._born = int(time.time())
        self._scrapes = 0
        self._is_away = False

    def respond(self, _: Request) -> Response:
        """Return the series; counters grow with each scrape."""
        if self._is_away:
            return Response(503)
        self._scrapes += 1
        lines = TROUBLES[self.alert](self._born, self._scrapes, self)
        is_up = int(self.alert not in {"ImdsUnreachable", "DocumentInvalid"})
        text = "".join(f"{_METRIC}{line}\n" for line in (*self._always(is_up), *lines))
        return Response(200, text.encode(), {"Content-Type": "text/plain; version=0.0.4"})

    def go_away(self) -> None:
        """Answer no more."""
        self._is_away = True

    @property
    def event_id(self) -> str:
        """The id of an event of this VM."""
        return f"{self.port:08X}-0E5D-4C2B-9B1F-5F0E7C1D2A34"

    @property
    def event(self) -> str:
        """Labels of an event of this VM."""
        event_type = TYPES.get(self.alert, "Redeploy")
        return f'event_id="{self.event_id}",event_type="{event_type}"'

    @property
    def pause(self) -> str:
        """Labels of a pause of this VM."""
        return f'vm_name="{self.vm}",announced="5"'

    @property
    def place(self) -> str:
        """Labels of this VM."""
        of_set = f'subscription_id="s",resource_group="{self.group}",scale_set="{self.scale_set}"'
        return f'vm_id="id-{self.vm}",vm_name="{self.vm}",{of_set}'

    def _always(self, is_up: int) -> tuple[str, ...]:
        now = int(time.time())
        return (
            f"up {is_up}",
            f"instance_info{{{self.place}}} 1",
            f"last_success_timestamp_seconds {now}",
            "poll_interval_seconds 1",
            f"poll_duration_seconds_count {self._scrapes}",
        )


_Lines = Callable[[int, int, Trouble], tuple[str, ...]]


def _shown(trouble: Trouble, kind: str, impact_at: int) -> tuple[str, ...]:
    labels = f'{trouble.event},kind="{kind}",scope="self"'
    more = f'resources="{trouble.vm}",resource_group="{trouble.group}",event_status="Scheduled"'
    return (
        f"event_info{{{labels},{more}}} 1",
        f"event_seen_timestamp_seconds{{{labels}}} {int(time.time())}",
        f"event_impact_timestamp_seconds{{{labels}}} {impact_at}",
    )


def _hit(impact_at: int, trouble: Trouble) -> tuple[str, ...]:
    return (f"vm_impact_timestamp_seconds{{{trouble.event},{trouble.place}}} {impact_at}",)


def _due(born: int, trouble: Trouble) -> tuple[str, ...]:
    due = f"event_approval_due_timestamp_seconds{{{trouble.event}}} {born - 300}"
    return (*_shown(trouble, "requested", born + 600), due)


TROUBLES: dict[str, _Lines] = {
    "ExporterDown": lambda *_: (),
    "ImdsUnreachable": lambda *_: (),
    "DocumentInvalid": lambda _, scrapes, __: (
        f'polls_total{{outcome="invalid_document"}} {scrapes}',
    ),
    "Throttled": lambda _, scrapes, __: (f'polls_total{{outcome="throttled"}} {scrapes}',),
    "JournalNotOnDisk": lambda *_: ("journal_up 0",),
    "AlertsNotPushed": lambda *_: ("alertmanager_up 0",),
    "SpansNotDelivered": lambda *_: ("spans_queued 7",),
    "ClockOff": lambda *_: ("clock_offset_seconds -100",),
    "HookFailed": lambda born, scrapes, trouble: (
        *_shown(trouble, "announced", born + 600),
        f'hook_runs_total{{event_type="Reboot",phase="prepare",outcome="failed"}} {scrapes}',
    ),
    "ApprovalRefused": lambda born, scrapes, trouble: (
        *_due(born, trouble),
        f'approval_requests_total{{outcome="rejected"}} {scrapes}',
    ),
    "NotApproved": lambda born, _, trouble: _due(born, trouble),
    "Overdue": lambda born, _, trouble: (
        *_shown(trouble, "announced", born - _OVERDUE),
        f"event_not_before_timestamp_seconds{{{trouble.event}}} {born - _OVERDUE}",
    ),
    "StartedTooLong": lambda born, _, trouble: (
        *_shown(trouble, "harmless", born - _STARTED_TOO_LONG),
        f"event_started_timestamp_seconds{{{trouble.event}}} {born - _STARTED_TOO_LONG}",
    ),
    "PausedLonger": lambda born, _, trouble: (
        *_shown(trouble, "harmless", born - _PAUSED),
        f"event_paused_longer_seconds{{{trouble.event},{trouble.pause}}} 41.3",
    ),
    "VmNotBack": lambda born, _, trouble: _hit(born - _NOT_BACK, trouble),
    "ScaleSetHit": lambda born, _, trouble: _hit(born + trouble.port % 3 * _APART, trouble),
}
"""By alert: the lines that raise it."""

TYPES = {"HookFailed": "Reboot", "PausedLonger": "Freeze"}
"""By alert: the type of its event, if it is not a Redeploy."""
