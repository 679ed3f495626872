"""A value for every setting, and how messages name the settings and the values that are valid."""

from collections.abc import Mapping

from azure_scheduled_events_exporter.http_server.listen_address import ListenAddress

KNOWN = (
    "imds.endpoint, imds.api-version, imds.timeout, poll.interval, instance.name,"
    " freeze.harmless-below, web.listen-address, web.telemetry-path, web.config.file,"
    " journal.path, journal.retention,"
    " approval.policy, otlp.endpoint, tracing.scope, alertmanager.url, alertmanager.labels,"
    " alertmanager.http-config.file, alerts.values, process.user, log.level, log.format"
)
VERSION = "is not an api-version: write a date such as 2020-07-01, or 'auto'"
DURATION = "is no duration: write a number and a unit, such as 500ms, 1s, 1m30s or 90d"
ENDPOINT = "is not a base address: write http://HOST[:PORT], or 'discover'"
RANGE = "is out of range: from 10ms (busy) to 12h (after 24h Azure stops sending events)"
QUOTE = (
    "YAML's aliases, anchors and tags are not read: put a value that begins with *, & or ! in"
    " quotes"
)
TIMEOUT = "is out of range: more than 0, at most 1h"
RESERVED = "is reserved: choose a path other than / and outside /-/ and /api/"
ADDRESS = (
    "is no listen address: write host:port with a port from 0 to 65535, such as :10169 (all"
    " interfaces), 127.0.0.1:10169 or [::1]:10169"
)

# A value for every setting that is not its default, and what it is read as.
OTHER: Mapping[str, tuple[str, object]] = {
    "imds.endpoint": ("http://127.0.0.1:8080/", "http://127.0.0.1:8080"),
    "imds.api-version": ("2019-01-01", "2019-01-01"),
    "imds.timeout": ("2s", 2.0),
    "poll.interval": ("250ms", 0.25),
    "instance.name": ("vm_0", "vm_0"),
    "freeze.harmless-below": ("0s", 0.0),
    "web.listen-address": ("[::1]:0", ListenAddress("::1", 0)),
    "web.telemetry-path": ("/more", "/more"),
    "web.config.file": ("web.yml", "web.yml"),
    "journal.path": ("memory", "memory"),
    "journal.retention": ("1w", 604800.0),
    "approval.policy": ("documented", "documented"),
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
