"""Web configuration files: what each key means, and the error about everything that is wrong with one."""

import ssl
import sys
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.errors import UsageError
from azure_scheduled_events_exporter.http_server.access import Bucket, check
from azure_scheduled_events_exporter.http_server.tls import server_tls
from azure_scheduled_events_exporter.http_server.web_config import (
    TLS12_SUITES,
    TLS13_SUITES,
    ClientAuth,
    Pem,
    RateLimit,
    TlsSettings,
    WebConfig,
    load,
)
from support.paths import DATA
from support.servers.certificates import RSA, Authority, openssl

PAIR = "cert_file: server.pem, key_file: server.key"
PYTHON = "Python " + ".".join(str(part) for part in sys.version_info[:3])
HASHED = "$2y$04$9wpNWv7t5cQpUWkWVkSVSe1YcSyfVbqcL2cwFDxc46b8wqjYDbV2m"
_LINES = (DATA / "bad_web_config.txt").read_text().splitlines()[1:]
BAD = list(zip(_LINES[::2], _LINES[1::2], strict=True))


@pytest.fixture(name="folder", scope="module")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates good and bad, under the names that the bad configurations use."""
    folder = tmp_path_factory.mktemp("web")
    authority = Authority(folder)
    authority.server()
    authority.server("other")
    authority.server("rsa", RSA)
    authority.server("small", ("-newkey", "rsa:1024"))
    encryption = ("-aes128", "-passout", "pass:secret")
    openssl("pkey", "-in", folder / "server.key", *encryption, "-out", folder / "encrypted.key")
    (folder / "broken.pem").write_text("-----BEGIN CERTIFICATE-----\nbm8K\n-----END CERTIFICATE-----\n")
    (folder / "broken.key").write_text("-----BEGIN PRIVATE KEY-----\nbm8K\n-----END PRIVATE KEY-----\n")
    (folder / "huge.pem").write_text(" " * (1 << 20) + "x")
    return folder


def write(folder: Path, text: str) -> Path:
    """Write a web configuration beside the certificates."""
    path = folder / "web.yml"
    path.write_text(text + "\n")
    return path


@pytest.mark.parametrize(("text", "error"), BAD)
def test_error(text: str, error: str, folder: Path) -> None:
    """A mistake is refused with the file, the line, the key and what to write, and never a secret."""
    path = write(folder, text.replace("PAIR", PAIR))
    with pytest.raises(UsageError) as raised:
        check(path)
    shown = str(raised.value).removeprefix(str(path)).replace(f"{folder}/", "").replace(str(folder), "FOLDER")
    assert shown.replace(PYTHON, "PYTHON") == error.strip()
    assert "$2" not in shown


def test_no_file(tmp_path: Path) -> None:
    """A file that is not there is refused by name."""
    with pytest.raises(UsageError, match=r"web\.yml: cannot be read: No such file or directory"):
        check(tmp_path / "web.yml")


def test_every_key(folder: Path) -> None:
    """Every key of the toolkit's format has the meaning that its page describes; paths are relative to the file."""
    path = write(
        folder,
        f"""\
tls_server_config:
  cert_file: server.pem
  key_file: {folder}/server.key
  client_auth_type: RequireAndVerifyClientCert
  client_ca_file: ca.pem
  client_allowed_sans:
    - prometheus.example
    - 10.0.0.7
  min_version: TLS12
  max_version: TLS13
  cipher_suites:
    - TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
    - TLS_AES_128_GCM_SHA256
  prefer_server_cipher_suites: false
  curve_preferences:
    - CurveP256
http_server_config:
  http2: true
  headers:
    Content-Security-Policy: default-src 'none'
    X-Frame-Options: sameorigin
    X-XSS-Protection: ""
basic_auth_users:
  prometheus: {HASHED}
  Jürgen: {HASHED}
rate_limit:
  interval: 1s
  burst: 20
""",
    )
    check(path)
    assert load(path) == WebConfig(
        TlsSettings(
            "anywhere",
            Pem("anywhere", folder / "server.pem"),
            Pem("anywhere", folder / "server.key"),
            ClientAuth.REQUIRED,
            Pem("anywhere", folder / "ca.pem"),
            ("prometheus.example", "10.0.0.7"),
            "TLS12",
            "TLS13",
            ("ECDHE-ECDSA-AES128-GCM-SHA256",),
            prefer_server_cipher_suites=False,
            curves=("prime256v1",),
        ),
        ((b"prometheus", HASHED.encode()), ("Jürgen".encode(), HASHED.encode())),
        (("Content-Security-Policy", "default-src 'none'"), ("X-Frame-Options", "sameorigin")),
        RateLimit(1.0, 20),
    )


def test_defaults(folder: Path) -> None:
    """A certificate and its key are enough: TLS 1.2 and 1.3, without client certificates or passwords."""
    path = write(folder, f"tls_server_config: {{{PAIR}, client_auth_type: ''}}\nrate_limit: {{interval: 0}}")
    tls = TlsSettings("", Pem("", folder / "server.pem"), Pem("", folder / "server.key"))
    assert load(path) == WebConfig(tls)
    context = server_tls(tls).context
    assert (context.minimum_version, context.maximum_version) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
    assert context.verify_mode is ssl.CERT_NONE


def test_secrets_do_not_show(folder: Path) -> None:
    """Neither a hash nor an inline key appears when the configuration is shown."""
    key = (folder / "server.key").read_text().replace("\n", "\n    ")
    text = f"tls_server_config:\n  cert_file: server.pem\n  key: |\n    {key}\n"
    config = load(write(folder, f"{text}basic_auth_users: {{prometheus: {HASHED}}}\n"))
    assert config.tls
    assert "PRIVATE" in config.tls.key.text
    assert "PRIVATE" not in repr(config)
    assert "$2" not in repr(config)


def test_every_suite(folder: Path) -> None:
    """Every suite of TLS 1.2 that the toolkit lists can be chosen, with those of TLS 1.3."""
    assert len(TLS12_SUITES) == 10
    for suite in TLS12_SUITES:
        check(write(folder, f"tls_server_config: {{{PAIR}, cipher_suites: [{', '.join((suite, *TLS13_SUITES))}]}}"))


@pytest.mark.parametrize("curve", ["CurveP256", "CurveP384", "CurveP521"])
def test_every_curve(folder: Path, curve: str) -> None:
    """Every curve that each supported Python can set can be chosen."""
    check(write(folder, f"tls_server_config: {{{PAIR}, curve_preferences: {curve}}}"))


def test_rate() -> None:
    """A burst is let through at once, then one request an interval, and a rest earns the burst again, not more."""
    now = [100.0]
    bucket = Bucket(RateLimit(2.0, 3), lambda: now[0])
    assert [bucket.take() for _ in range(5)] == [True, True, True, False, False]
    now[0] += 1.9
    assert not bucket.take()
    now[0] += 0.2
    assert bucket.take()
    assert not bucket.take()
    now[0] += 3600
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]
