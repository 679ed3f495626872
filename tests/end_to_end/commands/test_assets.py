"""``assets export``: what a values file fills in, and what a later export must not reset unseen."""

import re
from pathlib import Path

import pytest
import yaml

from azure_scheduled_events_exporter.commands.cli import main
from support.charts import helm
from support.paths import ROOT

PLACEHOLDER = re.compile(rb"REPLACE|example\.com")
CHART = "helm/azure-scheduled-events-exporter"


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What an export writes with the values file of docs/alerts.md and a label to keep."""
    folder = tmp_path_factory.mktemp("export")
    (sample,) = re.findall(r"```yaml\n(pager\..*?)```", (ROOT / "docs" / "alerts.md").read_text(), re.DOTALL)
    (folder / "values.yaml").write_text(f"{sample}labels.keep: [team]\n")
    assert main(["assets", "export", str(folder / "rendered"), "--values", str(folder / "values.yaml")]) == 0
    return folder / "rendered"


def test_no_placeholder_is_left(exported: Path) -> None:
    """After the documented sample of a values file, no exported file has an address or key to fill in."""
    files = [path for path in exported.rglob("*") if path.is_file()]
    assert len(files) > 50
    assert [str(path) for path in files if PLACEHOLDER.search(path.read_bytes())] == []


def test_chart_has_the_same_rules(exported: Path) -> None:
    """The exported chart installs the rules of the values file, labels to keep included."""
    rendered = (exported / "alerts/prometheus/prometheus-rules.yml").read_text()
    assert "group_left (team)" in rendered
    done = helm("template", "events", str(exported / CHART), "--set", "prometheusRule.enabled=true")
    (rule,) = [each for each in yaml.safe_load_all(done.stdout) if each and each["kind"] == "PrometheusRule"]
    assert rule["spec"] == yaml.safe_load(rendered)
    settings = (exported / CHART / "files/alerts-values.yaml").read_text()
    assert settings == (exported / "alerts/exporter/values.yaml").read_text()


def test_no_key_goes_to_exporters(exported: Path) -> None:
    """The values for exporters are those of the rules, without the receivers and their keys."""
    whole = yaml.safe_load((exported / "alerts/values.yaml").read_text())
    left = yaml.safe_load((exported / "alerts/exporter/values.yaml").read_text())
    assert {name.partition(".")[0] for name in whole.keys() - left.keys()} == {"pager", "chat", "tickets"}
    assert left == {name: value for name, value in whole.items() if name in left}
    assert left["labels.keep"] == ["team"]


@pytest.mark.parametrize("flags", [(), ("--set", "hit.share=0.5")])
def test_settings_are_not_reset_unseen(
    exported: Path, flags: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """An export without --values over exported settings is refused, names them, and changes nothing."""
    before = {path: path.read_bytes() for path in exported.rglob("*") if path.is_file()}
    assert main(["assets", "export", str(exported), *flags]) == 2
    assert re.search(
        r"was exported with settings that this export would reset: labels\.keep, .*--values .*/alerts/values\.yaml",
        capsys.readouterr().err,
    )
    assert {path: path.read_bytes() for path in before} == before


def test_the_exported_values_keep_everything(exported: Path) -> None:
    """An export with the values file that an earlier export wrote changes nothing."""
    before = {path: path.read_bytes() for path in exported.rglob("*") if path.is_file()}
    assert main(["assets", "export", str(exported), "--values", str(exported / "alerts/values.yaml")]) == 0
    assert {path: path.read_bytes() for path in before} == before
