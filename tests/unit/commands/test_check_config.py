"""The command ``check-config``: settings that are good, and the line that refuses each bad one."""

from pathlib import Path

import bcrypt

from azure_scheduled_events_exporter.config.resolution import state_folder
from support.commands import command
from support.programs import environment
from support.servers.certificates import Authority


def test_good(tmp_path: Path) -> None:
    """Every setting is listed with its value and where it is set."""
    file = tmp_path / "config.yml"
    file.write_text("imds.timeout: 5s\n")
    flags = ("--config.file", str(file), "--log.level", "debug")
    done = command("check-config", *flags, AZURE_SCHEDULED_EVENTS_POLL_INTERVAL="2s")
    assert (done.returncode, done.stderr) == (0, "")
    for line in (
        "log.level: debug   [--log.level]",
        "poll.interval: 2s   [environment variable AZURE_SCHEDULED_EVENTS_POLL_INTERVAL]",
        f"imds.timeout: 5s   [{file}:1: imds.timeout]",
        "imds.api-version: 2020-07-01   [default]",
        f"journal.path: {state_folder(environment())}   [default]",
    ):
        assert line in done.stdout.splitlines()


def test_who_may_read(tmp_path: Path) -> None:
    """One line says what the web configuration does: its users, and until when TLS works."""
    hashed = bcrypt.hashpw(b"sesame", bcrypt.gensalt(4)).decode()
    users = tmp_path / "users.yml"
    users.write_text(f"basic_auth_users: {{me: {hashed}}}\n")
    done = command("check-config", "--web.config.file", str(users))
    assert done.stdout.endswith(
        "\nweb configuration: plain HTTP; users: me (a password was checked as a test)\n"
    )
    year_2100 = 4_102_444_800
    pair = Authority(tmp_path).ending("server", year_2100)
    tls = tmp_path / "tls.yml"
    tls.write_text(
        f"tls_server_config: {{cert_file: {pair.certificate}, key_file: {pair.key},"
        f" client_auth_type: RequireAndVerifyClientCert, client_ca_file: {pair.certificate}}}\n"
    )
    done = command("check-config", "--web.config.file", str(tls))
    assert done.stdout.endswith(
        "\nweb configuration: TLS, the certificate is valid until 2100-01-01T00:00:00Z; client"
        " certificates are required; no users\n"
    ), done
    assert "web configuration" not in command("check-config").stdout


def test_warnings() -> None:
    """Settings that hide something are valid, and each is warned of: an old api-version, and polls
    more than 50 s apart.
    """
    done = command("check-config", "--imds.api-version", "2017-03-01", "--poll.interval", "2m")
    assert done.returncode == 0
    version, interval = done.stderr.splitlines()
    assert "2017-03-01 does not show events of type" in version
    assert "Preempt" in version
    assert "Terminate" in version
    assert "--poll.interval 2m is longer than 50s" in interval
    assert (
        "two documents more than 1m apart"
        in command("check-config", "--poll.interval", "1m").stderr
    )
    assert command("check-config", "--poll.interval", "50s").stderr == ""
