"""Files with the credentials of clients."""

from pathlib import Path
from shutil import copyfile

import bcrypt
import pytest

from azure_scheduled_events_exporter.errors import UsageError
from azure_scheduled_events_exporter.http_client.http_config import HttpConfig, load
from support.servers.certificates import Authority


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Return a certificate authority."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("basic_auth: {username: me, password: sesame}", HttpConfig(user=("me", "sesame"))),
        ("basic_auth: {username: me, password_file: secret}", HttpConfig(user=("me", "hidden"))),
        (
            "basic_auth: {username_file: secret, password: sesame}",
            HttpConfig(user=("hidden", "sesame")),
        ),
        ("follow_redirects: false\nenable_http2: true", HttpConfig()),
        ("tls_config: {server_name: am.example}", HttpConfig(server_name="am.example")),
        ("authorization: {credentials: token}", HttpConfig(authorization="Bearer token")),
        (
            "authorization: {type: Token, credentials_file: secret}",
            HttpConfig(authorization="Token hidden"),
        ),
        ("tls_config: {insecure_skip_verify: true}", HttpConfig(insecure=True)),
        ("authorization:\n  credentials: |\n    token\n", HttpConfig(authorization="Bearer token")),
        (
            "basic_auth:\n  username: me\n  password: |\n    pä ss\n",
            HttpConfig(user=("me", "pä ss")),
        ),
    ],
)
def test_http_config(text: str, expected: HttpConfig, tmp_path: Path) -> None:
    """Each key is read, and credentials come from the file itself or from files beside it."""
    (tmp_path / "secret").write_text("hidden\n")
    (tmp_path / "http.yaml").write_text(text)
    assert load(tmp_path / "http.yaml") == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "bearer_token: x",
            "unknown key; known here: authorization, basic_auth, enable_http2, follow_redirects",
        ),
        ("basic_auth: {password: sesame}", "'username' is missing"),
        (
            "follow_redirects: true",
            r"http.yaml:1: follow_redirects: redirects are never followed: write false",
        ),
        ("authorization: {credentials_file: nowhere}", "nowhere: cannot be read: No such file"),
        ("tls_config: {cert_file: http.yaml}", "cert_file and key_file belong together"),
        (
            "tls_config: {ca_file: nope.pem}",
            r"http.yaml:1: tls_config.ca_file: .*/nope.pem: cannot be read: No such file",
        ),
        ("tls_config: {ca_file: two}", r"http.yaml:1: tls_config.ca_file: holds no certificate"),
        (
            "tls_config: {cert_file: own.pem, key_file: two}",
            r"http.yaml:1: tls_config.key_file: cannot be used with cert_file",
        ),
        (
            "tls_config: {cert_file: own.pem, key_file: locked.pem}",
            r"http.yaml:1: tls_config.key_file: is encrypted, and nobody can enter the passphrase",
        ),
        (
            "basic_auth: {username: me, password_file: marked}",
            r"basic_auth.password_file: marked: begins with a byte order mark",
        ),
        (
            "basic_auth: {username: a, password: sesame}\nauthorization: {credentials: b}",
            "exclude each other: keep one",
        ),
        (
            "basic_auth: {username: a, password: sesame, password_file: http.yaml}",
            "exclude each other: keep one",
        ),
        (
            'authorization: {credentials: "a\\nsesame"}',
            r"http.yaml:1: authorization.credentials: has a line break",
        ),
        (
            'basic_auth: {username: me, password: "a\\0sesame"}',
            r"basic_auth.password: has a line break or another",
        ),
        (
            "authorization: {credentials_file: two}",
            r"authorization.credentials_file: two: has a line break",
        ),
        (
            "authorization: {credentials: ses\u00e4me}",
            r"http.yaml:1: authorization: has a character outside ASCII",
        ),
        (
            "authorization: {type: T\u00f6ken, credentials: sesame}",
            r"authorization: has a character outside ASCII",
        ),
    ],
)
def test_bad_http_config(text: str, message: str, tmp_path: Path, authority: Authority) -> None:
    """A file that is wrong is refused by name, without its secrets."""
    (tmp_path / "two").write_text("first\nsesame\n")
    (tmp_path / "marked").write_text("\ufeffsesame\n")
    copyfile(authority.own.certificate, tmp_path / "own.pem")
    (tmp_path / "locked.pem").write_text("-----BEGIN ENCRYPTED PRIVATE KEY-----\n")
    (tmp_path / "http.yaml").write_text(text)
    with pytest.raises(UsageError, match=message) as raised:
        load(tmp_path / "http.yaml")
    assert "sesame" not in str(raised.value)
    assert "ses\u00e4me" not in str(raised.value)


def test_a_certificate_of_the_client(tmp_path: Path, authority: Authority) -> None:
    """A certificate and its key are taken, beside a certificate authority."""
    file = tmp_path / "http.yaml"
    own = authority.own
    file.write_text(
        "tls_config:\n"
        f"  ca_file: {own.certificate}\n  cert_file: {own.certificate}\n  key_file: {own.key}\n"
    )
    expected = HttpConfig(
        ca_file=str(own.certificate), certificate=(str(own.certificate), str(own.key))
    )
    assert load(file) == expected


@pytest.mark.parametrize("kind", ["password", "password_file"])
def test_a_hash_for_a_password(kind: str, tmp_path: Path) -> None:
    """A bcrypt hash where a client needs the password is refused, and not shown."""
    hashed = bcrypt.hashpw(b"sesame", bcrypt.gensalt(4)).decode()
    (tmp_path / "secret").write_text(f"{hashed}\n")
    value = {"password": hashed, "password_file": "secret"}[kind]
    file = tmp_path / "http.yaml"
    file.write_text(f"basic_auth:\n  username: me\n  {kind}: {value}\n")
    with pytest.raises(UsageError, match=f":3: basic_auth.{kind}: is a bcrypt hash") as refused:
        load(file)
    assert hashed not in str(refused.value)
