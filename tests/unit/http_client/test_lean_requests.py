"""The requests library without what the daemon does not need, in a process of its own."""

import subprocess
import sys

from support.programs import environment

_PROGRAM = """
import sys

from azure_scheduled_events_exporter.http_client.lean_requests import requests

print(*sorted({"chardet", "charset_normalizer", "idna"} & sys.modules.keys()))
print(requests.Request("GET", "http://bücher.example/").prepare().url)
"""


def test_host_names_outside_ascii_are_understood() -> None:
    """Nothing that takes memory is loaded at first, and a host name with an umlaut is still written as DNS has it."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", _PROGRAM],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=environment(),
    )
    assert done.stdout.splitlines() == ["", "http://xn--bcher-kva.example/"], done.stderr
