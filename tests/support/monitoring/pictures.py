"""Draws the dashboards of a simulated fleet: at a quiet moment, during a rollout, and with two exporters down.

It plays a story in real time and has each moment drawn by the command that it is given.
"""

import json
import shlex
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from alerts import resolve
from dashboards.recorded import BLIND
from support.monitoring.fleet import Fleet, Group
from support.monitoring.paging import write
from support.paths import ROOT
from support.programs import eventually

JSON = ROOT / "dashboards" / "json"
HOST, RESTART = "Host server is undergoing maintenance.", "Virtual machine is going to be restarted as requested."
MOVE = "Virtual machine is being paused because of a memory-preserving Live Migration operation."
QUIET, ROLLOUT, DOWN = 220.0, 480.0, 570.0  # seconds since the fleet started
DAY = "3d"


def _event(
    kind: str, group: str, vms: tuple[int, ...], announced: int, notice: str | None, **more: str
) -> dict[str, object]:
    """An event of a scenario file, which happens to some VMs of a group; ``announced`` in seconds."""
    return {
        "type": kind,
        "resources": [f"{group}_{index}" for index in vms],
        "announced_at": f"{announced}s",
        **({"notice": notice} if notice else {}),
        **more,
    }


WEB = Group(
    "web",
    ("1", "2", "3", "1", "2"),
    (
        _event("Freeze", "web", (4,), 20, "70s", duration="9s", description=MOVE, started_for="40s"),
        _event("Freeze", "web", (0,), 240, "30s", duration="9s", description=HOST, started_for="60s"),
        _event("Freeze", "web", (1,), 300, "90s", duration="9s", description=HOST),
        _event("Freeze", "web", (2,), 390, "15m", duration="9s", description=HOST),
        _event("Freeze", "web", (3,), 440, "15m", duration="9s", description=HOST),
    ),
)
BATCH = Group(
    "batch",
    ("1", "1", "2", "2", "3"),
    (
        _event("Preempt", "batch", (4,), 30, "30s", started_for="40s"),
        _event("Freeze", "batch", (2,), 25, "15m", duration="30s", description=MOVE, cancelled_at="120s"),
        _event("Reboot", "batch", (3,), 130, None, starts="at once", started_for="50s", description=HOST),
        _event("Redeploy", "batch", (0, 1), 260, DAY, description=HOST),
        _event("Reboot", "batch", (4,), 420, "12m", source="User", approval_delay="5m", description=RESTART),
        _event("Reboot", "batch", (2,), 450, None, starts="at once", description=HOST),
    ),
    "Spot",
)


def main(command: str, folder: Path) -> None:
    """Play the story and have it drawn into ``folder``."""
    with tempfile.TemporaryDirectory() as work:
        policy = ("--approval.policy", "documented")
        write(Path(work), "prometheus/", resolve({"job": "exporter", "evaluation.watcher-interval": "5s"}))
        rules = Path(work) / "prometheus" / "prometheus-rules.yml"
        with Fleet(Path(work), (WEB, BATCH), interval="5s", flags=policy, rules=rules) as fleet:
            began = time.time()

            def wait_until(moment: float) -> None:
                time.sleep(max(0.0, began + moment - time.time()))

            wait_until(QUIET)
            _draw_all(command, fleet.prometheus.url, began, Path(work), folder, "quiet")
            wait_until(ROLLOUT)
            _draw_all(command, fleet.prometheus.url, began, Path(work), folder, "rollout")
            for vm in ("web_3", "batch_1"):
                fleet.exporters[vm].kill()
            eventually(lambda: fleet.prometheus.one(f"count({BLIND})") == 2, "both are recorded as down")
            wait_until(DOWN)
            _draw_all(command, fleet.prometheus.url, began, Path(work), folder, "down", "web_3")


def _draw_all(command: str, url: str, began: float, work: Path, folder: Path, moment: str, vm: str = "web_1") -> None:
    """Draw every dashboard as it is now."""
    span = ("--from", _iso(began), "--to", _iso(time.time()), "--scrape-interval", "5s")
    for name, variables in (("fleet", ()), ("vm", ("--var", f"vm={vm}")), ("exporter", ("--width", "1400"))):
        out = folder / f"dashboard-{name}-{moment}.png"
        dashboard = work / f"{name}.json"
        dashboard.write_text(_of_minutes(name))
        arguments = [*shlex.split(command), str(dashboard), "--prometheus", url, "--out", str(out), *span, *variables]
        sys.stderr.write(f"== {out.name}\n")
        subprocess.run(arguments, check=False)


def _of_minutes(name: str) -> str:
    """Return the JSON of a dashboard whose panels of 30 days show the minutes of the story, but for bars of a day."""
    board = json.loads((JSON / f"azure-scheduled-events-{name}.json").read_text("utf-8"))
    for panel in board["panels"]:
        if "interval" not in panel:
            panel.pop("timeFrom", None)
    return json.dumps(board)


def _iso(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]) if len(sys.argv) > 2 else ROOT / "docs" / "images")
