"""Runs a simulator in its own process, so that its CPU time is not measured with the exporter's."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.managers import BaseManager
from typing import Protocol, cast

from azure_scheduled_events_exporter.simulator import Scenario, Simulator, VirtualMachine

_QUIET = Scenario("quiet", "Nothing happens.", (VirtualMachine("vm_0"),), ())


class Documents(Protocol):
    """What of a simulator is used from afar."""

    def where(self) -> str:
        """Return its address."""

    def set_document(self, events: Sequence[Mapping[str, object]]) -> None:
        """Show these events from now on."""


class _Running:
    """Lives in the other process, and ends with it."""

    def __init__(self) -> None:
        self._simulator = Simulator(_QUIET)
        self._simulator.__enter__()

    def where(self) -> str:
        return self._simulator.url

    def set_document(self, events: Sequence[Mapping[str, object]]) -> None:
        self._simulator.set_document(events)


class _Manager(BaseManager):
    pass


_Manager.register("Running", _Running, exposed=("where", "set_document"))


@contextmanager
def quiet_simulator() -> Iterator[Documents]:
    """Start one in which nothing happens by itself."""
    with _Manager(ctx=get_context("spawn")) as manager:
        yield cast("Documents", manager.Running())  # type: ignore[attr-defined]  # what register has made
