"""The values of the Helm chart: valid and refused values, and the notes."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from azure_scheduled_events_exporter.approval.policy import BUILT_IN
from azure_scheduled_events_exporter.config import SETTINGS
from azure_scheduled_events_exporter.core.document import API_VERSIONS
from support.charts import CHART, helm

CHART_OWNS = {
    *("web.listen-address", "journal.path", "web.config.file", "alertmanager.http-config.file", "alerts.values"),
    *("instance.name", "process.user"),
}
"""Flags that values set in another way; a name would be the same on every node, and the pod is never root."""


def test_lint() -> None:
    """Helm finds nothing to remark, but for an icon."""
    done = helm("lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout
    assert re.findall(r"^\[.*", done.stdout, re.MULTILINE) == ["[INFO] Chart.yaml: icon is recommended"]


def test_every_flag_can_be_set() -> None:
    """The schema knows exactly the exporter's flags, but for those that the chart sets in another way."""
    config = json.loads((CHART / "values.schema.json").read_text())["properties"]["config"]
    assert not config["additionalProperties"]
    assert set(config["properties"]) == {setting.flag for setting in SETTINGS} - CHART_OWNS
    assert config["properties"]["imds.api-version"]["enum"] == list(API_VERSIONS)
    assert config["properties"]["approval.policy"]["enum"] == list(BUILT_IN)


def test_schema_and_values_name_the_same() -> None:
    """Every value is in the schema and every key of the schema among the values, on all levels; the README has them."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    values = yaml.safe_load((CHART / "values.yaml").read_text())

    def keys(node: dict[str, Any], known: dict[str, Any], path: str) -> Iterator[str]:
        if "properties" not in known or path in {"config", "approvalPolicy", "alertsValues"}:
            yield path
            return
        assert known["additionalProperties"] is False, path
        assert set(node) == set(known["properties"]) - {"global"}, path
        for key, below in node.items():
            yield from keys(below, known["properties"][key], f"{path}.{key}".lstrip("."))

    table = set(re.findall(r"^\| `([\w.]+)` \|", (CHART / "README.md").read_text(), re.MULTILINE))
    assert table == set(keys(values, schema, ""))


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("nope=1", "nope"),
        ("image.tagg=1", "tagg"),
        ("port=80", "port"),
        ("port=ten", "port"),
        ("hostNetwork=maybe", "hostNetwork"),
        ("journal.type=disk", "journal.type"),
        ("image.digest=sha256:1", "image.digest"),
        (r"config.poll\.intervall=1s", "poll.intervall"),
        (r"config.poll\.interval=1", "poll.interval"),
        (r"config.web\.listen-address=:1", "web.listen-address"),
        (r"config.instance\.name=vm", "instance.name"),
        (r"config.log\.level=INFO", "log.level"),
        ("podMonitor.interval=5", "podMonitor.interval"),
        ("web.tls=true", "web.tls"),
        ("approvalPolicy.rules=", "approvalPolicy.rules"),
    ],
)
def test_wrong_values_are_refused(setting: str, said: str) -> None:
    """A value that is misspelt or cannot be is refused by its name, before anything is rendered."""
    done = helm("template", "events", str(CHART), "--set", setting)
    assert done.returncode != 0
    # Helm writes web.tls or /web/tls, by version.
    assert [part for part in said.split(".") if part not in done.stderr] == []


def test_two_policies_are_refused() -> None:
    """A policy given twice is refused, because it would be unclear which one applies."""
    twice = ("--set", r"config.approval\.policy=documented", "--set", "approvalPolicy.rules[0].action=hold")
    done = helm("template", "events", str(CHART), *twice)
    assert done.returncode != 0
    assert "approvalPolicy and config's approval.policy are both set" in done.stderr


def notes(folder: Path, *flags: str) -> str:
    """Return the notes that Helm prints, as a manifest of a copy of the chart in ``folder``."""
    chart = folder / CHART.name
    if not chart.exists():
        shutil.copytree(CHART, chart)
        text = (chart / "templates" / "NOTES.txt").read_text()
        (chart / "templates" / "_notes.tpl").write_text(f'{{{{ define "notes" }}}}{text}{{{{ end }}}}')
        (chart / "templates" / "notes.yaml").write_text('kind: Notes\ntext: {{ include "notes" . | toJson }}\n')
    done = helm("template", "events", str(chart), "--show-only", "templates/notes.yaml", *flags)
    assert done.returncode == 0, done.stderr
    return str(yaml.safe_load(done.stdout)["text"])


def test_notes_say_what_is_missing(tmp_path: Path) -> None:
    """The notes say how to check the installation, and what is not enabled yet."""
    bare = notes(tmp_path)
    for said in ("rollout status daemonset/events-", "Nothing scrapes it yet", "No alert rules", "Anyone who reaches"):
        assert said in bare
    whole = notes(
        tmp_path,
        *("--set", "podMonitor.enabled=true,prometheusRule.enabled=true,web.secretName=web,journal.type=memory"),
    )
    for unsaid in ("Nothing scrapes it yet", "No alert rules", "Anyone who reaches"):
        assert unsaid not in whole
    assert "a restart during an event loses its history" in whole
