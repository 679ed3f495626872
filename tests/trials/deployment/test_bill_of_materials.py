"""The bill of materials that a release has."""

import json
import subprocess
import sys
from pathlib import Path

from azure_scheduled_events_exporter import __version__
from support.paths import ROOT

NAME = "azure-scheduled-events-exporter"


def test_its_root_is_the_exporter(tmp_path: Path) -> None:
    """The root of the bill is the exporter, with its version, and the bill says on which libraries
    the exporter depends.
    """
    written = tmp_path / "sbom.json"
    subprocess.run([ROOT / "scripts" / "audit", "--sbom", sys.executable, written], check=True)
    bill = json.loads(written.read_text())
    root = bill["metadata"]["component"]
    assert (root["name"], root["version"], root["type"]) == (NAME, __version__, "application")
    dependencies = {each["ref"]: each.get("dependsOn", []) for each in bill["dependencies"]}
    names = {each["bom-ref"]: each["name"].lower() for each in bill["components"]}
    libraries = {names[reference] for reference in dependencies[root["bom-ref"]]}
    assert {"requests", "uvicorn"} <= libraries
