"""The simulator's own endpoints under ``/simulator/``: play, begin and end faults, and read what happened."""

import json
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from http import HTTPStatus
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

from azure_scheduled_events_exporter.errors import UsageError

from .document import to_json
from .faults import Fault
from .scenario import Scenario
from .service import Answer, Request

if TYPE_CHECKING:
    from .server import Simulator

_Reply = Mapping[str, object]  # a JSON object, also of a request


class Control:
    """The endpoints of one simulator. They play only scenarios that were known at start, and never open a path."""

    def __init__(self, simulator: "Simulator", library: Mapping[str, Scenario]) -> None:
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
            return _json({"error": f"use {method} for /simulator{path}"}, HTTPStatus.METHOD_NOT_ALLOWED)
        try:
            return _json(reads[path]() if path in reads else writes[path](_read(request.body)))
        except UsageError as error:
            return _json({"error": str(error)}, HTTPStatus.BAD_REQUEST)

    def _record(self) -> _Reply:
        return {"record": [asdict(each) for each in self._simulator.record]}

    def _scenarios(self) -> _Reply:
        known = [{"name": each.name, "description": each.description} for each in self._library.values()]
        state = {"playing": self._simulator.playing, "speed": self._simulator.speed}
        return {**state, "scenarios": known, "faults": list(Fault)}

    def _play(self, order: _Reply) -> _Reply:
        _only(order, "scenario", "speed", "loop")
        names, loop = order.get("scenario"), order.get("loop", False)
        scenarios = [each for name in (names if isinstance(names, list) else [names]) for each in self._find(name)]
        if not isinstance(loop, bool):
            raise UsageError("'loop' must be true or false")
        self._simulator.play(scenarios, _number(order, "speed"), loop=loop)
        return {"playing": [each.name for each in scenarios], "speed": self._simulator.speed}

    def _fault(self, order: _Reply) -> _Reply:
        _only(order, "fault", "seconds")
        name, seconds = str(order.get("fault", "")), _number(order, "seconds")
        self._simulator.inject(name, seconds)
        return {"fault": name, "seconds": seconds}

    def _heal(self, order: _Reply) -> _Reply:
        _only(order)
        self._simulator.heal()
        return {"fault": None}

    def _find(self, name: object) -> list[Scenario]:
        if name == "all":
            return list(self._library.values())
        if not isinstance(name, str) or name not in self._library:
            raise UsageError(f"'scenario' must be all or among {', '.join(self._library)}, not {name!r}")
        return [self._library[name]]


def _json(reply: _Reply, status: HTTPStatus = HTTPStatus.OK) -> Answer:
    return Answer(status, to_json(reply))


def _read(body: bytes) -> _Reply:
    order = None
    with suppress(ValueError, RecursionError):
        order = json.loads(body or b"{}")
    if not isinstance(order, dict):
        raise UsageError('the body must be a JSON object, such as {"fault": "throttle", "seconds": 30}')
    return cast("dict[str, object]", order)


def _only(order: _Reply, *known: str) -> None:
    for key in order:
        if key not in known:
            raise UsageError(f"unknown key '{key}'; known here: {', '.join(known) or 'none'}")


def _number(order: _Reply, key: str) -> float | None:
    value = order.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= sys.float_info.max:
        raise UsageError(f"'{key}' must be a number, 0 or more")
    return float(value)
