"""A story: what some exporters show over time, and which alerts the rules raise.

Written as a test for promtool.

Values are those of promtool, one each 15 seconds: ``1x4 stale`` is shown for a minute, then the
    target stops answering.
"""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.programs import debian

INTERVAL = 15
_JOB = 'job="azure-scheduled-events",instance="{0}:10169"'
_PLACE = 'subscription_id="s",resource_group="rg",scale_set="web"'

Row = tuple[str, str]
"""A series and its values."""


def info(
    vm: str,
    event: str,
    event_type: str,
    kind: str,
    values: str,
    scope: str = "self",
    more: str = "",
) -> Row:
    """Return an event that the exporter of ``vm`` shows; ``more``: further labels."""
    labels = f'event_id="{event}",event_type="{event_type}",kind="{kind}",scope="{scope}",resources="{vm}"'
    return f"azure_scheduled_events_event_info{{{labels},{_JOB.format(vm)}{more}}}", values


def impact(vm: str, event: str, event_type: str, at: int, shape: str, more: str = "") -> Row:
    """Return the impact of an event on ``vm`` itself at so many seconds."""
    labels = f'event_id="{event}",event_type="{event_type}",vm_id="{vm}",vm_name="{vm}",computer_name="{vm}"'
    first = " ".join(
        part if part.startswith(("_", "stale")) else f"{at}{part}" for part in shape.split()
    )
    return (
        f"azure_scheduled_events_vm_impact_timestamp_seconds{{{labels},{_PLACE},{_JOB.format(vm)}{more}}}",
        first,
    )


def ended(vm: str, event: str, values: str, outcome: str = "completed") -> Row:
    """Return the end of an event that the exporter of ``vm`` saw; ``values`` are ``_x5 1x240``, 1
    for its time.
    """
    at = INTERVAL * int(values.split(maxsplit=1)[0].removeprefix("_x"))
    labels = f'event_id="{event}",event_type="Reboot",scope="self",outcome="{outcome}"'
    return (
        f"azure_scheduled_events_event_ended_timestamp_seconds{{{labels},{_JOB.format(vm)}}}",
        values.replace(" 1x", f" {at}x"),
    )


def moment(name: str, vm: str, event: str, event_type: str, values: str) -> Row:
    """Return another gauge of an event, such as ``not_before_timestamp_seconds``."""
    labels = f'event_id="{event}",event_type="{event_type}",scope="self"'
    return f"azure_scheduled_events_event_{name}{{{labels},{_JOB.format(vm)}}}", values


def of(name: str, vm: str, values: str, labels: str = "") -> Row:
    """Return another metric of an exporter, by its name without prefix."""
    return (
        f"azure_scheduled_events_{name}{{{_JOB.format(vm)}{',' if labels else ''}{labels}}}",
        values,
    )


def target(vm: str, values: str) -> Row:
    """Return whether Prometheus can scrape the exporter of ``vm``."""
    return f"up{{{_JOB.format(vm)}}}", values


def member(vm: str, values: str) -> Row:
    """Return ``vm`` as a member of the scale set web."""
    return of("instance_info", vm, values, f'vm_id="{vm}",vm_name="{vm}",{_PLACE}')


@dataclass(frozen=True)
class Story:
    """What is shown, and by alert how many are firing: ``{"Reboot": "1m:1 5m:0"}``; ``never`` for
    at no time.
    """

    name: str
    rows: tuple[Row, ...]
    alerts: Mapping[str, str]
    end: str = "25m"

    def to_test(self) -> dict[str, object]:
        """Return the test as promtool reads it."""
        return {
            "name": self.name,
            "interval": f"{INTERVAL}s",
            "input_series": [{"series": series, "values": values} for series, values in self.rows],
            "promql_expr_test": [
                {
                    "expr": expression,
                    "eval_time": time,
                    "exp_samples": [{"labels": "{}", "value": value}],
                }
                for expression, time, value in self._checks()
            ],
        }

    def _checks(self) -> Iterator[tuple[str, str, int]]:
        for alert, checks in self.alerts.items():
            name = f"AzureScheduledEvent{alert}"
            firing = f'count(ALERTS{{alertname="{name}",alertstate="firing"}}) or vector(0)'
            for check in checks.split():
                time, _, count = check.partition(":")
                if time == "never":
                    yield f"max(max_over_time(({firing})[2h:{INTERVAL}s]))", self.end, 0
                else:
                    yield firing, time, int(count)


def play(folder: Path, rules: Any, tests: Sequence[Mapping[str, object]]) -> str:
    """Run tests of promtool on ``rules``; return its complaints."""
    (folder / "rules.json").write_text(json.dumps(rules))
    suite = {
        "rule_files": ["rules.json"],
        "evaluation_interval": f"{INTERVAL}s",
        "group_eval_order": [group["name"] for group in rules["groups"]],
        "tests": tests,
    }
    (folder / "tests.json").write_text(json.dumps(suite))
    done = subprocess.run(
        [debian("promtool"), "test", "rules", str(folder / "tests.json")],
        env={**os.environ, "GOGC": "400", "GOMAXPROCS": "1"},  # a quarter less processor time
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr
