"""Settings and their sources, and invalid settings."""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from azure_scheduled_events_exporter.approval.policy import BUILT_IN
from azure_scheduled_events_exporter.config import (
    SETTINGS,
    Config,
    environment_name,
    resolve,
    state_folder,
    unknown_variables,
    written,
)
from azure_scheduled_events_exporter.errors import UsageError
from azure_scheduled_events_exporter.http_server.listen_address import ListenAddress
from azure_scheduled_events_exporter.imds.client import ImdsClient
from azure_scheduled_events_exporter.imds.rate_limiter import RateLimiter
from support.paths import DATA

BAD = DATA / "bad_config"
KNOWN = (
    "imds.endpoint, imds.api-version, imds.timeout, poll.interval, instance.name, web.listen-address, "
    "web.telemetry-path, web.config.file, journal.path, journal.retention, approval.policy, otlp.endpoint, "
    "tracing.scope, alertmanager.url, alertmanager.labels, alertmanager.http-config.file, alerts.values, process.user, "
    "log.level, log.format"
)
VERSIONS = "2017-03-01, 2017-08-01, 2017-11-01, 2019-01-01, 2019-04-01, 2019-08-01, 2020-07-01"
DURATION = "is no duration: write a number and a unit, such as 500ms, 1s, 1m30s or 90d"
ENDPOINT = "is not a base address: write http://HOST[:PORT], or 'discover'"
RANGE = "is out of range: from 10ms (busy) to 12h (after 24h Azure stops sending events)"
ADDRESS = (
    "is no listen address: write host:port with a port from 0 to 65535, such as :10169 (all interfaces), "
    "127.0.0.1:10169 or [::1]:10169"
)

# The whole complaint about each file in tests/data/bad_config, without the file's name in front.
COMPLAINTS = {
    "alias_of_itself": ":2: more.more: nested too deeply",
    "alias_of_nothing": ":1: is not valid YAML: found undefined alias 'usual'",
    "alertmanager_label_of_ours": (
        ":1: alertmanager.labels: 'severity' is a label that alerts have already: choose another name"
    ),
    "alertmanager_label_without_value": (
        ":1: alertmanager.labels: 'cluster' is not a label: write NAME=VALUE, several with commas"
    ),
    "alertmanager_without_scheme": (
        ":1: alertmanager.url: 'alerts:9093' is not an Alertmanager: write http://HOST:9093, or https; several with "
        "commas"
    ),
    "api_version_latest": f":1: imds.api-version: 'latest' is none of {VERSIONS}",
    "api_version_unknown": f":1: imds.api-version: '2020-07-02' is none of {VERSIONS}",
    "bracket_left_open": ":2: is not valid YAML: expected ',' or ']', but got '<stream end>'",
    "config_file_in_a_file": ":1: unknown key 'config.file': did you mean 'web.config.file'?",
    "control_character": (
        ": is not valid YAML: unacceptable character #x0000: special characters are not allowed in "
        '"<unicode string>", position 17'
    ),
    "duration_empty": f":1: imds.timeout: '' {DURATION}",
    "duration_without_unit": f":2: imds.timeout: '10' {DURATION}",
    "endpoint_https": f":1: imds.endpoint: 'https://127.0.0.1' {ENDPOINT}",
    "endpoint_with_bad_address": f":1: imds.endpoint: 'http://[::1' {ENDPOINT}",
    "endpoint_with_bad_port": f":1: imds.endpoint: 'http://127.0.0.1:80800' {ENDPOINT}",
    "endpoint_with_line_feed": f":1: imds.endpoint: 'http://127.0.0.1\\n' {ENDPOINT}",
    "endpoint_with_query": f":1: imds.endpoint: 'http://127.0.0.1/?api-version=2020-07-01' {ENDPOINT}",
    "endpoint_with_user": f":1: imds.endpoint: 'http://me@127.0.0.1' {ENDPOINT}",
    "endpoint_without_scheme": f":1: imds.endpoint: '127.0.0.1:8080' {ENDPOINT}",
    "interval_too_long": f":1: poll.interval: '1d' {RANGE}",
    "interval_too_short": f":1: poll.interval: '1ms' {RANGE}",
    "key_is_a_list": ":1: a key must be plain text",
    "key_twice": ":3: 'log.level' appears twice (first in line 1): keep one",
    "key_twice_in_two_forms": ":2: imds: 'imds.timeout' appears twice: keep one",
    "key_without_its_section": ":1: unknown key 'timeout': did you mean 'imds.timeout'?",
    "listen_address_port_too_high": f":1: web.listen-address: ':101690' {ADDRESS}",
    "listen_address_without_port": f":1: web.listen-address: '0.0.0.0' {ADDRESS}",
    "log_format_unknown": ":1: log.format: 'xml' is none of logfmt, json",
    "log_level_in_capitals": ":1: log.level: 'INFO' is none of debug, info, warning, error",
    "log_level_unknown": ":1: log.level: 'verbose' is none of debug, info, warning, error",
    "nested_too_deep": ": is not valid YAML: nested too deeply",
    "quote_left_open": ":3: is not valid YAML: found unexpected end of stream",
    "retention_of_zero": ":1: journal.retention: '0' is too short: it must be more than 0",
    "section_without_keys": f":1: unknown key 'imds': known are {KNOWN}",
    "tab_as_indentation": ":2: is not valid YAML: found character '\\t' that cannot start any token",
    "telemetry_path_of_the_status_page": ":1: web.telemetry-path: '/' is the status page: choose another path",
    "telemetry_path_relative": (
        ":1: web.telemetry-path: 'metrics' is not a valid path: it must begin with / and contain no spaces, "
        "'?', '#' or '%'"
    ),
    "telemetry_path_taken": (":1: web.telemetry-path: '/-/healthy' is reserved: choose a path outside /-/ and /api/"),
    "timeout_of_zero": ":1: imds.timeout: '0s' is too short: it must be more than 0",
    "timeout_too_long": ":1: imds.timeout: '100y' is too long: 1h at most",
    "top_is_a_list": ":2: must be a mapping of keys to values",
    "top_is_a_text": ":1: must be a mapping of keys to values",
    "tracing_scope_unknown": ":1: tracing.scope: 'peer' is none of self, all",
    "two_documents": ":2: is not valid YAML: expected a single document in the stream but found another document",
    "policy_missing": ("tests/no-such-policy.yaml: cannot be read: No such file or directory"),
    "unknown_key": ":2: unknown key 'imds.timeot': did you mean 'imds.timeout'?",
    "unknown_key_like_nothing": f":1: unknown key 'zzz': known are {KNOWN}",
    "unknown_key_nested": ":3: unknown key 'imds.api_version': did you mean 'imds.api-version'?",
    "value_is_a_list": ":2: imds.endpoint: must be one value, not a list",
    "value_is_a_mapping": ":2: unknown key 'log.level.console': did you mean 'log.level'?",
}

# A value for every setting that is not its default, and what it is read as.
OTHER: Mapping[str, tuple[str, object]] = {
    "imds.endpoint": ("http://127.0.0.1:8080/", "http://127.0.0.1:8080"),
    "imds.api-version": ("2019-01-01", "2019-01-01"),
    "imds.timeout": ("2s", 2.0),
    "poll.interval": ("250ms", 0.25),
    "instance.name": ("vm_0", "vm_0"),
    "web.listen-address": ("[::1]:0", ListenAddress("::1", 0)),
    "web.telemetry-path": ("/more", "/more"),
    "web.config.file": ("web.yml", "web.yml"),
    "journal.path": ("memory", "memory"),
    "journal.retention": ("1w", 604800.0),
    "approval.policy": ("documented", BUILT_IN["documented"]),
    "otlp.endpoint": ("http://127.0.0.1:4318", "http://127.0.0.1:4318"),
    "tracing.scope": ("all", "all"),
    "alertmanager.url": ("http://a:9093/, https://b/am", ("http://a:9093", "https://b/am")),
    "alertmanager.labels": ("cluster=one, region=a=b", {"cluster": "one", "region": "a=b"}),
    "alertmanager.http-config.file": ("http.yml", "http.yml"),
    "alerts.values": ("values.yml", "values.yml"),
    "process.user": ("nobody", "nobody"),
    "log.level": ("debug", "debug"),
    "log.format": ("json", "json"),
}


def of(config: Config, flag: str) -> object:
    """Return the field of ``flag``."""
    return getattr(config, flag.replace(".", "_").replace("-", "_"))


_DEFAULTS = {"alertmanager.labels": "default=yes"}
"""Another possible value of settings that have no default and take no address."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where a test writes its configuration file."""
    return tmp_path / "exporter.yaml"


def test_defaults() -> None:
    """With nothing set, the contract's defaults hold."""
    config = resolve({"journal.path": "memory"}, {})
    assert config == Config(
        imds_endpoint="http://169.254.169.254",
        imds_api_version="2020-07-01",
        imds_timeout=10.0,
        poll_interval=1.0,
        instance_name=None,
        web_listen_address=ListenAddress("", 10169),
        web_telemetry_path="/metrics",
        web_config_file=None,
        journal_path="memory",
        journal_retention=90 * 86400.0,
        approval_policy=BUILT_IN["off"],
        otlp_endpoint=None,
        tracing_scope="self",
        alertmanager_url=(),
        alertmanager_labels={},
        alertmanager_http_config_file=None,
        alerts_values=None,
        process_user="",
        log_level="info",
        log_format="logfmt",
    )


def test_every_setting_is_a_field() -> None:
    """The table and the result have the same settings, in the contract's names, and the tests have a value for each."""
    assert [setting.field for setting in SETTINGS] == [field.name for field in fields(Config)]
    assert [setting.flag for setting in SETTINGS] == KNOWN.split(", ")
    assert set(KNOWN.split(", ")) == set(OTHER)


@pytest.mark.parametrize("flag", OTHER)
def test_flag_environment_file_default(flag: str, file: Path) -> None:
    """A flag wins over its environment variable, that over the file, that over the default; each alone is taken."""
    text, value = OTHER[flag]
    default = next(setting.default for setting in SETTINGS if setting.flag == flag) or _DEFAULTS.get(
        flag, "http://default"
    )
    variable = environment_name(flag)
    file.write_text(f"{flag}: '{text}'\n")
    unset = of(resolve({}, {}), flag)
    assert unset != value
    assert of(resolve({flag: text}, {}), flag) == value
    assert of(resolve({}, {variable: text}), flag) == value
    assert of(resolve({"config.file": str(file)}, {}), flag) == value
    assert of(resolve({flag: text}, {variable: default}), flag) == value
    assert of(resolve({"config.file": str(file)}, {variable: default}), flag) != value
    assert of(resolve({"config.file": str(file), flag: default}, {}), flag) != value
    file.write_text(f"{flag}: '{default}'\n")
    assert of(resolve({"config.file": str(file)}, {variable: text}), flag) == value


def test_environment_names() -> None:
    """A variable is named as its flag: dots and dashes are underscores."""
    assert environment_name("imds.api-version") == "AZURE_SCHEDULED_EVENTS_IMDS_API_VERSION"
    assert environment_name("web.config.file") == "AZURE_SCHEDULED_EVENTS_WEB_CONFIG_FILE"
    assert len({environment_name(setting.flag) for setting in SETTINGS}) == len(SETTINGS)


def test_file_named_by_the_environment(file: Path) -> None:
    """The file can be named by a variable; one that a flag names wins."""
    file.write_text("log.level: debug\n")
    other = file.with_name("other.yaml")
    other.write_text("log.level: error\n")
    environment = {"AZURE_SCHEDULED_EVENTS_CONFIG_FILE": str(file)}
    assert resolve({}, environment).log_level == "debug"
    assert resolve({"config.file": str(other)}, environment).log_level == "error"


@pytest.mark.parametrize(
    "text",
    [
        "imds.timeout: 5s\nimds.api-version: 2019-01-01\nlog.level: debug\n",
        "imds:\n  timeout: 5s\n  api-version: 2019-01-01\nlog:\n  level: debug\n",
        "imds: {timeout: 5s, api-version: '2019-01-01'}\nlog.level: debug\n",
        "imds.timeout: 5s\nimds: {api-version: 2019-01-01}\nlog: {level: debug}\n",
        '{"imds": {"timeout": "5s", "api-version": "2019-01-01"}, "log.level": "debug"}',
    ],
)
def test_flat_and_nested_keys(text: str, file: Path) -> None:
    """Keys may be written with dots or as sections, and mixed."""
    file.write_text(text)
    config = resolve({"config.file": str(file)}, {})
    assert (config.imds_timeout, config.imds_api_version, config.log_level) == (5.0, "2019-01-01", "debug")


def test_three_levels(file: Path) -> None:
    """A key with two dots may be written as sections within sections."""
    file.write_text("web:\n  config:\n    file: web.yml\n")
    places = {setting.flag: (text, place) for setting, text, place in written({"config.file": str(file)}, {})}
    assert places["web.config.file"] == ("web.yml", f"{file}:3: web.config.file")


def test_values_that_yaml_takes_for_something_else(file: Path) -> None:
    """YAML's booleans, dates, octal and base 60 numbers are the text that was written."""
    file.write_text(
        "approval.policy: off\nimds.api-version: 2020-07-01\ninstance.name: 0123\nweb.listen-address: :80\n"
    )
    config = resolve({"config.file": str(file)}, {})
    assert config.approval_policy == BUILT_IN["off"]
    assert config.imds_api_version == "2020-07-01"
    assert config.instance_name == "0123"
    assert config.web_listen_address == ListenAddress("", 80)


def test_empty_file(file: Path) -> None:
    """A file in which nothing is set changes nothing."""
    for text in ("", "# nothing yet\n", "---\n"):
        file.write_text(text)
        assert resolve({"config.file": str(file)}, {}) == resolve({}, {})


def test_empty_value_is_none(file: Path) -> None:
    """An optional setting with an empty value is unset, in every source."""
    file.write_text("instance.name:\notlp.endpoint: ''\n")
    config = resolve({"config.file": str(file), "web.config.file": ""}, {})
    assert (config.instance_name, config.otlp_endpoint, config.web_config_file) == (None, None, None)
    assert resolve({}, {"AZURE_SCHEDULED_EVENTS_APPROVAL_POLICY": ""}).approval_policy == BUILT_IN["off"]


def test_every_bad_file_is_in_the_table() -> None:
    """A bad file that is added has a complaint that a test expects."""
    assert {path.stem for path in BAD.iterdir()} == set(COMPLAINTS)


@pytest.mark.parametrize("name", COMPLAINTS)
def test_bad_file(name: str) -> None:
    """Each kind of error is one line with its place, the error and what to write."""
    path = BAD / f"{name}.yaml"
    with pytest.raises(UsageError) as caught:
        resolve({"config.file": str(path)}, {})
    complaint = COMPLAINTS[name]
    assert str(caught.value) == (f"{path}{complaint}" if complaint.startswith(":") else complaint)
    assert str(caught.value).isprintable()
    assert caught.value.exit_status == 2


def test_bad_value_that_does_not_count(file: Path) -> None:
    """A bad value in the file is no harm while a flag wins over it; an unknown key is refused all the same."""
    file.write_text("log.level: verbose\n")
    assert resolve({"config.file": str(file), "log.level": "debug"}, {}).log_level == "debug"
    file.write_text("log.levle: debug\n")
    with pytest.raises(UsageError, match=r"unknown key 'log.levle': did you mean 'log.level'\?"):
        resolve({"config.file": str(file), "log.level": "debug"}, {})


@pytest.mark.parametrize(
    ("flags", "environment", "message"),
    [
        ({"log.level": "loud"}, {}, "--log.level: 'loud' is none of debug, info, warning, error"),
        (
            {},
            {"AZURE_SCHEDULED_EVENTS_LOG_LEVEL": "loud"},
            "environment variable AZURE_SCHEDULED_EVENTS_LOG_LEVEL: 'loud' is none of debug, info, warning, error",
        ),
        (
            {"approval.policy": "documentd"},
            {},
            "--approval.policy: 'documentd' is neither off, documented, documented-all nor a file in this folder",
        ),
        ({"poll.interval": "1"}, {}, f"--poll.interval: '1' {DURATION}"),
        ({}, {"AZURE_SCHEDULED_EVENTS_POLL_INTERVAL": ""}, None),
    ],
)
def test_bad_value_elsewhere(flags: dict[str, str], environment: dict[str, str], message: str | None) -> None:
    """A bad value in a flag or variable is refused with the name under which it was set."""
    with pytest.raises(UsageError) as caught:
        resolve(flags, environment)
    assert message is None or str(caught.value) == message


def test_file_that_is_not_there(tmp_path: Path) -> None:
    """A file that cannot be read is named, with the reason."""
    missing = tmp_path / "missing.yaml"
    with pytest.raises(UsageError) as caught:
        resolve({"config.file": str(missing)}, {})
    assert str(caught.value) == f"{missing}: cannot be read: No such file or directory"


def test_places(file: Path) -> None:
    """For every setting, the place where it was set is known."""
    file.write_text("\nimds.timeout: 5s\n")
    flags = {"config.file": str(file), "log.level": "debug"}
    environment = {"AZURE_SCHEDULED_EVENTS_POLL_INTERVAL": "2s"}
    places = {setting.flag: (text, place) for setting, text, place in written(flags, environment)}
    assert places["imds.timeout"] == ("5s", f"{file}:2: imds.timeout")
    assert places["log.level"] == ("debug", "--log.level")
    assert places["poll.interval"] == ("2s", "environment variable AZURE_SCHEDULED_EVENTS_POLL_INTERVAL")
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


def test_variables_that_are_not_ours() -> None:
    """Kubernetes' variables for a Service called as we are, other tools' variables, and our own are no mistakes."""
    service = "AZURE_SCHEDULED_EVENTS_EXPORTER"
    environment = {
        f"{service}_SERVICE_HOST": "10.0.0.1",
        f"{service}_SERVICE_PORT": "10169",
        f"{service}_SERVICE_PORT_METRICS": "10169",
        f"{service}_PORT": "tcp://10.0.0.1:10169",
        f"{service}_PORT_10169_TCP": "tcp://10.0.0.1:10169",
        f"{service}_PORT_10169_TCP_ADDR": "10.0.0.1",
        "AZURE_CLIENT_ID": "x",
        "OTEL_SERVICE_NAME": "x",
        "AZURE_SCHEDULED_EVENTS_CONFIG_FILE": "x",
        **{environment_name(setting.flag): "x" for setting in SETTINGS},
    }
    assert list(unknown_variables(environment)) == []


def test_kubernetes_variables_set_nothing() -> None:
    """A Service called as we are changes no setting."""
    environment = {"AZURE_SCHEDULED_EVENTS_EXPORTER_PORT": "tcp://10.0.0.1:10169"}
    assert resolve({}, environment) == resolve({}, {})


@pytest.mark.parametrize("text", ["http://127.0.0.1", "http://127.0.0.1:8080", "http://[::1]:80/", "http://imds.test"])
def test_endpoints(text: str) -> None:
    """A base address is taken without its last slash."""
    assert resolve({"imds.endpoint": text}, {}).imds_endpoint == text.rstrip("/")


@pytest.mark.parametrize(
    "text",
    ["http://[v1.x]", "http://a%zz", "http://a%00b", "http://\u00fc%", "http://\u05d0\u00fc", "http://127.0.0.1\\x"],
)
def test_endpoints_that_no_request_could_be_sent_to(text: str) -> None:
    """A host that the HTTP client cannot read, or reads otherwise, is refused by its flag, not by a traceback."""
    with pytest.raises(UsageError, match=r"^--imds.endpoint: .* is not a base address"):
        resolve({"imds.endpoint": text}, {})


@given(st.text("az09.-_:@[]%/\\?#\u00fc\u00df\u05d0\u0663", max_size=12))
@settings(deadline=None)
def test_any_endpoint(text: str) -> None:
    """Every endpoint is refused, or one that requests can be sent to."""
    with suppress(UsageError):
        endpoint = resolve({"imds.endpoint": f"http://{text}"}, {}).imds_endpoint
        ImdsClient(endpoint, "2020-07-01", RateLimiter(), lambda _: True)


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
    """Without a path, the journal lies where the platform keeps a daemon's state; systemd's folder comes first."""
    assert state_folder(environment, platform) == expected


def test_state_folder_of_a_user() -> None:
    """Root's state lies in /var/lib, a user's in the user's own state folder."""
    own = state_folder({"XDG_STATE_HOME": "/home/me/state", "HOME": "/home/me"}, "linux")
    expected = "/var/lib" if os.geteuid() == 0 else "/home/me/state"
    assert own == f"{expected}/azure-scheduled-events-exporter"


@given(st.sampled_from(list(OTHER)), st.text())
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_value(flag: str, text: str) -> None:
    """Every text is a value of a setting, or refused in one line that names the flag."""
    try:
        resolve({flag: text}, {})
    except UsageError as error:
        message = str(error)
        if flag != "approval.policy":  # that one names the file which the text would be
            assert message.startswith(f"--{flag}: ")
            assert message.isprintable()


@pytest.mark.parametrize("text", ["collector:4318", "grpc://collector:4317", "http://", "http://[::1", "4318"])
def test_a_collector_that_cannot_be_is_refused(text: str) -> None:
    """A collector's address without http or https is a mistake to hear of at once, not a retry for ever."""
    with pytest.raises(UsageError, match=r"^--otlp.endpoint: .* is not a collector: write http://HOST:4318"):
        resolve({"otlp.endpoint": text}, {})
