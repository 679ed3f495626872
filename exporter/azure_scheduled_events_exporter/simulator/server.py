"""The simulator: connects a stage, a service, a server and a clock.

Has the clock that the others get as an argument, and the threads, except those of ``wire``: one for
each connection.
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

from .control import Control
from .document import WireEvent
from .faults import FaultPlan, fault_named, parse_plan
from .scenario import Choice, find, shipped
from .service import REQUESTS_PER_SECOND, Answer, Request, Seen, Service
from .stage import Playlist, Stage
from .timeline import Happening
from .wire import Server

_LONGEST_WAIT = 3600.0
"""Seconds after which the thread that reports looks again, also if nothing is to come."""


class Simulator:
    """A server that answers as IMDS does; a context manager that serves while it is open.

    ``scenario`` is played from :meth:`start` on, ``speed`` times as fast as written, in a ``loop``
    if asked. ``faults`` are plans or their text (``throttle@2m+30s``), in scenario time from the
    start. ``first_answer_delay`` (real seconds) delays the first answers, as IMDS does while it
    enables Scheduled Events, and again after a day without a request; documents have no events for
    ``first_event_delay`` (real seconds) after that. ``empty_body`` answers 200 without a body when
    there are no events. Versions after ``newest_api_version`` are refused; ``""`` refuses none.
    With a ``seed`` the EventIds are the same every time. More ``requests_per_second`` than IMDS
    admits are for soaks. ``clock`` gives Unix seconds, also of the header Date, and must not jump;
    the default follows the monotonic clock.

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
        self._changed = threading.Condition()  # its lock guards the service and its stage
        self._server: Server | None = None
        self._threads: list[threading.Thread] = []
        self._stopping = threading.Event()
        self._control = Control(
            self, {each.name: each for each in (*shipped(), *self._playlist.scenarios)}
        )

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
        # The scenario begins now, and not when this object was made.
        self._service.stage = Stage(self._playlist, at=now, seed=self._seed)
        for plan in self._plans:
            self._service.inject(plan.placed(now, self._playlist.speed))
        # In seconds, how often it looks whether to stop, so how long :meth:`stop` may take.
        self._run(partial(self._server.serve_forever, poll_interval=0.02))

    def report(self, on_happening: Callable[[Happening], None]) -> None:
        """Call ``on_happening`` with all that happens from the start on, in a thread of its own."""
        self._run(partial(self._follow, on_happening))

    def stop(self) -> None:
        """Stop immediately: hanging connections are closed. May be called twice."""
        server = self._server
        self._server = None
        if server is None:
            return
        self._stopping.set()
        with self._changed:
            self._changed.notify_all()
        server.end()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()

    @property
    def url(self) -> str:
        """The base address; the first VM of the scenario answers there."""
        if self._server is None:
            raise ExporterError(
                "the simulator is not running: call start(), or use it in a with statement"
            )
        host, port = self._server.server_address[:2]  # that of IPv6 has more parts
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

    def inject(self, fault: str, seconds: float | None = None) -> None:
        """Fail as ``fault`` for ``seconds`` of real time, or until :meth:`heal`.

        Raises UsageError: there is no such fault.
        """
        kind = fault_named(fault)
        with self._changed:
            self._service.inject(
                FaultPlan(kind, self._clock(), math.inf if seconds is None else seconds)
            )

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
            stage.play(
                Playlist(scenarios, stage.playlist.speed if speed is None else speed, loop),
                self._clock(),
            )

    @contextlib.contextmanager
    def _as_of_now(self) -> Iterator[Stage]:
        """Yield the stage with all that is due by now; no other thread uses it in the block.

        Afterwards, the thread that reports happenings looks for new ones.
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
                count = stage.happened - reported
                reported = stage.happened
                fresh = stage.record[-count:] if count else ()
                if not fresh and not self._stopping.is_set():
                    wait = _LONGEST_WAIT
                    if stage.next_at is not None:
                        wait = stage.next_at - self._clock()
                    self._changed.wait(min(max(wait, 0.001), _LONGEST_WAIT))
            for happening in fresh:
                on_happening(happening)


def steady_clock() -> Callable[[], float]:
    """Return a clock in Unix seconds that follows the monotonic clock.

    So a correction of the wall clock moves no event.
    """
    ahead = time.time() - time.monotonic()
    return lambda: time.monotonic() + ahead
