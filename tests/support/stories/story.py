"""A story: what some exporters show over time, and which alerts the rules raise.

Written as a test for promtool.

Values are those of promtool, one each 15 seconds: ``1x4 stale`` is shown for a minute, then the
target stops answering. What an exporter always shows beside an event need not be told
(:func:`beside`).
"""

import json
import os
import re
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
    by: str = "",
) -> Row:
    """Return ``event_info`` of an event of ``vm``, as the exporter of ``vm`` shows it.

    ``by``: the VM whose exporter shows it instead. ``more``: further labels, after a comma.
    """
    of_event = f'event_id="{event}",event_type="{event_type}",kind="{kind}",scope="{scope}"'
    labels = f'{of_event},resources="{vm}",resource_group="rg"'
    return f"azure_scheduled_events_event_info{{{labels},{_JOB.format(by or vm)}{more}}}", values


def impact(vm: str, event: str, event_type: str, at: int, shape: str, more: str = "") -> Row:
    """Return when an event hits ``vm``, as its own exporter shows it.

    ``at``: seconds from the beginning of the story. ``shape``: the samples without their value,
    such as ``x39 stale``. ``more``: further labels, after a comma.
    """
    of_vm = f'vm_id="{vm}",vm_name="{vm}",computer_name="{vm}"'
    labels = f'event_id="{event}",event_type="{event_type}",{of_vm}'
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


def paused_longer(vm: str, event: str, event_type: str, values: str) -> Row:
    """Return the pause of ``vm`` that the exporter calls longer than the announced 5 s."""
    labels = f'vm_name="{vm}",announced="5"'
    name, values = moment("paused_longer_seconds", vm, event, event_type, values)
    return name.replace("{", f"{{{labels},"), values


def metric(name: str, vm: str, values: str, labels: str = "") -> Row:
    """Return another metric of an exporter, by its name without prefix."""
    return (
        f"azure_scheduled_events_{name}{{{_JOB.format(vm)}{',' if labels else ''}{labels}}}",
        values,
    )


def target(vm: str, values: str) -> Row:
    """Return ``up`` of the exporter of ``vm``: 1 while Prometheus can scrape it, else 0."""
    return f"up{{{_JOB.format(vm)}}}", values


def member(vm: str, values: str) -> Row:
    """Return ``vm`` as a member of the scale set web."""
    return metric("instance_info", vm, values, f'vm_id="{vm}",vm_name="{vm}",{_PLACE}')


def hit(
    vm: str, shown: str, at: int, event: str = "E", event_type: str = "Reboot"
) -> tuple[Row, ...]:
    """Return what the exporter of ``vm`` shows of an announced event of this VM.

    ``shown``: while it shows the event, such as ``1x39 stale``. ``at``: when the impact begins, in
    seconds from the beginning of the story.
    """
    return (
        info(vm, event, event_type, "announced", shown),
        impact(vm, event, event_type, at, shown.replace("1x", "x")),
    )


def scraped(vm: str, values: str, *, imds: str = "") -> tuple[Row, ...]:
    """Return whether the exporter of ``vm`` answers scrapes, and whether IMDS answers it.

    ``values``: 1 while it answers scrapes, else 0. ``imds``: the same for IMDS; by default, IMDS
    answers whenever the exporter does.
    """
    up = imds or " ".join(marked(["1" if each == "1" else "_" for each in steps(values)]))
    return target(vm, values), metric("up", vm, up)


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
            "input_series": [
                {"series": series, "values": values} for series, values in beside(self.rows)
            ],
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


_PREFIX = "azure_scheduled_events_"
_STALE = "stale"
_FOREVER = 800  # samples; no story is that long
_PLACE_LABELS = ("subscription_id", "resource_group", "scale_set")
_VM_LABELS = ("vm_id", "vm_name", "computer_name", *_PLACE_LABELS)


def beside(rows: Sequence[Row]) -> list[Row]:
    """Return ``rows`` with what exporters always show beside them.

    - When an event was last seen: now while ``azure_scheduled_events_up`` is 1, else as before.
    - ``instance_info`` of each exporter, while it answers.
    - ``peer_impact`` of a Started event of other VMs.
    """
    made = [*_seen(rows), *_instances(rows), *_peer_impacts(rows)]
    told = {series for series, _ in rows}
    return [*rows, *(row for row in made if row[0] not in told)]


def _seen(rows: Sequence[Row]) -> Iterator[Row]:
    sight = {_target(series): steps(values) for series, values in rows if _name(series) == "up"}
    for series, values in rows:
        if _name(series) != "event_info":
            continue
        up = sight.get(_target(series), [])
        seen: list[str] = []
        last = ""
        sees = True
        for step, value in enumerate(steps(values)):
            if step < len(up) and up[step] not in {"_", _STALE}:
                sees = float(up[step]) == 1
            if value in {"_", _STALE}:
                seen.append(value)
                continue
            if sees or not last:
                last = str(step * INTERVAL)
            seen.append(last)
        labels = ("event_id", "event_type", "kind", "scope", *sorted(_target_labels(series)))
        yield _series("event_seen_timestamp_seconds", series, labels), " ".join(seen)


def _instances(rows: Sequence[Row]) -> Iterator[Row]:
    identity: dict[str, str] = {}
    alive: dict[str, list[str]] = {}
    for series, values in rows:
        target_ = _target(series)
        if _name(series) == "vm_impact_timestamp_seconds":
            identity[target_] = series
        if _name(series) == "up":
            alive[target_] = steps(values)
        if series.startswith("up{"):
            scraped = [value if value == "1" else "_" for value in steps(values)]
            alive.setdefault(target_, scraped)
    told = {_target(series) for series, _ in rows if _name(series) == "instance_info"}
    for target_ in sorted({*identity, *alive} - told):
        answers = alive.get(target_, ["1"] * _FOREVER)
        shown = ["1" if value not in {"_", _STALE} else "_" for value in answers]
        if target_ in identity:
            series = _series(
                "instance_info",
                identity[target_],
                (*_VM_LABELS, *sorted(_target_labels(identity[target_]))),
            )
        else:
            vm = target_.partition('instance="')[2].partition(":")[0].rstrip('"')
            names = f'vm_id="{vm}",vm_name="{vm}",computer_name="{vm}"'
            series = f"{_PREFIX}instance_info{{{names},{_PLACE},{target_}}}"
        yield series, " ".join(marked(shown))


def _peer_impacts(rows: Sequence[Row]) -> Iterator[Row]:
    started = {
        (_target(series), _label(series, "event_id")): values
        for series, values in rows
        if _name(series) == "event_started_timestamp_seconds"
    }
    for series, _ in rows:
        key = _target(series), _label(series, "event_id")
        if _name(series) != "event_info" or 'scope="peer"' not in series or key not in started:
            continue
        for vm in _label(series, "resources").split(","):
            event = f'event_id="{key[1]}",event_type="{_label(series, "event_type")}"'
            labels = f'{event},vm_name="{vm}",{_PLACE},{key[0]}'
            yield f"{_PREFIX}peer_impact_timestamp_seconds{{{labels}}}", started[key]


def steps(values: str) -> list[str]:
    """Return the samples that promtool reads in ``values``: ``1x2 stale`` is 1, 1, 1, stale."""
    found: list[str] = []
    for part in values.split():
        if part == _STALE:
            found.append(part)
            continue
        if gap := re.fullmatch(r"_(?:x(\d+))?", part):
            found += ["_"] * int(gap[1] or 1)
            continue
        first, by, count = re.fullmatch(r"(-?[\d.e+]+?)([+-][\d.]+)?(?:x(\d+))?", part).groups()  # type: ignore[union-attr]  # promtool's own form
        found += [f"{float(first) + float(by or 0) * n:g}" for n in range(int(count or 0) + 1)]
    return found


def marked(samples: Sequence[str]) -> list[str]:
    """Return the samples with the mark that Prometheus writes when a series goes away."""
    before = ["_", *samples]
    return [
        _STALE if now == "_" and was != "_" else now
        for was, now in zip(before, [*samples, "_"], strict=True)
    ]


def _name(series: str) -> str:
    name = series.partition("{")[0]
    return name.removeprefix(_PREFIX) if name.startswith(_PREFIX) else ""


def _label(series: str, name: str) -> str:
    found = re.search(rf'[{{,]{name}="([^"]*)"', series)
    return found[1] if found else ""


def _target(series: str) -> str:
    return f'job="{_label(series, "job")}",instance="{_label(series, "instance")}"'


def _target_labels(series: str) -> set[str]:
    """Return the names of the labels of its target: all that are not the exporter's."""
    names = set(re.findall(r"[{,]([a-z_]+)=", series))
    return names & {"job", "instance", "team", "env"}


def _series(name: str, source: str, labels: Sequence[str]) -> str:
    pairs = (f'{label}="{_label(source, label)}"' for label in labels)
    return f"{_PREFIX}{name}{{{','.join(pairs)}}}"


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
