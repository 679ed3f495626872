"""Azure's Guest Proxy Agent, which may stand between the programs of a VM and IMDS.

Knows what its refusals look like, and what somebody has to allow. Sends nothing.

With the Metadata Security Protocol, eBPF redirects each new connection to IMDS to this agent, which
runs on the same VM. In the mode Enforce it refuses a process that its rules do not name. All of its
own answers have an empty body.

Source: https://github.com/Azure/GuestProxyAgent (proxy_agent/src/proxy/proxy_server.rs)
"""

import os
import sys
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path

from azure_scheduled_events_exporter import DOCUMENTATION

NAME = "Azure's Guest Proxy Agent (Metadata Security Protocol)"
PAGE = f"{DOCUMENTATION}metadata-security-protocol.md"
# What the exporter asks IMDS for, and so what the agent's rules have to allow.
EVENTS_PATH = "/metadata/scheduledevents"
INSTANCE_PATH = "/metadata/instance"

LOG_FOLDER = "/var/log/azure-proxy-agent"
NAMELESS = "undefined"
"""The user name that the agent gives to a uid that is not in the VM's /etc/passwd."""

DENIES = f"{NAME} denies it"
_ACCOUNTS = Path("/etc/passwd")
_OTHER_CAUSES: Mapping[int, str] = {
    HTTPStatus.UNAUTHORIZED: (
        f"IMDS accepts only requests that {NAME} has signed, and this one bypassed it, so no rule"
        " helps: if the next connection fails too, look at systemctl status azure-proxy-agent"
    ),
    HTTPStatus.MISDIRECTED_REQUEST: (
        f"{NAME} does not know which process this connection belongs to, so no rule helps: the next"
        " request opens a new connection"
    ),
    HTTPStatus.BAD_GATEWAY: (
        f"{NAME} could not pass it on, so no rule helps: {LOG_FOLDER}/ProxyAgent.log has the reason"
    ),
}
"""Its answers to which no rule helps. The 401 is of IMDS itself, to what bypassed the agent."""


def is_refusal(status: int, body: bytes) -> bool:
    """Return whether an answer has the form of a refusal by this agent, or because of it."""
    return (status == HTTPStatus.FORBIDDEN or status in _OTHER_CAUSES) and not body


def hint(status: int, path: str) -> str:
    """Return the cause of a refusal of ``path`` with this ``status``, and what helps.

    Only for a status of :func:`is_refusal`.
    """
    if status != HTTPStatus.FORBIDDEN:
        return f"{_OTHER_CAUSES[status]}, see {PAGE}"
    if path == INSTANCE_PATH:  # a rule takes its path from every user whom it does not name
        return (
            f"{DENIES}: add no rule for {path}, which would take it from other programs, but set"
            " --instance.name to this VM's name as it appears in Resources, and restart the"
            f" exporter, see {PAGE}"
        )
    return f"{DENIES}: allow {path} for user {own_user()}, see {PAGE}"


def own_user(accounts: Path = _ACCOUNTS) -> str:
    """Return the user of this process, as a rule of the agent has to name it.

    The agent reads the file ``accounts`` alone. The system's own look-up also knows the users that
    systemd makes for a service with ``DynamicUser=yes``.
    """
    if sys.platform == "win32":
        return os.environ.get("USERNAME", NAMELESS)
    uid = os.geteuid()
    try:
        lines = accounts.read_text("utf-8", "replace").splitlines()
    except OSError:
        lines = []
    for fields in (line.split(":") for line in lines):  # name, password, uid and more, or less
        if fields[2:3] == [str(uid)]:
            return fields[0]
    return f"{NAMELESS} (uid {uid}, which has no name in {accounts})"
