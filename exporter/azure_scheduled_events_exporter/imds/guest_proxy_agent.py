"""Azure's Guest Proxy Agent, which may stand between the programs of a VM and IMDS.

Knows what its refusals look like, and what somebody has to allow. Sends nothing.

With the Metadata Security Protocol, eBPF redirects each new connection to IMDS to this agent, which
runs on the same VM. In the mode Enforce it refuses a process that its rules do not name. All of its
own answers have an empty body.

Source: https://github.com/Azure/GuestProxyAgent (proxy_agent/src/proxy/proxy_server.rs)
"""

import os
import sys
from contextlib import suppress
from http import HTTPStatus

if sys.platform != "win32":
    import pwd

NAME = "Azure's Guest Proxy Agent (Metadata Security Protocol)"
PAGE = "docs/metadata-security-protocol.md"
PATHS = ("/metadata/scheduledevents", "/metadata/instance")
"""What the exporter asks for."""

LOG_FOLDER = "/var/log/azure-proxy-agent"
NAMELESS = "undefined"
"""The user name that the agent gives to a uid that is not in the VM's /etc/passwd."""

_CAUSES = {
    HTTPStatus.UNAUTHORIZED: (
        f"IMDS accepts only requests that {NAME} has signed, and it did not see this one"
    ),
    HTTPStatus.FORBIDDEN: f"{NAME} denies it",
    HTTPStatus.MISDIRECTED_REQUEST: (
        f"{NAME} does not know which process this connection belongs to; the next request opens"
        " another"
    ),
    HTTPStatus.BAD_GATEWAY: f"{NAME} could not pass it on",
}
"""Its answers. The 401 is of IMDS itself, to what has gone past the agent."""


def is_refusal(status: int, body: bytes) -> bool:
    """Return whether an answer has the form that only this agent's refusals have."""
    return status in _CAUSES and not body


def hint(status: int) -> str:
    """Return the cause of a refusal with this ``status``, and what to allow.

    Only for a status of :func:`is_refusal`.
    """
    cause = _CAUSES[HTTPStatus(status)]
    return f"{cause}: allow {' and '.join(PATHS)} for user {own_user()}, see {PAGE}"


def own_user() -> str:
    """Return the user of this process, as a rule of the agent has to name it."""
    name = os.environ.get("USERNAME", NAMELESS)
    if sys.platform != "win32":
        uid = os.geteuid()
        name = f"{NAMELESS} (uid {uid}, which has no name)"
        with suppress(KeyError):
            name = pwd.getpwuid(uid).pw_name
    return name
