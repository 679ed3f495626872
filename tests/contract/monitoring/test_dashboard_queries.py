"""Every expression of the dashboards is PromQL, as Prometheus's own promtool reads it."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

from support.paths import ROOT
from support.programs import debian

JSON = ROOT / "dashboards" / "json"
MACROS = {"$__range": "30d", "$__rate_interval": "1m", "$__interval": "30m", "${vm:regex}": "vmss_0", "$vm": "vmss_0"}


def _expressions() -> Iterator[str]:
    for path in sorted(JSON.glob("*.json")):
        board = json.loads(path.read_text("utf-8"))
        for panel in board["panels"]:
            yield from (target["expr"] for target in panel.get("targets", []))
        yield from (each["expr"] for each in board["annotations"]["list"] if "expr" in each)


def _check(folder: Path, expressions: list[str]) -> subprocess.CompletedProcess[str]:
    for name, value in MACROS.items():
        expressions = [expr.replace(name, value) for expr in expressions]
    rules = [{"record": f"dashboard:query{index}", "expr": expr} for index, expr in enumerate(expressions)]
    path = folder / "rules.json"
    path.write_text(json.dumps({"groups": [{"name": "dashboards", "rules": rules}]}))
    arguments = [debian("promtool"), "check", "rules", str(path)]
    return subprocess.run(arguments, capture_output=True, text=True, check=False)


def test_every_expression_parses(tmp_path: Path) -> None:
    """No panel shows a parse error."""
    expressions = list(_expressions())
    assert len(expressions) > 80
    done = _check(tmp_path, expressions)
    assert done.returncode == 0, done.stderr


def test_a_broken_expression_is_noticed(tmp_path: Path) -> None:
    """The check itself can fail."""
    assert _check(tmp_path, ["sum by (event_id) (azure_scheduled_events_up))"]).returncode != 0
