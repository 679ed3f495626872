"""The simulator's service without a socket: a test asks it at moments of its own."""

import json
from collections.abc import Mapping

from azure_scheduled_events_exporter.simulator.document import VERSIONS
from azure_scheduled_events_exporter.simulator.exchange import Answer, Request
from azure_scheduled_events_exporter.simulator.scenario import (
    PlannedEvent,
    Scenario,
    VirtualMachine,
)
from azure_scheduled_events_exporter.simulator.service import Service
from azure_scheduled_events_exporter.simulator.stage import Playlist, Stage

NEWEST = VERSIONS[-1]
VMS = (
    VirtualMachine("web_0", scale_set="web", zone="2", fault_domain="3", priority="Spot"),
    VirtualMachine("single", size="Standard_B2ms", vm_id="d89dcaf9-bd2e-45f9-8435-a778a750d9ba"),
)
EVENTS = tuple(
    PlannedEvent(kind, ("web_0", "single"), duration=5, description="why", announced_at=0)
    for kind in ("Freeze", "Reboot", "Redeploy", "Preempt", "Terminate")
)
WITH_METADATA: Mapping[str, str] = {"metadata": "true"}
"""The headers that IMDS wants."""


class Client:
    """Asks a service at moments one second apart, so that it is never throttled."""

    def __init__(
        self,
        *events: PlannedEvent,
        empty_body: bool = False,
        delay: float = 0,
        newest_api_version: str = "",
    ) -> None:
        stage = Stage(Playlist((Scenario("test", "", VMS, events),)), at=0, seed="seed")
        self.service = Service(
            stage,
            empty_body=empty_body,
            first_answer_delay=delay,
            newest_api_version=newest_api_version,
        )
        self.now = 0.0

    def ask(
        self,
        version: str = NEWEST,
        *,
        path: str = "/metadata/scheduledevents",
        method: str = "GET",
        body: bytes = b"",
        headers: Mapping[str, str] = WITH_METADATA,
    ) -> Answer:
        """Send one request, with the header that IMDS wants unless others are given."""
        self.now += 1
        return self.service.answer(
            Request(method, f"{path}?api-version={version}", headers, body), self.now
        )

    def document(self, version: str = NEWEST) -> list[dict[str, object]]:
        """Return the events that a version shows."""
        answer = self.ask(version)
        assert answer.status == 200
        events: list[dict[str, object]] = json.loads(answer.body)["Events"]
        return events
