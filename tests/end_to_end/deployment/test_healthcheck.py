"""The container's HEALTHCHECK with every configuration of the listen address."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.simulator import Simulator
from support.paths import ROOT
from support.programs import NOBODY, Exporter, environment
from support.servers.certificates import Authority

PROGRAM = ROOT / "deploy/container/healthcheck.py"
Start = Callable[..., Exporter]


def error_of_check(**variables: str) -> str:
    """Run the check with these settings in its environment; return its error, ``""`` if the
    exporter is healthy.
    """
    own = {f"AZURE_SCHEDULED_EVENTS_{name}": text for name, text in variables.items()}
    command = [sys.executable, str(PROGRAM)]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, env=environment(**own), timeout=60
    )
    assert done.returncode == (1 if done.stderr else 0), done
    return done.stderr


def test_plain(simulator: Simulator, start_exporter: Start, tmp_path: Path) -> None:
    """The check finds the exporter by the environment or by the configuration file, and reports if
    there is none.
    """
    exporter = start_exporter(simulator.url)
    assert not error_of_check(WEB_LISTEN_ADDRESS=f":{exporter.port}")
    file = tmp_path / "config.yaml"
    file.write_text(f"web: {{listen-address: '0.0.0.0:{exporter.port}'}}\n")
    assert not error_of_check(CONFIG_FILE=str(file))
    assert "not healthy: " in error_of_check(WEB_LISTEN_ADDRESS=NOBODY)


def with_tls(folder: Path, client_auth: str) -> Path:
    """Return a web configuration file with TLS, which asks clients for a certificate or not."""
    authority = Authority(folder)
    pair = authority.server()
    ca = f", client_ca_file: {authority.own.certificate}" if client_auth != "NoClientCert" else ""
    file = folder / "web.yaml"
    file.write_text(
        f"tls_server_config: {{cert_file: {pair.certificate}, key_file: {pair.key}, "
        f"client_auth_type: {client_auth}{ca}}}\n"
    )
    return file


@pytest.mark.parametrize("client_auth", ["NoClientCert", "RequireAndVerifyClientCert"])
def test_tls(client_auth: str, simulator: Simulator, start_exporter: Start, tmp_path: Path) -> None:
    """The check has no certificate of a client. An exporter that asks clients for one is healthy,
    too: that it asks shows that it answers.
    """
    exporter = start_exporter(
        simulator.url, "--web.config.file", str(with_tls(tmp_path, client_auth))
    )
    assert not error_of_check(WEB_LISTEN_ADDRESS=f"127.0.0.1:{exporter.port}")


def test_environment_file(simulator: Simulator, start_exporter: Start, tmp_path: Path) -> None:
    """The check reads the environment file that ``run`` reads; a variable of its own takes
    precedence.
    """
    exporter = start_exporter(simulator.url)
    file = tmp_path / "environment"
    file.write_text(f"# where\nAZURE_SCHEDULED_EVENTS_WEB_LISTEN_ADDRESS=':{exporter.port}'\n")
    assert not error_of_check(ENV_FILE=str(file))
    assert "not healthy: " in error_of_check(ENV_FILE=str(file), WEB_LISTEN_ADDRESS=NOBODY)
    assert "environment: cannot be read" in error_of_check(
        ENV_FILE=str(tmp_path / "missing" / "environment")
    )
