"""What is generated from the table of alerts, and committed."""

import pytest

from azure_scheduled_events_exporter.alerts.formats.reference import runbooks
from azure_scheduled_events_exporter.alerts.generate import GENERATED, chart_files
from azure_scheduled_events_exporter.alerts.settings import Settings
from support.deployment.charts import CHART
from support.paths import ROOT


@pytest.mark.parametrize("name", GENERATED)
def test_a_change_of_the_table_shows_in_the_files(name: str) -> None:
    """What users import is what the table says: whoever changes it reviews the difference."""
    committed = (ROOT / "alerts" / "generated" / name).read_text(encoding="utf-8")
    assert GENERATED[name](Settings()) == committed, "run: make generate"


def test_chart_and_runbooks_follow() -> None:
    """The chart's rules and values, and the heads of the runbooks, are those of the table."""
    for name, text in chart_files(Settings()).items():
        assert text == (CHART / "files" / name).read_text(encoding="utf-8"), name
    for path, text in runbooks(ROOT / "docs" / "runbooks"):
        assert text == path.read_text(encoding="utf-8"), path.name
