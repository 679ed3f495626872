"""The simulator as a whole: a stage, the service that answers with it, a server, and a clock.

The stage and the service get the time as an argument and are not thread-safe: this module reads the
clock for them, and lets one thread at a time use them. ``wire`` has a thread for each connection.
"""

import contextlib
import math
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Self
from urllib.parse import quote

from azure_scheduled_events_exporter.errors import ExporterError
from azure_scheduled_events_exporter.http_server.listen_address import ListenAddress

from .catalog import Choice, find, shipped
from .control import Control
from .document import WireEvent
from .exchange import Answer, Request, Seen
from .faults import FaultPlan, FaultWindow, fault_named, parse_plan
from .service import REQUESTS_PER_SECOND, Service
from .stage import Playlist, Stage
from .timeline import Happening
from .wire import Server

_SHORTEST_WAIT = 0.001
_LONGEST_WAIT = 3600.0
"""Seconds after which the thread that reports looks again, also if nothing is to come."""
_STOP_INTERVAL = 0.02
"""Seconds between two looks of the server whether to stop: a stop may take so long."""


class Simulator:
    """A server that answers as IMDS does; a context manager that serves while it is open.

    Args:
        scenario: what is played from :meth:`start` on.
        speed: how many times faster than written the scenario is played.
        loop: whether to start again after the last scenario.
        address: the host and the port to listen on; port 0 is any that is free.
        faults: plans or their text (``throttle@2m+30s``), in scenario time from the start.
        first_answer_delay: by how many real seconds the first answers are delayed, as IMDS does
            while it enables Scheduled Events. The first ones after a day without a request are
            delayed too.
        first_event_delay: for how many real seconds after this delay the documents have no events.
        empty_body: whether to answer 200 without a body when there are no events.
        newest_api_version: the newest version that is not refused; ``""`` refuses none.
        requests_per_second: how many requests of a VM are answered; a soak may want more than IMDS
            admits.
        seed: what the EventIds follow from; None makes other ones every time.
        clock: returns Unix seconds, also for the header Date, and must not jump. The default
            follows the monotonic clock.

    Raises:
        UsageError: there is no such scenario or fault, or the speed is out of range.
    """

    def __init__(
        self,
        scenario: Choice | Sequence[Choice] = "live-migration",
        *,
        speed: float = 1.0,
        loop: bool = False,
        address: tuple[str, int] = ("127.0.0.1", 0),
        faults: Sequence[FaultPlan | str] = (),
        first_answer_delay: float = 0.0,
        first_event_delay: float = 0.0,
        empty_body: bool = False,
        newest_api_version: str = "",
        requests_per_second: int = REQUESTS_PER_SECOND,
        seed: str | int | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._clock = clock or steady_clock()
        self._address = address
        self._plans = tuple(
            parse_plan(fault) if isinstance(fault, str) else fault for fault in faults
        )
        self._playlist = Playlist(find(scenario), speed, loop)
        self._seed = uuid.uuid4().hex if seed is None else str(seed)
        self._service = Service(
            Stage(self._playlist, at=self._clock(), seed=self._seed),
            first_answer_delay,
            first_event_delay,
            empty_body,
            newest_api_version,
            requests_per_second,
        )
        # Its lock guards the service and its stage. Notified when the record may have grown.
        self._changed = threading.Condition()
        self._server: Server | None = None
        self._threads: list[threading.Thread] = []
        self._stopping = threading.Event()
        library = {each.name: each for each in (*shipped(), *self._playlist.scenarios)}
        self._control = Control(self, library)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start to serve and to play the scenario. ExporterError: the address cannot be used."""
        host, port = self._address
        try:
            self._server = Server((host, port), self._respond, self._clock)
        except OSError as error:
            raise ExporterError(
                f"cannot listen on {host}:{port}: {error.strerror or error}; choose another address"
                " or port"
            ) from None
        now = self._clock()
        # Another stage, because the scenario begins now, and not when this object was made.
        self._service.stage = Stage(self._playlist, at=now, seed=self._seed)
        for plan in self._plans:
            self._service.inject(plan.window(now, self._playlist.speed), now)
        self._run(partial(self._server.serve_forever, poll_interval=_STOP_INTERVAL))

    def report(self, on_happening: Callable[[Happening], None]) -> None:
        """Call ``on_happening`` with all that happened since the start, and then as it happens.

        The calls come from a thread of their own, until the simulator stops.
        """
        self._run(partial(self._follow, on_happening))

    def stop(self) -> None:
        """Stop immediately: hanging connections are closed. A second call does nothing."""
        server = self._server
        self._server = None
        if server is None:
            return
        self._stopping.set()
        with self._changed:
            self._changed.notify_all()
        server.end()
        for thread in self._threads:
            if thread is not threading.current_thread():  # what report() calls may call this
                thread.join()

    @property
    def url(self) -> str:
        """The base address; the first VM of the scenario answers there."""
        if self._server is None:
            raise ExporterError(
                "the simulator is not running: call start(), or use it in a with statement"
            )
        host, port = self._server.server_address[:2]  # an address of IPv6 has more parts
        return f"http://{ListenAddress(str(host), port).local}"

    def vm_url(self, name: str) -> str:
        """Return the base address for VM ``name``; KeyError: no scenario has it."""
        if name not in self.vms:
            raise KeyError(name)
        return f"{self.url}/vm/{quote(name, safe='')}"

    @property
    def vms(self) -> tuple[str, ...]:
        """The names of all VMs; the first one uses :attr:`url`."""
        with self._as_of_now() as stage:
            return tuple(stage.vms)

    @property
    def playing(self) -> str:
        """The name of the scenario being played."""
        with self._as_of_now() as stage:
            return stage.scenario.name

    @property
    def speed(self) -> float:
        """How many times faster than written the scenario runs."""
        with self._as_of_now() as stage:
            return stage.playlist.speed

    @property
    def record(self) -> tuple[Happening, ...]:
        """What really happened so far, oldest first; the last 10,000."""
        with self._as_of_now() as stage:
            return stage.record

    @property
    def requests(self) -> tuple[Seen, ...]:
        """The requests that arrived under ``/metadata``, oldest first; the last 20,000."""
        with self._changed:
            return tuple(self._service.seen)

    def now(self) -> float:
        """Return the moment by the simulator's clock, Unix seconds; the record has its times."""
        return self._clock()

    def serve_body(self, body: bytes | None) -> None:
        """Serve exactly ``body`` as the document; None returns to the scenario."""
        with self._changed:
            self._service.body = body

    def set_document(self, events: Sequence[WireEvent] | None) -> int:
        """Serve ``events`` in place of the scenario's; None returns to the scenario.

        Returns the incarnation, which increases if the events differ from those before.
        """
        with self._as_of_now() as stage:
            self._service.body = None
            return stage.place(events, self._clock())

    def inject(self, fault: str, seconds: float = math.inf) -> None:
        """Fail as ``fault`` from now on for ``seconds`` of real time, or until :meth:`heal`.

        Raises UsageError: there is no such fault.
        """
        kind = fault_named(fault)
        with self._changed:
            now = self._clock()
            self._service.inject(FaultWindow(kind, now, now + seconds), now)

    def heal(self) -> None:
        """End every active fault."""
        with self._changed:
            self._service.heal(self._clock())

    def play(
        self, scenario: Choice | Sequence[Choice], speed: float | None = None, *, loop: bool = False
    ) -> None:
        """Play ``scenario`` from its beginning, at the current speed unless one is given.

        Raises as the class does.
        """
        scenarios = find(scenario)
        with self._as_of_now() as stage:
            if speed is None:
                speed = stage.playlist.speed
            stage.play(Playlist(scenarios, speed, loop), self._clock())

    @contextlib.contextmanager
    def _as_of_now(self) -> Iterator[Stage]:
        """Yield the stage after all that is due by now; no other thread uses it in the block.

        After the block, the thread that reports happenings looks for new ones.
        """
        with self._changed:
            self._service.stage.advance(self._clock())
            yield self._service.stage
            self._changed.notify_all()

    def _respond(self, request: Request) -> Answer:
        """Return the answer to a request, after the delay that IMDS would have."""
        if request.target.startswith("/simulator/"):
            return self._control.answer(request)
        with self._changed:
            wait = self._service.arrived(request, self._clock())
        if wait:
            self._stopping.wait(min(wait, threading.TIMEOUT_MAX))
        with self._as_of_now():
            return self._service.answer(request, self._clock())

    def _run(self, work: Callable[[], None]) -> None:
        """Run ``work`` in a thread; :meth:`stop` waits for it."""
        self._threads.append(threading.Thread(target=work, name="simulator", daemon=True))
        self._threads[-1].start()

    def _follow(self, on_happening: Callable[[Happening], None]) -> None:
        """Advance the stage at every change and report what happened, until the simulator stops."""
        reported = 0
        while not self._stopping.is_set():
            with self._changed:
                stage = self._service.stage
                stage.advance(self._clock())
                fresh = stage.happenings_after(reported)
                reported = stage.happened
                # Asked again, because stop() may have notified before this thread had the lock.
                if not fresh and not self._stopping.is_set():
                    self._changed.wait(self._until_next_change(stage))
            for happening in fresh:  # without the lock: it may take long, or use the simulator
                on_happening(happening)

    def _until_next_change(self, stage: Stage) -> float:
        """Return for how many seconds nothing is due, as far as the stage knows."""
        if stage.next_at is None:
            return _LONGEST_WAIT
        wait = stage.next_at - self._clock()
        return min(max(wait, _SHORTEST_WAIT), _LONGEST_WAIT)


def steady_clock() -> Callable[[], float]:
    """Return a clock in Unix seconds that follows the monotonic clock.

    A later correction of the wall clock does not change it, and so moves no event.
    """
    monotonic_zero = time.time() - time.monotonic()
    return lambda: monotonic_zero + time.monotonic()
