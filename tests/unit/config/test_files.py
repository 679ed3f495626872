"""Configuration files: how keys and values are written, and the message about each error in one."""

from pathlib import Path

import pytest

from azure_scheduled_events_exporter.config.resolution import resolve
from azure_scheduled_events_exporter.errors import UsageError
from support.paths import DATA
from support.setting_values import (
    ADDRESS,
    DURATION,
    ENDPOINT,
    KNOWN,
    QUOTE,
    RANGE,
    RESERVED,
    TIMEOUT,
    VERSION,
)

BAD = DATA / "bad_config"

# The whole complaint about each file in tests/data/bad_config, without the file's name in front.
COMPLAINTS = {
    "alias_of_itself": f":1: {QUOTE}",
    "alias_of_nothing": f":1: {QUOTE}",
    "alertmanager_label_of_ours": (
        ":1: alertmanager.labels: 'severity' is a label that alerts have already: choose another"
        " name"
    ),
    "alertmanager_label_without_value": (
        ":1: alertmanager.labels: number 1 is not a label: write NAME=VALUE, several with commas,"
        " and only letters, digits and _ in a name"
    ),
    "alertmanager_without_scheme": (
        ":1: alertmanager.url: address 2 is not that of an Alertmanager: write http://HOST:9093,"
        " or https; several with commas, and %2C for one in a password"
    ),
    "api_version_latest": f":1: imds.api-version: 'latest' {VERSION}",
    "api_version_of_no_day": f":1: imds.api-version: '2020-02-30' {VERSION}",
    "bracket_left_open": ":2: is not valid YAML: expected ',' or ']', but got '<stream end>'",
    "config_file_in_a_file": ":1: unknown key 'config.file': did you mean 'web.config.file'?",
    "control_character": (
        ": is not valid YAML: unacceptable character #x0000: special characters are not allowed in "
        '"<unicode string>", position 17'
    ),
    "duration_empty": ":1: imds.timeout: has no value: write one, such as 10s, or leave it out",
    "duration_without_unit": f":2: imds.timeout: '10' {DURATION}",
    "endpoint_https": f":1: imds.endpoint: {ENDPOINT}",
    "endpoint_with_bad_address": f":1: imds.endpoint: {ENDPOINT}",
    "endpoint_with_bad_port": f":1: imds.endpoint: {ENDPOINT}",
    "endpoint_with_line_feed": f":1: imds.endpoint: {ENDPOINT}",
    "endpoint_with_path": (
        ":1: imds.endpoint: 'http://127.0.0.1/metadata/scheduledevents' has a path that the"
        " exporter adds itself: write http://127.0.0.1"
    ),
    "endpoint_with_query": f":1: imds.endpoint: {ENDPOINT}",
    "endpoint_with_user": f":1: imds.endpoint: {ENDPOINT}",
    "endpoint_without_scheme": f":1: imds.endpoint: {ENDPOINT}",
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
    "nested_too_deep": ":1: nested too deeply",
    "not_utf8": ":1: is not UTF-8 text: save the file as UTF-8",
    "quote_left_open": ":3: is not valid YAML: found unexpected end of stream",
    "user_with_nul": (
        ":1: process.user: 'a\\x00b' is not a user: it contains control characters or invalid text"
    ),
    "retention_of_zero": ":1: journal.retention: '0' is out of range: more than 0",
    "section_without_keys": (
        ":1: imds: has no settings: write them below it, indented, or leave it out"
    ),
    "tab_as_indentation": (
        ":2: is not valid YAML: found character '\\t' that cannot start any token"
    ),
    "telemetry_path_of_the_status_page": f":1: web.telemetry-path: '/' {RESERVED}",
    "telemetry_path_relative": (
        ":1: web.telemetry-path: 'metrics' is not a valid path: it must begin with / and contain no"
        " spaces, '?', '#' or '%'"
    ),
    "telemetry_path_taken": f":1: web.telemetry-path: '/-/healthy' {RESERVED}",
    "timeout_of_zero": f":1: imds.timeout: '0s' {TIMEOUT}",
    "timeout_too_long": f":1: imds.timeout: '100y' {TIMEOUT}",
    "top_is_a_list": ":2: must be a mapping of keys to values",
    "top_is_a_text": ":1: must be a mapping of keys to values",
    "tracing_scope_unknown": ":1: tracing.scope: 'peer' is none of self, all",
    "two_documents": (
        ":2: is not valid YAML: expected a single document in the stream but found another document"
    ),
    "unknown_key": ":2: unknown key 'imds.timeot': did you mean 'imds.timeout'?",
    "unknown_key_like_nothing": f":1: unknown key 'zzz': known are {KNOWN}",
    "unknown_key_nested": ":3: unknown key 'imds.api_version': did you mean 'imds.api-version'?",
    "value_is_a_list": ":2: imds.endpoint: must be one value, not a list",
    "value_is_a_mapping": ":2: unknown key 'log.level.console': did you mean 'log.level'?",
}


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
    assert (config.imds_timeout, config.imds_api_version, config.log_level) == (
        5.0,
        "2019-01-01",
        "debug",
    )


def test_values_that_yaml_takes_for_something_else(file: Path) -> None:
    """YAML's booleans, dates, octal and base 60 numbers are the text that was written."""
    file.write_text(
        "approval.policy: off\n"
        "imds.api-version: 2020-07-01\n"
        "instance.name: 0123\n"
        "journal.path: 1:30\n"
    )
    config = resolve({"config.file": str(file)}, {})
    assert config.approval_policy == "off"
    assert config.imds_api_version == "2020-07-01"
    assert config.instance_name == "0123"
    assert config.journal_path == "1:30"


def test_empty_file(file: Path) -> None:
    """A file in which nothing is set changes nothing."""
    for text in ("", "# nothing yet\n", "---\n"):
        file.write_text(text)
        assert resolve({"config.file": str(file)}, {}) == resolve({}, {})


def test_every_bad_file_is_in_the_table() -> None:
    """A bad file that is added has a complaint that a test expects."""
    assert {path.stem for path in BAD.iterdir()} == set(COMPLAINTS)


@pytest.mark.parametrize("name", COMPLAINTS)
def test_bad_file(name: str) -> None:
    """Each kind of error is one line with its place, the error and what to write."""
    path = BAD / f"{name}.yaml"
    with pytest.raises(UsageError) as caught:
        resolve({"config.file": str(path)}, {})
    assert str(caught.value) == f"{path}{COMPLAINTS[name]}"
    assert str(caught.value).isprintable()
    assert caught.value.exit_status == 2


def test_file_that_a_variable_names(tmp_path: Path) -> None:
    """A file that cannot be read is named with the variable that names it."""
    with pytest.raises(
        UsageError, match=r"^environment variable AZURE_SCHEDULED_EVENTS_CONFIG_FILE: .*: cannot be"
    ):
        resolve({}, {"AZURE_SCHEDULED_EVENTS_CONFIG_FILE": str(tmp_path / "missing.yaml")})


def test_file_that_is_not_there(tmp_path: Path) -> None:
    """A file that cannot be read is named, with the reason."""
    missing = tmp_path / "missing.yaml"
    with pytest.raises(UsageError) as caught:
        resolve({"config.file": str(missing)}, {})
    assert (
        str(caught.value) == f"--config.file: {missing}: cannot be read: No such file or directory"
    )


@pytest.mark.parametrize("key", ["basic_auth_users: {me: x}", "tls_server_config: {cert_file: x}"])
def test_keys_of_the_web_configuration(key: str, file: Path) -> None:
    """A key of the web configuration is refused, and the message names the file for it."""
    file.write_text(f"{key}\n")
    with pytest.raises(
        UsageError, match=r":1: unknown key .*the file that web\.config\.file names"
    ):
        resolve({"config.file": str(file)}, {})
