"""Azure's Guest Proxy Agent, which may stand between the programs of a VM and IMDS.

Recognizes its refusals, and says what somebody has to allow. Sends nothing.

With the Metadata Security Protocol, eBPF redirects each new connection to IMDS to this agent, which
runs on the same VM. In the mode Enforce it refuses a process that its rules do not name. All of the
agent's own answers have an empty body.

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
"""What a message says about a refusal that ends once a rule of the agent allows the process."""

_ACCOUNTS = Path("/etc/passwd")
_NO_RULE_HELPS: Mapping[int, str] = {
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
"""The causes of refusals to which no rule helps, by the status.

The 401 comes from IMDS itself, which refuses a request that bypassed the agent.
"""


def is_refusal(status: int) -> bool:
    """Return whether an empty answer with this ``status`` is a refusal by the agent.

    Or, of a 401, by IMDS because of the agent.
    """
    return status == HTTPStatus.FORBIDDEN or status in _NO_RULE_HELPS


def hint(status: int, path: str) -> str:
    """Return the cause of a refusal of ``path``, and what helps.

    ``status`` is one for which :func:`is_refusal` is true.
    """
    if status != HTTPStatus.FORBIDDEN:
        return f"{_NO_RULE_HELPS[status]}, see {PAGE}"
    if path == INSTANCE_PATH:
        # A rule for a path denies it to all users that no rule names. Programs of other users need
        # this path too.
        return (
            f"{DENIES}: add no rule for {path}, which would take it from other programs, but set"
            " --instance.name to this VM's name as it appears in Resources, and restart the"
            f" exporter, see {PAGE}"
        )
    return f"{DENIES}: allow {path} for user {own_user()}, see {PAGE}"


def own_user(accounts: Path = _ACCOUNTS) -> str:
    """Return the name of this process' user, as a rule of the agent has to have it.

    Only the file ``accounts`` is read, because the agent reads nothing else. The system's own
    look-up would also find the users that systemd makes for a service with ``DynamicUser=yes``.
    """
    if sys.platform == "win32":
        return os.environ.get("USERNAME", NAMELESS)
    uid = os.geteuid()
    try:
        lines = accounts.read_text("utf-8", "replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        match line.split(":"):
            case [name, _password, account_uid, *_] if account_uid == str(uid):
                return name
    return f"{NAMELESS} (uid {uid}, which has no name in {accounts})"
