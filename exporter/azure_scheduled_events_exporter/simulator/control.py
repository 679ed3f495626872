"""The simulator's own endpoints under ``/simulator/``, with which a script plays a test.

A request plays scenarios, injects a fault, heals, or reads what happened.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from http import HTTPStatus
from typing import Protocol
from urllib.parse import urlsplit

from azure_scheduled_events_exporter import yaml_file
from azure_scheduled_events_exporter.errors import UsageError
from azure_scheduled_events_exporter.yaml_file import Section

from .document import to_json
from .exchange import Answer, Request
from .faults import Fault
from .scenario import Scenario
from .timeline import Happening

_Reply = Mapping[str, object]


class Controlled(Protocol):
    """What is controlled: a simulator. Its methods raise UsageError for what they cannot do."""

    @property
    def record(self) -> Sequence[Happening]:
        """What happened so far."""

    @property
    def playing(self) -> str:
        """The name of the scenario being played."""

    @property
    def speed(self) -> float:
        """How many times faster than written the scenario runs."""

    def play(
        self, scenario: Sequence[Scenario], speed: float | None = None, *, loop: bool = False
    ) -> None:
        """Play scenarios from the beginning; without a speed, at the current one."""

    def inject(self, fault: str, seconds: float = math.inf) -> None:
        """Fail from now on for so many seconds of real time, or until healed."""

    def heal(self) -> None:
        """End every active fault."""


class Control:
    """The endpoints of one simulator.

    Args:
        simulator: the simulator.
        library: the scenarios that it may play, by name. A request can choose only among these:
            a name is never taken for the path of a file.
    """

    def __init__(self, simulator: Controlled, library: Mapping[str, Scenario]) -> None:
        self._simulator = simulator
        self._library = library

    def answer(self, request: Request) -> Answer:
        """Return the answer to a request whose path begins with ``/simulator/``."""
        path = urlsplit(request.target).path.removeprefix("/simulator")
        reads = {"/record": self._record, "/scenarios": self._scenarios}
        writes = {"/play": self._play, "/fault": self._fault, "/heal": self._heal}
        if path not in reads and path not in writes:
            known = ", ".join(f"/simulator{each}" for each in (*reads, *writes))
            return _json({"error": f"not found; there are {known}"}, HTTPStatus.NOT_FOUND)
        method = "GET" if path in reads else "POST"
        if request.method != method:
            message = f"use {method} for /simulator{path}"
            return _json({"error": message}, HTTPStatus.METHOD_NOT_ALLOWED)
        if path in reads:
            return _json(reads[path]())
        try:
            return _json(writes[path](_order(request.body)))
        except UsageError as error:
            return _json({"error": str(error)}, HTTPStatus.BAD_REQUEST)

    def _record(self) -> _Reply:
        """Return what happened so far."""
        return {"record": [asdict(each) for each in self._simulator.record]}

    def _scenarios(self) -> _Reply:
        """Return what can be played and injected, and what is being played."""
        known = self._library.values()
        scenarios = [{"name": each.name, "description": each.description} for each in known]
        return {
            "playing": self._simulator.playing,
            "speed": self._simulator.speed,
            "scenarios": scenarios,
            "faults": list(Fault),
        }

    def _play(self, order: Section) -> _Reply:
        """Play the scenarios that ``order`` names, in this order; ``all`` are all of the library.

        Raises UsageError: it names an unknown scenario or none, or has an impossible speed or key.
        """
        names = order.texts("scenario", ())  # play() refuses an empty list
        speed = order.number("speed", self._simulator.speed)
        loop = order.flag("loop", default=False)
        order.finish()
        if names == ("all",):
            names = tuple(self._library)
        scenarios: list[Scenario] = []
        for name in names:
            if name not in self._library:
                raise order.error(
                    f"'{name}' is none of all, {', '.join(self._library)}", "scenario"
                )
            scenarios.append(self._library[name])
        self._simulator.play(scenarios, speed, loop=loop)
        return {"playing": [each.name for each in scenarios], "speed": speed}

    def _fault(self, order: Section) -> _Reply:
        """Inject the fault that ``order`` names, for its ``seconds`` or until healed."""
        name = order.choice("fault", tuple(Fault))
        seconds = order.number("seconds", math.inf)
        order.finish()
        self._simulator.inject(name, seconds)
        if seconds == math.inf:  # JSON has no such number
            return {"fault": name, "seconds": None}
        return {"fault": name, "seconds": seconds}

    def _heal(self, order: Section) -> _Reply:
        """End every active fault; ``order`` must be empty."""
        order.finish()
        self._simulator.heal()
        return {"fault": None}


def _json(reply: _Reply, status: HTTPStatus = HTTPStatus.OK) -> Answer:
    """Return an answer with ``reply`` as its body."""
    return Answer(status, to_json(reply))


def _order(body: bytes) -> Section:
    """Return the JSON object that a request has as its body; UsageError if it is none.

    It is read as YAML, which JSON is too, except for tabs between its tokens.
    """
    return yaml_file.parse(body.decode(errors="replace").expandtabs(1), "body")
