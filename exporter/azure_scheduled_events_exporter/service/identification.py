"""Asks IMDS who this VM is: its name, and the labels such as location and resource group.

It asks often until the name is known, less often until no label is missing, and then rarely.

Must not know what follows from the identity.
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

from azure_scheduled_events_exporter.core.document import comparable_name
from azure_scheduled_events_exporter.core.instance import Instance, parse_instance
from azure_scheduled_events_exporter.errors import ExporterError, Stopped
from azure_scheduled_events_exporter.imds.client import ImdsClient
from azure_scheduled_events_exporter.logs import facts

from .endpoint import NOT_REACHED

_NAME_SECONDS = 2.0
"""Longest pause between attempts while the name is unknown, in seconds.

Until it is known, no event counts as this VM's, and an eviction leaves 30 s or less.
"""

_LABELS_SECONDS = 16.0
"""Longest pause between attempts while only labels are missing, in seconds.

IMDS may answer with a part while one of its own providers fails.
"""

_AGAIN_SECONDS = 600.0
"""Time between requests when nothing is missing, in seconds.

A running VM can be moved to another resource group or subscription, or be attached to a scale
set.
"""

_RETRY_SECONDS = 60.0
"""How soon to ask again if a request fails when nothing is missing, in seconds."""


@dataclass(eq=False)
class Identification:
    """Asks for the instance metadata; :meth:`run` is a thread.

    Attributes:
        client: sends requests to IMDS; nobody else uses it.
        timeout: the limit of a request, in seconds.
        given: the value of ``--instance.name``, which overrides the name in IMDS.
        wait: waits so many seconds, or until the process is to end; returns whether it is.
        log: where the name, its changes and a first failure are logged.
        asked: is set when IMDS was asked for the first time.
        complete: is set when nothing is missing.
        identity: this VM, as far as IMDS has told; None before that. Any thread may read it.
    """

    client: ImdsClient
    timeout: float
    given: str | None
    wait: Callable[[float], bool]
    log: logging.Logger

    def __post_init__(self) -> None:
        self.identity: Instance | None = None
        self.asked = threading.Event()
        self.complete = threading.Event()

    def run(self) -> None:
        """Ask until the process is to end."""
        fruitless = 0  # attempts in a row that failed or taught nothing new
        while True:
            before = self.identity
            try:
                failure = self.ask()
            except Stopped:
                return
            is_first_attempt = not self.asked.is_set()
            self.asked.set()
            if failure and is_first_attempt:
                self._warn(failure)
            fruitless += 1
            if self.identity is not before:
                fruitless = 0
            if self.wait(self._pause(failure, fruitless)):
                return

    def _pause(self, failure: str, fruitless: int) -> float:
        """Return how many seconds to wait before the next attempt.

        Args:
            failure: why the last one failed; ``""`` if it did not.
            fruitless: how many attempts in a row have failed or taught nothing new.
        """
        if self.complete.is_set():
            return _RETRY_SECONDS if failure else _AGAIN_SECONDS
        longest = _NAME_SECONDS
        if self.given or self.identity:  # the name is known
            longest = _LABELS_SECONDS
        return min(longest, max(1.0, fruitless))  # a second longer each time

    def ask(self) -> str:
        """Request the instance metadata and take it over; return why that failed, or ``""``.

        Raises:
            Stopped: the process is to end.
        """
        try:
            identity = parse_instance(self.client.instance(self.timeout))
        except ExporterError as error:
            return str(error)
        before = self.identity
        if before is not None and not identity.is_complete:
            # IMDS answers with a part while it fails at the rest, so the rest has not changed.
            answered = {name: value for name, value in asdict(identity).items() if value}
            identity = replace(before, **answered)
        if identity != before:
            self.identity = identity
            if identity.is_complete:
                self.complete.set()
            self._report(before, identity)
        return ""

    def _warn(self, failure: str) -> None:
        """Log that the first attempt has failed, and what is missing until one succeeds."""
        message = "VM name unknown; event scope is 'unknown' until it is found"
        if self.given:
            message = "VM identity unknown; labels such as location are missing until it is found"
        hint = {}
        if not self.client.reached:
            hint["hint"] = NOT_REACHED
        self.log.warning(message, extra=facts(error=failure, **hint))

    def _report(self, before: Instance | None, now: Instance) -> None:
        """Log what is new: the name, or what has changed."""
        if before is not None:
            changed = {
                name: value for name, value in asdict(now).items() if value != getattr(before, name)
            }
            self.log.info("this VM's instance metadata has changed", extra=facts(**changed))
            return
        self.log.info("this VM's name is known", extra=facts(vm_name=now.vm_name, vm_id=now.vm_id))
        if not now.is_complete:
            self.log.warning("IMDS sent only a part of this VM's instance metadata; asking again")
        if self.given and comparable_name(self.given) != comparable_name(now.vm_name):
            self.log.warning(
                "--instance.name differs from this VM's name in IMDS: events of this VM count as"
                " another VM's",
                extra=facts(
                    instance_name=self.given, name_in_imds=now.vm_name, computer_name=now.host_name
                ),
            )
