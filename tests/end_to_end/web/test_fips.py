"""Users, TLS and traces on a host in FIPS mode (``fips_mode.py``)."""

import ssl
import sys
import urllib.request
from dataclasses import replace
from pathlib import Path

import bcrypt

from azure_scheduled_events_exporter.simulator import Simulator, find
from support.monitoring.collector import Collector
from support.paths import TESTS
from support.programs import PATIENCE, Program, eventually
from support.servers.certificates import Authority
from support.servers.serving import basic

(SHIPPED,) = find("live-migration")
MIGRATION = replace(SHIPPED, events=(replace(SHIPPED.events[0], announced_at=0.0),))
FIPS = [sys.executable, str(TESTS / "support" / "hosts" / "fips_mode.py")]


def test_a_host_in_fips_mode(tmp_path: Path) -> None:
    """In FIPS mode, a request with a password gets metrics over TLS, and spans are sent."""
    authority = Authority(tmp_path)
    pair = authority.server()
    hashed = bcrypt.hashpw(b"sesame", bcrypt.gensalt(4)).decode()
    web = tmp_path / "web.yaml"
    web.write_text(
        f"tls_server_config: {{cert_file: {pair.certificate}, key_file: {pair.key}}}\n"
        f"basic_auth_users: {{me: {hashed}}}\n"
    )
    trust = ssl.create_default_context(cafile=authority.own.certificate)
    with Simulator(MIGRATION) as simulator, Collector() as collector:
        settings = {
            "imds.endpoint": simulator.url,
            "web.listen-address": "127.0.0.1:0",
            "web.config.file": str(web),
            "journal.path": str(tmp_path / "state"),
            "otlp.endpoint": collector.url,
            "tracing.scope": "all",
        }
        flags = [part for name, value in settings.items() for part in (f"--{name}", value)]
        with Program([*FIPS, "run", *flags], tmp_path / "log") as exporter:
            port = exporter.wait_for_line(r"msg=listening.* port=(\d+)")[1]
            request = urllib.request.Request(
                f"https://localhost:{port}/metrics",
                headers={"Authorization": basic("me", "sesame")},
            )
            with urllib.request.urlopen(request, timeout=PATIENCE, context=trust) as answer:  # noqa: S310
                assert b"azure_scheduled_events_up" in answer.read()
            eventually(lambda: collector.accepted, "a span at the collector")
