"""Reads credentials for other servers, in the format of Prometheus' HTTP client configuration.

Reads ``basic_auth``, ``authorization`` and ``tls_config``, and makes sessions that use them; sends
nothing. Error messages contain no secrets.

Source: https://prometheus.io/docs/prometheus/latest/configuration/configuration/#http_config
"""

import re
import ssl
import warnings
from dataclasses import dataclass, field, replace
from pathlib import Path
from unicodedata import category

from azure_scheduled_events_exporter import yaml_file
from azure_scheduled_events_exporter.errors import UsageError
from azure_scheduled_events_exporter.text_file import read_text
from azure_scheduled_events_exporter.yaml_file import Section

from .deadline import DeadlineAdapter
from .pem_files import certificates, load_pair
from .sessions import Authorization, Session, basic, basic_in

_BYTE_ORDER_MARK = "\ufeff"
"""Some editors of Windows write it; a server would take it for a part of the password."""
_BCRYPT = re.compile(r"\$2[abxy]\$\d\d\$[./A-Za-z0-9]{53}")


@dataclass(frozen=True, slots=True)
class HttpConfig:
    """How a client authenticates, and which certificates it trusts.

    Attributes:
        user: name and password for basic authentication.
        authorization: the whole header ``Authorization``.
        ca_file: the trusted certificate authorities; ``""`` for the system's.
        insecure: whether any certificate of the server is accepted.
        certificate: the paths of the client's certificate and of its key.
        server_name: the name in the server's certificate; ``""`` for that of the address.
    """

    user: tuple[str, str] | None = field(default=None, repr=False)
    authorization: str = field(default="", repr=False)
    ca_file: str = ""
    insecure: bool = False
    certificate: tuple[str, str] | None = None
    server_name: str = ""


def session_for(url: str, http: HttpConfig | None, adapter: DeadlineAdapter) -> Session:
    """Return a session for the server at ``url``.

    Credentials in ``http`` override those of the address.
    """
    session = Session(adapter)
    http = http or HttpConfig()
    session.auth = basic_in(url)
    if http.user is not None:
        session.auth = basic(http.user)
    elif http.authorization:
        session.auth = Authorization(http.authorization)
    session.verify = http.ca_file or True
    if http.insecure:
        session.verify = False
    session.cert = http.certificate
    # The adapter may have had a session with another configuration, so the server name of that one
    # is removed first.
    pools = adapter.poolmanager.connection_pool_kw
    for name in ("server_hostname", "assert_hostname"):
        pools.pop(name, None)
        if http.server_name:
            pools[name] = http.server_name
    if http.insecure:
        # Somebody has asked for that, and a warning of Python is no line of the log.
        warnings.filterwarnings("ignore", message="Unverified HTTPS request")
    return session


def load(path: Path) -> HttpConfig:
    """Read the file at ``path``; relative paths in it are relative to its folder.

    Raises:
        UsageError: it, or a file that it names, cannot be read, or it has an unknown key or an
            impossible value.
    """
    top = yaml_file.load(path)
    basic_auth = top.section("basic_auth")
    authorization = top.section("authorization")
    tls = top.section("tls_config")
    if top.flag("follow_redirects", default=False):
        raise top.error(
            "redirects are never followed: write false, or leave it out", "follow_redirects"
        )
    top.flag("enable_http2", default=False)  # read and ignored: HTTP/1.1 is enough for few requests
    top.finish()
    if basic_auth and authorization:
        raise top.error("basic_auth and authorization exclude each other: keep one")
    user = None
    if basic_auth:
        user = _user(basic_auth, path.parent)
    header = ""
    if authorization:
        header = _header(authorization, path.parent)
    http = HttpConfig(user=user, authorization=header)
    if tls:
        http = _with_tls(http, tls, path.parent)
    return http


def _user(basic_auth: Section, folder: Path) -> tuple[str, str]:
    """Return name and password."""
    user = _secret(basic_auth, "username", folder)
    password = _secret(basic_auth, "password", folder)
    if _BCRYPT.fullmatch(password):
        key = "password" if "password" in basic_auth else "password_file"
        raise basic_auth.error("is a bcrypt hash, which only a server has: write the password", key)
    basic_auth.finish()
    return user, password


def _header(authorization: Section, folder: Path) -> str:
    """Return the value of the header ``Authorization``, such as ``Bearer TOKEN``."""
    kind = _one_line(authorization, "type", authorization.text("type", "Bearer"))
    header = f"{kind} {_secret(authorization, 'credentials', folder)}"
    if not header.isascii():
        raise authorization.error("has a character outside ASCII: write credentials in ASCII")
    authorization.finish()
    return header


def _with_tls(http: HttpConfig, tls: Section, folder: Path) -> HttpConfig:
    """Return ``http`` with the settings of ``tls_config``; try the files that they name."""
    ca_file = _file(tls.text("ca_file", ""), folder)
    certificate = _file(tls.text("cert_file", ""), folder)
    key = _file(tls.text("key_file", ""), folder)
    insecure = tls.flag("insecure_skip_verify", default=False)
    server_name = tls.text("server_name", "")
    tls.finish()
    if ca_file:
        certificates(tls, "ca_file", folder)  # raises if it cannot be used
    if bool(certificate) != bool(key):
        raise tls.error("cert_file and key_file belong together: write both")
    pair = None
    if certificate:
        # Only to try the files: this raises if they cannot be used.
        load_pair(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), tls, folder)
        pair = (certificate, key)
    return replace(
        http, ca_file=ca_file, insecure=insecure, certificate=pair, server_name=server_name
    )


def _secret(section: Section, key: str, folder: Path) -> str:
    """Return the text at ``key``, or the content of the file at ``<key>_file``.

    Of a file, white space around its text is left out; of a text, line breaks at its ends.
    """
    name = section.text(f"{key}_file", "")
    if not name:
        return _one_line(section, key, section.text(key))
    if key in section:
        raise section.error(f"{key} and {key}_file exclude each other: keep one", key)
    try:
        text = read_text(Path(_file(name, folder))).strip()
    except UsageError as error:
        raise section.error(str(error), f"{key}_file") from None
    if text.startswith(_BYTE_ORDER_MARK):
        message = f"{name}: begins with a byte order mark: save it as UTF-8 without one"
        raise section.error(message, f"{key}_file")
    return _one_line(section, f"{key}_file", text, f"{name}: ")


def _one_line(section: Section, key: str, text: str, where: str = "") -> str:
    """Return ``text`` without line breaks at its ends. Errors do not quote it: it may be a secret.

    A block scalar of YAML (``key: |``) ends in a line break. An error begins with ``where``.
    """
    text = text.strip("\r\n")
    # Control characters, and surrogates, which no header can carry.
    if any(category(character) in {"Cc", "Cs"} for character in text):
        raise section.error(f"{where}has a line break or another control character inside", key)
    return text


def _file(name: str, folder: Path) -> str:
    """Return the path of the file ``name``, relative to ``folder``; ``""`` for no name."""
    if not name:
        return ""
    return str(folder / name)
