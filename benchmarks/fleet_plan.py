"""What ``benchmarks.fleet`` is to measure: its command line."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from azure_scheduled_events_exporter.times import parse_duration

ENGINES = {"prometheus": "Prometheus", "victoria": "vmagent, VictoriaMetrics, vmalert"}


@dataclass(frozen=True, slots=True)
class Plan:
    """A run of the benchmark.

    Attributes:
        engine: a key of ``ENGINES``.
        vms: how many there are; each has an exporter.
        events: how many current events there are at any moment.
        group: how many VMs a placement group has; all of them report its event.
        interval: the time between scrapes, such as ``15s``.
        evaluation: the time between evaluations of the rules of events, such as ``5s``.
        minutes: how long the whole run takes, of which the second half is measured.
        change: the mean time between changes of events, in seconds.
        alerts_only: whether only the series are kept that alerts need.
        boards: whether the queries of the dashboards are measured too.
        settings: those of the rules, each written ``SETTING=VALUE``.
    """

    engine: str
    vms: int
    events: int
    group: int
    interval: str
    evaluation: str
    minutes: float
    change: float
    alerts_only: bool
    boards: bool
    settings: Sequence[str]


def plan_of(description: str) -> Plan:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fleet", description=description)
    add = parser.add_argument
    add("--engine", choices=tuple(ENGINES), required=True)
    add("--vms", type=int, default=10_000)
    add("--events", type=int, default=500, help="current events (default: 500)")
    text = "share of VMs that report one of them (default: 0.5)"
    add("--share", type=float, default=0.5, help=text)
    add("--interval", type=_duration, default="15s", help="between scrapes (default: 15s)")
    text = "between evaluations of the rules of events (default: 5s)"
    add("--evaluation", type=_duration, default="5s", help=text)
    text = "the whole run, half of it measured (default: 17)"
    add("--minutes", type=float, default=17, help=text)
    add("--change", type=float, default=15, help="seconds between changes (default: 15)")
    add("--alerts-only", action="store_true", help="keep only the series that alerts need")
    add("--boards", action="store_true", help="measure the queries of the dashboards too")
    add("settings", nargs="*", metavar="SETTING=VALUE")
    options = vars(parser.parse_args())
    vms = options["vms"]
    events = options["events"]
    reporting = vms * options.pop("share")
    group = max(1, round(reporting / max(1, events)))
    # One group more than there are events, so that a new event finds a group without one.
    if events < 1 or group * (events + 1) > vms:
        parser.error(f"{events} events of {group} VMs each need more than {vms} VMs")
    return Plan(group=group, **options)


def _duration(text: str) -> str:
    """Return ``text`` if it is a duration; argparse reports the ValueError if not."""
    parse_duration(text)
    return text
