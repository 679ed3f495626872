"""Variables of OpenTelemetry: which turn tracing on or off, and which are refused or warned of."""

import pytest

from azure_scheduled_events_exporter.tracing.variables import doubts, is_on, obstacles

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}
TRACES = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4318/v1/traces"}


@pytest.mark.parametrize(
    ("endpoint", "variables", "on"),
    [
        (None, {}, False),
        ("", {}, False),
        ("http://127.0.0.1:4318", {}, True),
        (None, ENDPOINT, True),
        (None, TRACES, True),
        (None, {"OTEL_EXPORTER_OTLP_ENDPOINT": " "}, False),
        (None, {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://127.0.0.1:4318"}, False),
        ("http://127.0.0.1:4318", {"OTEL_SDK_DISABLED": "true"}, False),
        (None, {**ENDPOINT, "OTEL_SDK_DISABLED": "TRUE"}, False),
        (None, {**ENDPOINT, "OTEL_SDK_DISABLED": "false"}, True),
        (None, {**ENDPOINT, "OTEL_TRACES_EXPORTER": "none"}, False),
        ("http://127.0.0.1:4318", {"OTEL_TRACES_EXPORTER": "none"}, False),
        (None, {**ENDPOINT, "OTEL_TRACES_EXPORTER": "otlp"}, True),
    ],
)
def test_when_tracing_is_on(endpoint: str | None, variables: dict[str, str], *, on: bool) -> None:
    """Tracing needs an endpoint, by flag or variable, and OpenTelemetry's own switches turn it
    off.
    """
    assert is_on(endpoint, variables) is on


GENERAL = "OTEL_EXPORTER_OTLP_PROTOCOL"
SPECIFIC = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
TIMEOUT = "OTEL_EXPORTER_OTLP_TIMEOUT"
HEADERS = "OTEL_EXPORTER_OTLP_HEADERS"
OTHER_PROTOCOL = (
    "is not supported: unset it or set it to http/protobuf, and use the collector's port"
)


@pytest.mark.parametrize(
    ("variables", "complaint"),
    [
        ({**ENDPOINT, GENERAL: "grpc"}, f"{GENERAL}: 'grpc' {OTHER_PROTOCOL}"),
        ({**ENDPOINT, GENERAL: " http/json "}, f"{GENERAL}: 'http/json' {OTHER_PROTOCOL}"),
        ({**TRACES, SPECIFIC: "grpc"}, f"{SPECIFIC}: 'grpc' {OTHER_PROTOCOL}"),
        ({**ENDPOINT, SPECIFIC: "grpc", GENERAL: "http/protobuf"}, f"{SPECIFIC}: 'grpc'"),
        ({**ENDPOINT, SPECIFIC: "", GENERAL: "grpc"}, f"{GENERAL}: 'grpc'"),
        ({**ENDPOINT, TIMEOUT: "0"}, f"{TIMEOUT}: '0' is not a number of"),
        (
            {**ENDPOINT, "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT": "soon"},
            "TRACES_TIMEOUT: 'soon' is not a number of",
        ),
        ({**ENDPOINT, TIMEOUT: "10000"}, f"{TIMEOUT}: '10000' is too long"),
        ({**ENDPOINT, TIMEOUT: "10000"}, "reads seconds, write 10"),
        ({**ENDPOINT, HEADERS: "s3cret"}, "HEADERS: entry 1 is not NAME=VALUE, so it would"),
        ({**ENDPOINT, HEADERS: "a=b,\u00e9=s3cret"}, "HEADERS: has a character outside"),
        ({**ENDPOINT, HEADERS: 'a=b,c="s3cret"'}, "HEADERS: entry 2 is not NAME=VALUE"),
        ({**ENDPOINT, HEADERS: "a=\u20ac"}, "HEADERS: has a character outside"),
        ({**ENDPOINT, HEADERS: "a=%E2%82%AC"}, "outside printable ASCII"),
        ({**ENDPOINT, HEADERS: "a=b%0D%0Ac"}, "outside printable ASCII"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "otel-collector:4317"}, "OTEL_EXPORTER_OTLP_ENDPOINT: "),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://[::1"}, "TRACES_ENDPOINT: "),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:99999"}, "is not an address"),
    ],
)
def test_variables_that_turn_tracing_off(variables: dict[str, str], complaint: str) -> None:
    """Variables with which nothing could be sent turn tracing off, without a secret in the reason.

    They may be meant for other programs: with --otlp.endpoint, spans are sent in spite of them.
    """
    (found,) = obstacles(variables)
    assert complaint in found
    assert "\u20ac" not in found
    assert "s3cret" not in found
    assert not is_on(endpoint=None, environment=variables)
    assert is_on(endpoint="http://127.0.0.1:4318", environment=variables)


@pytest.mark.parametrize(
    ("variables", "warning"),
    [
        ({"OTEL_TRACES_SAMPLER": "bogus"}, "OTEL_TRACES_SAMPLER: 'bogus' is none of always_on, "),
        (
            {"OTEL_EXPORTER_OTLP_COMPRESSION": "snappy"},
            "OTLP_COMPRESSION: 'snappy' is none of none, gzip, deflate",
        ),
        (
            {"OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE": "/nope.pem"},
            "TRACES_CERTIFICATE: there is no file /nope.pem",
        ),
        ({"OTEL_TRACES_EXPORTER": "console"}, "OTEL_TRACES_EXPORTER: 'console' is none of otlp, "),
        (
            {"OTEL_BSP_SCHEDULE_DELAY": "1"},
            "OTEL_BSP_SCHEDULE_DELAY has no effect: spans wait in the journal",
        ),
        (
            {"OTEL_METRICS_EXPORTER": "otlp"},
            "OTEL_METRICS_EXPORTER has no effect: only traces are sent",
        ),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318/v1/traces"},
            "OTLP_ENDPOINT: /v1/traces is added to it, so leave it out",
        ),
        (
            {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318"},
            "OTLP_TRACES_ENDPOINT: nothing is added to it",
        ),
    ],
)
def test_variables_that_are_warned_of(variables: dict[str, str], warning: str) -> None:
    """Variables that OpenTelemetry's SDK or this exporter would ignore in silence are warned of."""
    (found,) = doubts(variables)
    assert warning in found


@pytest.mark.parametrize(
    "variables",
    [
        {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318/tenant"},
        {"OTEL_LOGS_EXPORTER": "none"},
        {"OTEL_TRACES_SAMPLER": "Always_On", "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip"},
        {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_BSP_SCHEDULE_DELAY": ""},
        {},
    ],
)
def test_variables_without_a_warning(variables: dict[str, str]) -> None:
    """Variables that have the effect that they say are not warned of."""
    assert list(doubts(variables)) == []
