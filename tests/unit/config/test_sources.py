"""Where a setting comes from: flag, environment variable, file or default, and variables that are
no settings.
"""

from dataclasses import fields
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.config.flags import parse_assignments
from azure_scheduled_events_exporter.config.resolution import (
    resolve,
    state_folder,
    texts_and_places,
    unknown_variables,
)
from azure_scheduled_events_exporter.config.settings import SETTINGS, Config, environment_name
from azure_scheduled_events_exporter.errors import UsageError
from azure_scheduled_events_exporter.http_server.listen_address import ListenAddress
from support.setting_values import KNOWN, OTHER


def value_of(flag: str, config: Config) -> object:
    """Return the value of the setting ``flag``."""
    return getattr(config, flag.replace(".", "_").replace("-", "_"))


_DEFAULTS = {"alertmanager.labels": "default=yes"}
"""What a test takes as the default of a setting that has none, if an address is no value of it."""


def test_defaults() -> None:
    """With nothing set but the journal's path, every setting has the default that users rely on."""
    config = resolve({"journal.path": "memory"}, {})
    assert config == Config(
        imds_endpoint="http://169.254.169.254",
        imds_api_version="2020-07-01",
        imds_timeout=10.0,
        poll_interval=1.0,
        instance_name=None,
        freeze_harmless_below=9.0,
        web_listen_address=ListenAddress("", 10169),
        web_telemetry_path="/metrics",
        web_config_file=None,
        journal_path="memory",
        journal_retention=90 * 86400.0,
        approval_policy="off",
        otlp_endpoint=None,
        tracing_scope="self",
        alertmanager_url=(),
        alertmanager_labels={},
        alertmanager_http_config_file=None,
        alerts_values=None,
        process_user=None,
        log_level="info",
        log_format="logfmt",
    )


def test_every_setting_is_a_field() -> None:
    """The table of settings and the class ``Config`` have the same settings in the same order, and
    the tests have a value for each.
    """
    assert [setting.field for setting in SETTINGS] == [field.name for field in fields(Config)]
    assert [setting.flag for setting in SETTINGS] == KNOWN.split(", ")
    assert set(KNOWN.split(", ")) == set(OTHER)


@pytest.mark.parametrize("flag", OTHER)
def test_flag_environment_file_default(flag: str, file: Path) -> None:
    """A flag wins over its environment variable, that over the file, that over the default; each
    alone is taken.
    """
    text, value = OTHER[flag]
    [setting] = [each for each in SETTINGS if each.flag == flag]
    default = setting.default or _DEFAULTS.get(flag, "http://default")

    def resolved(*, by_flag: str = "", by_variable: str = "", in_file: str = "") -> object:
        """Return the setting's value when these places have these texts; empty: it is not set."""
        flags = {}
        environment = {}
        if by_flag:
            flags[flag] = by_flag
        if by_variable:
            environment[environment_name(flag)] = by_variable
        if in_file:
            file.write_text(f"{flag}: '{in_file}'\n")
            flags["config.file"] = str(file)
        return value_of(flag, resolve(flags, environment))

    assert resolved() != value
    assert resolved(by_flag=text) == value
    assert resolved(by_variable=text) == value
    assert resolved(in_file=text) == value
    assert resolved(by_flag=text, by_variable=default) == value
    assert resolved(by_flag=default, in_file=text) != value
    assert resolved(by_variable=default, in_file=text) != value
    assert resolved(by_variable=text, in_file=default) == value


def test_file_named_by_the_environment(file: Path) -> None:
    """The file can be named by a variable; one that a flag names wins."""
    file.write_text("log.level: debug\n")
    other = file.with_name("other.yaml")
    other.write_text("log.level: error\n")
    environment = {"AZURE_SCHEDULED_EVENTS_CONFIG_FILE": str(file)}
    assert resolve({}, environment).log_level == "debug"
    assert resolve({"config.file": str(other)}, environment).log_level == "error"


def test_places(file: Path) -> None:
    """For every setting, the place where it was set is known."""
    file.write_text("\nimds.timeout: 5s\n")
    flags = {"config.file": str(file), "log.level": "debug"}
    environment = {"AZURE_SCHEDULED_EVENTS_POLL_INTERVAL": "2s"}
    rows = texts_and_places(flags, environment)
    places = {setting.flag: (text, place) for setting, text, place in rows}
    assert places["imds.timeout"] == ("5s", f"{file}:2: imds.timeout")
    assert places["log.level"] == ("debug", "--log.level")
    assert places["poll.interval"] == (
        "2s",
        "environment variable AZURE_SCHEDULED_EVENTS_POLL_INTERVAL",
    )
    assert places["log.format"] == ("logfmt", "")
    assert list(places) == KNOWN.split(", ")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("AZURE_SCHEDULED_EVENTS_POLL_INTERVALL", "AZURE_SCHEDULED_EVENTS_POLL_INTERVAL"),
        ("AZURE_SCHEDULED_EVENTS_IMDS_APIVERSION", "AZURE_SCHEDULED_EVENTS_IMDS_API_VERSION"),
        ("AZURE_SCHEDULED_EVENTS_CONFIGFILE", "AZURE_SCHEDULED_EVENTS_CONFIG_FILE"),
    ],
)
def test_unknown_variable(name: str, meant: str) -> None:
    """A variable that looks like a setting but is none is found, with the one that was meant."""
    assert list(unknown_variables({name: "x", "PATH": "/bin"})) == [(name, meant)]


def test_kubernetes_variables_set_nothing() -> None:
    """Kubernetes names variables of each container after the Services of its namespace. Those of a
    Service that has the exporter's name change no setting.
    """
    environment = {"AZURE_SCHEDULED_EVENTS_EXPORTER_PORT": "tcp://10.0.0.1:10169"}
    assert resolve({}, environment) == resolve({}, {})


def test_assignments() -> None:
    """The last value of a name wins; a text without an equals sign is refused, whatever it would
    set.
    """
    assert parse_assignments("--set", ["a=1", "b=", "a=x=y"]) == {"a": "x=y", "b": ""}
    with pytest.raises(UsageError, match="--maintenance: number 2 has no '=': write NAME=VALUE"):
        parse_assignments("--maintenance", ["alertname=InstanceDown", "foo"])


def test_state_without_a_home() -> None:
    """Without HOME, no journal is written below the current directory, and a relative one is
    refused.
    """
    for environment in ({}, {"HOME": ""}, {"XDG_STATE_HOME": "state", "HOME": "/home/me"}):
        assert Path(state_folder(environment, "linux", user=1000)).is_absolute()
    with pytest.raises(UsageError, match="HOME is not set"):
        state_folder({"HOME": "here"}, "linux", user=1000)
