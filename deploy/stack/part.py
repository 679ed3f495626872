"""Runs one service of the demo's compose file as a process of this machine: for ``make stack``.

An installed program, such as Debian's Prometheus, replaces the image of the container.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

from azure_scheduled_events_exporter.errors import ExporterError
from azure_scheduled_events_exporter.own_program import own_command

from .compose import Service
from .wiring import Wiring

ROOT = Path(__file__).parent.parent.parent
OURS = "azure-scheduled-events-exporter"
_DEBIAN = {
    "docker.io/prom/prometheus": "prometheus",
    "docker.io/prom/alertmanager": "prometheus-alertmanager",
    "docker.io/victoriametrics/victoria-metrics": "victoria-metrics",
    "docker.io/victoriametrics/vmagent": "vmagent",
    "docker.io/victoriametrics/vmalert": "vmalert",
}
# Debian's vmalert is older and refuses the first flag. The second one has the same effect there:
# rules are evaluated for the present.
_OLDER_FLAGS = {"--rule.evalDelay=0s": "--datasource.queryTimeAlignment=false"}
_TOOLS = ROOT / ".tools" / "usr" / "bin"


def program_of(service: Service) -> list[str] | None:
    """Return the program that replaces the service's image here; None if Debian has none.

    Raises:
        ExporterError: Debian has one, which is not installed here.
    """
    if service.image == OURS:
        return own_command()
    name = _DEBIAN.get(service.image)
    if name is None:
        return None
    searched = [str(_TOOLS), os.environ.get("PATH", "")]
    found = shutil.which(name, path=os.pathsep.join(searched))
    if found is None:
        raise ExporterError(
            f"{name} is not here: run scripts/tools prometheus alertmanager victoria"
        )
    return [found]


class Part:
    """A service that runs here from now on, and its log.

    Its process has a session of its own, so that Ctrl-C in our terminal does not end it. We do
    that, in the right order.
    """

    def __init__(self, service: Service, wiring: Wiring, program: list[str], folder: Path) -> None:
        self.service = service
        self.log = folder / "logs" / f"{service.name}.log"
        self._ports = wiring.ports(service)
        wiring.prepare(service)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        command = _command(wiring.command(service), program)
        setpriv = shutil.which("setpriv")
        if setpriv is not None:  # the kernel ends the program when we are killed
            command = [setpriv, "--pdeathsig", "TERM", "--", *command]
        with self.log.open("wb") as log:
            # The commands are those of this project's compose file.
            self._process = subprocess.Popen(  # noqa: S603
                command,
                env=_own_environment() | wiring.environment(service),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def status(self) -> int | None:
        """The exit status, None while it runs."""
        return self._process.poll()

    def complain(self, what: str) -> ExporterError:
        """Return an error that says ``what`` is wrong with the service, and its last log line."""
        said = self.log.read_text(errors="replace").strip() or "it said nothing"
        last = said.splitlines()[-1]
        return ExporterError(f"{self.service.name} {what}: {last} [{self.log}]")

    def has_failed(self) -> bool:
        """Return whether the service has ended and should not have.

        A service without ports may end with status 0: it has done its work.
        """
        if self.status is None:
            return False
        is_server = len(self._ports) > 0
        return is_server or self.status != 0

    def is_ready(self) -> bool:
        """Return whether it accepts connections on all of its ports.

        Without ports, return whether it has done its work.
        """
        if not self._ports:
            return self.status == 0
        try:
            for port in self._ports:
                connection = socket.create_connection(("127.0.0.1", port), timeout=1)
                connection.close()
        except OSError:
            return False
        return True

    def end(self, number: signal.Signals) -> None:
        """Send a signal to the process and its children, unless it has ended."""
        if self.status is None:
            os.killpg(self._process.pid, number)


def _command(arguments: list[str], program: list[str]) -> list[str]:
    """Return the command that runs ``program`` with ``arguments``.

    If the arguments begin with ``python3``, they run a script, and this Python takes the place of
    ``program``: the compose file replaces the entrypoint of the exporter's image in that way.
    """
    words = [_OLDER_FLAGS.get(each, each) for each in arguments]
    if words[0] == "python3":
        return [sys.executable, *words[1:]]
    return [*program, *words]


def _own_environment() -> dict[str, str]:
    """Return our variables without settings of an exporter or of tracing.

    A container would not get these from its surroundings either.
    """
    ours = dict(os.environ)
    for name in os.environ:
        if name.startswith(("AZURE_", "OTEL_")):
            del ours[name]
    return ours
