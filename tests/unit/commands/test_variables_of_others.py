"""Variables of OpenTelemetry that are set for every program of a fleet, and cannot work here."""

from collections.abc import Callable

import pytest

from azure_scheduled_events_exporter.simulator import Simulator
from support.commands import command
from support.programs import Exporter

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
HTTP = "http://127.0.0.1:9"
OF_OTHERS = [
    {ENDPOINT: HTTP, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
    {ENDPOINT: "otel-collector:4317"},
    {ENDPOINT: HTTP, "OTEL_EXPORTER_OTLP_TIMEOUT": "10000"},
    {ENDPOINT: HTTP, "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "x"},
    {ENDPOINT: HTTP, "OTEL_SPAN_LINK_COUNT_LIMIT": "12345678901234567890"},
]
OFF = "tracing is off: OpenTelemetry's variables cannot be used"


@pytest.mark.parametrize("variables", OF_OTHERS, ids=lambda variables: list(variables)[-1])
def test_run(
    variables: dict[str, str], simulator: Simulator, start_exporter: Callable[..., Exporter]
) -> None:
    """The exporter starts, polls and serves; it warns of the variable, and sends no spans."""
    exporter = start_exporter(simulator.url, **variables)
    exporter.wait_for_line(f"level=warning msg=.unusable OpenTelemetry var.*{list(variables)[-1]}")
    exporter.wait_for_line(f"level=warning msg=.{OFF}")
    exporter.shows("a poll", lambda scrape: scrape.value("up") == 1)


@pytest.mark.parametrize("variables", OF_OTHERS, ids=lambda variables: list(variables)[-1])
def test_check_config(variables: dict[str, str]) -> None:
    """check-config warns of the same."""
    done = command("check-config", **variables)
    assert done.returncode == 0
    first, second = done.stderr.splitlines()
    assert list(variables)[-1] in first
    assert second == f"warning: {OFF}"


def test_a_context_that_is_not_installed() -> None:
    """It is one line, and the default is used."""
    done = command("check-config", **{ENDPOINT: HTTP, "OTEL_PYTHON_CONTEXT": "nope"})
    (line,) = done.stderr.splitlines()
    assert "OTEL_PYTHON_CONTEXT: 'nope' is none of contextvars_context" in line


def test_an_endpoint_by_flag() -> None:
    """The own flag is strict, and sets the variables aside."""
    variables = {**OF_OTHERS[0], **OF_OTHERS[2]}
    done = command("check-config", "--otlp.endpoint", HTTP, **variables)
    assert done.returncode == 0
    assert len(done.stderr.splitlines()) == 2
    assert OFF not in done.stderr
    assert command("check-config", "--otlp.endpoint", "otel-collector:4317").returncode == 2
