"""Faults of the VM that ``doctor`` has to find: settings, metadata service, journal, exporter and
collector.
"""

import time
from email.utils import formatdate
from typing import Any

import bcrypt

from support.doctor.doctor_chain import VM, Chain, imds
from support.doctor.doctor_faults import Fault, Flags, Plant, beyond, by, flags, variables
from support.monitoring.collector import Collector, Reply
from support.programs import NOBODY
from support.servers.certificates import Authority, Pair


def imds_answers(**canned: Any) -> Plant:
    """Plant a metadata service of its own."""
    return by(lambda chain: {"imds.endpoint": chain.serve(imds(**canned)).url})


def imds_says(status: int, body: bytes) -> Plant:
    """Plant a metadata service that answers everything alike."""
    paths = ("/metadata/instance", "/metadata/scheduledevents")
    return by(
        lambda chain: {
            "imds.endpoint": chain.serve({path: (status, {}, body) for path in paths}).url
        }
    )


def _throttled(chain: Chain) -> Flags:
    chain.simulator.inject("throttle")
    chain.extra.callback(chain.simulator.heal)
    return {}


def _exporter(chain: Chain, *flags: str, endpoint: str = "") -> Flags:
    exporter = chain.run_exporter(endpoint or chain.simulator.vm_url(VM), *flags)
    return {"web.listen-address": f"127.0.0.1:{exporter.port}"}


def _refused_the_name(chain: Chain) -> Flags:
    """Plant an exporter that polls, and to which IMDS does not tell the VM's name."""
    exporter = chain.run_exporter(chain.serve(imds(name="")).url)
    exporter.shows("a poll", lambda scrape: scrape.value("up") == 1)
    return {"web.listen-address": f"127.0.0.1:{exporter.port}"}


def _web_config(chain: Chain, pair: Pair | None = None, users: str = "") -> str:
    tls = (
        f"tls_server_config: {{cert_file: {pair.certificate}, key_file: {pair.key}}}"
        if pair
        else ""
    )
    return _file(chain, "web.yaml", f"{tls}{users}".encode())


def _file(chain: Chain, name: str, content: bytes) -> str:
    path = chain.new_folder() / name
    path.write_bytes(content)
    return str(path)


def _expired(chain: Chain) -> Flags:
    web = _web_config(chain, Authority(chain.new_folder()).ending("server", time.time() - 86_400))
    return {**_exporter(chain, "--web.config.file", web), "web.config.file": web}


def _password(chain: Chain) -> Flags:
    least_rounds = 4
    hashed = bcrypt.hashpw(b"sesame", bcrypt.gensalt(least_rounds)).decode()
    web = _web_config(chain, users=f"basic_auth_users: {{me: {hashed}}}")
    return {**_exporter(chain, "--web.config.file", web), "web.config.file": web}


def _plain_instead_of_tls(chain: Chain) -> Flags:
    return {"web.config.file": _web_config(chain, Authority(chain.new_folder()).server())}


def _journal_fails(chain: Chain) -> Flags:
    return _exporter(chain, "--journal.path", f"{_file(chain, 'file', b'no folder')}/state")


def _collector(*replies: Reply) -> Plant:
    return beyond(
        lambda chain: {"otlp.endpoint": chain.extra.enter_context(Collector(*replies)).url}
    )


_EVENTS_OF_HOST = {"name": "issue_0", "host_name": "issue000000", "resources": ("issue000000",)}
_AN_HOUR_AGO = formatdate(time.time() - 3600, usegmt=True)

LOCAL_FAULTS = (
    # This machine
    Fault(
        "misspelled variable",
        "variables",
        "Correct or remove",
        variables(AZURE_SCHEDULED_EVENTS_POL_INTERVAL="2s"),
    ),
    Fault(
        "impossible variable",
        "settings",
        "check-config",
        variables(AZURE_SCHEDULED_EVENTS_POLL_INTERVAL="never"),
    ),
    Fault(
        "bad web configuration",
        "settings",
        "run doctor as root",
        flags({"web.config.file": "/nowhere.yaml"}),
    ),
    # Metadata service
    Fault(
        "nobody at IMDS' address",
        "imds-reachable",
        "firewall",
        flags({"imds.endpoint": f"http://{NOBODY}"}),
    ),
    Fault(
        "guest proxy agent refuses",
        "imds-reachable",
        "Azure's Guest Proxy Agent",
        imds_says(403, b""),
    ),
    Fault(
        "refused, and nobody knows why",
        "imds-reachable",
        "azure-proxy-agent",
        imds_says(403, b"not allowed"),
    ),
    Fault("clock an hour off", "clock", "time synchronization", imds_answers(Date=_AN_HOUR_AGO)),
    Fault("another name", "vm-name", "Remove --instance.name", flags({"instance.name": "web-5"})),
    Fault("no name", "vm-name", "--instance.name", imds_answers(name="")),
    Fault(
        "host name in Resources",
        "vm-name",
        "--instance.name issue000000",
        imds_answers(**_EVENTS_OF_HOST),
    ),
    Fault(
        "old api-version",
        "settings",
        "leave it out",
        flags({"imds.api-version": "2017-08-01"}),
        "warning",
    ),
    Fault("throttled", "scheduled-events", "Run doctor again", by(_throttled)),
    # Journal
    Fault(
        "journal in memory",
        "journal-disk",
        "--journal.path",
        flags({"journal.path": "memory"}),
        "warning",
    ),
    Fault("journal on tmpfs", "journal-disk", "OS disk", flags({"journal.path": "/dev/shm/state"})),  # noqa: S108 - only looked at,
    Fault(
        "no journal",
        "journal-content",
        "as root",
        beyond(lambda chain: {"journal.path": str(chain.new_folder())}),
    ),
    Fault(
        "damaged journal",
        "journal-content",
        "damaged journal aside",
        beyond(
            lambda chain: {"journal.path": _file(chain, "journal.sqlite", b"no database" * 999)}
        ),
    ),
    # Exporter
    Fault(
        "no exporter",
        "served",
        "systemctl status",
        beyond(lambda _: {"web.listen-address": NOBODY}),
    ),
    Fault(
        "another program's port",
        "served",
        "end that program",
        beyond(lambda chain: {"web.listen-address": f"127.0.0.1:{chain.serve({}).port}"}),
    ),
    Fault("plain instead of TLS", "served", "--web.config.file", beyond(_plain_instead_of_tls)),
    Fault("expired certificate", "certificate", "Renew", beyond(_expired)),
    Fault(
        "password asked", "exporter", "--exporter.http-config.file", beyond(_password), "warning"
    ),
    Fault(
        "blind exporter",
        "exporter-polls",
        "metadata service above",
        beyond(lambda chain: _exporter(chain, endpoint=f"http://{NOBODY}")),
    ),
    Fault(
        "exporter alone is refused the name",
        "exporter-vm-name",
        "--instance.name",
        beyond(_refused_the_name),
    ),
    Fault("exporter's journal fails", "exporter-journal", "journal above", beyond(_journal_fails)),
    # Collector
    Fault(
        "no collector",
        "otlp",
        "Start the collector",
        beyond(lambda _: {"otlp.endpoint": f"http://{NOBODY}"}),
    ),
    Fault("collector wants a token", "otlp", "OTEL_EXPORTER_OTLP_HEADERS", _collector(Reply(401))),
    Fault("collector elsewhere", "otlp", "base address", _collector(Reply(404))),
    Fault(
        "sign-in page for a collector",
        "otlp",
        "sign-in page",
        _collector(Reply(headers={"Content-Type": "text/html"}, body=b"<!doctype html>")),
    ),
    Fault(
        "collector without HTTP",
        "otlp",
        "OTEL_*",
        variables(OTEL_EXPORTER_OTLP_ENDPOINT="http://h:1", OTEL_EXPORTER_OTLP_PROTOCOL="grpc"),
        "warning",
    ),
)
