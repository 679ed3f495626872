"""The pods of the Helm chart: ports and probes, privileges, the journal's folder, nodes and
network.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from azure_scheduled_events_exporter import __version__
from support.deployment.charts import (
    CHART,
    Manifest,
    container,
    of_kind,
    only,
    pod,
    rendered,
    values_of,
)
from support.paths import ROOT

IMAGE_USER = 65532
"""The uid and gid of the image."""
OPENSHIFT_USER = 1000650000
"""A uid of the range that OpenShift gives a namespace; one of the files of values has it."""


def test_ports_agree(charts: dict[str, list[Manifest]]) -> None:
    """Container port, host port and probes are the port of the values. A host port exists only on
    the node's network.
    """
    for name, manifests in charts.items():
        wanted = values_of(name)["port"]
        (port,) = container(manifests)["ports"]
        assert port["containerPort"] == wanted
        assert port.get("hostPort") == (wanted if pod(manifests).get("hostNetwork") else None)
        for probe in ("livenessProbe", "readinessProbe"):
            handler = (
                container(manifests)[probe].get("httpGet")
                or container(manifests)[probe]["tcpSocket"]
            )
            assert handler["port"] == port["name"]
    assert values_of("defaults")["port"] == 10169


def test_probes(charts: dict[str, list[Manifest]]) -> None:
    """A pod is restarted only when the exporter does not live, and ready once Azure has answered.
    The probes use TLS where the exporter does.
    """
    plain = container(charts["defaults"])
    tls = container(charts["everything"])
    assert plain["livenessProbe"]["httpGet"] == {
        "path": "/-/healthy",
        "port": "metrics",
        "scheme": "HTTP",
    }
    assert plain["readinessProbe"]["httpGet"] == {
        "path": "/-/ready",
        "port": "metrics",
        "scheme": "HTTP",
    }
    assert tls["livenessProbe"]["httpGet"]["scheme"] == "HTTPS"
    # These values have `probes: tcp`, for clients that need a certificate: the kubelet has none.
    assert "httpGet" not in container(charts["memory"])["livenessProbe"]


def test_the_image_is_this_version(charts: dict[str, list[Manifest]]) -> None:
    """Chart, image and exporter are one version, and all containers of a pod have one image. If the
    values have a digest, it names the image, and no tag does.
    """
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == __version__
    assert container(charts["defaults"])["image"].endswith(f":{__version__}")
    for manifests in charts.values():
        images = {
            each["image"]
            for each in [*pod(manifests).get("initContainers", []), *pod(manifests)["containers"]]
        }
        assert len(images) == 1
    # These values have a digest, of zeros.
    assert container(charts["everything"])["image"].endswith(f"@sha256:{'0' * 64}")


def test_privileges(charts: dict[str, list[Manifest]]) -> None:
    """The exporter has no privilege at all, and no pod has a token of the cluster. The container
    that prepares the journal's folder has one capability, CHOWN.
    """
    for manifests in charts.values():
        spec = pod(manifests)
        assert spec["automountServiceAccountToken"] is False
        assert all(
            not each["automountServiceAccountToken"]
            for each in of_kind(manifests, "ServiceAccount")
        )
        assert spec["securityContext"]["runAsNonRoot"]
        assert spec["securityContext"]["runAsUser"] in {IMAGE_USER, OPENSHIFT_USER}
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container(manifests)["securityContext"] == {
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        }
        for each in spec.get("initContainers", []):
            assert each["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["CHOWN"]}
            assert not each["securityContext"]["allowPrivilegeEscalation"]
            assert each["securityContext"]["readOnlyRootFilesystem"]


@pytest.mark.parametrize("values", ["pod-network", "values-restricted"])
def test_without_the_host_nothing_is_root(charts: dict[str, list[Manifest]], values: str) -> None:
    """A pod on the pod network with an emptyDir needs nothing that Kubernetes' restricted standard
    forbids. It has the values of a test, or those of the chart's own file ``values-restricted``.
    """
    manifests = charts.get(values) or rendered(CHART / f"{values}.yaml")
    spec = pod(manifests)
    assert not {"hostNetwork", "hostPID", "hostIPC", "initContainers"} & spec.keys()
    allowed = {
        "configMap",
        "emptyDir",
        "secret",
        "projected",
        "downwardAPI",
        "persistentVolumeClaim",
    }
    assert all((volume.keys() - {"name"}) <= allowed for volume in spec["volumes"])
    assert "hostPort" not in container(manifests)["ports"][0]
    assert spec["securityContext"]["runAsNonRoot"]
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not container(manifests)["securityContext"]["allowPrivilegeEscalation"]
    assert container(manifests)["securityContext"]["capabilities"] == {"drop": ["ALL"]}


@pytest.fixture
def node_folder() -> Iterator[Path]:
    """The journal's folder as the kubelet makes it on a node: everybody may look into it, and into
    the folder above it.
    """
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        folder = Path(name) / "journal"
        folder.mkdir(mode=0o755)
        yield folder


PREPARATION = ROOT / "deploy" / "container" / "prepare_journal.py"


def prepare(container: Manifest, folder: Path) -> tuple[tuple[int, int], str]:
    """Run the preparation with the capability that it has; return who the folder is for, and what
    it says.
    """
    *_, program, _folder, user, group = container["command"]
    assert Path(program).name == PREPARATION.name
    is_root = os.geteuid() == 0
    owner = (int(user), int(group)) if is_root else (os.geteuid(), os.getegid())
    only_chown = ["setpriv", "--bounding-set=-all,+chown", "--inh-caps=-all"] if is_root else []
    command = [*only_chown, sys.executable, "-I", str(PREPARATION), str(folder), *map(str, owner)]
    return owner, subprocess.run(command, check=True, stderr=subprocess.PIPE, text=True).stderr


def write_as(owner: tuple[int, int], path: Path) -> None:
    """Write a file that only its owner may read, as that user."""
    become = (
        ["setpriv", f"--reuid={owner[0]}", f"--regid={owner[1]}", "--clear-groups"]
        if os.geteuid() == 0
        else []
    )
    subprocess.run([*become, "/bin/sh", "-c", f"umask 077; echo >>{path}"], check=True)


def owner_of(path: Path) -> tuple[int, int]:
    """Return its user and group."""
    return path.stat().st_uid, path.stat().st_gid


def test_the_journal_can_be_written(charts: dict[str, list[Manifest]], node_folder: Path) -> None:
    """The preparation, with CHOWN as its only capability, gives the folder to the user who then
    writes into it.
    """
    (preparation,) = pod(charts["defaults"])["initContainers"]
    *_, folder, user, group = preparation["command"]
    owner, complaints = prepare(preparation, node_folder)
    assert not complaints
    assert owner_of(node_folder) == owner
    write_as(owner, node_folder / "journal.sqlite")
    (mount,) = preparation["volumeMounts"]
    assert (mount["name"], mount["mountPath"]) == ("journal", folder)
    assert (user, group) == (f"{IMAGE_USER}", f"{IMAGE_USER}")


def test_a_folder_that_cannot_be_prepared(
    charts: dict[str, list[Manifest]], node_folder: Path
) -> None:
    """Where the folder cannot be prepared, here because it is missing, the preparation says why and
    succeeds all the same: its failure would keep the pod from starting.
    """
    (container,) = pod(charts["defaults"])["initContainers"]
    *_, user, group = container["command"]
    missing = str(node_folder / "missing")
    done = subprocess.run(
        [sys.executable, "-I", PREPARATION, missing, user, group],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    assert (
        f"the journal's folder cannot be prepared: [Errno 2] No such file or directory: '{missing}'"
        in done.stderr
    )


def test_a_folder_of_other_programs_is_left_alone(
    charts: dict[str, list[Manifest]], node_folder: Path
) -> None:
    """A journal.path such as /var/lib changes the owner of nothing: the preparation says why, and
    the pod starts.
    """
    foreign = node_folder / "database"
    journal = node_folder / "journal.sqlite"
    paths = [node_folder, foreign, journal]
    for path in (foreign, journal):
        path.touch()
    another_user = 1234
    another_group = 1235
    if os.geteuid() == 0:
        for path in paths:
            os.chown(path, another_user, another_group)
    # Only its owner may look into it: to do so, the preparation has to own it for a moment.
    node_folder.chmod(0o700)
    before = [owner_of(path) for path in paths]
    (container,) = pod(charts["defaults"])["initContainers"]
    _, said = prepare(container, node_folder)
    assert [owner_of(path) for path in paths] == before
    assert "because it has other files (database): give journal.path a folder of its own" in said


def test_every_node_is_watched(charts: dict[str, list[Manifest]]) -> None:
    """By default, a pod runs on every node, Spot and drained ones too, but no virtual one; it is on
    the node's network.
    """
    spec = pod(charts["defaults"])
    assert spec["tolerations"] == [{"operator": "Exists"}]
    assert (spec["hostNetwork"], spec["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    (term,) = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert {"key": "type", "operator": "NotIn", "values": ["virtual-kubelet"]} in term[
        "matchExpressions"
    ]
    assert "affinity" not in pod(charts["memory"]), "these values have an empty affinity"


def test_network_policy(charts: dict[str, list[Manifest]]) -> None:
    """On the pod network, a NetworkPolicy permits IMDS, collector, Alertmanager, DNS and what the
    values add. On the node's network, to which policies do not apply, there is none.
    """
    assert not of_kind(charts["defaults"], "NetworkPolicy")
    manifest = only(charts["pod-network"], "NetworkPolicy")
    spec = manifest["spec"]
    labels = only(charts["pod-network"], "DaemonSet")["spec"]["template"]["metadata"]["labels"]
    assert spec["podSelector"]["matchLabels"].items() <= labels.items()
    azure, collector, more = spec["egress"]
    assert azure["to"] == [{"ipBlock": {"cidr": "169.254.169.254/32"}}]
    assert azure["ports"] == [{"port": 80, "protocol": "TCP"}]
    assert {(each["port"], each["protocol"]) for each in collector["ports"]} == {
        (443, "TCP"),  # the collector
        (9093, "TCP"),  # Alertmanager
        (53, "UDP"),  # DNS
        (53, "TCP"),
    }
    assert [more] == values_of("pod-network")["networkPolicy"]["extraEgress"]
    (ingress,) = spec["ingress"]
    assert ingress["ports"] == [{"port": "metrics", "protocol": "TCP"}]
    assert ingress["from"] == values_of("pod-network")["networkPolicy"]["ingressFrom"]
