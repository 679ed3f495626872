"""What doctor says of a Grafana and its data source."""

import pytest

from support.doctor.canned_parts import examined, the
from support.doctor.doctor_chain import as_json, grafana


def test_grafana_hides_its_version() -> None:
    """With hide_version, Grafana's health has no version."""
    findings = examined("Grafana", grafana(**{"/api/health": as_json({"database": "ok"})}))
    assert {each.mark for each in findings} == {"ok"}
    assert findings[0].sentence.startswith("Grafana answers at http://")


def test_data_source_of_azure() -> None:
    """Azure's data source for managed Prometheus is one."""
    source = {"uid": "p", "name": "azure", "type": "grafana-azureprometheus-datasource"}
    assert (
        the(
            "data-source", examined("Grafana", grafana(**{"/api/datasources": as_json([source])}))
        ).mark
        == "ok"
    )


@pytest.mark.parametrize("message", ["no such host", ""])
def test_data_source_that_fails_with_200(message: str) -> None:
    """A health answer with the status ERROR is a failure, whatever its HTTP status."""
    health = as_json({"status": "ERROR", "message": message})
    found = the(
        "data-source", examined("Grafana", grafana(**{"/api/datasources/uid/p/health": health}))
    )
    assert (found.mark, f"ERROR: {message}" in found.sentence) == ("wrong", True)
