"""Values of settings: which are valid, what they are read as, and how the others are refused."""

import os
from contextlib import suppress
from pathlib import Path

import pytest
import requests
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from azure_scheduled_events_exporter.config.resolution import resolve, state_folder
from azure_scheduled_events_exporter.config.settings import environment_name
from azure_scheduled_events_exporter.errors import UsageError
from support.setting_values import DURATION, OTHER


@pytest.mark.parametrize(
    ("flags", "environment", "message"),
    [
        ({"log.level": "loud"}, {}, "--log.level: 'loud' is none of debug, info, warning, error"),
        (
            {},
            {"AZURE_SCHEDULED_EVENTS_LOG_LEVEL": "loud"},
            (
                "environment variable AZURE_SCHEDULED_EVENTS_LOG_LEVEL: 'loud' is none of debug,"
                " info, warning, error"
            ),
        ),
        ({"poll.interval": "1"}, {}, f"--poll.interval: '1' {DURATION}"),
        (
            {},
            {"AZURE_SCHEDULED_EVENTS_POLL_INTERVAL": ""},
            (
                "environment variable AZURE_SCHEDULED_EVENTS_POLL_INTERVAL: has no value: write"
                " one, such as 1s, or leave it out"
            ),
        ),
    ],
)
def test_bad_value_in_a_flag_or_variable(
    flags: dict[str, str], environment: dict[str, str], message: str
) -> None:
    """A bad value is refused with the flag or the variable by which it was set."""
    with pytest.raises(UsageError) as caught:
        resolve(flags, environment)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "text", ["http://127.0.0.1", "http://127.0.0.1:8080", "http://[::1]:80/", "http://imds.test"]
)
def test_endpoints(text: str) -> None:
    """A base address is taken without its last slash."""
    assert resolve({"imds.endpoint": text}, {}).imds_endpoint == text.rstrip("/")


@given(st.text("az09.-_:@[]%/\\?#\u00fc\u00df\u05d0\u0663", max_size=12))
@settings(deadline=None)
def test_any_endpoint(text: str) -> None:
    """Every endpoint is refused, or one that requests can be sent to."""
    with suppress(UsageError):
        endpoint = resolve({"imds.endpoint": f"http://{text}"}, {}).imds_endpoint
        requests.Request("GET", f"{endpoint}/metadata/instance").prepare()


def test_discover() -> None:
    """The endpoint may be left to DHCP."""
    assert resolve({"imds.endpoint": "discover"}, {}).imds_endpoint == "discover"


@pytest.mark.parametrize("text", ["10ms", "1s", "12h"])
def test_intervals(text: str) -> None:
    """Both ends of the range of intervals are in it."""
    assert resolve({"poll.interval": text}, {}).poll_interval > 0


@pytest.mark.parametrize(
    ("environment", "platform", "expected"),
    [
        ({"STATE_DIRECTORY": "/state/a"}, "linux", "/state/a"),
        ({"STATE_DIRECTORY": "/state/a:/state/b"}, "linux", "/state/a"),
        ({"PROGRAMDATA": "D:"}, "win32", str(Path("D:") / "azure-scheduled-events-exporter")),
    ],
)
def test_state_folder(environment: dict[str, str], platform: str, expected: str) -> None:
    """Without a path, the journal lies where the platform keeps a daemon's state; systemd's folder
    comes first.
    """
    assert state_folder(environment, platform) == expected


def test_state_folder_of_a_user() -> None:
    """Root's state lies in /var/lib, a user's in the user's own state folder. Which of these is
    tested depends on who runs the tests.
    """
    own = state_folder({"XDG_STATE_HOME": "/home/me/state", "HOME": "/home/me"}, "linux")
    expected = "/var/lib" if os.geteuid() == 0 else "/home/me/state"
    assert own == f"{expected}/azure-scheduled-events-exporter"


EVERY_FLAG = list(OTHER)


@given(st.sampled_from(EVERY_FLAG), st.text())
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_value(flag: str, text: str) -> None:
    """Every text is a value of a setting, or refused in one line that names the flag."""
    try:
        resolve({flag: text}, {})
    except UsageError as error:
        message = str(error)
        assert message.startswith(f"--{flag}: ")
        assert message.isprintable()


_NO_ADDRESSES = [
    "h:80",
    "http://",
    "http://[::1",
    "http://[::1]x:80",
    "http://a..b:80",
    "http://a b",
    "http://h?x=1",
    "http://h#a",
    "http://[v1.x]",
    "http://a%zz",
    "http://a%00b",
    "http://\u00fc%",
    "http://\u05d0\u00fc",
    "http://127.0.0.1\\x",
]


@pytest.mark.parametrize("text", [*_NO_ADDRESSES, "http://u:sesame@a..b:80"])
@pytest.mark.parametrize(
    ("flag", "what"),
    [
        ("imds.endpoint", "base address"),
        ("otlp.endpoint", "collector"),
        ("alertmanager.url", "Alertmanager"),
    ],
)
def test_addresses_that_cannot_be(flag: str, what: str, text: str) -> None:
    """An address to which no request could be sent is refused by its flag, without its password."""
    with pytest.raises(
        UsageError, match=rf"^--{flag}: .*is not .*{what}: write http://HOST"
    ) as refused:
        resolve({flag: text}, {})
    assert "sesame" not in str(refused.value)


def test_an_alertmanager_that_is_named_twice() -> None:
    """Each Alertmanager gets an alert once."""
    urls = resolve(
        {"alertmanager.url": "http://a:9093, http://u:p@[::1]:9093,http://a:9093/"}, {}
    ).alertmanager_url
    assert urls == ("http://a:9093", "http://u:p@[::1]:9093")


@pytest.mark.parametrize("text", ["'1s'", '"1s"', '"vm_0"', "''"])
@pytest.mark.parametrize("flag", ["poll.interval", "instance.name", "web.config.file"])
def test_quotes_that_nobody_removed(flag: str, text: str) -> None:
    """A value in quotes is refused with what keeps them: Docker's --env-file and Kubernetes."""
    with pytest.raises(UsageError, match=f"{environment_name(flag)}: .*Docker's --env-file"):
        resolve({}, {environment_name(flag): text})


def test_a_quote_within_a_value() -> None:
    """A quote that does not enclose the value is a part of it."""
    assert resolve({}, {environment_name("instance.name"): "it's"}).instance_name == "it's"
