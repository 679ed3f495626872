"""The values of the Helm chart: valid and refused values, and the notes."""

import json
import re
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
import yaml

from azure_scheduled_events_exporter.approval.policy import BUILT_IN
from azure_scheduled_events_exporter.config import SETTINGS
from support.charts import CHART, helm
from support.paths import ROOT

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
        (r"config.imds\.endpoint=discover", "imds.endpoint"),
        ("approvalPolicy.rules=", "approvalPolicy.rules"),
    ],
)
def test_wrong_values_are_refused(setting: str, said: str) -> None:
    """A value that is misspelled or cannot be is refused by its name, before anything is rendered."""
    done = helm("template", "events", str(CHART), "--set", setting)
    assert done.returncode != 0
    # Helm writes web.tls or /web/tls, by version.
    assert [part for part in said.split(".") if part not in done.stderr] == []


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("podMonitor.enabled=true,podMonitor.interval=30s", "podMonitor.interval is 30s, but the rules .* every 5s"),
        ("podMonitor.enabled=true,podMonitor.interval=5s1000ms", "podMonitor.interval is 5s1000ms"),
        (r"alertsValues.hit\.share=0.5", r"alertsValues has hit.share 0.5, but .* --set hit.share=0.5"),
        ("alertsValues.memory=20m", "alertsValues has memory 20m, but .* installs rules for 15m"),
        ("alertsValues.memroy=20m", "alertsValues has memroy, which is no setting"),
    ],
)
def test_values_that_contradict_the_rules_are_refused(settings: str, said: str) -> None:
    """Scrapes too slow for the chart's rules, or pushed alerts unlike them, are refused with both values."""
    done = helm("template", "events", str(CHART), "--set", f"prometheusRule.enabled=true,{settings}")
    assert done.returncode != 0
    assert re.search(said, done.stderr)


def test_pushed_alerts_have_the_settings_of_the_rules() -> None:
    """With the chart's rules, pushed alerts are those of the same settings and link to the same runbooks."""
    url = r"config.alertmanager\.url=http://alertmanager.monitoring:9093"
    own = "prometheusRule.enabled=true,prometheusRule.runbooksUrl=https://runbooks.example.org/"
    done = helm("template", "events", str(CHART), "--show-only", "templates/configmap.yaml", "--set", f"{url},{own}")
    data = yaml.safe_load(done.stdout)["data"]
    settings = yaml.safe_load((ROOT / "alerts" / "generated" / "exporter" / "values.yaml").read_text())
    settings["runbooks.url"] = "https://runbooks.example.org"
    assert yaml.safe_load(data["alerts-values.yaml"]) == settings
    assert yaml.safe_load(data["config.yaml"])["alerts.values"].endswith("/config/alerts-values.yaml")
