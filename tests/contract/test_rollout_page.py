"""docs/rollout.md is correct: what it installs on many VMs, and how."""

import json
import os
import re
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from azure_scheduled_events_exporter import __version__
from support.documented import blocks
from support.paths import ROOT
from support.programs import COMMAND

PAGE = ROOT / "docs" / "rollout.md"
ROLLOUT = ROOT / "deploy" / "examples" / "rollout"
POLICY = json.loads((ROLLOUT / "azure-policy.json").read_text())["properties"]
RULES = ROOT / "alerts" / "generated" / "prometheus" / "prometheus-rules.yml"


def blocks_in(language: str) -> list[str]:
    """Return the page's blocks of code in one language."""
    return [each.text for each in blocks(PAGE) if each.language == language]


def test_cloud_init() -> None:
    """The custom data is a cloud-config that writes the script as it is, and runs it for this
    version.
    """
    text = (ROLLOUT / "cloud-init.yaml").read_text()
    assert text.startswith("#cloud-config\n")
    config = yaml.safe_load(text)
    assert config.keys() == {"write_files", "runcmd"}
    files = {each["path"]: each for each in config["write_files"]}
    assert all(each.keys() == {"path", "permissions", "content"} for each in files.values())
    ((program, version),) = config["runcmd"]
    assert files[program]["content"] == (ROLLOUT / "install").read_text()
    assert (files[program]["permissions"], version) == ("0755", __version__)
    variables = files["/etc/azure-scheduled-events-exporter/environment"]["content"].split()
    done = subprocess.run(
        [COMMAND, "check-config"],
        env={**os.environ, **dict(each.split("=") for each in variables)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_cloud_init_with_a_wheel() -> None:
    """The page's command for a wheel that is in no index runs the script that the custom data
    writes, for the version of the wheel.
    """
    ((script, _version),) = yaml.safe_load((ROLLOUT / "cloud-init.yaml").read_text())["runcmd"]
    (text,) = [
        each.text
        for each in blocks(PAGE)
        if "PIP_FIND_LINKS=" in each.text and "runcmd" in each.text
    ]
    ((program, variable, called, version),) = yaml.safe_load(text)["runcmd"]
    assert (program, called) == ("env", script)
    name, _, address = variable.partition("=")
    assert name == "PIP_FIND_LINKS"
    assert address.endswith(f"/azure_scheduled_events_exporter-{version}-py3-none-any.whl")


def strings(node: Any) -> Iterator[str]:
    """Yield every text in a part of a JSON document."""
    if isinstance(node, str):
        yield node
    if isinstance(node, dict):
        node = list(node.values())
    if isinstance(node, list):
        for each in node:
            yield from strings(each)


def parameters_used(node: Any) -> set[str]:
    """Return the names of the parameters that a part of a template or policy uses."""
    return {name for text in strings(node) for name in re.findall(r"parameters\('(\w+)'\)", text)}


def check_template(template: dict[str, Any], kind: str) -> None:
    """Check that a deployment template declares the parameters that it uses, and installs the
    extension that runs the script, as a resource of the type ``kind``.
    """
    assert re.fullmatch(
        r"https://schema\.management\.azure\.com/.*/deploymentTemplate\.json#", template["$schema"]
    )
    assert template["contentVersion"] == "1.0.0.0"
    assert parameters_used(template["resources"]) == set(template["parameters"])
    (resource,) = template["resources"]
    assert resource["type"] == kind
    extension = resource["properties"]
    assert (extension["publisher"], extension["type"]) == (
        "Microsoft.Azure.Extensions",
        "CustomScript",
    )
    assert extension["settings"] == {
        "fileUris": ["[parameters('installUrl')]"],
        "commandToExecute": (
            "[concat(if(empty(parameters('indexUrl')), '', concat('PIP_INDEX_URL=\"',"
            " parameters('indexUrl'), '\" ')), 'PIP_FIND_LINKS=\"', parameters('findLinks'), '\" sh"
            " install ', parameters('exporterVersion'))]"
        ),
    }


def test_vm_extension() -> None:
    """The template for scale sets is whole, and the command on the page gives it all parameters
    without a default.
    """
    template = json.loads((ROLLOUT / "vm-extension.json").read_text())
    check_template(template, "Microsoft.Compute/virtualMachineScaleSets/extensions")
    (command,) = [text for text in blocks_in("sh") if "deployment group" in text]
    required = {name for name, each in template["parameters"].items() if "defaultValue" not in each}
    assert set(re.findall(r"(\w+)=\S+", command)) == required


def test_azure_policy() -> None:
    """The policy is complete: its parameters are declared, passed to its template, and given by the
    page's command.
    """
    assert POLICY["mode"] == "Indexed"
    rule = POLICY["policyRule"]
    assert rule.keys() == {"if", "then"}
    details = rule["then"]["details"]
    deployment = details["deployment"]["properties"]
    check_template(deployment["template"], details["type"])
    assert set(deployment["parameters"]) == set(deployment["template"]["parameters"])
    # The policy without its template, whose parameters are its own.
    outside = {
        **rule,
        "then": {**rule["then"], "details": {**details, "deployment": deployment["parameters"]}},
    }
    assert parameters_used(outside) == set(POLICY["parameters"])
    (command,) = [text for text in blocks_in("sh") if "policy assignment" in text]
    (given,) = re.findall(r"--params '(.*)'", command)
    assert set(json.loads(given)) == {
        name for name, each in POLICY["parameters"].items() if "defaultValue" not in each
    }


def test_azure_policy_sees_whether_the_exporter_is_installed() -> None:
    """A VM conforms if it has the extension of the template, in this version and successfully
    installed. On any other VM, the policy installs it, and has the role to do so.
    """
    details = POLICY["policyRule"]["then"]["details"]
    assert details["roleDefinitionIds"]
    (extension,) = details["deployment"]["properties"]["template"]["resources"]
    installed = extension["properties"]
    conditions = {
        condition["field"]: condition["equals"]
        for condition in details["existenceCondition"]["allOf"]
    }
    kind = details["type"]
    assert conditions == {
        f"{kind}/publisher": installed["publisher"],
        f"{kind}/type": installed["type"],
        # The version of the exporter: a VM with another one does not conform.
        f"{kind}/forceUpdateTag": installed["forceUpdateTag"],
        f"{kind}/provisioningState": "Succeeded",
    }


def test_azure_policy_installs_where_prometheus_looks() -> None:
    """The policy installs the exporter on the VMs with the tag by which Prometheus finds them."""
    prometheus = yaml.safe_load(
        (ROOT / "alerts" / "generated" / "prometheus" / "prometheus-azure-sd.yml").read_text()
    )
    (found,) = [
        each
        for each in prometheus["scrape_configs"][0]["relabel_configs"]
        if each.get("action") == "keep"
    ]
    assert found["source_labels"] == ["__meta_azure_machine_tag_azure_scheduled_events"]
    has_the_tag = {"field": "tags['azure_scheduled_events']", "equals": found["regex"]}
    assert has_the_tag in POLICY["policyRule"]["if"]["allOf"]


STAND_IN_FOR_PYTHON = """\
#!/bin/sh
case "$1" in
-c) exit 0 ;;
-m) mkdir -p "$3/bin"
    printf '#!/bin/sh\\necho pip "$@" >>"%s"\\n' "$CALLS" >"$3/bin/pip"
    exporter=$3/bin/azure-scheduled-events-exporter
    printf '#!/bin/sh\\nmkdir -p "$3/systemd"\\ncp "%s"/* "$3/systemd/"\\n' "$UNITS" >"$exporter"
    chmod +x "$3"/bin/* ;;
esac
"""
"""Stands in for Python on a VM. With ``-c``, the check of its version, it is new enough. With ``-m
venv FOLDER``, it makes a virtual environment of two stand-ins: pip, which writes down how it was
called, and the exporter, which exports the units.
"""
EXPORTER = "azure-scheduled-events-exporter"


class Machine:
    """A VM below ``root``, with stand-ins for Python and systemctl, on which ``install`` is run.

    Attributes:
        calls: a file to which pip and systemctl append a line for each time that they are called.
    """

    def __init__(self, root: Path) -> None:
        for folder in ("bin", "opt", "etc/systemd/system", "usr/local/bin"):
            (root / folder).mkdir(parents=True)
        self.calls = root / "calls"
        self.command = root / "usr/local/bin" / EXPORTER
        self.virtual_environment = root / "opt" / EXPORTER
        self.unit = root / "etc/systemd/system" / f"{EXPORTER}.service"
        self._write_program(root / "bin/python3", STAND_IN_FOR_PYTHON)
        self._write_program(
            root / "bin/systemctl", f'#!/bin/sh\necho systemctl "$@" >>"{self.calls}"\n'
        )
        self._env = {
            "PATH": f"{root / 'bin'}:/usr/bin:/bin",
            "CALLS": str(self.calls),
            "UNITS": str(ROOT / "deploy" / "systemd"),
        }
        self._script = (ROLLOUT / "install").read_text()
        for folder in ("opt", "etc", "usr"):
            self._script = self._script.replace(f"=/{folder}/", f"={root}/{folder}/")

    def install(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the script, with an umask that lets nobody else read what it makes."""
        self.calls.write_text("")
        return subprocess.run(
            ["/bin/sh", "-c", self._script, "install", *arguments],
            env=self._env,
            umask=0o077,
            capture_output=True,
            text=True,
            check=False,
        )

    @staticmethod
    def _write_program(path: Path, text: str) -> None:
        path.write_text(text)
        path.chmod(0o755)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A VM without the exporter."""
    return Machine(tmp_path)


def test_install(machine: Machine) -> None:
    """The script installs the given version and its unit, and restarts it; run again, it
    upgrades.
    """
    assert os.access(ROLLOUT / "install", os.X_OK)
    for version in ("1.2.3", "1.2.4"):
        done = machine.install(version)
        assert done.returncode == 0, done.stderr
        assert machine.calls.read_text().splitlines() == [
            f"pip install --quiet --disable-pip-version-check {EXPORTER}=={version}",
            "systemctl daemon-reload",
            f"systemctl enable --quiet {machine.unit.name}",
            f"systemctl restart {machine.unit.name}",
        ]
        shipped = ROOT / "deploy" / "systemd" / machine.unit.name
        assert machine.unit.read_text() == shipped.read_text()


def test_every_user_can_run_what_is_installed(machine: Machine) -> None:
    """The command in /usr/local/bin leads to the virtual environment, and every user can run it,
    though the umask of root forbids that.
    """
    assert machine.install("1.2.3").returncode == 0
    program = machine.virtual_environment / "bin" / EXPORTER
    assert machine.command.resolve() == program
    read_and_execute = stat.S_IROTH | stat.S_IXOTH
    for path in (machine.virtual_environment, program.parent, program):
        assert path.stat().st_mode & read_and_execute == read_and_execute, path


def test_install_without_a_version(machine: Machine) -> None:
    """Without a version, the script prints its usage and fails."""
    done = machine.install()
    assert done.returncode != 0
    assert "usage: install VERSION" in done.stderr
