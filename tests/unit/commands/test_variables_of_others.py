"""Variables of OpenTelemetry that are set for every program of a fleet, and cannot work here."""

from collections.abc import Callable

import pytest

from azure_scheduled_events_exporter.simulator import Simulator
from support.commands import command
from support.programs import Exporter

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
VALID_ENDPOINT = "http://127.0.0.1:9"
UNUSABLE = {
    "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
    ENDPOINT: "otel-collector:4317",
    "OTEL_EXPORTER_OTLP_TIMEOUT": "10000",
    "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "x",
    "OTEL_SPAN_LINK_COUNT_LIMIT": "12345678901234567890",
}
"""Variables, each with a value with which it cannot work here."""
OFF = "tracing is off: OpenTelemetry's variables cannot be used"


def with_an_endpoint(name: str) -> dict[str, str]:
    """Return variables that turn tracing on, of which ``name`` alone is unusable."""
    return {ENDPOINT: VALID_ENDPOINT} | {name: UNUSABLE[name]}


@pytest.mark.parametrize("name", UNUSABLE)
def test_run(name: str, simulator: Simulator, start_exporter: Callable[..., Exporter]) -> None:
    """The exporter starts, polls and serves; it warns of the variable, and sends no spans."""
    exporter = start_exporter(simulator.url, **with_an_endpoint(name))
    exporter.wait_for_line(f"level=warning msg=.unusable OpenTelemetry var.*{name}")
    exporter.wait_for_line(f"level=warning msg=.{OFF}")
    exporter.shows("a poll", lambda scrape: scrape.value("up") == 1)


@pytest.mark.parametrize("name", UNUSABLE)
def test_check_config(name: str) -> None:
    """check-config warns of the variable, and that no spans would be sent."""
    done = command("check-config", **with_an_endpoint(name))
    assert done.returncode == 0
    first, second = done.stderr.splitlines()
    assert name in first
    assert second == f"warning: {OFF}"


def test_a_context_that_is_not_installed() -> None:
    """A way to keep OpenTelemetry's context for which no package is installed is one warning.
    Tracing stays on, with the default way.
    """
    done = command("check-config", **{ENDPOINT: VALID_ENDPOINT, "OTEL_PYTHON_CONTEXT": "nope"})
    (line,) = done.stderr.splitlines()  # without the line that tracing is off
    assert "OTEL_PYTHON_CONTEXT: 'nope' is none of contextvars_context" in line


def test_an_endpoint_by_flag() -> None:
    """With --otlp.endpoint, tracing stays on: unusable variables are warned of and set aside. The
    flag itself has to be valid.
    """
    unusable = ("OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TIMEOUT")
    variables = {name: UNUSABLE[name] for name in unusable}
    done = command("check-config", "--otlp.endpoint", VALID_ENDPOINT, **variables)
    assert done.returncode == 0
    assert len(done.stderr.splitlines()) == 2, "one warning for each variable"
    assert OFF not in done.stderr
    assert command("check-config", "--otlp.endpoint", "otel-collector:4317").returncode == 2
