"""A cluster of two Alertmanagers whose gossip a test can cut."""

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from azure_scheduled_events_exporter.alerts import Settings
from deploy.stack.free_port import free_port
from support.monitoring.paging import write
from support.programs import Server, eventually, fetch
from support.servers.relay import Relay

_FLAGS = (
    "--cluster.peer-timeout=2s",
    "--cluster.settle-timeout=5s",
    "--cluster.pushpull-interval=5s",
    "--cluster.reconnect-interval=2s",
)
"""As docs/alerts.md advises, and so that a member that starts or returns is one of the cluster
within seconds instead of a minute.
"""


class Member(Server):
    """An Alertmanager that hears the other one at ``gossip``, and is known at ``advertised``.

    Its notifications name it by its external URL: the name of its ``folder``.
    """

    def __init__(
        self, folder: Path, config: Path, gossip: int, advertised: int, peer: int, port: int
    ) -> None:
        self._gossip = gossip
        super().__init__(
            "prometheus-alertmanager",
            folder / "alertmanager.log",
            r'msg=Listening|msg="Listening on"',
            f"--config.file={config}",
            f"--storage.path={folder / 'data'}",
            "--web.listen-address={address}",
            f"--web.external-url=http://{folder.name}",
            f"--cluster.listen-address=127.0.0.1:{gossip}",
            f"--cluster.advertise-address=127.0.0.1:{advertised}",
            f"--cluster.peer=127.0.0.1:{peer}",
            *_FLAGS,
            port=port,
        )

    def _ports(self) -> set[int]:
        return super()._ports() - {self._gossip}

    @property
    def members(self) -> int:
        """How many members of the cluster it knows."""
        status = json.loads(fetch(f"{self.url}/api/v2/status").body)
        return len(status["cluster"]["peers"])

    def event_ids(self) -> set[str]:
        """Return the EventIds of the alerts that it holds now."""
        alerts = json.loads(fetch(f"{self.url}/api/v2/alerts").body)
        return {each["labels"]["event_id"] for each in alerts if "event_id" in each["labels"]}


class Cluster:
    """Two Alertmanagers with the generated configuration of ``settings``; a context manager."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        write(folder, "alertmanager/", settings)
        self._folder = folder
        self._stack = ExitStack()
        self._gossip = [free_port(), free_port()]
        self._relays = [self._stack.enter_context(Relay(port)) for port in self._gossip]
        self._members = [self._start(number, 0) for number in (0, 1)]
        self.urls = [each.url for each in self._members]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._members:
            each.kill()
        self._stack.close()

    def _start(self, number: int, port: int) -> Member:
        folder = self._folder / f"alertmanager-{number}"
        folder.mkdir(exist_ok=True)
        config = self._folder / "alertmanager" / "alertmanager.yml"
        known = self._relays[number].port
        peer = self._relays[1 - number].port
        return Member(folder, config, self._gossip[number], known, peer, port)

    def restart(self, number: int) -> None:
        """End one as a service manager does, and start it again at the same address."""
        self._members[number].terminate()
        port = int(self.urls[number].rpartition(":")[2])
        self._members[number] = self._start(number, port)

    def held_by_each(self) -> set[str]:
        """Return the EventIds of the alerts that both hold now."""
        first, second = self._members
        return first.event_ids() & second.event_ids()

    def part(self) -> None:
        """Let none hear the other, and wait until each takes itself for the only one."""
        for each in self._relays:
            each.cut()
        self._wait_for_members(1)

    def join(self) -> None:
        """Let them hear each other again, and wait until they do."""
        for each in self._relays:
            each.mend()
        self.settle()

    def settle(self) -> None:
        """Wait until each knows the other."""
        self._wait_for_members(2)

    def _wait_for_members(self, count: int) -> None:
        def knows() -> bool:
            return all(each.members == count for each in self._members)

        eventually(knows, f"a cluster of {count}", 120.0)
