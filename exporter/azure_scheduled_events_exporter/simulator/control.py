"""The simulator's own endpoints under ``/simulator/``: play, begin and end faults, and read what happened."""

import json
import sys
from collections.abc import Mapping
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
            return _json(HTTPStatus.NOT_FOUND, {"error": f"not found; there are {known}"})
        if request.method != ("GET" if path in reads else "POST"):
            message = f"use {'GET' if path in reads else 'POST'} for /simulator{path}"
            return _json(HTTPStatus.METHOD_NOT_ALLOWED, {"error": message})
        try:
            return reads[path]() if path in reads else writes[path](_read(request.body))
        except UsageError as error:
            return _json(HTTPStatus.BAD_REQUEST, {"error": str(error)})

    def _record(self) -> Answer:
        return _json(HTTPStatus.OK, {"record": [asdict(each) for each in self._simulator.record]})

    def _scenarios(self) -> Answer:
        known = [{"name": each.name, "description": each.description} for each in self._library.values()]
        state = {"playing": self._simulator.playing, "speed": self._simulator.speed}
        return _json(HTTPStatus.OK, {**state, "scenarios": known, "faults": list(Fault)})

    def _play(self, order: Mapping[str, object]) -> Answer:
        _only(order, "scenario", "speed", "loop")
        names = order.get("scenario")
        scenarios = (
            [each for name in names for each in self._find(name)] if isinstance(names, list) else self._find(names)
        )
        speed = _number(order, "speed")
        loop = order.get("loop", False)
        if not isinstance(loop, bool):
            raise UsageError("'loop' must be true or false")
        self._simulator.play(scenarios, speed, loop=loop)
        return _json(HTTPStatus.OK, {"playing": [each.name for each in scenarios], "speed": self._simulator.speed})

    def _fault(self, order: Mapping[str, object]) -> Answer:
        _only(order, "fault", "seconds")
        name, seconds = str(order.get("fault", "")), _number(order, "seconds")
        self._simulator.inject(name, seconds)
        return _json(HTTPStatus.OK, {"fault": name, "seconds": seconds})

    def _heal(self, order: Mapping[str, object]) -> Answer:
        _only(order)
        self._simulator.heal()
        return _json(HTTPStatus.OK, {"fault": None})

    def _find(self, name: object) -> list[Scenario]:
        if name == "all":
            return list(self._library.values())
        if not isinstance(name, str) or name not in self._library:
            raise UsageError(f"'scenario' must be all or among {', '.join(self._library)}, not {name!r}")
        return [self._library[name]]


def _json(status: HTTPStatus, value: object) -> Answer:
    return Answer(status, to_json(value))


def _read(body: bytes) -> Mapping[str, object]:
    try:
        order = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        order = None
    if not isinstance(order, dict):
        raise UsageError('the body must be a JSON object, such as {"fault": "throttle", "seconds": 30}')
    return cast("dict[str, object]", order)


def _only(order: Mapping[str, object], *known: str) -> None:
    for key in order:
        if key not in known:
            raise UsageError(f"unknown key '{key}'; known here: {', '.join(known) or 'none'}")


def _number(order: Mapping[str, object], key: str) -> float | None:
    value = order.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= sys.float_info.max:
        raise UsageError(f"'{key}' must be a number, 0 or more")
    return float(value)
