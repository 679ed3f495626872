"""A team tries with the command drill whether its alerts are quiet while Azure works on a VM."""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.alerts import Settings, load
from azure_scheduled_events_exporter.commands.drill import command as drill
from azure_scheduled_events_exporter.errors import ExporterError, UsageError
from support.monitoring.paging import Alertmanager, RuledPrometheus, query, receivers
from support.programs import NOBODY, eventually
from support.servers.http_peer import HttpServer, Request, Response

VALUES = """\
maintenance.targets: node-exporter
maintenance.equal: ["instance=host:9100", "node=computer_name"]
"""
EACH_SECOND = {"scrape_interval": "1s", "scrape_timeout": "1s"}


def run(*flags: str) -> int:
    """Run the command as the command line does."""
    parser = argparse.ArgumentParser()
    drill.add_arguments(parser)
    return drill.run(parser.parse_args(flags))


def values(folder: Path, text: str = VALUES) -> Path:
    """Write a values file."""
    file = folder / "values.yaml"
    file.write_text(text)
    return file


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """The settings of the rules and of Alertmanager."""
    return load(values(tmp_path), receivers(f"http://{NOBODY}"))


@pytest.fixture
def alertmanager(tmp_path: Path, settings: Settings) -> Iterator[Alertmanager]:
    """An Alertmanager that inhibits InstanceDown of a VM in maintenance."""
    with Alertmanager(tmp_path, settings) as running:
        yield running


class Vm(HttpServer):
    """The exporter of a VM whose computer name is web-17."""

    def respond(self, request: Request) -> Response:
        """Return the metric that names the VM."""
        del request
        labels = 'vm_id="1",vm_name="web_17",computer_name="web-17",resource_group="web"'
        info = f"azure_scheduled_events_instance_info{{{labels}}} 1\n"
        return Response(body=info.encode(), headers={"Content-Type": "text/plain; version=0.0.4"})


@pytest.fixture
def prometheus(tmp_path: Path, settings: Settings) -> Iterator[RuledPrometheus]:
    """A Prometheus that scrapes one VM, at 127.0.0.1."""
    with (
        Vm() as vm,
        RuledPrometheus(
            tmp_path, settings, NOBODY, [f"127.0.0.1:{vm.port}"], job=EACH_SECOND
        ) as running,
    ):
        eventually(
            lambda: running.query("azure_scheduled_events_instance_info"), "the VM is scraped"
        )
        yield running


def test_by_the_form_of_the_labels(
    alertmanager: Alertmanager, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a values file alone, the drill says whether Alertmanager inhibits an alert whose labels
    have the form that the rules yield, and resolves the two alerts that it has posted.
    """
    server = ("--alertmanager", alertmanager.url, "--timeout", "10s")
    flags = (*server, "--alerts.values", str(values(tmp_path)))
    assert run(*flags, "--maintenance", "alertname=InstanceDown,instance=10.0.0.4:9100") == 0
    said = capsys.readouterr().out
    assert "InstanceDown is inhibited while its VM is in maintenance" in said
    assert "Not tested: whether your loaded rules yield these values for the VM" in said
    with pytest.raises(ExporterError, match=r"ReplicaLag \(instance=\S+\) is not inhibited while"):
        run(*flags, "--maintenance", "alertname=ReplicaLag,instance=10.0.0.4:9100")
    with pytest.raises(
        ExporterError,
        match=r"the rules name a VM by instance=HOST:9100 or node=COMPUTER_NAME .*, but your alert"
        r" has instance=web-17.corp:7777",
    ):
        run(*flags, "--maintenance", "alertname=InstanceDown,instance=web-17.corp:7777")
    with pytest.raises(UsageError, match="--maintenance: the labels of an alert have an alertname"):
        run(*flags, "--maintenance", "instance=10.0.0.4:9100")
    eventually(lambda: alertmanager.alerts() == [], "no alert of the drill is left")


def test_values_by_which_alertmanager_does_not_inhibit(
    alertmanager: Alertmanager, tmp_path: Path
) -> None:
    """The drill fails with a values file whose rules name a VM by another label than that by which
    Alertmanager inhibits.
    """
    other = values(tmp_path, "maintenance.equal: [host=vm_name]\n")
    flags = ("--alertmanager", alertmanager.url, "--timeout", "10s", "--alerts.values", str(other))
    with pytest.raises(
        ExporterError,
        match=r"InstanceDown \(.*\) is not inhibited while AzureScheduledEventMaintenance"
        r" \(host=web, .*\) fires",
    ):
        run(*flags, "--maintenance", "alertname=InstanceDown,host=web,instance=10.0.0.4:9100")


def test_by_the_labels_of_the_loaded_rules(
    alertmanager: Alertmanager, prometheus: RuledPrometheus, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a Prometheus, the drill compares with the labels that its rules yield for its VMs."""
    flags = ("--alertmanager", alertmanager.url, "--timeout", "10s", "--prometheus", prometheus.url)
    for vm in ("instance=127.0.0.1:9100", "node=web-17"):
        assert run(*flags, "--maintenance", f"alertname=InstanceDown,{vm}") == 0
        said = capsys.readouterr().out
        assert said == (
            "InstanceDown is inhibited while its VM is in maintenance. Both alerts are resolved.\n"
        )
    for vm, complaint in {
        "instance=web-17.corp:9100": "no VM with instance=web-17.corp:9100, but .* instance=127.0",
        "instance=127.0.0.1:7777": "no VM with instance=127.0.0.1:7777, but .* instance=127.0.0",
        "host=web-17": "a VM by instance, node, vm_id, vm_name, but your alert has host=web-17",
    }.items():
        with pytest.raises(ExporterError, match=complaint):
            run(*flags, "--maintenance", f"alertname=InstanceDown,{vm}")


def test_the_printed_query(
    alertmanager: Alertmanager,
    prometheus: RuledPrometheus,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Without a Prometheus, the drill prints a query for its user to run. In a Prometheus with the
    rules, it has a result if they yield the label of the alert.
    """
    flags = (
        "--alertmanager",
        alertmanager.url,
        "--alerts.values",
        str(values(tmp_path)),
        "--maintenance",
    )
    for vm, count in {"instance=127.0.0.1:9100": 1, "instance=127.0.0.2:9100": 0}.items():
        assert run(*flags, f"alertname=InstanceDown,{vm}") == 0
        (printed,) = re.findall("(?m)^  (.+)$", capsys.readouterr().out)
        assert len(query(prometheus.url, printed)) == count


def test_what_is_no_prometheus(alertmanager: Alertmanager) -> None:
    """An address that answers as no Prometheus does, or not at all, is named."""
    flags = (
        "--alertmanager",
        alertmanager.url,
        "--maintenance",
        "alertname=InstanceDown,instance=a:9100",
    )
    with pytest.raises(ExporterError, match=rf"Prometheus at {alertmanager.url}: answered 404"):
        run(*flags, "--prometheus", alertmanager.url)
    with pytest.raises(ExporterError, match=rf"Prometheus at http://{NOBODY}: "):
        run(*flags, "--prometheus", f"http://{NOBODY}")
