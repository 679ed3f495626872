"""TLS and users on the real exporter: only Prometheus and other clients with certificate and
password have access.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import bcrypt
import pytest
from playwright.sync_api import Error, expect

from azure_scheduled_events_exporter.http_server.web_config import load
from azure_scheduled_events_exporter.simulator import Simulator
from support.browser import chromium
from support.documented import Block, blocks
from support.paths import ROOT
from support.programs import COMMAND, PATIENCE, Exporter, Prometheus, environment, eventually
from support.quiet import QUIET
from support.servers.certificates import Authority, Pair

PAGE = ROOT / "docs" / "web-config.md"
FILES = [
    block
    for block in blocks(PAGE)
    if block.language == "yaml" and "scrape_configs" not in block.text
]
"""The web configurations on the page, which has scrape configurations, too."""
GUARDED = """\
tls_server_config:
  cert_file: server.pem
  key_file: server.key
  client_auth_type: RequireAndVerifyClientCert
  client_ca_file: ca.pem
  client_allowed_sans: [prometheus.example]
basic_auth_users:
  prometheus: {}
"""


def hashed(password: str) -> str:
    """Return a bcrypt hash as cheap as there is."""
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()


@pytest.fixture(name="simulator", scope="module")
def _simulator() -> Iterator[Simulator]:
    with Simulator(QUIET) as running:
        yield running


@pytest.fixture(name="authority")
def _authority(tmp_path: Path) -> Authority:
    authority = Authority(tmp_path)
    authority.server()
    authority.client()
    return authority


def check_config(*flags: str | Path) -> subprocess.CompletedProcess[str]:
    """Run check-config to its end."""
    arguments = [COMMAND, "check-config", "--web.config.file", *flags]
    return subprocess.run(
        arguments, env=environment(), capture_output=True, text=True, timeout=60, check=False
    )


@dataclass(frozen=True)
class ScrapeJob:
    """One way in which a Prometheus scrapes the exporter, by the name of its job."""

    name: str
    certificate: Pair | None
    password: str

    def configuration(self, authority: Authority, port: int) -> dict[str, object]:
        """Return the scrape configuration of the exporter on this port."""
        tls = {"ca_file": str(authority.own.certificate)}
        if self.certificate:
            tls["cert_file"] = str(self.certificate.certificate)
            tls["key_file"] = str(self.certificate.key)
        return {
            "job_name": self.name,
            "scheme": "https",
            "tls_config": tls,
            "basic_auth": {"username": "prometheus", "password": self.password},
            "static_configs": [{"targets": [f"localhost:{port}"]}],
        }


def test_prometheus(
    simulator: Simulator,
    authority: Authority,
    start_exporter: Callable[..., Exporter],
    tmp_path: Path,
) -> None:
    """Prometheus with certificate and password sees the exporter up; without a certificate, with
    another one, with a wrong password or over plain HTTP, down.
    """
    (tmp_path / "web.yml").write_text(GUARDED.format(hashed("secret")))
    exporter = start_exporter(simulator.url, "--web.config.file", str(tmp_path / "web.yml"))
    client = authority.client()
    outsider = authority.client("outsider", "DNS:outsider.example")
    jobs = (
        ScrapeJob("right", client, "secret"),
        ScrapeJob("wrong password", client, "wrong secret"),
        ScrapeJob("wrong name", outsider, "secret"),
        ScrapeJob("no certificate", None, "secret"),
    )
    expected = {
        f"__name__=up,instance=localhost:{exporter.port},job={job.name}": float(job.name == "right")
        for job in jobs
    }
    target = f"127.0.0.1:{exporter.port}"
    # The job that every Prometheus of the tests has speaks plain HTTP.
    expected[f"__name__=up,instance={target},job=exporter"] = 0.0
    configurations = [job.configuration(authority, exporter.port) for job in jobs]
    with Prometheus(tmp_path, target, interval="3s", jobs=configurations) as prometheus:
        eventually(lambda: prometheus.query("up") == expected, "only the right one up")
        eventually(
            lambda: (prometheus.one('count_over_time(up{job="right"}[1m])') or 0) > 2,
            "some more scrapes",
        )
        assert prometheus.query("up") == expected
        assert prometheus.one('min_over_time(up{job="right"}[1m])') == 1
        assert prometheus.one('azure_scheduled_events_up{job="right"}') == 1
    assert exporter.lines("level=error") + exporter.lines("level=warning") == []
    assert "secret" not in exporter.log, "no password, also not the wrong one"
    assert exporter.terminate() == 0


def test_browser(
    simulator: Simulator,
    authority: Authority,
    start_exporter: Callable[..., Exporter],
    tmp_path: Path,
) -> None:
    """A browser that was given the password shows the status page, and the page keeps itself up to
    date with it.
    """
    users = f"basic_auth_users: {{somebody: {hashed('secret')}}}\n"
    file = tmp_path / "web.yml"
    file.write_text(
        f"tls_server_config: {{cert_file: {authority.server().certificate}, key_file:"
        f" server.key}}\n{users}"
    )
    exporter = start_exporter(
        simulator.url, "--web.config.file", str(file), "--poll.interval", "250ms"
    )
    base = f"https://localhost:{exporter.port}/"
    with chromium() as browser:
        with_password = browser.new_context(
            ignore_https_errors=True,
            http_credentials={"username": "somebody", "password": "secret"},
        )
        page = with_password.new_page()
        answer = page.goto(base)
        assert answer is not None
        assert answer.status == 200
        # The moment of the page's content, which is another once it has updated itself.
        first_moment = page.locator("main").get_attribute("data-now")
        updated = page.locator(f"main:not([data-now='{first_moment}'])")
        expect(updated).to_have_count(1, timeout=PATIENCE * 1000)
        assert "stale" not in (page.locator("body").get_attribute("class") or "")
        # A person would be asked for the password; without one, Chromium shows this error.
        without_password = browser.new_context(ignore_https_errors=True).new_page()
        with pytest.raises(Error, match="ERR_INVALID_AUTH_CREDENTIALS"):
            without_password.goto(base)


@pytest.mark.parametrize(
    "text", ["tls_server_config: {cert_file: nowhere.pem, key_file: nowhere.key}\n", None]
)
def test_wrong_from_the_start(text: str | None, tmp_path: Path) -> None:
    """With a file that names a missing certificate, or that is missing itself (None), run does not
    start. It prints what check-config prints, and both end with status 2.
    """
    file = tmp_path / "web.yml"
    if text:
        file.write_text(text)
    flags = [
        "--journal.path",
        "memory",
        "--web.listen-address",
        "127.0.0.1:0",
        "--web.config.file",
        str(file),
    ]
    run = [COMMAND, "run", "--imds.endpoint", "http://127.0.0.1:1", *flags]
    for done in (
        subprocess.run(
            run, env=environment(), capture_output=True, text=True, timeout=60, check=False
        ),
        check_config(file),
    ):
        assert done.returncode == 2
        *_, line = done.stderr.splitlines()  # before it the log may have a line
        assert "Traceback" not in done.stderr
        assert str(file) in line
        assert "cannot be read: No such file or directory" in line


@pytest.mark.parametrize("block", [pytest.param(block, id=block.place) for block in FILES])
def test_documented_files(block: Block, authority: Authority, tmp_path: Path) -> None:
    """Each web configuration on the page about it is one that the exporter takes, in a folder with
    the certificates and keys that the page names.
    """
    made_here = {"tls.crt": "server.pem", "tls.key": "server.key", "clients-ca.crt": "ca.pem"}
    for name_on_the_page, name_here in made_here.items():
        shutil.copy(authority.folder / name_here, tmp_path / name_on_the_page)
    file = tmp_path / "documented.yml"
    file.write_text(block.text)
    done = check_config(file)
    assert done.returncode == 0, done.stderr


def test_documented_hash(tmp_path: Path) -> None:
    """The command on the page hashes the typed password as the exporter expects it."""
    [command] = re.findall(r"(?m)^/opt/\S+/bin/python3 -c '(.+bcrypt.+)'$", PAGE.read_text())
    done = subprocess.run(
        [sys.executable, "-c", command],
        input="sécret\n",
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=True,
        start_new_session=True,  # no terminal to ask at
    )
    made = done.stdout.split()[-1]
    assert bcrypt.checkpw("sécret".encode(), made.encode())
    file = tmp_path / "web.yml"
    file.write_text(f"basic_auth_users: {{prometheus: {made}}}\n")
    assert load(file).users == {b"prometheus": made.encode()}
