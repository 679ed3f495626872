"""The dashboards against the types that Grafana publishes for its majors 11, 12 and 13.

The types come from npm when the test runs, at the versions that grafana_types/package-lock.json
pins, and are made into JSON Schema. A cache under .tools/ saves the next run from that.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator, ValidationError

from support.paths import DATA, ROOT

JSON = ROOT / "dashboards" / "json"
SOURCES = DATA / "grafana_types"
MAJORS = ("11", "12", "13")
# The type in ``types.ts`` that has all of a panel, by the panel's own type.
KINDS = {
    "barchart": "BarChartPanel",
    "bargauge": "BarGaugePanel",
    "row": "RowPanel",
    "stat": "StatPanel",
    "state-timeline": "StateTimelinePanel",
    "table": "TablePanel",
    "timeseries": "TimeSeriesPanel",
}
PATIENCE = 150
"""Seconds for npm, or for the program that makes the schema of one major."""
Json = dict[str, Any]


def _run(arguments: list[str], folder: Path) -> None:
    # Node.js and npm are among the pinned development requirements: Debian's own may be too old.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    options = {"cwd": folder, "env": os.environ | {"PATH": path}, "timeout": PATIENCE}
    done = subprocess.run(arguments, **options, capture_output=True, text=True, check=False)  # type: ignore[call-overload]
    assert done.returncode == 0, f"{' '.join(arguments)} failed:\n{done.stdout}{done.stderr}"


def _install(folder: Path) -> None:
    """Put Grafana's types, and the program that makes schemas of types, into ``folder``."""
    shutil.copytree(SOURCES, folder)
    _run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"], folder)
    for major in MAJORS:
        workspace = folder / major
        types = (SOURCES / "types.ts").read_text()
        settings = json.loads((SOURCES / "tsconfig.json").read_text())
        # The packages of 12 and 13 map the names in types.ts to their files, which a compiler reads
        # with the newer way to look for modules. The package of 11 has the files alone.
        if major == "11":
            types = types.replace("/Dashboard_types.gen", "/dashboard_types.gen")
            settings["compilerOptions"]["moduleResolution"] = "node"
        (workspace / "types.ts").write_text(types)
        (workspace / "tsconfig.json").write_text(json.dumps(settings))
        generator = str(folder / "node_modules" / ".bin" / "ts-json-schema-generator")
        source = [
            "--path",
            str(workspace / "types.ts"),
            "--tsconfig",
            str(workspace / "tsconfig.json"),
        ]
        _run(
            [generator, *source, "--type", "*", "--no-type-check", "--out", f"{major}.json"], folder
        )


@pytest.fixture(scope="module")
def schemas() -> dict[str, Json]:
    """The JSON Schema of each major, from the cache of the versions that are pinned."""
    sources = b"".join(path.read_bytes() for path in sorted(SOURCES.rglob("*")) if path.is_file())
    folder = (
        ROOT
        / ".tools"
        / "grafana-types"
        / hashlib.sha256(sources + Path(__file__).read_bytes()).hexdigest()[:16]
    )
    if not folder.exists():
        building = folder.with_name(f"{folder.name}.{os.getpid()}")
        shutil.rmtree(folder.parent, ignore_errors=True)  # of other versions
        _install(building)
        building.rename(folder)
    return {major: json.loads((folder / f"{major}.json").read_text()) for major in MAJORS}


def _violations(board: Json, schema: Json) -> Iterator[str]:
    """Yield what a dashboard has that Grafana's types do not, panel by panel."""

    def against(kind: str) -> Draft7Validator:
        reference = {"$schema": schema["$schema"], "definitions": schema["definitions"]}
        return Draft7Validator({**reference, "$ref": f"#/definitions/{kind}"})

    for error in against("GrafanaDashboard").iter_errors({**board, "panels": []}):
        yield f"dashboard: {_innermost(error)}"
    for panel in board["panels"]:
        kind = KINDS.get(panel["type"])
        if kind is None:
            yield f"{panel['title']}: no panel type {panel['type']}"
            continue
        for error in against(kind).iter_errors(panel):
            yield f"{panel['title']}: {_innermost(error)}"


def _innermost(error: ValidationError) -> str:
    """Where it is wrong, and how: of several types that might be meant, the nearest."""
    while error.context:
        error = min(error.context, key=lambda inner: (len(inner.schema_path), inner.message))
    return f"{'.'.join(str(part) for part in error.absolute_path)}: {error.message[:200]}"


@pytest.mark.parametrize("major", MAJORS)
@pytest.mark.parametrize("path", sorted(JSON.glob("*.json")), ids=lambda path: path.stem)
def test_each_major_knows_the_dashboard(schemas: dict[str, Json], major: str, path: Path) -> None:
    """The dashboard has no key and no value that this major of Grafana does not know."""
    assert list(_violations(json.loads(path.read_text("utf-8")), schemas[major])) == []
