"""No secret that the exporter is given comes out of it again, except where it is for."""

import base64
from collections.abc import Callable
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.simulator import Simulator
from support.commands import command
from support.monitoring.collector import Collector, Reply
from support.programs import COMMAND, NOBODY, Exporter, Program, eventually, fetch
from support.servers.http_peer import Peer

PASSWORD = "correct-horse-battery"  # noqa: S105 - of nobody
TOKEN = "wgqK7sXo2vTzJ9dLbN4a"  # noqa: S105 - of nobody
HEADERS = f"authorization=Bearer%20{TOKEN},x-more=also-{TOKEN}"
# What people see of the secrets: as they are, and as Basic authentication writes them.
SPELLINGS = (PASSWORD, TOKEN, base64.b64encode(f"collector:{PASSWORD}".encode()).decode())


@pytest.fixture
def simulator() -> Simulator:
    """A metadata service that announces and starts events one after the other."""
    return Simulator("host-maintenance", speed=60, loop=True)


def with_password(url: str) -> str:
    """Return the address with a user and the password."""
    return url.replace("//", f"//collector:{PASSWORD}@")


def http_config_with(folder: Path, token: str) -> Path:
    """Write an HTTP client configuration whose token is in a file of its own; return its path."""
    (folder / "token").write_text(token)
    file = folder / "http.yml"
    file.write_text("authorization: {credentials_file: token}\n")
    return file


def assert_no_secret(where: str, text: str) -> None:
    """No spelling of a secret is in ``text``."""
    for secret in SPELLINGS:
        assert secret not in text, f"{where}: {text}"


def shown_over_http(exporter: Exporter) -> str:
    """Return all that the exporter shows over HTTP, with the headers."""
    pages = [
        fetch(f"{exporter.url}{path}")
        for path in ("/", "/metrics", "/api/v1/events", "/-/healthy", "/-/ready")
    ]
    return "\n".join(page.body.decode() + str(page.headers) for page in pages)


@pytest.mark.parametrize(
    ("collector_reply", "alertmanager_status"),
    [
        (Reply(), 200),
        (Reply(401), 401),
        (Reply(503), 503),
        (Reply(302, {"Location": f"http://{NOBODY}/"}), 302),
        (Reply(rejected=1), 400),
    ],
    ids=["accepts", "401", "503", "302", "rejects a part"],
)
def test_every_answer(
    collector_reply: Reply,
    alertmanager_status: int,
    simulator: Simulator,
    start_exporter: Callable[..., Exporter],
    tmp_path: Path,
) -> None:
    """With any answer of collector and Alertmanager, debug log, pages, metrics and journal contain
    no secret.
    """
    http_config = http_config_with(tmp_path, TOKEN)
    journal = tmp_path / "journal"
    elsewhere = {"Location": f"http://{NOBODY}/"}
    with (
        simulator,
        Collector(collector_reply) as collector,
        Peer(alertmanager_status, elsewhere) as alertmanager,
    ):
        urls = f"{with_password(alertmanager.url)},{with_password(f'http://{NOBODY}')}"
        exporter = start_exporter(
            simulator.url,
            *("--otlp.endpoint", with_password(collector.url), "--journal.path", str(journal)),
            *("--alertmanager.url", urls, "--alertmanager.http-config.file", str(http_config)),
            *("--log.level", "debug", "--log.format", "json", "--poll.interval", "100ms"),
            OTEL_EXPORTER_OTLP_HEADERS=HEADERS,
        )
        # A secret goes to the server that it is for.
        export = eventually(lambda: collector.received, "a request at the collector")[0]
        assert TOKEN in export.headers["authorization"] + export.headers["x-more"]
        pushes = eventually(lambda: alertmanager.requests, "a request at Alertmanager")
        _path, headers, _body = pushes[0]
        assert TOKEN in headers["Authorization"]
        exporter.shows("spans", lambda now: now.total("spans_total") + now.total("spans_queued"))
        exporter.shows("alerts are counted", lambda now: now.total("alertmanager_alerts_total"))
        assert_no_secret("pages", shown_over_http(exporter))
        assert exporter.terminate() == 0
    assert_no_secret("log", exporter.log)
    for file in journal.iterdir():
        assert_no_secret(file.name, file.read_bytes().decode(errors="replace"))


class TestCommandLine:
    """What a command prints ends up in tickets."""

    @staticmethod
    def output_of(tmp_path: Path, *arguments: str, **env: str) -> str:
        """Return all that a command prints, to either stream."""
        with Program([COMMAND, *arguments], tmp_path / "said.log", **env) as program:
            program.process.wait(30)
            return program.log

    def test_check_config(self, tmp_path: Path) -> None:
        """`check-config` shows where the spans go, without the password and without the headers."""
        file = tmp_path / "config.yml"
        file.write_text(
            f"otlp.endpoint: {with_password('https://collector.example.org')}\n"
            f"alertmanager.url: {with_password('http://a:9093')},{with_password('http://b:9093')}\n"
        )
        said = self.output_of(
            tmp_path, "check-config", "--config.file", str(file), OTEL_EXPORTER_OTLP_HEADERS=HEADERS
        )
        assert "otlp.endpoint: https://***@collector.example.org" in said
        assert "alertmanager.url: http://***@a:9093,http://***@b:9093" in said
        assert_no_secret("check-config", said)

    @pytest.mark.parametrize("flags", [(), ("--push",)])
    def test_drill(self, flags: tuple[str, ...], tmp_path: Path) -> None:
        """A drill shows neither the password of an Alertmanager that is away, nor that of one that
        answers oddly.
        """
        with Peer(200) as team:
            for url, reason in (
                (team.url, "is it an Alertmanager?"),
                ("http://127.0.0.1:1", "Connection refused"),
            ):
                said = self.output_of(
                    tmp_path, "drill", *flags, "--alertmanager", with_password(url)
                )
                assert f"{url}: " in said
                assert reason in said
                assert "Traceback" not in said
                assert_no_secret("drill", said)

    @pytest.mark.parametrize(("name", "status"), [("check-config", 2), ("doctor", 1)])
    def test_token_with_a_line_break(self, name: str, status: int, tmp_path: Path) -> None:
        """A token of more than one line is refused by the name of its file, and not repeated."""
        http_config = http_config_with(tmp_path, f"{TOKEN}\n{TOKEN}\n")
        flags = (
            "--imds.endpoint",
            "http://127.0.0.1:1",
            "--alertmanager.url",
            "http://127.0.0.1:1",
        )
        done = command(name, *flags, "--alertmanager.http-config.file", str(http_config))
        assert (
            "authorization.credentials_file: token: has a line break" in done.stdout + done.stderr
        )
        assert done.returncode == status
        assert_no_secret(name, done.stdout + done.stderr)
