"""How the APIs of the chain are asked: deadlines and credentials."""

import base64
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.config.resolution import resolve
from azure_scheduled_events_exporter.doctor.api import Api, WrongAnswerError
from azure_scheduled_events_exporter.doctor.subject import Servers, subject_of
from azure_scheduled_events_exporter.errors import UsageError
from azure_scheduled_events_exporter.http_client.http_config import HttpConfig
from azure_scheduled_events_exporter.http_client.sessions import NoAnswerError
from support.doctor.doctor_chain import Canned
from support.servers.certificates import Authority
from support.servers.http_peer import Peer


def test_redirects_are_not_followed() -> None:
    """A redirect to a login page is an answer of its own."""
    replies = {"/a": (302, {"Location": "/login"}, b""), "/login": (200, {}, b"{}")}
    with Canned(replies) as server, pytest.raises(WrongAnswerError, match="answered 302"):
        Api("--grafana", server.url).data("/a")


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:99999", "http://[::1", "http://", "ftp://h", "http://h:port"]
)
def test_impossible_addresses(url: str) -> None:
    """An address that cannot be asked is a mistake in the flag."""
    with pytest.raises(UsageError, match="--exporter: is not an address: write http://HOST:PORT"):
        Api("--exporter", url)


def test_credentials_are_sent() -> None:
    """User and password of an address, and the credentials of a file, reach the server. What is
    shown of the address has no password.
    """
    with Canned({"/x": (200, {}, b"{}")}) as server:
        by_address = Api("--prometheus", server.url.replace("//", "//me:sesame@"))
        by_address.data("/x")
        Api("--prometheus", server.url, HttpConfig(authorization="Bearer token")).data("/x")
        Api("--prometheus", server.url, HttpConfig(user=("me", "sesame"))).data("/x")
    basic = "Basic " + base64.b64encode(b"me:sesame").decode()
    assert [headers["Authorization"] for headers in server.requests] == [
        basic,
        "Bearer token",
        basic,
    ]
    assert "sesame" not in by_address.shown


def test_users_outside_ascii() -> None:
    """User and password are sent as UTF-8, from a file or an address."""
    with Canned({"/x": (200, {}, b"{}")}) as server:
        Api("--prometheus", server.url.replace("//", "//j\u00f6:%E2%82%ACuro@")).data("/x")
        Api("--prometheus", server.url, HttpConfig(user=("j\u00f6", "\u20acuro"))).data("/x")
    basic = "Basic " + base64.b64encode("j\u00f6:\u20acuro".encode()).decode()
    assert [headers["Authorization"] for headers in server.requests] == [basic, basic]


@pytest.fixture
def netrc_and_wrong_ca_in_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment with credentials for this machine, and with a CA that has signed nothing."""
    (tmp_path / ".netrc").write_text("machine localhost login me password netrc\n")
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    other = Authority(tmp_path, "other")
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.setenv(name, str(other.own.certificate))


@pytest.mark.usefixtures("netrc_and_wrong_ca_in_the_environment")
@pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning")
def test_a_file_overrides_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The CA and the token of a server's own file override the CA bundle and the .netrc of the
    environment. The environment gives what the file does not set, or all if there is no file.
    """
    authority = Authority(tmp_path)
    http = HttpConfig(authorization="Bearer token", ca_file=str(authority.own.certificate))
    with Peer(body=b"{}", pair=authority.server()) as peer:
        assert Api("--grafana", peer.url, http).data("/x") == {}
        assert Api("--grafana", peer.url, HttpConfig(insecure=True)).data("/x") == {}
        # Without a file, the CA bundle of the environment holds, wrong at first.
        with pytest.raises(NoAnswerError, match="certificate verify failed"):
            Api("--grafana", peer.url).data("/x")
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(authority.own.certificate))
        assert Api("--grafana", peer.url).data("/x") == {}
    schemes = [headers["Authorization"].partition(" ")[0] for _, headers, _ in peer.requests]
    assert schemes == ["Bearer", "Basic", "Basic"], "of the file, then twice of the .netrc"


def test_the_proxy_of_the_environment_applies(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that has a file of its own, with its token, is asked through the proxy, too."""
    with Peer(body=b"{}") as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("no_proxy", "")
        http = HttpConfig(authorization="Bearer token")
        assert Api("--grafana", "http://grafana.invalid", http).data("/x") == {}
        ((path, _, _),) = proxy.requests
    assert path == "http://grafana.invalid/x"


def servers(alertmanagers: list[str]) -> Servers:
    """Return the servers of a command line that names these Alertmanagers alone."""
    return Servers(
        exporter=None, prometheus=[], alertmanager=alertmanagers, grafana=[], http_config_files={}
    )


def test_what_the_exporter_asks_without_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Alertmanager that the exporter pushes to is asked without a proxy, as the exporter asks
    it; one that the command line names is asked through it. Only the latter's advice names it.
    """
    with Peer(body=b'"Alertmanager"') as team, Peer(body=b'"the proxy"') as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("no_proxy", "")
        config = resolve({"alertmanager.url": team.url}, {})
        (of_the_exporter,) = subject_of(config, {}, servers([])).alertmanager
        assert of_the_exporter.data("/x") == "Alertmanager"
        (of_the_command_line,) = subject_of(config, {}, servers([team.url])).alertmanager
        assert of_the_command_line.data("/x") == "the proxy"
        assert of_the_exporter.advice("Start it.") == "Start it."
        assert of_the_command_line.advice("Start it.") != "Start it."
