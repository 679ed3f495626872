"""What failed long ago raises no ticket on VictoriaMetrics, when its exporter is back."""

import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlencode

import pytest

from azure_scheduled_events_exporter.alerts import Settings
from azure_scheduled_events_exporter.alerts.groups import alerts
from azure_scheduled_events_exporter.alerts.rule import PREFIX
from support.programs import Server, fetch

HOUR = 3600
AWAY = 1800
"""Seconds for which the VM was away, as in a Redeploy."""
TARGET = 'job="azure-scheduled-events",instance="a:10169"'
FAILED_ONCE = f'hook_runs_total{{event_type="Reboot",phase="prepare",outcome="failed",{TARGET}}}'


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Server]:
    """Yield a VictoriaMetrics without data."""
    with Server(
        "victoria-metrics",
        tmp_path / "victoria.log",
        "starting http server at",
        "-httpListenAddr={address}",
        f"-storageDataPath={tmp_path / 'data'}",
    ) as server:
        yield server


def write(store: Server, series: str, values: Sequence[tuple[float, int]]) -> None:
    """Store the samples of a series: seconds since the epoch, and a value."""
    lines = [f"azure_scheduled_events_{series} {value} {int(at * 1000)}" for at, value in values]
    fetch(f"{store.url}/api/v1/import/prometheus", "POST", "\n".join(lines).encode())
    fetch(f"{store.url}/internal/force_flush")  # so that queries find new series at once


def firing(store: Server, expression: str, at: float) -> list[str]:
    """Return the instances for which ``expression`` has a row at a time."""
    query = urlencode({"query": expression, "time": at, "nocache": 1})
    found = json.loads(fetch(f"{store.url}/api/v1/query?{query}").body)
    return [row["metric"]["instance"] for row in found["data"]["result"]]


def test_failed_hook_of_last_week(store: Server) -> None:
    """A hook failed once before its VM was away for half an hour. HookFailed does not fire when the
    VM is back, because the failure is older than 15 minutes. It fires when the hook fails again.
    """
    (alert,) = (each for each in alerts(Settings()) if each.name == f"{PREFIX}HookFailed")
    went_away = time.time() - HOUR
    came_back = went_away + AWAY
    before = [went_away - at for at in range(1200, 0, -15)]
    after = [came_back + at for at in range(0, 900, 15)]
    failed_again = after[-1] + 15
    write(store, f"up{{{TARGET}}}", [(at, 1) for at in [*before, *after, failed_again]])
    once = [(at, 1) for at in [*before, *after]]
    write(store, FAILED_ONCE, [*once, (failed_again, 2)])
    for seconds in (10, 300, 600, 880):
        assert firing(store, alert.expression, came_back + seconds) == []
    assert firing(store, alert.expression, failed_again + 5) == ["a:10169"]
