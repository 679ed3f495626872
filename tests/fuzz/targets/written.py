"""Targets: files that people write, and values on the command line."""

import math
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

import h11

from azure_scheduled_events_exporter.approval import policy_file
from azure_scheduled_events_exporter.config import CONFIG_FILE_FLAG, SETTINGS, resolve
from azure_scheduled_events_exporter.core.document import EventSource, ScheduledEvent, Scope, parse_not_before
from azure_scheduled_events_exporter.core.event_types import EventType
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle, State
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.errors import UsageError
from azure_scheduled_events_exporter.http_server import web_config
from azure_scheduled_events_exporter.http_server.listen_address import parse_listen_address
from azure_scheduled_events_exporter.times import format_duration, iso_time, parse_duration
from azure_scheduled_events_exporter.web.wording import ago, impact, left, length
from fuzz.target import SEPARATOR, Target, files, one_line
from fuzz.targets.documents import END_OF_CALENDAR
from support.paths import DATA

_NOW = Timestamp(1_650_000_000.0, 1000.0, "boot")
_HASH = b"$2y$10$X0h1gDsPszWURQaxFh.zoubFi6DXncSjhoQNJgRrnGs7EsimhC7zG"
_USER = b"  prometheus: " + _HASH
_DEEP = 1000  # bytes; a longer one nests so deep that it alone would take all the time
_AGES = 1e18  # seconds; what is longer is only not to fail
_YAML = (
    *(b"&a ", b"*a", b"<<: ", b"!!binary ", b"!!set ", b"|\n", b">-\n", b"? ", b"- ", b": ", b"{", b"}", b"[", b"]"),
    *(b'"\\n"', b"'", b"~", b"%YAML 1.1\n", b"---\n", b"...\n", b"\t", b"\xc2\x85", b"\xe2\x80\xa8", b"\xff\xfe"),
)
_POLICY = (
    *(b"rules:", b"dry_run:", b"name:", b"match:", b"action: approve", b"action: hold", b"after: 5s", b"leader_only:"),
    *(b"takeover: 1m", b"event_type: [Freeze]", b"event_source: User", b"scope: [self, peer, unknown]", b"duration:"),
    *(b"unknown", b"resources:", b"notice_left:", b"{at_least: 1, below: 5}", b"{at_least: 0s, below: 9s}", b"1e309"),
)


@cache
def _folder() -> Path:
    return Path(tempfile.mkdtemp())


def _file(content: bytes) -> Path:
    path = _folder() / "written.yaml"
    path.write_bytes(content)
    return path


def check_policy(content: bytes) -> None:
    """A policy file is refused in one line that names it, or gives rules that decide about any event."""
    path = _file(content)
    try:
        policy = policy_file.load(path)
    except UsageError as error:
        one_line(str(error), path)
        return
    assert policy.rules
    assert len({rule.name for rule in policy.rules}) == len(policy.rules)
    assert all(rule.name and rule.takeover > 0 for rule in policy.rules)
    assert policy_file.load(path) == policy
    for life in _lives():
        decision = policy.decide(life, "web_0", _NOW)
        assert not decision.approve or decision.rule
        assert decision.due is None or decision.rule


@cache
def _lives() -> tuple[Lifecycle, ...]:
    """An event of every kind that a rule tells apart."""
    return tuple(
        Lifecycle(
            ScheduledEvent("A", kind, "Scheduled", source, names, not_before, "", seconds),
            State.SCHEDULED,
            scope,
            Timestamp(_NOW.wall - 60, 940.0, "boot"),
            not_before,
        )
        for kind in (*EventType, "New")
        for source in (*EventSource, "")
        for scope, names in ((Scope.SELF, ("web_0", "web_1")), (Scope.PEER, ("web_1",)), (Scope.UNKNOWN, ()))
        for not_before, seconds in ((None, None), (_NOW.wall + 300, 5.0), (_NOW.wall - 5, 0.0))
    )


def check_configuration(data: bytes) -> None:
    """A configuration file, flags and variables give a configuration, or are refused in one line."""
    content, *more = data.split(SEPARATOR)
    path = _file(content)
    settings = {setting.flag: setting for setting in SETTINGS}
    flags = {CONFIG_FILE_FLAG: str(path)}
    environment = {"HOME": "/nowhere"}
    for number, text in enumerate(part.decode("utf-8", "surrogateescape") for part in more):
        name, _, value = text.partition("=")
        if name in settings and number % 2:
            flags[name] = value
        elif name in settings:
            environment[settings[name].environment] = value
    try:
        config = resolve(flags, environment)
    except UsageError as error:
        one_line(str(error))
        return
    assert str(parse_listen_address(str(config.web_listen_address))) == str(config.web_listen_address)
    for seconds in (config.imds_timeout, config.poll_interval, config.journal_retention):
        assert 0 < seconds < math.inf
    for text in (config.imds_endpoint, config.otlp_endpoint or "", config.instance_name or "", config.journal_path):
        assert text.isprintable() or (text is config.journal_path and "\0" not in text), f"taken as it is: {text!r}"


def check_web_config(content: bytes) -> None:
    """A file for TLS and basic auth is refused in one line without its secrets, or says something."""
    path = _file(content)
    # The hash is a secret as a user's password only; in the name of a file, for example, it may be shown.
    secret = _USER in content.splitlines() and content.count(_HASH) == 1
    try:
        found = web_config.load(path)
    except UsageError as error:
        one_line(str(error), path)
        if secret and not set(content) & set(b"'\"|>"):
            _no_secret(str(error))
        return
    assert found != web_config.WebConfig() or b"http_server_config" in content
    if secret:
        _no_secret(repr(found))
    for name, value in found.headers:
        h11.Response(status_code=200, headers=[(name, value)])


def _no_secret(text: str) -> None:
    assert _HASH.decode() not in text, f"a secret stands in {text}"


def check_values(data: bytes) -> None:
    """Durations, addresses and times are refused in one line, or read, and written so that they read the same."""
    text = data.decode("utf-8", "surrogateescape")
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        one_line(str(error))
    else:
        assert 0 <= seconds < math.inf
        if seconds < _AGES:
            written = format_duration(seconds)
            assert math.isclose(parse_duration(written), seconds, rel_tol=1e-12, abs_tol=0.000501), written
    try:
        address = parse_listen_address(text)
    except ValueError as error:
        one_line(str(error))
    else:
        assert parse_listen_address(str(address)) == address
        one_line(str(address))
    moment = parse_not_before(data.decode("utf-8", "replace"))
    if moment is not None:
        assert moment >= 0, "before the epoch"
        assert moment >= END_OF_CALENDAR or parse_not_before(iso_time(moment)) == math.floor(moment)
    with suppress(ValueError):
        number = float(data)
        one_line(iso_time(number))
        if abs(number) < _AGES:
            for words in (format_duration(number), length(abs(number)), left(number), ago(number), impact(abs(number))):
                one_line(words)


def _written_values() -> Iterator[bytes]:
    yield from (b"0", b"1s", b"1m30s", b"90d", b"1.5h", b"2y3w4d5h6m7s8ms", b"-1s", b"1e9", b"nan", b"-inf")
    yield from (b":10169", b"127.0.0.1:0", b"[::1]:10169", b"[fe80::1%eth0]:9", b"localhost:65535", b"::1:80", b"[]:1")
    yield from (b"Mon, 19 Sep 2016 18:29:47 GMT", b"2020-01-01T00:00:00.5+05:30", b"1 Jan 70 00:00 EST", b"2020-W01-1")


def _configurations() -> Iterator[bytes]:
    yield from (content for content in files("bad_config") if len(content) < _DEEP)
    for setting in SETTINGS:
        if not setting.flag.endswith("file"):
            yield f"{setting.flag}: {setting.default}\0{setting.flag}={setting.default}".encode()
    yield b"instance.name: web_0\notlp.endpoint: 'http://127.0.0.1:4318'\n\0otlp.endpoint=http://a\0otlp.endpoint=http://b"
    yield b"imds: {endpoint: 'http://127.0.0.1:1'}\npoll:\n  interval: 1s\n\0web.telemetry-path=/a\0log.level=x"


def _web_configs() -> Iterator[bytes]:
    yield from (line.encode() for line in (DATA / "bad_web_config.txt").read_text().splitlines()[1::2])
    yield b"basic_auth_users:\n" + _USER
    yield b"tls_server_config:\n  cert_file: a.pem\n  key_file: a.key\nhttp_server_config:\n  http2: false\n"
    yield b"http_server_config:\n  headers:\n    X-Frame-Options: deny\n    Strict-Transport-Security: max-age=1\n"


TARGETS = {
    "web_config": Target(
        check_web_config,
        _web_configs,
        (*_YAML, _HASH, b"client_ca: x", b"client_auth_type: ", b"NoClientCert", b"VerifyClientCertIfGiven", b"$2a$"),
        2048,
    ),
    "policy": Target(check_policy, lambda: [*files("good_policy"), *files("bad_policy")], (*_YAML, *_POLICY), 2048),
    "configuration": Target(
        check_configuration,
        _configurations,
        (*_YAML, *(f"{each.flag}: ".encode() for each in SETTINGS), b"\0", b"discover", b"documented", b"http://"),
        2048,
    ),
    "values": Target(
        check_values,
        _written_values,
        (b"ms", b"y", b"[::", b"%", b"]:", b"GMT", b"+2400", b"T", b"Z", b"Dec", b"9999", b"1e"),
        128,
    ),
}
