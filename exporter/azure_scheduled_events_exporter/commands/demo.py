"""The command ``demo``: runs the exporter and the built-in simulator in one process, and prints what happens."""

import argparse
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import replace

from azure_scheduled_events_exporter import logs
from azure_scheduled_events_exporter.config import resolve, written
from azure_scheduled_events_exporter.config.flags import written_flags
from azure_scheduled_events_exporter.errors import UsageError
from azure_scheduled_events_exporter.http_server.listen_address import ListenAddress
from azure_scheduled_events_exporter.journal.file import MEMORY
from azure_scheduled_events_exporter.service import daemon
from azure_scheduled_events_exporter.service.privileges import give_up
from azure_scheduled_events_exporter.simulator import Happening, Simulator, What
from azure_scheduled_events_exporter.simulator.command import say
from azure_scheduled_events_exporter.times import format_duration

from .settings import take_environment

DESCRIPTION = """\
Run the exporter with simulated events, off Azure: all scenarios in a loop.
The journal is in memory unless --journal.path is given. The demo takes --journal.path, --alertmanager.url,
--otlp.endpoint and --approval.policy only as flags, not from environment variables or the configuration file.
"""
# At speed 60 a Spot VM's notice of 30 s lasts half a second, which polls a second apart would miss.
# What the simulator does is printed for people; of the exporter's log only warnings and errors are shown.
DEFAULTS = {"web.listen-address": "127.0.0.1:10169", "poll.interval": "250ms", "log.level": "warning"}
# This overrides the environment, so that simulated events cannot get into the journal of a real exporter.
JOURNAL = {"journal.path": MEMORY}
SETTINGS = {**DEFAULTS, **JOURNAL}
HIDDEN = ("imds.endpoint",)
# Only accepted as flags. The environment may be that of a real exporter (``docker exec … demo``), whose Alertmanager
# and collector must not receive simulated events.
_ONLY_FLAGS = ("alertmanager.url", "otlp.endpoint", "approval.policy")
_COLLECTOR = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``demo`` to ``parser``."""
    parser.add_argument(
        "--speed",
        type=float,
        metavar="FACTOR",
        default=60.0,
        help="Speed relative to real time, up to 10000. (default 60)",
    )


def run(parsed: argparse.Namespace) -> int:
    """Play all scenarios in a loop until SIGINT or SIGTERM; return the exit status.

    Variables that name a collector are removed from the environment, which OpenTelemetry's library reads.

    Raises:
        UsageError: a flag is impossible.
        ExporterError: the address is taken.
    """
    take_environment(parsed)
    flags, environment = written_flags(parsed), os.environ
    if "imds.endpoint" in flags:
        raise UsageError("--imds.endpoint: 'demo' has its own simulator: use 'run' for another endpoint")
    given = {setting.flag: (text, place) for setting, text, place in written(flags, environment) if place}
    defaults = {flag: text for flag, text in DEFAULTS.items() if flag not in given}
    others = (given.get(flag, ("", "")) for flag in _ONLY_FLAGS if flag not in flags)
    ignored = [place for text, place in others if text]
    ignored += [f"environment variable {name}" for name in _COLLECTOR if environment.pop(name, "")]
    config = resolve({**defaults, **JOURNAL, **dict.fromkeys(_ONLY_FLAGS, ""), **flags}, environment)
    give_up(config.process_user, config.web_listen_address.port, None)  # before the simulator has threads
    lines = _Lines()
    with Simulator("all", speed=parsed.speed, loop=True, on_happening=lines.happened) as simulator:
        config = replace(config, imds_endpoint=simulator.url)
        log = logs.set_up(config.log_level, config.log_format)

        def started(scheme: str, port: int) -> None:
            base = f"{scheme}://{ListenAddress(config.web_listen_address.host or 'localhost', port)}"
            # Few certificates contain a loopback address.
            curl = "curl -sk" if scheme == "https" else "curl -s"
            lines.introduce(
                "This is a demo: the exporter watches simulated VMs. Nothing is sent to Azure.\n"
                f"{_ignoring(ignored)}\n"
                f"  page       {base}/\n"
                f"  metrics    {base}{config.web_telemetry_path}\n"
                f"  events     {base}/api/v1/events\n"
                f"  watch      {curl} {base}{config.web_telemetry_path} | grep -E '^azure_.*_event_(info|seconds)'\n"
                f"  simulator  {simulator.url}/simulator/record\n\n"
                f"The exporter runs on VM {simulator.vms[0]} of {len(simulator.vms)}. All scenarios run in a loop at "
                f"{parsed.speed:g} times real speed.\n"
                "Press Ctrl-C to stop. What Azure would do now, in UTC:"
            )

        return daemon.run(config, log, started)


def _ignoring(places: Sequence[str]) -> str:
    """Return a line that names the settings that the demo ignores; ``""`` if there are none."""
    flags = ", ".join(f"--{flag}" for flag in _ONLY_FLAGS)
    return f"Ignored: {', '.join(places)}. The demo takes {flags} only as flags.\n" if places else ""


class _Lines:
    """Prints the introduction first, then what the simulator does."""

    def __init__(self) -> None:
        self._early: list[str] | None = []  # kept until the introduction is printed, which contains the port
        self._lock = threading.Lock()

    def introduce(self, text: str) -> None:
        with self._lock:
            early, self._early = self._early or [], None
            say("\n".join([text, *early]))

    def happened(self, happening: Happening) -> None:
        with self._lock:
            if self._early is None:
                say(_line(happening))
            else:
                self._early.append(_line(happening))


def _line(happening: Happening) -> str:
    """Return one line: what happened to which VM, and for a pending event when it begins."""
    vms = ", ".join(happening.resources)
    text = f"{_clock(happening.at)}  {happening.scenario}: {happening.event_type} of {vms} {happening.what}"
    if happening.not_before is None or happening.what is What.APPROVED:
        return text
    left = format_duration(round(happening.not_before - happening.at))
    return f"{text}, NotBefore {_clock(happening.not_before)} (in {left})"


def _clock(moment: float) -> str:
    return time.strftime("%H:%M:%S", time.gmtime(moment))
