"""Web configuration files: what each key means, and the error about everything that is wrong with
one.
"""

import ssl
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.errors import UsageError
from azure_scheduled_events_exporter.http_server.web_config import load
from support.paths import DATA
from support.servers.certificates import RSA, Authority, openssl

PAIR = "cert_file: server.pem, key_file: server.key"
HASHED = "$2y$04$9wpNWv7t5cQpUWkWVkSVSe1YcSyfVbqcL2cwFDxc46b8wqjYDbV2m"
# The file has a line that explains it, and then pairs of lines: a configuration, and its error.
_, *_LINES = (DATA / "bad_web_config.txt").read_text().splitlines()
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
    (folder / "broken.pem").write_text(
        "-----BEGIN CERTIFICATE-----\nbm8K\n-----END CERTIFICATE-----\n"
    )
    (folder / "broken.key").write_text(
        "-----BEGIN PRIVATE KEY-----\nbm8K\n-----END PRIVATE KEY-----\n"
    )
    (folder / "huge.pem").write_text(" " * (1 << 20) + "x")
    return folder


def write(folder: Path, text: str) -> Path:
    """Write a web configuration beside the certificates."""
    path = folder / "web.yml"
    path.write_text(text + "\n")
    return path


@pytest.mark.parametrize(("text", "error"), BAD)
def test_error(text: str, error: str, folder: Path) -> None:
    """A mistake is refused with file, line, key and what to write, and no secret is shown."""
    path = write(folder, text.replace("PAIR", PAIR))
    with pytest.raises(UsageError) as raised:
        load(path)
    after_the_file_name = str(raised.value).removeprefix(str(path))
    message = after_the_file_name.replace(f"{folder}/", "").replace(str(folder), "FOLDER")
    assert message == error.strip()
    assert "$2" not in message, "every hash of bcrypt begins so"


def test_every_key(folder: Path) -> None:
    """Every key of the toolkit's format has the meaning that its page describes; paths are relative
    to the file.
    """
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
  min_version: TLS13
  prefer_server_cipher_suites: false
http_server_config:
  http2: true
  headers:
    Content-Security-Policy: default-src 'none'
    X-Frame-Options: sameorigin
    X-XSS-Protection: ""
basic_auth_users:
  prometheus: {HASHED}
  Jürgen: {HASHED}
""",
    )
    config = load(path)
    assert config.tls
    assert config.tls.files == (folder / "server.pem", folder / "server.key", folder / "ca.pem")
    assert config.tls.client_names == {"prometheus.example", "10.0.0.7"}
    assert config.tls.context.verify_mode is ssl.CERT_REQUIRED
    assert config.tls.context.minimum_version is ssl.TLSVersion.TLSv1_3
    assert config.users == {b"prometheus": HASHED.encode(), "Jürgen".encode(): HASHED.encode()}
    assert config.headers == (
        ("Content-Security-Policy", "default-src 'none'"),
        ("X-Frame-Options", "sameorigin"),
    )


def test_defaults(folder: Path) -> None:
    """A certificate and its key are enough: TLS 1.2 and newer, without client certificates or
    passwords.
    """
    config = load(write(folder, f"tls_server_config: {{{PAIR}}}"))
    assert config.tls
    assert config.tls.context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert config.tls.context.verify_mode is ssl.CERT_NONE
    assert (config.users, config.headers) == ({}, ())


def test_secrets_do_not_show(folder: Path) -> None:
    """A hash does not appear when the configuration is shown."""
    assert "$2y$" not in repr(load(write(folder, f"basic_auth_users: {{prometheus: {HASHED}}}\n")))
