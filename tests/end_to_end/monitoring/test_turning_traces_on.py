"""What docs/opentelemetry.md says about turning traces on, followed with a collector over TLS that
wants a token; the attributes of its spans are those of docs/spans.md.
"""

import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.simulator import Scenario, Simulator, find
from support.documented import blocks
from support.monitoring.collector import Collector
from support.paths import ROOT
from support.programs import COMMAND, Exporter, Program, environment, eventually
from support.servers.certificates import Authority

PAGE = ROOT / "docs" / "opentelemetry.md"
SPANS = ROOT / "docs" / "spans.md"
TOKEN = "secret"  # noqa: S105 - of the collector of this test
MEASURED = {
    "observed_pause_seconds",
    "observed_pauses",
    "clock_step_seconds",
    "tcp_retransmitted_segments",
    "tcp_retransmitted_segments_minute_before",
    "tcp_timeouts",
    "tcp_timeouts_minute_before",
}
"""Attributes that a span has if they could be measured: not if this machine stood still."""
Start = Callable[..., Exporter]


@pytest.fixture
def collector(authority: Authority) -> Iterator[Collector]:
    """A collector with a certificate of ``authority``."""
    with Collector(pair=authority.server(), token=TOKEN) as running:
        yield running


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """A CA of the company, which this machine does not trust by itself."""
    return Authority(tmp_path)


@pytest.fixture
def imds() -> Iterator[Simulator]:
    """A simulated IMDS without events until one is played."""
    vms = find("live-migration")[0].vms
    with Simulator(Scenario("quiet", "Nothing happens.", vms, ())) as running:
        yield running


def settings(collector: Collector, authority: Authority) -> dict[str, str]:
    """Return the variables of the page, with the address, the file and the token of the test."""
    (block,) = [each for each in blocks(PAGE) if "EVENTS_OTLP_ENDPOINT=" in each.text]
    variables = dict(line.split("=", 1) for line in shlex.split(block.text))
    placeholders = {
        "https://collector.example.com:4318": collector.url,
        "/etc/azure-scheduled-events-exporter/collector-ca.pem": str(authority.own.certificate),
        "TOKEN": TOKEN,
    }
    for name, text in variables.items():
        (found,) = [each for each in placeholders if each in text]
        variables[name] = text.replace(found, placeholders.pop(found))
    assert placeholders == {}
    return variables


def documented(span: str) -> set[str]:
    """Return the attributes that docs/spans.md gives to the spans of this name."""
    table = SPANS.read_text().partition("| span | values |\n")[2].partition("\n\n")[0]
    rows = [row.strip("| ").split(" | ") for row in table.splitlines()]
    return {
        name
        for spans, values in rows[1:]
        if spans == "all" or f"`{span}`" in spans
        for name in re.findall("`([^`]+)`", values)
    }


def doctor(imds: Simulator, file: Path) -> str:
    """Return what ``doctor`` says about the collector, with the settings in ``file``."""
    command = [COMMAND, "doctor", "--imds.endpoint", imds.url, "--env-file", str(file)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    return done.stdout.partition("\nTraces\n")[2]


def test_traces_arrive_with_the_settings_of_the_page(
    collector: Collector,
    authority: Authority,
    imds: Simulator,
    start_exporter: Start,
    tmp_path: Path,
) -> None:
    """With the variables of the page, ``doctor`` prints the line of the page, the trace of an event
    arrives, and no span waits.
    """
    variables = settings(collector, authority)
    file = tmp_path / "environment"
    file.write_text("".join(f'{name}="{value}"\n' for name, value in variables.items()))
    promised = re.findall(r"(?m)^√ The collector at .*$", PAGE.read_text())
    assert len(promised) == 1
    line = promised[0].replace("https://collector.example.com:4318", collector.url)
    assert line in doctor(imds, file)
    exporter = start_exporter(imds.url, "--poll.interval", "300ms", **variables)
    exporter.shows("a poll", lambda scrape: scrape.value("up"))
    imds.play("live-migration", speed=150)
    eventually(lambda: "scheduled_event" in collector.names(), "the whole trace")
    exporter.shows("nothing waits", lambda scrape: scrape.value("spans_queued") == 0)
    for span in collector.accepted:
        sent = {name.removeprefix("azure.scheduled_event.") for name in span.attributes}
        named = documented(span.name)
        assert sent <= named, span.name
        assert named - MEASURED <= sent, span.name


@pytest.mark.parametrize(
    ("variable", "says"),
    [
        ("OTEL_EXPORTER_OTLP_HEADERS", "answered 401"),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "certificate verify failed"),
    ],
)
def test_doctor_says_what_is_missing(
    variable: str,
    says: str,
    collector: Collector,
    authority: Authority,
    imds: Simulator,
    tmp_path: Path,
) -> None:
    """Without the token or the CA, ``doctor`` says the words that the page explains."""
    variables = settings(collector, authority)
    del variables[variable]
    file = tmp_path / "environment"
    file.write_text("".join(f'{name}="{value}"\n' for name, value in variables.items()))
    said = doctor(imds, file)
    assert says in said
    assert variable in said, "the remedy"
    assert f"| `{says}` |" in PAGE.read_text()


def test_the_demo_sends_a_trace_of_a_simulated_event(
    collector: Collector, authority: Authority, tmp_path: Path
) -> None:
    """With the variables of the page that begin with ``OTEL_``, the demo sends a whole trace."""
    variables = {
        name: value
        for name, value in settings(collector, authority).items()
        if name.startswith("OTEL_")
    }
    demo = [COMMAND, "demo", "--otlp.endpoint", collector.url, "--speed", "600"]
    free = ["--web.listen-address", "127.0.0.1:0"]
    with Program([*demo, *free], tmp_path / "demo.log", **variables):
        eventually(lambda: "scheduled_event" in collector.names(), "the whole trace")


def test_a_certificate_that_comes_late(
    collector: Collector,
    authority: Authority,
    imds: Simulator,
    start_exporter: Start,
    tmp_path: Path,
) -> None:
    """Without the file of the CA certificate, ``doctor`` names it, and the exporter runs, warns and
    keeps the spans. It sends them once the file is there.
    """
    missing = tmp_path / "collector-ca.pem"
    variables = {
        **settings(collector, authority),
        "OTEL_EXPORTER_OTLP_CERTIFICATE": str(missing),
    }
    file = tmp_path / "environment"
    file.write_text("".join(f'{name}="{value}"\n' for name, value in variables.items()))
    said = " ".join(doctor(imds, file).split())  # doctor wraps its lines
    assert f"there is no file {missing}" in said
    assert "Correct the path in OTEL_EXPORTER_OTLP_CERTIFICATE" in said, "the remedy"
    assert "| `there is no file` |" in PAGE.read_text()
    exporter = start_exporter(imds.url, "--poll.interval", "300ms", **variables)
    exporter.shows("a poll", lambda scrape: scrape.value("up"))
    imds.play("live-migration", speed=150)
    exporter.shows("spans that wait", lambda scrape: scrape.value("spans_queued"))
    assert f"there is no file {missing}" in exporter.log
    missing.write_bytes(authority.own.certificate.read_bytes())
    eventually(lambda: "scheduled_event" in collector.names(), "the whole trace")
    exporter.shows("nothing waits", lambda scrape: scrape.value("spans_queued") == 0)
