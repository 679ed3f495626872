"""Reads what Prometheus, vmagent, VictoriaMetrics and vmalert count and use."""

import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import psutil
import requests

from support.monitoring.paging import Stack
from support.monitoring.victoria import VictoriaStack
from support.programs import Program

PATIENCE = 150.0  # seconds; an engine that is overloaded answers late


class Metrics:
    """The metrics of one program."""

    def __init__(self, url: str) -> None:
        answer = requests.get(f"{url}/metrics", timeout=PATIENCE)
        answer.raise_for_status()
        self._text = answer.text

    def total(self, pattern: str) -> float:
        """Return the sum of all series that match from the beginning; fail if there are none."""
        found = re.findall(rf"(?m)^{pattern}(?:{{.*}})? (\S+)$", self._text)
        assert found, pattern
        return sum(map(float, found))

    def by_group(self, name: str) -> dict[str, float]:
        """Return the value of a metric for each group of rules."""
        line = rf'(?m)^{name}{{(?:rule_group="[^;]*;|group=")([^"]+)".* (\S+)$'
        found = {}
        for group, value in re.findall(line, self._text):
            found[group] = float(value)
        return found


@dataclass(frozen=True, slots=True)
class EngineSample:
    """What an engine has counted up to a moment.

    Attributes:
        samples: those that are stored.
        series: those in memory.
        failures: how often something went wrong, by what.
    """

    samples: float
    series: float
    failures: Mapping[str, float]


def read(stack: Stack | VictoriaStack) -> EngineSample:
    """Read the metrics of Prometheus, or of vmagents, store and vmalert."""
    if isinstance(stack, VictoriaStack):
        return _read_victoria(stack)
    metrics = Metrics(stack.prometheus.url)
    return EngineSample(
        samples=metrics.total("prometheus_tsdb_head_samples_appended_total"),
        series=metrics.total("prometheus_tsdb_head_series"),
        failures={
            "evaluations missed": metrics.total("prometheus_rule_group_iterations_missed_total"),
            "rules failed": metrics.total("prometheus_rule_evaluation_failures_total"),
            "alerts not sent": metrics.total("prometheus_notifications_dropped_total"),
        },
    )


def _read_victoria(stack: VictoriaStack) -> EngineSample:
    store = Metrics(stack.url)
    vmalert = Metrics(stack.vmalert)
    agents = [Metrics(url) for url in stack.agents]
    lost = vmalert.total("vmalert_remotewrite_dropped_rows_total")
    for agent in agents:
        lost += agent.total("vmagent_remotewrite_packets_dropped_total")
    return EngineSample(
        samples=store.total(r'vm_rows_inserted_total{type="promremotewrite"}'),
        series=store.total(r'vm_cache_entries{type="storage/hour_metric_ids"}'),
        failures={
            "evaluations missed": vmalert.total("vmalert_iteration_missed_total"),
            "rules failed": vmalert.total("vmalert_execution_errors_total"),
            "alerts not sent": vmalert.total("vmalert_alerts_send_errors_total"),
            "samples lost": lost,
        },
    )


@dataclass(frozen=True, slots=True)
class Used:
    """Processor time in seconds, and the highest resident memory in bytes, of one program."""

    processor: float
    memory: int


def _used(program: Program) -> Used:
    """Return what a program has used so far."""
    times = psutil.Process(program.process.pid).cpu_times()
    status = Path(f"/proc/{program.process.pid}/status").read_text("utf-8")
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found
    return Used(processor=times.user + times.system, memory=int(found[1]) * 1024)


@dataclass(frozen=True, slots=True)
class _Evaluations:
    """What an engine says of its evaluations, by the group of rules.

    Attributes:
        ends: a number that becomes larger when an evaluation ends.
        durations: the seconds of the last one, or of all together.
    """

    ends: Mapping[str, float]
    durations: Mapping[str, float]


class Watch:
    """Collects in a thread what programs use, and how long each group of rules is evaluated.

    A context manager; the figures are whole when it has ended.
    """

    def __init__(
        self, stack: Stack | VictoriaStack, programs: Mapping[str, Program], every: float
    ) -> None:
        if isinstance(stack, VictoriaStack):
            self._url = stack.vmalert
            self._ends = "vmalert_iteration_duration_seconds_count"
            self._durations = "vmalert_iteration_duration_seconds_sum"
            self._adds_up = True
        else:
            self._url = stack.prometheus.url
            self._ends = "prometheus_rule_group_last_evaluation_timestamp_seconds"
            self._durations = "prometheus_rule_group_last_duration_seconds"
            self._adds_up = False
        self._every = every
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._collect, daemon=True)
        self._programs = programs
        self.durations: dict[str, list[float]] = {}
        self.used: dict[str, Used] = {}

    def __enter__(self) -> Self:
        self.used = {name: _used(program) for name, program in self._programs.items()}
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        for name, program in self._programs.items():
            before = self.used[name]
            after = _used(program)
            self.used[name] = replace(after, processor=after.processor - before.processor)

    def _collect(self) -> None:
        before = self._read()
        while not self._ended.wait(self._every):
            after = self._read()
            for group, ended in after.ends.items():
                new = ended - before.ends.get(group, 0)
                if new > 0:
                    taken = after.durations[group]
                    if self._adds_up:
                        taken = (taken - before.durations.get(group, 0)) / new
                    self.durations.setdefault(group, []).append(taken)
            before = after

    def _read(self) -> _Evaluations:
        metrics = Metrics(self._url)
        return _Evaluations(
            ends=metrics.by_group(self._ends), durations=metrics.by_group(self._durations)
        )
