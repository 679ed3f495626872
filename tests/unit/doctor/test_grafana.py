"""What doctor says of a Grafana and its data source."""

import pytest

from support.doctor.canned_parts import examined, finding_of
from support.doctor.doctor_chain import as_json, grafana


def test_grafana_hides_its_version() -> None:
    """With hide_version, Grafana's health has no version."""
    findings = examined("Grafana", grafana(**{"/api/health": as_json({"database": "ok"})}))
    assert {each.mark for each in findings} == {"ok"}
    first, *_ = findings
    assert first.sentence.startswith("Grafana answers at http://"), "it is named without a version"


def test_data_source_of_azure() -> None:
    """A data source for Azure's managed Prometheus, which has a type of its own, is accepted as a
    Prometheus.
    """
    source = {"uid": "p", "name": "azure", "type": "grafana-azureprometheus-datasource"}
    found = examined("Grafana", grafana(**{"/api/datasources": as_json([source])}))
    assert finding_of("data-source", found).mark == "ok"


@pytest.mark.parametrize("message", ["no such host", ""])
def test_data_source_that_fails_with_200(message: str) -> None:
    """A health answer whose body has the status ERROR is a failure, although its HTTP status is
    200.
    """
    health = as_json({"status": "ERROR", "message": message})
    findings = examined("Grafana", grafana(**{"/api/datasources/uid/p/health": health}))
    found = finding_of("data-source", findings)
    assert found.mark == "wrong"
    assert f"ERROR: {message}" in found.sentence
