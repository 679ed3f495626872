"""A collector, and an environment without settings for OpenTelemetry."""

from collections.abc import Iterator

import pytest

from support.monitoring.collector import Collector


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment without settings for OpenTelemetry or a proxy; each test sets its own."""
    for name in (
        "HTTP_PROXY",
        "http_proxy",
        "ALL_PROXY",
        "all_proxy",
        "OTEL_EXPORTER_OTLP_ENDPOINT",
    ):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def collector() -> Iterator[Collector]:
    """A collector that accepts everything by default."""
    with Collector() as running:
        yield running
