"""Scripts of deploy/examples beside a simulator and an exporter, with substitutes of the programs that they call."""

import os
import re
import subprocess
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self

import psutil

from azure_scheduled_events_exporter.simulator import PlannedEvent, Scenario, Simulator, VirtualMachine, What
from support.paths import ROOT
from support.programs import COMMAND, PATIENCE, Exporter, environment
from support.servers.http_peer import HttpServer, Request, Response

EXAMPLES = ROOT / "deploy" / "examples"
PAGE = ROOT / "docs" / "approvals.md"
LIBRARY = "/usr/local/lib/azure-scheduled-events"
INSTALLED = "/opt/azure-scheduled-events-exporter/bin/azure-scheduled-events-exporter"
VMS = (VirtualMachine("vmss_0", scale_set="vmss"), VirtualMachine("vmss_1", scale_set="vmss"))
QUIET = Scenario("quiet", "Nothing happens.", VMS, ())

# What stands in for every program of somebody else: it writes down when it was called and how, and how it goes.
STAND_IN = """\
#!/bin/sh
echo "$(basename "$0") $*" >> "$CALLS"
[ -e "$CALLS.slow" ] && while [ -e "$CALLS.slow" ]; do sleep 0.05; done
[ ! -e "$CALLS.broken" ]
"""

# Stands in for patronictl, which exits with 0 also when Patroni refuses.
PATRONICTL = """\
#!/bin/sh
echo "$(basename "$0") $*" >> "$CALLS"
if [ -e "$CALLS.broken" ]; then
    echo "Switchover failed, details: 412, switchover is not possible: no good candidates have been found"
else
    rm "$CALLS.leader"
fi
"""

# Stands in for kubectl, which knows whether the node is cordoned, and the hook's annotation of it.
KUBECTL = """\
#!/bin/sh
case "$*" in
get*unschedulable*)
    [ ! -e "$CALLS.cordoned" ] && [ ! -e "$CALLS.cordoned.$3" ] || echo true
    exit
    ;;
get*annotations.azure-scheduled-events/cordoned*)
    [ ! -e "$CALLS.annotated" ] && [ ! -e "$CALLS.annotated.$3" ] || echo true
    exit
    ;;
annotate*azure-scheduled-events/cordoned=true)
    touch "$CALLS.annotated.$3"
    exit
    ;;
annotate*azure-scheduled-events/cordoned-)
    rm -f "$CALLS.annotated" "$CALLS.annotated.$3"
    exit
    ;;
esac
echo "$(basename "$0") $*" >> "$CALLS"
[ -e "$CALLS.slow" ] && while [ -e "$CALLS.slow" ]; do sleep 0.05; done
[ ! -e "$CALLS.broken" ] || exit 1
if [ "$1" = uncordon ]; then rm -f "$CALLS.cordoned" "$CALLS.cordoned.$2"; else touch "$CALLS.cordoned.$2"; fi
"""

# Stands in for the Azure CLI, which knows whether the VM is in the pool.
AZ = """\
#!/bin/sh
if [ "$4" = show ]; then
    [ -e "$CALLS.out" ] || echo "/providers/Microsoft.Network/loadBalancers/WEB/backendAddressPools/web-vms"
    exit
fi
echo "$(basename "$0") $*" >> "$CALLS"
[ -e "$CALLS.slow" ] && while [ -e "$CALLS.slow" ]; do sleep 0.05; done
if [ "$5" = add ]; then rm -f "$CALLS.out"; else touch "$CALLS.out"; fi
"""

# Stands in for systemctl, which knows whether the worker runs.
SYSTEMCTL = """\
#!/bin/sh
[ "$1" != is-active ] || { [ ! -e "$CALLS.out" ]; exit; }
echo "$(basename "$0") $*" >> "$CALLS"
if [ "$1" = start ]; then rm -f "$CALLS.out"; else touch "$CALLS.out"; fi
"""
STAND_INS = {"patronictl": PATRONICTL, "kubectl": KUBECTL, "az": AZ, "systemctl": SYSTEMCTL}


def blocks(language: str) -> list[str]:
    """Return the page's blocks of code in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)


class Stage:
    """A simulator, an exporter with a journal, and a folder where substitutes of programs record their calls."""

    def __init__(self, stack: ExitStack, folder: Path, simulator: Simulator, exporter: Callable[..., Exporter]) -> None:
        self._stack = stack
        self._folder = folder
        self._start_exporter = exporter
        self._runs = 0
        self.simulator = simulator
        self.state = folder / "journal"
        self.file = folder / "calls"
        programs = folder / "bin"
        programs.mkdir()
        for name in ("az", "kubectl", "azcopy", "systemctl", "drain", "undrain", "patronictl"):
            (programs / name).write_text(STAND_INS.get(name, STAND_IN))
            (programs / name).chmod(0o755)
        self.environment = environment(
            PATH=f"{programs}:{Path(COMMAND).parent}:{os.environ['PATH']}",
            CALLS=str(self.file),
            STATE_DIRECTORY=str(folder),
            AZURE_SCHEDULED_EVENTS_JOURNAL_PATH=str(self.state),
            AZURE_SCHEDULED_EVENTS_IMDS_ENDPOINT=simulator.url,
            AZURE_SCHEDULED_EVENTS_POLL_INTERVAL="250ms",
        )

    @property
    def calls(self) -> list[str]:
        """The calls of the substitutes so far."""
        return self.file.read_text().splitlines() if self.file.exists() else []

    @property
    def approved(self) -> list[str]:
        """The types of the events that were approved."""
        return [h.event_type for h in self.simulator.record if h.what is What.APPROVED]

    def exporter(self, url: str = "") -> Exporter:
        """Start the exporter, with the IMDS at ``url`` if not the simulator itself, and wait until it has seen it."""
        exporter = self._start_exporter(
            url or self.simulator.url, "--poll.interval", "250ms", "--journal.path", str(self.state)
        )
        exporter.shows("IMDS", lambda scrape: scrape.value("up"))
        return exporter

    def run(self, *command: str, **settings: str) -> "Script":
        """Start a script."""
        self._runs += 1
        output = self._folder / f"script-{self._runs}.log"
        return self._stack.enter_context(Script(command, output, {**self.environment, **settings}))

    def unit(self, hook: str, **settings: str) -> "Script":
        """Start what the unit of ``hook`` starts, with its environment and these settings."""
        (command,) = re.findall("^ExecStart=(.*)$", (EXAMPLES / f"{hook}.service").read_text(), re.MULTILINE)
        settings = {**self._environment_of(hook), **settings}
        return self.run(*command.replace(LIBRARY, str(EXAMPLES)).replace(INSTALLED, COMMAND).split(), **settings)

    def hook(self, hook: str, what: str, **settings: str) -> "Script":
        """Run ``hook`` once with ``what``, with the environment of its unit and these settings."""
        return self.run(str(EXAMPLES / hook), what, **{**self._environment_of(hook), **settings})

    def _environment_of(self, hook: str) -> dict[str, str]:
        text = (EXAMPLES / f"{hook}.service").read_text()
        lines = re.findall("^Environment=(.*)$", text, re.MULTILINE)
        in_unit = dict(pair.split("=", 1) for line in lines for pair in line.split())
        del in_unit["AZURE_SCHEDULED_EVENTS_JOURNAL_PATH"]
        return in_unit

    def patroni(self, *, leader: bool) -> str:
        """Start Patroni's API, in which this VM is the leader until patronictl moves the role; return its address."""
        marker = Path(f"{self.file}.leader")
        if leader:
            marker.touch()

        return self._stack.enter_context(Patroni(marker)).url

    def cordon(self, *, for_an_event: bool = False) -> None:
        """Make kubectl say that the node is cordoned, by an operator or by the hook."""
        Path(f"{self.file}.cordoned").touch()
        if for_an_event:
            Path(f"{self.file}.annotated").touch()

    def slow(self, *, on: bool) -> None:
        """Make the substitutes wait, or end."""
        marker = Path(f"{self.file}.slow")
        marker.touch() if on else marker.unlink()

    def broken(self, *, on: bool) -> None:
        """Make the substitutes fail or succeed."""
        marker = Path(f"{self.file}.broken")
        marker.touch() if on else marker.unlink()


class Patroni(HttpServer):
    """Patroni's API on the leader while ``marker`` exists."""

    def __init__(self, marker: Path) -> None:
        super().__init__()
        self._marker = marker

    def respond(self, request: Request) -> Response:
        """Say whether this is the primary."""
        return Response(200 if request.path == "/primary" and self._marker.exists() else 503)


class Script:
    """A script in a session of its own, so that all its processes end together, as under systemd."""

    def __init__(self, command: tuple[str, ...], output: Path, env: dict[str, str]) -> None:
        self.output = output
        with output.open("wb") as file:
            self.process = subprocess.Popen(
                command,
                stdout=file,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=env,
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """End all its processes at once, as systemd does; hooks have sessions of their own."""
        with suppress(psutil.NoSuchProcess):
            runner = psutil.Process(self.process.pid)
            runner.suspend()  # it starts nothing more
            for each in (*runner.children(recursive=True), runner):
                with suppress(psutil.NoSuchProcess):
                    each.kill()
        self.process.wait(PATIENCE)


def scenario(
    kind: str,
    *,
    started_for: float = 2.0,
    cancelled_at: float | None = None,
    notice: float = 900,
    duration: int = -1,
    resources: tuple[str, ...] = ("vmss_0",),
) -> Scenario:
    """Return a scenario with one event of the first VM, which begins half a second after its approval."""
    event = PlannedEvent(
        kind,
        resources,
        duration=duration,
        announced_at=0.2,
        notice=notice,
        started_for=started_for,
        approval_delay=0.5,
        cancelled_at=cancelled_at,
    )
    return Scenario(kind, "One event.", VMS, (event,))


def reads_journal(script: Script) -> bool:
    """Whether a process of the script's session has the journal open."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.getpgid(int(process.name)) == script.process.pid:
                links = [str(link.readlink()) for link in (process / "fd").iterdir()]
                if any("journal.sqlite" in link for link in links):
                    return True
        except OSError:  # it has just ended
            continue
    return False
