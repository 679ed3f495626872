"""What health and metrics say while a poll hangs."""

import logging
import threading
from pathlib import Path

from azure_scheduled_events_exporter.config import resolve
from azure_scheduled_events_exporter.imds.rate_limiter import RateLimiter
from azure_scheduled_events_exporter.service.daemon import Exporter
from azure_scheduled_events_exporter.service.routes import routes
from azure_scheduled_events_exporter.simulator import Scenario, Simulator, VirtualMachine
from support.events.gate import Gate, Treatment
from support.events.machine import MachineClock
from support.programs import PATIENCE, eventually
from support.servers.serving import serving


class Holding(Gate):
    """An IMDS that does not answer while ``answers`` is not set."""

    answers = threading.Event()
    held = threading.Event()

    def take(self, method: str, path: str, body: bytes) -> Treatment:
        """Hold the request back."""
        if not self.answers.is_set():
            self.held.set()
            self.answers.wait(PATIENCE)
        return super().take(method, path, body)


def test_a_poll_that_hangs(tmp_path: Path) -> None:
    """A poll that never ends makes an exporter unhealthy, and ``up`` is 0 until it ends; a slow one does neither."""
    clock = MachineClock()
    vm = VirtualMachine("vmss_0")
    with Simulator(Scenario("quiet", "Nothing happens.", (vm,), ())) as imds, Holding(imds.url) as gate:
        gate.answers.set()
        flags = {"imds.endpoint": gate.url, "instance.name": vm.name, "journal.path": str(tmp_path)}
        exporter = Exporter(resolve(flags, {}), logging.getLogger("tests.health"), clock, RateLimiter(1000))
        exporter.start()
        try:
            with serving(routes(exporter.poller.latest, "/metrics")) as running:

                def up() -> bool:
                    return b"\nazure_scheduled_events_up 1.0\n" in running.get("/metrics")[1]

                eventually(up, "a first answer")
                assert running.get("/-/healthy")[:2] == (200, b"alive\n")
                gate.answers.clear()
                assert gate.held.wait(PATIENCE)
                clock.wall += 45  # the time limit of a poll with an approval is 20 s
                assert running.get("/-/healthy")[0] == 200
                assert up()
                clock.wall += 45
                status, body, _ = running.get("/-/healthy")
                assert status == 503
                assert body == b"a poll has not ended 70 s after its time limits: the poll loop hangs\n"
                assert not up()
                assert b"the poll loop hangs" in running.get("/")[1]
                gate.answers.set()
                eventually(up, "a poll that ends")
                assert running.get("/-/healthy")[0] == 200
        finally:
            gate.answers.set()
            exporter.stop()
