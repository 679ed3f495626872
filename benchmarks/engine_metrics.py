"""Reads what Prometheus, vmagent, VictoriaMetrics and vmalert count and use."""

import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
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
        found = re.findall(
            rf'(?m)^{name}{{(?:rule_group="[^;]*;|group=")([^"]+)".* (\S+)$', self._text
        )
        return {group: float(value) for group, value in found}


@dataclass(frozen=True, slots=True)
class EngineSample:
    """What an engine has counted up to a moment."""

    samples: float
    """Stored ones."""
    series: float
    """In memory."""
    failures: Mapping[str, float]
    """How often something went wrong, by what."""


def read(stack: Stack | VictoriaStack) -> EngineSample:
    """Read the metrics of Prometheus, or of vmagents, store and vmalert."""
    if isinstance(stack, VictoriaStack):
        return _read_victoria(stack)
    metrics = Metrics(stack.prometheus.url)
    return EngineSample(
        metrics.total("prometheus_tsdb_head_samples_appended_total"),
        metrics.total("prometheus_tsdb_head_series"),
        {
            "evaluations missed": metrics.total("prometheus_rule_group_iterations_missed_total"),
            "rules failed": metrics.total("prometheus_rule_evaluation_failures_total"),
            "alerts not sent": metrics.total("prometheus_notifications_dropped_total"),
        },
    )


def _read_victoria(stack: VictoriaStack) -> EngineSample:
    store = Metrics(stack.url)
    vmalert = Metrics(stack.vmalert)
    agents = [Metrics(url) for url in stack.agents]
    lost = sum(each.total("vmagent_remotewrite_packets_dropped_total") for each in agents)
    lost += vmalert.total("vmalert_remotewrite_dropped_rows_total")
    return EngineSample(
        store.total(r'vm_rows_inserted_total{type="promremotewrite"}'),
        store.total(r'vm_cache_entries{type="storage/hour_metric_ids"}'),
        {
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
    found = re.search(
        r"VmHWM:\s+(\d+) kB", Path(f"/proc/{program.process.pid}/status").read_text("utf-8")
    )
    assert found
    return Used(times.user + times.system, int(found[1]) << 10)


class Watch:
    """Collects in a thread what programs use, and how long each group of rules is evaluated.

    A context manager; the figures are whole when it has ended.
    """

    def __init__(
        self, stack: Stack | VictoriaStack, programs: Mapping[str, Program], every: float
    ) -> None:
        if isinstance(stack, VictoriaStack):
            self._url = stack.vmalert
            self._names = (
                "vmalert_iteration_duration_seconds_count",
                "vmalert_iteration_duration_seconds_sum",
            )
        else:
            self._url = stack.prometheus.url
            last = "prometheus_rule_group_last_"  # both change when an evaluation ends
            self._names = (f"{last}evaluation_timestamp_seconds", f"{last}duration_seconds")
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
            used = _used(program)
            self.used[name] = Used(used.processor - self.used[name].processor, used.memory)

    def _collect(self) -> None:
        before = self._read()
        while not self._ended.wait(self._every):
            after = self._read()
            for group, ended in after[0].items():
                new = ended - before[0].get(group, 0)
                if new > 0:
                    taken = after[1][group]
                    if self._names[1].endswith("_sum"):
                        taken = (taken - before[1].get(group, 0)) / new
                    self.durations.setdefault(group, []).append(taken)
            before = after

    def _read(self) -> tuple[dict[str, float], dict[str, float]]:
        metrics = Metrics(self._url)
        return metrics.by_group(self._names[0]), metrics.by_group(self._names[1])
