"""A fleet's last 30 days and its present as samples, for pictures of the dashboards and for tests
of their texts.

The samples have the names and labels of the exporter's metrics: a series that the exporter does not
have fails. :class:`StoryPrometheus` serves them.
"""

import math
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from azure_scheduled_events_exporter.core.kinds import Kind
from azure_scheduled_events_exporter.metrics.collector import SPECS
from azure_scheduled_events_exporter.metrics.spec import PREFIX
from support.monitoring.latency import SERIES
from support.programs import ConfiguredPrometheus, debian

STEP = 30
MINUTE = 60
HOUR = 3600
DAY = 86_400
BLIND_FOR = 20 * MINUTE
"""For how long an exporter that is blind has been."""
JOB = "azure-scheduled-events-exporter"
HOST = "Host server is undergoing maintenance."
MOVE = "Virtual machine is being paused because of a memory-preserving Live Migration operation."
RESTART = "Virtual machine is going to be restarted as requested by authorized user."


@dataclass(frozen=True, slots=True)
class Vm:
    """A VM with an exporter; VMs of one ``group`` see each other's events."""

    name: str
    group: str
    zone: str
    priority: str = "Regular"
    cores: int = 4

    @property
    def scale_set(self) -> str:
        """Its scale set, "" if it has none."""
        return self.name.rpartition("_")[0]

    @property
    def target(self) -> dict[str, str]:
        """The labels of Prometheus' target."""
        return {"job": JOB, "instance": f"{self.name.replace('_', '-')}:10169"}


FLEET = (
    *(Vm(f"web_{index}", "web", str(index % 3 + 1)) for index in range(5)),
    *(Vm(f"batch_{index}", "batch", str(index % 3 + 1), "Spot") for index in range(3)),
    Vm("db-primary", "data", "1", cores=16),
    Vm("db-standby", "data", "2", cores=16),
)


@dataclass(frozen=True, slots=True)
class Event:
    """An event; times in seconds from now, negative ones are past.

    Attributes:
        seen: when the exporters first saw it.
        not_before: NotBefore; None if it has none.
        started: when it started; None if it did not.
        ended: when it left the document; None while it is current.
        approved: the VM whose exporter approved it.
        unseen: since when no exporter shows it, because its VM is away and nobody else sees it.
        pause: the longest pause that its VMs measured; None if they measured nothing.
        retransmitted: how many TCP segments they sent again.
    """

    type: str
    vms: tuple[str, ...]
    seen: float
    not_before: float | None
    started: float | None = None
    ended: float | None = None
    outcome: str = "completed"
    kind: Kind = Kind.ANNOUNCED
    duration: float | None = None
    description: str = HOST
    source: str = "Platform"
    approved: str = ""
    due: float | None = None
    unseen: float | None = None
    pause: float | None = None
    retransmitted: float = 0.0


def _past(
    days: float, type_: str, vm: str, notice: float, lasted: float = 8 * MINUTE, **more: object
) -> Event:
    seen = -days * DAY
    begun = seen + notice
    times = (seen, begun, begun, begun + lasted)
    return Event(type_, (vm,), *times, **more)  # type: ignore[arg-type]


PAST = (
    _past(27.4, "Freeze", "web_2", 15 * MINUTE, duration=9.0),
    _past(25.1, "Preempt", "batch_1", 30, 60, description=""),
    _past(21.3, "Freeze", "db-primary", 15 * MINUTE, duration=30.0),
    _past(21.2, "Freeze", "db-standby", 15 * MINUTE, duration=30.0),
    _past(
        16.7,
        "Reboot",
        "web_0",
        4 * MINUTE,
        source="User",
        kind=Kind.REQUESTED,
        description=RESTART,
        approved="web_0",
    ),
    _past(13.6, "Preempt", "batch_0", 28, 50, description=""),
    _past(13.59, "Preempt", "batch_2", 30, 60, description=""),
    Event(
        "Freeze",
        ("web_4",),
        -9.5 * DAY,
        -9.5 * DAY + 900,
        None,
        -9.5 * DAY + 400,
        "cancelled",
        duration=9.0,
    ),
    _past(
        6.2,
        "Freeze",
        "web_1",
        15 * MINUTE,
        duration=5.0,
        kind=Kind.HARMLESS,
        description=MOVE,
        approved="web_1",
    ),
    _past(3.4, "Redeploy", "web_4", 10 * MINUTE, 14 * MINUTE),
    Event("Reboot", ("db-standby",), -2.3 * DAY, -2.3 * DAY + 900, None, -2.3 * DAY + 1200, "lost"),
    _past(
        0.7,
        "Freeze",
        "web_4",
        15 * MINUTE,
        duration=5.0,
        description=MOVE,
        pause=12.3,
        retransmitted=240,
    ),
    _past(
        0.4,
        "Freeze",
        "db-primary",
        15 * MINUTE,
        duration=9.0,
        description=MOVE,
        pause=4.2,
        retransmitted=20,
    ),
    _past(0.25, "Redeploy", "web_1", 10 * MINUTE, 14 * MINUTE),
    Event(
        "Reboot",
        ("web_3",),
        -1.1 * DAY,
        None,
        -1.1 * DAY,
        -1.1 * DAY + 11 * MINUTE,
        kind=Kind.WITHOUT_NOTICE,
    ),
)
NOW = (
    Event(
        "Freeze",
        ("web_1",),
        -16 * MINUTE,
        -60,
        -60,
        duration=9.0,
        description=MOVE,
        pause=11.8,
        retransmitted=140,
    ),
    Event(
        "Reboot",
        ("web_2",),
        -4 * MINUTE,
        11 * MINUTE,
        kind=Kind.REQUESTED,
        source="User",
        description=RESTART,
        due=60,
    ),
    Event("Redeploy", ("db-primary",), -2 * HOUR, 2.9 * DAY, kind=Kind.FAR_AHEAD),
    Event("Preempt", ("batch_1",), -5, 25, description=""),
    Event("Reboot", ("db-standby",), -20 * MINUTE, -5 * MINUTE, -5 * MINUTE, unseen=-3 * MINUTE),
)


@dataclass(slots=True)
class Samples:
    """Series of one story."""

    now: float
    lines: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def add(
        self,
        name: str,
        labels: dict[str, str],
        value: float,
        begin: float,
        end: float,
        rate: float = 0.0,
    ) -> None:
        """Add one of the exporter's series from ``begin`` to ``end``; see :meth:`series`."""
        spec = SPECS[name if name in SPECS else name.rpartition("_")[0]]
        assert set(labels) - {"job", "instance"} == set(spec.labels), name
        self.series(PREFIX + name, labels, value, begin, end, rate)

    def series(
        self,
        name: str,
        labels: dict[str, str],
        value: float,
        begin: float,
        end: float,
        rate: float = 0.0,
    ) -> None:
        """Add any series from ``begin`` to ``end``, both from now; one with a ``rate`` would have
        ``value`` now.
        """
        written = ",".join(f'{label}="{text}"' for label, text in labels.items())
        last = min(end, 0.0)
        moments = [begin + step * STEP for step in range(int((last - begin) // STEP) + 1)]
        for at in [*moments, *([last] if moments and moments[-1] < last else [])]:
            self.lines[name].append(
                f"{name}{{{written}}} {value + rate * at:.3f} {self.now + at:.0f}"
            )

    def event(
        self, number: int, event: Event, down: tuple[str, ...], blind: tuple[str, ...] = ()
    ) -> None:
        """Add what all exporters of the event's group show; ``blind`` ones do not see its end."""
        event_id = f"{number:08X}-AFDC-4513-B24B-AA5F13A1{number:04X}"
        group = next(vm.group for vm in FLEET if vm.name in event.vms)
        unseen = 0.0 if event.unseen is None else event.unseen
        end = unseen if event.ended is None else event.ended
        for vm in FLEET:
            if (
                vm.group != group
                or (event.unseen is not None and vm.name not in event.vms)
                or vm.name in down
            ):
                continue
            sees_end = vm.name not in blind or end < -BLIND_FOR
            over = end if sees_end else 0.0
            scope = "self" if vm.name in event.vms else "peer"
            key = {**vm.target, "event_id": event_id, "event_type": event.type, "scope": scope}
            self._phases(event, key, vm, over)
            self._seen(event, key, over, looks_until=0.0 if sees_end else -BLIND_FOR)
            self._facts(event, key, vm, over)
            if event.ended is not None and sees_end:
                ended = {**key, "outcome": event.outcome}
                self.add("event_ended_timestamp_seconds", ended, self.now + over, over, over + HOUR)
            if scope == "self":
                self._own(event, key, vm, over)
            elif event.started is not None and _is_told(event):
                self._peer_impact(event, key, vm, over)

    def _phases(self, event: Event, key: dict[str, str], vm: Vm, over: float) -> None:
        """Add the texts of an event, and its times, while it is Scheduled and Started."""
        texts = {
            "event_source": event.source,
            "kind": str(event.kind),
            "description": event.description,
            "resources": ",".join(event.vms),
            "vms": " and ".join(event.vms),
            "resource_group": _place(vm)["resource_group"],
        }
        waiting = "Advisory" if event.kind is Kind.ADVISORY else "Scheduled"
        begin = over if event.started is None else event.started
        if begin > event.seen:
            labels = {**key, **texts, "event_status": waiting}
            self.add("event_info", labels, 1, event.seen, begin - 1)
            if event.not_before is not None:
                moment = self.now + event.not_before
                name = "event_not_before_timestamp_seconds"
                self.add(name, key, moment, event.seen, begin - 1)
        if event.started is not None:
            labels = {**key, **texts, "event_status": "Started"}
            self.add("event_info", labels, 1, begin, over - 1)
            self.add("event_started_timestamp_seconds", key, self.now + begin, begin, over - 1)

    def _facts(self, event: Event, key: dict[str, str], vm: Vm, over: float) -> None:
        """Add what does not change while an event is current."""
        first_seen = self.now + event.seen
        facts = {
            "event_first_seen_timestamp_seconds": first_seen,
            "event_approved": float(vm.name == event.approved),
            "event_resources": float(len(event.vms)),
            "event_duration_seconds": event.duration,
        }
        for name, value in facts.items():
            if value is not None:
                self.add(name, key, value, event.seen, over - 1)

    def _own(self, event: Event, key: dict[str, str], vm: Vm, over: float) -> None:
        """Add what only an exporter on a VM of the event shows."""
        if event.pause is not None and event.started is not None:
            until = over if event.ended is None else over + HOUR
            measured = {
                "event_observed_pause_seconds": event.pause,
                "event_tcp_retransmitted_segments": event.retransmitted,
                "event_tcp_timeouts": event.retransmitted / 20,
                "event_clock_step_seconds": 0.0,
            }
            for name, value in measured.items():
                self.add(name, key, value, event.started, until)
        if event.due is not None:
            name = "event_approval_due_timestamp_seconds"
            self.add(name, key, self.now + event.due, event.seen, over - 1)
        if _is_told(event):
            moment = event.started if event.started is not None else event.not_before
            own = {"event_id": key["event_id"], "event_type": event.type}
            labels = {**own, **_place(vm, impact=True), **vm.target}
            impact = self.now + (moment or 0.0)
            self.add("vm_impact_timestamp_seconds", labels, impact, event.seen, over - 1)

    def _seen(self, event: Event, key: dict[str, str], over: float, looks_until: float) -> None:
        """Add when the newest document showed an event, and when its impact begins."""
        labels = {**key, "kind": str(event.kind)}
        name = "event_seen_timestamp_seconds"
        until = min(over - 1, looks_until)
        self.add(name, labels, self.now, event.seen, until, rate=1.0)
        if until < over - 1:  # it stands still
            self.add(name, labels, self.now + until, until + STEP, over - 1)
        moments = ((event.not_before, event.seen), (event.started, event.started))
        for moment, begin in moments:
            end = over if moment is event.started or event.started is None else event.started
            if moment is not None and begin is not None and end - 1 > begin:
                impact = self.now + moment
                self.add("event_impact_timestamp_seconds", labels, impact, begin, end - 1)

    def _peer_impact(self, event: Event, key: dict[str, str], vm: Vm, over: float) -> None:
        """Add when the impact of a Started event of other VMs began."""
        assert event.started is not None
        place = _place(vm)
        for name in event.vms:
            labels = {
                "job": key["job"],
                "instance": key["instance"],
                "event_id": key["event_id"],
                "event_type": event.type,
                "vm_name": name,
                **{each: place[each] for each in ("subscription_id", "resource_group")},
                "scale_set": vm.scale_set,
            }
            begin = self.now + event.started
            self.add("peer_impact_timestamp_seconds", labels, begin, event.started, over - 1)

    def exporter(self, vm: Vm, state: str, since: float) -> None:
        """Add what an exporter shows of itself in the last day; it is ok, or down or blind for
        ``since`` seconds.
        """
        target, begin, alive = vm.target, -DAY, 0.0 if state != "down" else -since
        self.series("up", target, 1, begin, alive)
        if state == "down":
            self.series("up", target, 0, alive + STEP, 0)
        sees = -since if state == "blind" else alive
        self.add("up", target, 1, begin, sees - (state == "blind"))
        if state == "blind":
            self.add("up", target, 0, sees, 0)
        for name, value in {
            "poll_interval_seconds": 1,
            "journal_up": 1,
            "spans_queued": 0,
            "alertmanager_up": 1,
        }.items():
            self.add(name, target, value, -HOUR, alive)
        self.add(
            "last_success_timestamp_seconds",
            target,
            self.now + sees - 0.4,
            -HOUR,
            alive,
            rate=float(state == "ok"),
        )
        self.add("instance_info", {**target, **_place(vm)}, 1, -HOUR, alive)
        self.add(
            "build_info",
            {**target, "version": "0.1.0", "python_version": "3.13.5"},
            1,
            -HOUR,
            alive,
        )
        policy = {"web": "documented", "batch": "file"}.get(vm.group, "off")
        self.add("approval_policy_info", {**target, "policy": policy}, 1, -HOUR, alive)
        self.add("journal_errors_total", target, 0, -HOUR, alive)
        number = FLEET.index(vm)
        for outcome in ("ok", "timeout", "throttled", "invalid_document"):
            counted = outcome == ("timeout" if state == "blind" else "ok")
            self.add(
                "polls_total",
                {**target, "outcome": outcome},
                9e4 * counted,
                -HOUR,
                alive,
                rate=float(counted),
            )
        self.add("poll_duration_seconds_count", target, 9e4, -HOUR, alive, rate=1.0)
        took = 1.0 if state == "blind" else 0.005 + 0.0004 * number
        self.add("poll_duration_seconds_sum", target, 9e4, -HOUR, alive, rate=took)
        for outcome in ("accepted", "rejected", "error"):
            self.add("approval_requests_total", {**target, "outcome": outcome}, 0, -HOUR, alive)
        self.series(
            "process_cpu_seconds_total", target, 900, -HOUR, alive, rate=0.0015 + 0.0001 * number
        )
        self.series("process_resident_memory_bytes", target, 38.4e6 + 2e5 * number, -HOUR, alive)
        self._counted(vm, alive)

    def _counted(self, vm: Vm, alive: float) -> None:
        for event_type, notice, approver in (
            ("Freeze", 880, "deadline"),
            ("Reboot", 240, "exporter"),
        ):
            key = {**vm.target, "event_type": event_type}
            for name, mean, more in (
                ("notice_seconds", notice, {}),
                ("approval_latency_seconds", notice, {"approved_by": approver}),
                ("phase_duration_seconds", notice, {"phase": "scheduled"}),
                ("phase_duration_seconds", 490, {"phase": "started"}),
                ("observed_pause_seconds", 4.2, {}),
            ):
                self.add(f"{name}_count", {**key, **more}, 2, -HOUR, alive)
                self.add(f"{name}_sum", {**key, **more}, 2 * mean, -HOUR, alive)
            seen = {**key, "event_source": "Platform", "scope": "self", "transition": "detected"}
            self.add("transitions_total", seen, 2, -HOUR, alive)

    def text(self) -> str:
        """Return all as OpenMetrics."""
        return "".join(f"{line}\n" for lines in self.lines.values() for line in lines) + "# EOF\n"


def _is_told(event: Event) -> bool:
    """Return whether the impact of an event is told by VM."""
    return event.kind not in {Kind.HARMLESS, Kind.ADVISORY}


def _place(vm: Vm, *, impact: bool = False) -> dict[str, str]:
    number = FLEET.index(vm)
    place = {
        "vm_id": f"5a7b1d{number:02x}-0c1f-4a53-9f0e-6d1c2b3a4f5e",
        "vm_name": vm.name,
        "subscription_id": "0b1f6471-1bf0-4dda-aec3-cb9272f09590",
        "resource_group": "data" if vm.group == "data" else "production",
        "scale_set": vm.scale_set,
        "zone": vm.zone,
    }
    place["computer_name"] = vm.name.replace("_", "")
    if impact:
        return place
    size = {"vm_size": f"Standard_D{vm.cores}s_v5", "priority": vm.priority}
    return {**place, **size, "location": "westeurope", "fault_domain": str(number % 3)}


def story(
    now: float, *, current: tuple[Event, ...] = NOW, states: dict[str, str] | None = None
) -> str:
    """Return the story with its ``current`` events; ``states`` of exporters are ``down`` and
    ``blind``.
    """
    return _samples(now, current, states).text()


def _samples(
    now: float, current: tuple[Event, ...], states: dict[str, str] | None = None
) -> Samples:
    samples = Samples(now)
    states = dict(states or {})
    for event in current:
        states |= dict.fromkeys(event.vms if event.unseen is not None else (), "down")
    unseen = {vm for event in current if event.unseen is not None for vm in event.vms}
    down = tuple(name for name, state in states.items() if state == "down" and name not in unseen)
    blind = tuple(name for name, state in states.items() if state == "blind")
    for number, event in enumerate((*PAST, *current), 0xC7061BAC):
        if event in current:
            samples.event(number, event, down, blind)
        else:
            samples.event(number, event, ())
    for vm in FLEET:
        samples.exporter(
            vm, states.get(vm.name, "ok"), 3 * MINUTE if vm.name in unseen else BLIND_FOR
        )
    return samples


def _slow_checkout(now: float) -> str:
    """Return a quiet hour in which a Freeze of web_1 made a service slow."""
    freeze = Event(
        "Freeze",
        ("web_1",),
        -40 * MINUTE,
        -25 * MINUTE,
        -25 * MINUTE,
        -18 * MINUTE,
        kind=Kind.HARMLESS,
        duration=5.0,
        description=MOVE,
    )
    samples = _samples(now, (freeze,))
    for index in range(int(HOUR / STEP)):
        at = -HOUR + index * STEP
        usual = 0.18 + 0.03 * math.sin(index * 1.7) + 0.02 * math.sin(index * 0.6)
        slow = 11.0 * math.exp(-(at + 25 * MINUTE) / 45) if at >= -25 * MINUTE else 0.0
        samples.series(SERIES, {}, usual + slow, at, at)
    return samples.text()


class StoryPrometheus(ConfiguredPrometheus):
    """A Prometheus that has the samples of a story and scrapes nothing."""

    def __init__(self, folder: Path, text: str) -> None:
        (folder / "story.txt").write_text(text)
        made = [debian("promtool"), "tsdb", "create-blocks-from", "openmetrics", "--quiet"]
        subprocess.run(
            [*made, folder / "story.txt", folder / "tsdb"], check=True, capture_output=True
        )
        (folder / "prometheus.yml").write_text("{}")
        flags = ("--storage.tsdb.retention.time=60d", "--query.lookback-delta=45s")
        super().__init__(folder / "prometheus.yml", folder, *flags)


def moments(now: float) -> Iterator[tuple[str, str]]:
    """Yield the moments of the story that there are pictures of: their names and their samples."""
    yield "event", story(now)
    yield "quiet", story(now, current=())
    yield "blind", story(now, current=NOW[:4], states={"web_3": "down", "batch_0": "blind"})
    yield "slow", _slow_checkout(now)
