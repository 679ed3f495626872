"""Checks whether Azure's Guest Proxy Agent refuses the exporter's requests.

Only reads the status file that the agent writes once a minute; sends no request.

Source: https://github.com/Azure/GuestProxyAgent
(proxy_agent_shared/src/proxy_agent_aggregate_status.rs)
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from azure_scheduled_events_exporter.errors import UsageError, one_line
from azure_scheduled_events_exporter.imds.guest_proxy_agent import (
    EVENTS_PATH,
    INSTANCE_PATH,
    LOG_FOLDER,
)
from azure_scheduled_events_exporter.text_file import read

from .finding import Findings, note, ok, skipped, warning

STATUS_FILE = Path(LOG_FOLDER) / "status.json"
_METADATA_ADDRESS = "169.254.169.254"
_OUR_COMMANDS = ("azure-scheduled-events-exporter", "azure_scheduled_events_exporter")
"""One of them is in the command line of each process of this program."""
_MOST_NAMED = 3  # refusals, in a finding


def examine(status_file: Path = STATUS_FILE) -> Findings:
    """Yield a finding about the agent, or none if it has never run on this VM."""
    try:
        if not status_file.exists():
            return
        refused = list(_refused(json.loads(read(status_file))))
    except (OSError, UsageError):
        sentence = (
            f"Not checked: the Guest Proxy Agent's {status_file} cannot be read by this user."
        )
        yield skipped("guest-proxy-agent", sentence)
        return
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
        sentence = f"The Guest Proxy Agent's {status_file} has a form that is unknown here."
        yield note("guest-proxy-agent", sentence)
        return
    if not refused:
        sentence = "The Guest Proxy Agent is on this VM, and lists no refused request of ours."
        yield ok("guest-proxy-agent", sentence)
        return
    shown = ", ".join(refused[:_MOST_NAMED])
    sentence = (
        f"The Guest Proxy Agent has refused requests of this exporter: {shown}. In the mode Audit"
        " it lets them pass; in the mode Enforce it does not."
    )
    hint = (
        f"Allow {EVENTS_PATH} for that user in the VM's access control profile, and {INSTANCE_PATH}"
        " only if the profile names that path or denies by default."
    )
    yield warning("guest-proxy-agent", sentence, hint)


def _refused(status: Mapping[str, Any]) -> Iterator[str]:
    """Yield a text for each entry about refused requests of this program to IMDS.

    It has the user, the answer and the number of requests.

    Raises an exception of any kind if ``status`` has another form than this version knows.
    """
    for entry in status["failedAuthenticateSummary"]:
        command = str(entry["processCmdLine"])
        if entry["ip"] == _METADATA_ADDRESS and any(each in command for each in _OUR_COMMANDS):
            user = one_line(str(entry["userName"]))
            yield f"user {user}, {one_line(str(entry['responseStatus']))}, {entry['count']} times"
