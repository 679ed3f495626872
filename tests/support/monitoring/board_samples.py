"""The samples of exporters that saw the events of a fleet.

They have the names and labels of the exporter's metrics: a series that the exporter does not have
fails.
"""

from collections import defaultdict
from dataclasses import dataclass, field

from azure_scheduled_events_exporter.core.lifecycle import Kind
from azure_scheduled_events_exporter.metrics.spec import PREFIX
from azure_scheduled_events_exporter.metrics.table import SPECS
from support.monitoring.board_fleet import BLIND_FOR, DAY, FLEET, HOUR, Event, Vm

STEP = 30
"""Seconds between two samples of a series."""


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
        alive = 0.0 if state != "down" else -since
        self._up(vm, state, alive, since)
        self._polls(vm, state, alive)
        self._about_itself(vm, alive)
        self._counted(vm, alive)

    def _up(self, vm: Vm, state: str, alive: float, since: float) -> None:
        """Add whether the exporter was scraped, whether its polls succeeded, and the last success.

        ``alive`` is when it was scraped last, from now; it is down or blind for ``since`` seconds.
        """
        target = vm.target
        begin = -DAY
        self.series("up", target, 1, begin, alive)
        if state == "down":
            self.series("up", target, 0, alive + STEP, 0)
        sees = -since if state == "blind" else alive
        self.add("up", target, 1, begin, sees - (state == "blind"))
        if state == "blind":
            self.add("up", target, 0, sees, 0)
        success = self.now + sees - 0.4
        grows = float(state == "ok")
        self.add("last_success_timestamp_seconds", target, success, -HOUR, alive, rate=grows)

    def _polls(self, vm: Vm, state: str, alive: float) -> None:
        """Add one poll a second for the last hour: those of a blind exporter time out."""
        target = vm.target
        count = 9e4
        for outcome in ("ok", "timeout", "throttled", "invalid_document"):
            counted = outcome == ("timeout" if state == "blind" else "ok")
            labels = {**target, "outcome": outcome}
            self.add("polls_total", labels, count * counted, -HOUR, alive, rate=float(counted))
        self.add("poll_interval_seconds", target, 1, -HOUR, alive)
        self.add("poll_duration_seconds_count", target, count, -HOUR, alive, rate=1.0)
        took = 1.0 if state == "blind" else 0.005 + 0.0004 * FLEET.index(vm)
        self.add("poll_duration_seconds_sum", target, count, -HOUR, alive, rate=took)

    def _about_itself(self, vm: Vm, alive: float) -> None:
        """Add what the exporter says of its VM, version and process, and that nothing is wrong."""
        target = vm.target
        number = FLEET.index(vm)
        well = {
            "journal_up": 1,
            "journal_errors_total": 0,
            "spans_queued": 0,
            "alertmanager_up": 1,
        }
        for name, value in well.items():
            self.add(name, target, value, -HOUR, alive)
        for outcome in ("accepted", "rejected", "error"):
            self.add("approval_requests_total", {**target, "outcome": outcome}, 0, -HOUR, alive)
        policy = {"web": "documented", "batch": "file"}.get(vm.group, "off")
        facts = {
            "instance_info": _place(vm),
            "build_info": {"version": "0.1.0", "python_version": "3.13.5"},
            "approval_policy_info": {"policy": policy},
        }
        for name, labels in facts.items():
            self.add(name, {**target, **labels}, 1, -HOUR, alive)
        cpu = 0.0015 + 0.0001 * number  # seconds a second
        self.series("process_cpu_seconds_total", target, 900, -HOUR, alive, rate=cpu)
        self.series("process_resident_memory_bytes", target, 38.4e6 + 2e5 * number, -HOUR, alive)

    def _counted(self, vm: Vm, alive: float) -> None:
        """Add the counters of two Freezes and two Reboots that are over."""
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
