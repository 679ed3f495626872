"""Web configuration files: what each key means, and the whole complaint about everything that is wrong with one."""

import shutil
import ssl
import sys
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.errors import UsageError
from azure_scheduled_events_exporter.http_server.access import Bucket, check
from azure_scheduled_events_exporter.http_server.tls import server_tls
from azure_scheduled_events_exporter.http_server.web_config import (
    CURVES,
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

PYTHON = "Python " + ".".join(str(part) for part in sys.version_info[:3])
BAD = DATA / "bad_web_config"
HASHED = "$2y$04$9wpNWv7t5cQpUWkWVkSVSe1YcSyfVbqcL2cwFDxc46b8wqjYDbV2m"
NO_HASH = ": is not a bcrypt hash: make one with 'htpasswd -nBC 10 USER'; passwords are refused"
NAME = " is not a valid user name: it must not be empty, nor have ':' or control characters"
NOTHING = (
    ": has no settings: write tls_server_config, http_server_config, basic_auth_users or rate_limit, "
    "or do without the file"
)
TOP = ": unknown key: known here are tls_server_config, http_server_config, basic_auth_users, rate_limit"
ASKS_NOBODY = (
    ": is set, but clients are not asked for a certificate: write client_auth_type: RequireAndVerifyClientCert"
)
ANYBODY = (
    " would take any certificate unverified, which protects nothing: "
    "write RequireAndVerifyClientCert and client_ca_file"
)
NO_CA = " needs the CA that signs client certificates: write client_ca_file"
NO_NAMES = ": is empty, so nobody would be let in: name somebody, or remove it"
ANY_CLIENT = ": needs a certificate of every client: write client_auth_type: RequireAndVerifyClientCert"
NO_CERTIFICATE = ": names no certificate: write cert_file and key_file, or remove it"
NO_USERS = ": names nobody: write 'user: bcrypt hash', or remove it"
BURST = ": must be a whole number from 1 on, or no request would ever be answered"
DURATION = " is no duration: write a number and a unit, such as 500ms, 1s, 1m30s or 90d"
HEADERS = (
    "Content-Security-Policy, Strict-Transport-Security, X-Content-Type-Options, X-Frame-Options, X-XSS-Protection"
)
NO_HEADER = ": has a line break or a character that an HTTP header cannot contain"
LOCKED = " is encrypted, and nobody can enter the passphrase: store the key without one"
NO_PAIR = " does not belong to the certificate: they must be a pair"
OTHER_KEY = ": none fits the certificate's key: ECDSA suites go with EC keys, RSA with RSA"
SLOW = ": a cost of 15 makes one check take seconds: 14 at most, 10 is usual"
TLS = "tls_server_config"
ABSENT = ": cannot be read: No such file or directory"
NO_SUITE = ": names no cipher suite of TLS 1.2: name one, or write min_version: TLS13"
SUITE = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"

# The whole complaint about each file in tests/data/bad_web_config, without the file's name in front.
COMPLAINTS = {
    "bracket_left_open": ":3: is not valid YAML: expected the node content, but found '<stream end>'",
    "ca_in_two_places": f":5: {TLS}.client_ca: is set together with client_ca_file: keep one",
    "ca_inline_without_client_auth": f":4: {TLS}.client_ca{ASKS_NOBODY}",
    "ca_is_a_key": f":5: {TLS}.client_ca_file: {{folder}}/server.key holds no certificate in PEM form",
    "ca_without_client_auth": f":4: {TLS}.client_ca_file{ASKS_NOBODY}",
    "certificate_absent": f":2: {TLS}.cert_file: {{folder}}/nowhere.pem{ABSENT}",
    "certificate_broken": f":2: {TLS}.cert_file: {{folder}}/broken.pem holds a certificate that cannot be decoded",
    "certificate_huge": f":2: {TLS}.cert_file: {{folder}}/huge.pem: larger than 1 MiB: this is not a PEM file",
    "certificate_in_two_places": f":2: {TLS}.cert: is set together with cert_file: keep one",
    "certificate_inline_broken": f":2: {TLS}.cert: the text holds a certificate that cannot be decoded",
    "certificate_is_a_folder": f":2: {TLS}.cert_file: {{folder}}: cannot be read: Is a directory",
    "certificate_is_a_key": f":2: {TLS}.cert_file: {{folder}}/server.key holds no certificate in PEM form",
    "certificate_not_named": f":2: {TLS}: has no certificate: write cert_file, or cert with the PEM text",
    "certificate_name_with_nul": f":2: {TLS}.cert_file: 'a\\x00b' is not a file name",
    "certificate_name_with_surrogate": f":2: {TLS}.cert_file: '\\ud800.pem' is not a file name",
    "certificate_of_a_small_key": (
        f":2: {TLS}.cert_file: {{folder}}/small.pem is too weak for OpenSSL: make one with a longer key"
    ),
    "cipher_suite_insecure": (
        f":4: {TLS}.cipher_suites: 'TLS_RSA_WITH_RC4_128_SHA' is unknown: "
        "did you mean 'TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA'?"
    ),
    "cipher_suite_under_the_name_of_openssl": (
        f":4: {TLS}.cipher_suites: 'ECDHE-ECDSA-AES128-GCM-SHA256' is unknown: did you mean '{SUITE}'?"
    ),
    "cipher_suite_unknown": (
        f":4: {TLS}.cipher_suites: 'TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA' is unknown: did you mean '{SUITE}'?"
    ),
    "cipher_suites_empty": f":4: {TLS}.cipher_suites: is empty: name some, or remove it",
    "cipher_suites_is_a_mapping": f":4: {TLS}.cipher_suites: must be a list of plain values",
    "cipher_suites_of_another_key": f":2: {TLS}.cipher_suites{OTHER_KEY}",
    "cipher_suites_only_of_tls13": f":4: {TLS}.cipher_suites{NO_SUITE}",
    "client_auth_if_given_without_ca": f":4: {TLS}.client_auth_type: VerifyClientCertIfGiven{NO_CA}",
    "client_auth_of_anybody": f":4: {TLS}.client_auth_type: RequireAnyClientCert{ANYBODY}",
    "client_auth_on_request": f":4: {TLS}.client_auth_type: RequestClientCert{ANYBODY}",
    "client_auth_unknown": (
        f":4: {TLS}.client_auth_type: 'RequireAndVerify' is unknown: did you mean 'RequireAndVerifyClientCert'?"
    ),
    "client_auth_without_ca": f":4: {TLS}.client_auth_type: RequireAndVerifyClientCert{NO_CA}",
    "cost_beyond_bcrypt": ":2: basic_auth_users.prometheus: bcrypt knows no cost of 32: 10 is usual",
    "cost_too_high": f":2: basic_auth_users.prometheus{SLOW}",
    "cost_unknown": ":2: basic_auth_users.prometheus: bcrypt knows no cost of 3: 10 is usual",
    "curve_unknown": f":4: {TLS}.curve_preferences: 'CurveP255' is unknown: did you mean 'CurveP256'?",
    "curves_empty": f":4: {TLS}.curve_preferences: is empty: name some, or remove it",
    "hash_cut_short": f":2: basic_auth_users.prometheus{NO_HASH}",
    "hash_of_another_kind": f":2: basic_auth_users.prometheus{NO_HASH}",
    "hash_with_odd_salt": f":2: basic_auth_users.prometheus{NO_HASH}",
    "header_misspelled": ":3: headers.X-Frame-Option: unknown key: did you mean 'X-Frame-Options'?",
    "header_not_allowed": f":3: headers.Access-Control-Allow-Origin: unknown key: known here are {HEADERS}",
    "header_not_ascii": f":3: headers.X-XSS-Protection{NO_HEADER}",
    "header_value_of_one": ":3: headers.X-Content-Type-Options: must be nosniff, not 'sniff'",
    "header_value_unknown": ":3: headers.X-Frame-Options: must be deny or sameorigin, not 'SAMEORIGIN'",
    "header_with_line_break": f":3: headers.Content-Security-Policy{NO_HEADER}",
    "headers_is_a_list": ":2: http_server_config.headers: must be a mapping",
    "http2_unclear": ":2: http_server_config.http2: 'perhaps' is neither true nor false",
    "key_absent": f":3: {TLS}.key_file: {{folder}}/nowhere.key{ABSENT}",
    "key_broken": f":3: {TLS}.key_file: {{folder}}/broken.key holds a key that cannot be decoded",
    "key_encrypted": f":3: {TLS}.key_file: {{folder}}/encrypted.key{LOCKED}",
    "key_in_two_places": f":3: {TLS}.key: is set together with key_file: keep one",
    "key_inline_is_a_path": f":3: {TLS}.key: the text holds no private key in PEM form",
    "key_is_a_certificate": f":3: {TLS}.key_file: {{folder}}/server.pem holds no private key in PEM form",
    "key_not_named": f":2: {TLS}: has a certificate but no key for it: write key_file, or key with the PEM text",
    "key_of_a_proposal": f":1: auth_excluded_paths{TOP}",
    "key_of_another_certificate": f":3: {TLS}.key_file: {{folder}}/other.key{NO_PAIR}",
    "key_of_another_kind": f":3: {TLS}.key_file: {{folder}}/rsa.key{NO_PAIR}",
    "key_of_http_unknown": ":2: http_server_config.http_2: unknown key: did you mean 'http2'?",
    "key_of_rate_unknown": ":2: rate_limit.every: unknown key: known here are interval, burst",
    "key_of_tls_unknown": f":2: {TLS}.certfile: unknown key: did you mean 'cert_file'?",
    "key_of_top_like_nothing": f":1: proxy{TOP}",
    "key_of_top_unknown": f":1: tls_config: unknown key: did you mean '{TLS}'?",
    "key_twice": ":3: 'cert_file' appears twice (first in line 2): keep one",
    "max_version_broken": f":4: {TLS}.max_version: TLS11 is insecure and not supported: write TLS12 or TLS13",
    "min_version_broken": f":4: {TLS}.min_version: TLS10 is insecure and not supported: write TLS12 or TLS13",
    "min_version_unknown": f":4: {TLS}.min_version: '1.2' is unknown: known are TLS12, TLS13",
    "names_blank": f":6: {TLS}.client_allowed_sans{NO_NAMES}",
    "names_empty": f":6: {TLS}.client_allowed_sans{NO_NAMES}",
    "names_of_a_certificate_not_required": f":6: {TLS}.client_allowed_sans{ANY_CLIENT}",
    "password_in_clear": f":2: basic_auth_users.prometheus{NO_HASH}",
    "password_missing": f":2: basic_auth_users.prometheus{NO_HASH}",
    "prefer_unclear": f":4: {TLS}.prefer_server_cipher_suites: 'maybe' is neither true nor false",
    "rate_interval_without_unit": f":2: rate_limit.interval: '1'{DURATION}",
    "rate_of_half_a_request": f":3: rate_limit.burst{BURST}",
    "rate_without_burst": f":2: rate_limit.burst{BURST}",
    "says_nothing": f":1{NOTHING}",
    "says_nothing_in_braces": f":1{NOTHING}",
    "tls_empty": f":1: {TLS}{NO_CERTIFICATE}",
    "tls_empty_in_braces": f":1: {TLS}{NO_CERTIFICATE}",
    "tls_is_a_text": f":1: {TLS}: must be a mapping",
    "user_twice": ":3: 'prometheus' appears twice (first in line 2): keep one",
    "user_with_colon": f":2: basic_auth_users: 'prometheus:1'{NAME}",
    "user_with_line_break": f":2: basic_auth_users: 'a\\nb'{NAME}",
    "user_without_name": f":2: basic_auth_users: ''{NAME}",
    "users_empty": f":1: basic_auth_users{NO_USERS}",
    "users_empty_in_braces": f":1: basic_auth_users{NO_USERS}",
    "users_is_a_list": ":1: basic_auth_users: must be a mapping",
    "versions_backwards": f":4: {TLS}.min_version: is TLS13 and max_version TLS12: no version is left",
}


@pytest.fixture(name="folder", scope="module")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates good and bad, under the names that the files in tests/data/bad_web_config use."""
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
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", COMPLAINTS)
def test_complaint(name: str, folder: Path) -> None:
    """A mistake in the file is refused with the file, the line, the key and what to write, and never a secret."""
    path = Path(shutil.copy(BAD / f"{name}.yaml", folder))
    with pytest.raises(UsageError) as raised:
        check(path)
    complaint = str(raised.value)
    assert complaint == f"{path}{COMPLAINTS[name]}".replace("{folder}", str(folder))
    assert "$2" not in complaint


def test_every_bad_file_has_its_complaint() -> None:
    """Every file in the folder is used by a test."""
    assert {path.stem for path in BAD.iterdir()} == set(COMPLAINTS)


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
    Strict-Transport-Security: max-age=31536000
    X-Content-Type-Options: nosniff
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
        (
            ("Content-Security-Policy", "default-src 'none'"),
            ("Strict-Transport-Security", "max-age=31536000"),
            ("X-Content-Type-Options", "nosniff"),
            ("X-Frame-Options", "sameorigin"),
        ),
        RateLimit(1.0, 20),
    )


def test_defaults(folder: Path) -> None:
    """A certificate and its key are enough: TLS 1.2 and 1.3, without client certificates or passwords."""
    path = write(folder, "tls_server_config: {cert_file: server.pem, key_file: server.key, client_auth_type: ''}")
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


def test_rate_limit_of_nothing(folder: Path) -> None:
    """An interval of 0 is no rate limit, as in the toolkit."""
    assert load(write(folder, "rate_limit: {interval: 0}")) == WebConfig()


@pytest.mark.parametrize("suite", TLS12_SUITES)
def test_every_suite(folder: Path, suite: str) -> None:
    """Every suite of TLS 1.2 that the toolkit lists can be chosen, alone or with those of TLS 1.3."""
    name = "server" if "ECDSA" in suite else "rsa"
    suites = ", ".join((suite, *TLS13_SUITES))
    check(
        write(folder, f"tls_server_config: {{cert_file: {name}.pem, key_file: {name}.key, cipher_suites: [{suites}]}}")
    )


@pytest.mark.parametrize("curve", CURVES)
def test_every_curve(folder: Path, curve: str) -> None:
    """Every curve that the toolkit lists can be chosen, unless this Python cannot: then the error says so."""
    path = write(
        folder, f"tls_server_config: {{cert_file: server.pem, key_file: server.key, curve_preferences: {curve}}}"
    )
    if _can_use(CURVES[curve]):
        check(path)
        return
    assert curve == "X25519", "Python has always had the others"
    with pytest.raises(UsageError) as raised:
        check(path)
    complaint = f"{PYTHON} with {ssl.OPENSSL_VERSION} cannot restrict TLS to X25519: name another curve, or remove it"
    assert str(raised.value) == f"{path}:1: tls_server_config.curve_preferences: {complaint}"


def _can_use(curve: str) -> bool:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).set_ecdh_curve(curve)
    except ssl.SSLError:
        return False
    return True


def test_several_curves(folder: Path) -> None:
    """Several curves are refused by name where Python can restrict TLS to one only."""
    text = "tls_server_config: {cert_file: server.pem, key_file: server.key, curve_preferences: [X25519, CurveP256]}"
    path = write(folder, text)
    if hasattr(ssl.SSLContext, "set_groups"):
        check(path)
        return
    with pytest.raises(UsageError) as raised:
        check(path)
    complaint = f"{PYTHON} can restrict TLS to one curve only: name one, or remove it"
    assert str(raised.value) == f"{path}:1: tls_server_config.curve_preferences: {complaint}"


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
