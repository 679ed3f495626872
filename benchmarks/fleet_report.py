"""Formats what ``benchmarks.fleet`` has measured as the tables of docs/performance.md."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.engine_metrics import Used
from benchmarks.fleet_plan import ENGINES, Plan

SERVER = "the fleet"
"""The name of the process that stands for all exporters: its costs are not the engine's."""
_MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured in the second half of a run.

    Attributes:
        seconds: how long that half took.
        load: the load average of the machine at its end.
        changes: how many events were announced in it.
        delays: the seconds from a change to its notification, the shortest first, of those that
            came in time.
        samples_a_second: how many samples the engine stored.
        series: how many series it had in memory.
        failures: how often something went wrong, by what.
        used: what each program used.
        durations: the seconds of each evaluation, by the group of rules.
    """

    seconds: float
    load: float
    changes: int
    delays: Sequence[float]
    samples_a_second: float
    series: float
    failures: Mapping[str, float]
    used: Mapping[str, Used]
    durations: Mapping[str, Sequence[float]]


def report(plan: Plan, figures: Figures) -> Iterator[str]:
    """Yield the lines of the report."""
    yield from _head(plan, figures)
    yield from _overview(plan, figures)
    yield from _programs(figures)
    yield from _groups(figures)


def _head(plan: Plan, figures: Figures) -> Iterator[str]:
    """Yield what was measured."""
    yield (
        f"{plan.vms:,} VMs, {plan.events} current events, each reported by {plan.group} VMs;"
        f" {figures.changes} changes"
    )
    minutes = figures.seconds / 60
    yield (
        f"scrapes every {plan.interval}, rules every {plan.evaluation}; {minutes:.1f} min after as"
        " long a start"
    )
    settings = " ".join(plan.settings)
    collector = os.environ.get("GOGC", "100")
    yield f"{os.cpu_count()} cores, load {figures.load:.1f}; GOGC {collector}; {settings}\n"


def _overview(plan: Plan, figures: Figures) -> Iterator[str]:
    """Yield the table of this run. docs/performance.md has one table with the rows of all runs."""
    memory = 0
    processor = 0.0
    for name, used in figures.used.items():
        if name != SERVER:
            memory += used.memory
            processor += used.processor
    series = "all"
    if plan.alerts_only:
        series = "only alerts"
    delay = "-"
    if figures.delays:
        delay = f"{median(figures.delays):.1f} / {max(figures.delays):.1f} s"
    slowest = max(figures.durations.values(), key=max)
    failures = [f"{what} {count:.0f}" for what, count in figures.failures.items() if count]
    row = {
        "VMs": f"{plan.vms:,}",
        "engine": ENGINES[plan.engine],
        "series": f"{figures.series:,.0f}, {series}",
        "samples a second": f"{figures.samples_a_second:,.0f}",
        "memory": f"{memory / _MEBIBYTE:,.0f} MiB",
        "cores": f"{processor / figures.seconds:.2f}",
        "slowest group, median / worst": f"{median(slowest):.2f} / {max(slowest):.2f} s",
        "change to webhook, median / worst": delay,
        "failures": ", ".join(failures) or "none",
    }
    yield f"| {' | '.join(row)} |"
    yield f"|{' --- |' * len(row)}"
    yield f"| {' | '.join(row.values())} |"
    yield ""


def _programs(figures: Figures) -> Iterator[str]:
    """Yield the table of programs."""
    yield "| program | memory, highest | cores |"
    yield "| --- | --- | --- |"
    for name, used in figures.used.items():
        memory = used.memory / _MEBIBYTE
        cores = used.processor / figures.seconds
        yield f"| {name} | {memory:,.0f} MiB | {cores:.2f} |"
    yield ""


def _groups(figures: Figures) -> Iterator[str]:
    """Yield the table of the groups of rules, the slowest first."""
    yield "| group of rules | evaluations | median | worst |"
    yield "| --- | --- | --- | --- |"
    durations = figures.durations
    for group in sorted(durations, key=lambda name: max(durations[name]), reverse=True):
        taken = durations[group]
        yield f"| `{group}` | {len(taken)} | {median(taken):.3f} s | {max(taken):.3f} s |"
    yield ""
