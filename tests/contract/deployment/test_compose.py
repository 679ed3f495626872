"""Every file of the demo stack, by the tools that own it, and whether the files agree with each
other.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import yaml

from azure_scheduled_events_exporter.alerts import settings
from azure_scheduled_events_exporter.simulator import find
from deploy.stack import compose
from deploy.stack.compose import Service
from deploy.stack.part import OURS
from support.commands import command
from support.paths import ROOT

FOLDER = ROOT / "deploy" / "compose"
FILE = FOLDER / "compose.yaml"
VICTORIA = FOLDER / "compose.victoria.yaml"
SERVICES = compose.read(FILE, {})
"""The services of the stack, as ``make stack`` understands the file."""
OVER_VICTORIA = compose.read(FILE, {}, VICTORIA)
"""The services of the stack with VictoriaMetrics in the place of Prometheus."""
WRITTEN: dict[str, Any] = yaml.safe_load(FILE.read_text())["services"]
"""The services as the YAML of the file has them."""
ADDED = {
    name: service
    for name, service in yaml.safe_load(VICTORIA.read_text())["services"].items()
    if name not in WRITTEN
}
"""The services that only the file for VictoriaMetrics has, as its YAML has them."""
VALUES = settings.load(FOLDER / "values.yaml")
(STORY,) = find(str(FOLDER / "story.yaml"))
EXPORTERS = [name for name, service in SERVICES.items() if service.command == ("run",)]
ADDRESSES = [
    line.split(maxsplit=1) for line in SERVICES["pages"].environment["ADDRESSES"].splitlines()
]
"""The addresses that the stack prints, each with what can be seen there."""


def load(name: str) -> Any:
    """Return a file's data."""
    return yaml.safe_load((FOLDER / name).read_text())


def tool(*arguments: str) -> None:
    """Run a tool that must find no fault."""
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_compose_specification() -> None:
    """Both compose files are valid by the schema of the Compose Specification."""
    checker = str(Path(sys.executable).parent / "check-jsonschema")
    tool(checker, "--builtin-schema", "vendor.compose-spec", str(FILE), str(VICTORIA))


@pytest.mark.parametrize("name", [*WRITTEN, *ADDED])
def test_sealed_off(name: str) -> None:
    """No container can write to its root file system, has a capability or can get one."""
    service = {**WRITTEN, **ADDED}[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "privileged" not in service
    assert "network_mode" not in service


def test_images() -> None:
    """Our image is built once from this tree, and every other one is named with its registry and
    version.
    """
    assert [name for name, service in WRITTEN.items() if "build" in service] == ["assets"]
    assert (FOLDER / WRITTEN["assets"]["build"] / "Dockerfile").resolve() == ROOT / "Dockerfile"
    for service in (*SERVICES.values(), *OVER_VICTORIA.values()):
        assert service.image == OURS or service.image.startswith("docker.io/")
    for body in (*WRITTEN.values(), *ADDED.values()):
        assert body["image"] == f"{OURS}:demo" or re.fullmatch(
            r"[a-z./-]+:v?\d+\.\d+\.\d+", body["image"]
        )


def test_published_ports() -> None:
    """No service is reachable from the network, and no two services use one port."""
    written = [
        port
        for service in (*WRITTEN.values(), *ADDED.values())
        for port in service.get("ports", ())
    ]
    assert all(re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port) for port in written)
    published = [port for service in OVER_VICTORIA.values() for port in service.ports.values()]
    assert len(published) == len(written), "all ports are found"
    assert len(set(published)) == len(published), "no port is published twice"


def test_mounted_files() -> None:
    """Every file that is mounted is there. No container can change one: the only shared folder
    that can be written is that of the assets, and only by the container that exports them.
    """
    mounted = [
        mount.file for service in SERVICES.values() for mount in service.mounts if mount.file
    ]
    assert len(mounted) > len(EXPORTERS), "more files than exporters are mounted: all are found"
    assert [path for path in mounted if not path.is_file()] == []
    writable = [
        (name, volume)
        for name, service in WRITTEN.items()
        for volume in service.get("volumes", ())
        # A volume without a colon is the container's own, and is shared with nothing.
        if ":" in volume and not volume.endswith(":ro")
    ]
    assert writable == [("assets", "assets:/assets")]


def _mentioned(services: Mapping[str, Service]) -> Iterator[tuple[str, int]]:
    """Yield every host and port that a command, a variable or a mounted file names."""
    for service in services.values():
        texts = chain(service.command, service.environment.values())
        files = (mount.file.read_text() for mount in service.mounts if mount.file)
        for text in chain(texts, files):
            for host, port in re.findall(r"(?:https?://|\")([\w.-]+):(\d+)", text):
                yield host, int(port)


@pytest.mark.parametrize(
    "services", [SERVICES, OVER_VICTORIA], ids=["Prometheus", "VictoriaMetrics"]
)
def test_names_are_services(services: Mapping[str, Service]) -> None:
    """Every address in the configuration is one at which a service listens, or one that it
    publishes on the machine.
    """
    listening = {(name, port) for name, service in services.items() for port in service.ports}
    published = {
        ("127.0.0.1", port) for service in services.values() for port in service.ports.values()
    }
    tempo = load("tempo.yaml")
    otlp = tempo["distributor"]["receivers"]["otlp"]["protocols"]["http"]["endpoint"]
    listening |= {
        ("tempo", tempo["server"]["http_listen_port"]),
        ("tempo", int(otlp.rpartition(":")[2])),
    }
    mentioned = set(_mentioned(services))
    assert len(mentioned) > 20, "the addresses are found"
    assert mentioned - published - listening == set()


def test_every_vm_is_watched() -> None:
    """Each VM of the story has its exporter, is scraped and is in the list of addresses."""
    vms = [vm.name for vm in STORY.vms]
    assert vms == EXPORTERS
    for vm in vms:
        assert (
            SERVICES[vm].environment["AZURE_SCHEDULED_EVENTS_IMDS_ENDPOINT"]
            == f"http://simulator:10170/vm/{vm}"
        )
    (job,) = load("prometheus.yml")["scrape_configs"]
    (targets,) = job["static_configs"]
    assert targets["targets"] == [f"{vm}:10169" for vm in vms]
    status = {f"http://127.0.0.1:{SERVICES[vm].ports[10169]}/" for vm in vms}
    assert status <= {url for url, _ in ADDRESSES}


def test_exporters_settings() -> None:
    """The exporter knows every variable that it is given, and can read the files that they name."""
    for name in EXPORTERS:
        service = SERVICES[name]
        files = {mount.target: str(mount.file) for mount in service.mounts if mount.file}
        # A path in the container is that of the file which is mounted there.
        variables = {key: files.get(text, text) for key, text in service.environment.items()}
        done = command("check-config", **variables)
        assert (done.returncode, done.stderr) == (0, "")
        # check-config prints the source of each setting: all of these come from the variables.
        assert done.stdout.count("[environment variable") == len(variables)


def test_grafana_datasources() -> None:
    """Grafana has one data source of each kind that the dashboards choose from, with the uid that
    the alerts name.
    """
    sources = load("grafana/datasources.yaml")
    assert sources["apiVersion"] == 1
    kinds = {source["type"]: source for source in sources["datasources"]}
    wanted = {
        variable["query"]
        for path in (ROOT / "dashboards" / "json").glob("*.json")
        for variable in json.loads(path.read_text())["templating"]["list"]
        if variable["type"] == "datasource"
    }
    assert wanted == {"prometheus"}
    assert kinds.keys() == {"prometheus", "tempo"}, "the boards link to traces by the uid of Tempo"
    assert kinds["prometheus"]["uid"] == VALUES.text("grafana.datasource")
    assert kinds["prometheus"]["isDefault"] is True
    assert kinds["prometheus"]["jsonData"]["timeInterval"] == VALUES.text("scrape.interval")
    # Grafana passes over a key that it does not know, so a misspelled one would go unnoticed.
    for source in kinds.values():
        assert source.keys() - {"isDefault", "jsonData"} == {
            "name",
            "uid",
            "type",
            "access",
            "url",
            "editable",
        }


def test_addresses() -> None:
    """The README has the list of addresses that the stack prints, which has everything that is
    published.
    """
    text = (FOLDER / "README.md").read_text()
    assert re.findall(r"^\| <(http://127\.0\.0\.1:[^>]+)> \|", text, re.MULTILINE) == [
        url for url, _ in ADDRESSES
    ]
    published = {
        f"127.0.0.1:{port}" for service in SERVICES.values() for port in service.ports.values()
    }
    assert {url.split("/")[2] for url, _ in ADDRESSES} == published
