"""Reads what Prometheus, vmagent, VictoriaMetrics and vmalert count and use.

``benchmarks.fleet`` reports it.
"""

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

Engine = Stack | VictoriaStack
"""Prometheus or VictoriaMetrics' programs, each with an Alertmanager and a webhook."""

PATIENCE = 150.0  # seconds; an engine that is overloaded answers late


class Metrics:
    """The metrics of one program at one moment."""

    def __init__(self, url: str) -> None:
        answer = requests.get(f"{url}/metrics", timeout=PATIENCE)
        answer.raise_for_status()
        self._text = answer.text

    def total(self, pattern: str) -> float:
        """Return the sum of a metric over its series; fail if there are none.

        ``pattern`` is a regular expression of the metric's name, or of the name and all labels of
        one series, as they are written. After a name alone, any labels may follow.
        """
        found = re.findall(rf"(?m)^{pattern}(?:{{.*}})? (\S+)$", self._text)
        assert found, pattern
        return sum(map(float, found))

    def by_group(self, name: str) -> dict[str, float]:
        """Return the value of a metric for each group of rules.

        Prometheus names a group by its file and its name, with a semicolon between them.
        """
        line = rf'(?m)^{name}{{(?:rule_group="[^;]*;|group=")([^"]+)".* (\S+)$'
        found = {}
        for group, value in re.findall(line, self._text):
            found[group] = float(value)
        return found


# ---- What is counted


@dataclass(frozen=True, slots=True)
class EngineSample:
    """What an engine has counted up to a moment.

    Attributes:
        samples: those that it has stored.
        series: those that it has in memory.
        failures: how often something went wrong, by what.
    """

    samples: float
    series: float
    failures: Mapping[str, float]


def read(stack: Engine) -> EngineSample:
    """Read the metrics of Prometheus, or of vmagents, store and vmalert."""
    if isinstance(stack, VictoriaStack):
        return _read_victoria(stack)
    metrics = Metrics(stack.prometheus.url)
    failures = {
        "evaluations missed": metrics.total("prometheus_rule_group_iterations_missed_total"),
        "rules failed": metrics.total("prometheus_rule_evaluation_failures_total"),
        "alerts not sent": metrics.total("prometheus_notifications_dropped_total"),
    }
    return EngineSample(
        samples=metrics.total("prometheus_tsdb_head_samples_appended_total"),
        series=metrics.total("prometheus_tsdb_head_series"),
        failures=failures,
    )


def _read_victoria(stack: VictoriaStack) -> EngineSample:
    store = Metrics(stack.url)
    vmalert = Metrics(stack.vmalert)
    lost = vmalert.total("vmalert_remotewrite_dropped_rows_total")
    for url in stack.agents:
        agent = Metrics(url)
        lost += agent.total("vmagent_remotewrite_packets_dropped_total")
    failures = {
        "evaluations missed": vmalert.total("vmalert_iteration_missed_total"),
        "rules failed": vmalert.total("vmalert_execution_errors_total"),
        "alerts not sent": vmalert.total("vmalert_alerts_send_errors_total"),
        "samples lost": lost,
    }
    return EngineSample(
        samples=store.total(r'vm_rows_inserted_total{type="promremotewrite"}'),
        series=store.total(r'vm_cache_entries{type="storage/hour_metric_ids"}'),
        failures=failures,
    )


# ---- What is used


@dataclass(frozen=True, slots=True)
class Used:
    """Processor time in seconds, and the highest resident memory in bytes, of one program."""

    processor: float
    memory: int


def _used(program: Program) -> Used:
    """Return what a program has used since its start."""
    pid = program.process.pid
    times = psutil.Process(pid).cpu_times()
    status = Path(f"/proc/{pid}/status").read_text("utf-8")
    highest = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert highest
    kibibytes = int(highest[1])
    return Used(times.user + times.system, memory=kibibytes * 1024)


# ---- How long rules take


@dataclass(frozen=True, slots=True)
class _RuleMetrics:
    """Which metrics of an engine tell how long its rules take, by the group of rules.

    Attributes:
        url: of the program that evaluates.
        is_sum: whether the metrics are sums over all evaluations, as those of vmalert. Prometheus
            tells only about the last evaluation.
        ends: how many evaluations have ended, if it is a sum; else the time of the last one.
        durations: the seconds of all evaluations, if it is a sum; else those of the last one.
    """

    url: str
    ends: str
    durations: str
    is_sum: bool


def _rule_metrics(stack: Engine) -> _RuleMetrics:
    if isinstance(stack, VictoriaStack):
        return _RuleMetrics(
            stack.vmalert,
            ends="vmalert_iteration_duration_seconds_count",
            durations="vmalert_iteration_duration_seconds_sum",
            is_sum=True,
        )
    return _RuleMetrics(
        stack.prometheus.url,
        ends="prometheus_rule_group_last_evaluation_timestamp_seconds",
        durations="prometheus_rule_group_last_duration_seconds",
        is_sum=False,
    )


class Watch:
    """Collects in a thread what programs use, and how long each group of rules is evaluated.

    A context manager. What it has collected is complete when it has ended. It looks again
    after every ``every`` seconds, which should be less than the interval of the rules: a look
    keeps one duration for each group.

    Attributes:
        used: what each program used meanwhile; of its memory, the highest since its start.
        durations: the seconds of each evaluation, by the group of rules.
    """

    def __init__(self, stack: Engine, programs: Mapping[str, Program], every: float) -> None:
        self.durations: dict[str, list[float]] = {}
        self.used: dict[str, Used] = {}
        self._rules = _rule_metrics(stack)
        self._programs = programs
        self._every = every
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._collect, daemon=True)
        self._before: dict[str, Used] = {}

    def __enter__(self) -> Self:
        for name, program in self._programs.items():
            self._before[name] = _used(program)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        for name, program in self._programs.items():
            after = _used(program)
            processor = after.processor - self._before[name].processor
            self.used[name] = Used(processor, after.memory)

    def _collect(self) -> None:
        """Look at the metrics again and again, and keep the evaluations that have ended."""
        before = Metrics(self._rules.url)
        while not self._ended.wait(self._every):
            after = Metrics(self._rules.url)
            self._keep_evaluations(before, after)
            before = after

    def _keep_evaluations(self, before: Metrics, after: Metrics) -> None:
        """Add a duration for each group of rules that was evaluated between two looks.

        For a group that was evaluated more than once, vmalert tells the mean of these durations
        (its metrics are sums), and Prometheus only the last of them.
        """
        rules = self._rules
        ends_before = before.by_group(rules.ends)
        sums_before = before.by_group(rules.durations)
        durations = after.by_group(rules.durations)
        for group, ends in after.by_group(rules.ends).items():
            # The number of new evaluations if the metrics are sums; else the seconds from the last
            # evaluation before to the last one now.
            new = ends - ends_before.get(group, 0)
            if new <= 0:
                continue  # no evaluation has ended between the two looks
            duration = durations[group]
            if rules.is_sum:
                duration = (duration - sums_before.get(group, 0)) / new
            self.durations.setdefault(group, []).append(duration)
