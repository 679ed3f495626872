"""The command ``demo``: the exporter and a simulator in one process, and what happens."""

import argparse
import os
from dataclasses import replace

from azure_scheduled_events_exporter import logs
from azure_scheduled_events_exporter.config.flags import written_flags
from azure_scheduled_events_exporter.config.resolution import resolve, texts_and_places
from azure_scheduled_events_exporter.core.event_types import EventType
from azure_scheduled_events_exporter.errors import UsageError
from azure_scheduled_events_exporter.journal.disk.location import MEMORY
from azure_scheduled_events_exporter.service import daemon
from azure_scheduled_events_exporter.service.privileges import give_up
from azure_scheduled_events_exporter.simulator import Simulator
from azure_scheduled_events_exporter.simulator.command import line, speed
from azure_scheduled_events_exporter.standard_streams import say

from .settings import take_environment

DESCRIPTION = """\
Run the exporter with simulated events, off Azure: all scenarios in a loop.
The journal is in memory unless --journal.path is given. The demo takes --journal.path,
--alertmanager.url, --otlp.endpoint and --approval.policy only as flags, not from environment
variables or the configuration file.
"""
_DEFAULTS = {
    "web.listen-address": "127.0.0.1:10169",
    # At speed 60 a Spot VM's notice of 30 s lasts half a second, which polls a second apart miss.
    # More often, IMDS may not be asked.
    "poll.interval": "275ms",
    # What the simulator does is printed for people, so the log has only warnings and errors.
    "log.level": "warning",
}
"""Defaults that differ from those of the settings."""

_ONLY_FLAGS = {
    "journal.path": MEMORY,
    "alertmanager.url": "",
    "otlp.endpoint": "",
    "approval.policy": "off",
}
"""Defaults that only flags replace, and no variable or file.

The environment may be that of a real exporter (``docker exec … demo``), whose journal, Alertmanager
and collector must not receive simulated events.
"""

SETTINGS = _DEFAULTS | _ONLY_FLAGS
"""The defaults that the help shows."""

_VISIBLE_SECONDS = 1
"""How long a notice has to last for people to see it: durations are shown in whole seconds."""

HIDDEN = ("imds.endpoint",)
"""Settings that the help does not show."""

_COLLECTOR = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
"""Variables that name a collector."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``demo`` to ``parser``."""
    text = "Speed relative to real time, up to 10000. (default 60)"
    parser.add_argument("--speed", type=speed, metavar="FACTOR", default=60.0, help=text)


def run(parsed: argparse.Namespace) -> int:
    """Play all scenarios in a loop until SIGINT or SIGTERM; return the exit status.

    Variables that name a collector are removed from the environment of this process, because
    OpenTelemetry's library reads them.

    Raises:
        UsageError: a flag is impossible.
        ExporterError: the address is taken.
    """
    take_environment(parsed)
    flags = written_flags(parsed)
    environment = os.environ
    if "imds.endpoint" in flags:
        raise UsageError(
            "--imds.endpoint: 'demo' has its own simulator: use 'run' for another endpoint"
        )
    # `resolve` gets our defaults as flags, and flags replace variables and the file. So the
    # defaults of settings that are written somewhere are left out.
    written = set()
    for setting, _, place in texts_and_places(flags, environment):
        if place:  # a flag, a variable or the file; "" for a setting that is written nowhere
            written.add(setting.flag)
    defaults = {flag: text for flag, text in _DEFAULTS.items() if flag not in written}
    for name in _COLLECTOR:
        environment.pop(name, None)
    config = resolve({**defaults, **_ONLY_FLAGS, **flags}, environment)
    # Before the simulator has threads: on Linux, each thread has capabilities of its own.
    give_up(config.process_user, config.web_listen_address.port, journal=None)
    with Simulator("all", speed=parsed.speed, loop=True) as simulator:
        config = replace(config, imds_endpoint=simulator.url)

        def started(scheme: str, port: int) -> None:
            """Tell what to look at, and then what happens, once the exporter's server listens."""
            base = f"{scheme}://{replace(config.web_listen_address, port=port).local}"
            say(_introduction(base, config.web_telemetry_path, simulator, parsed.speed))
            simulator.report(lambda happening: say(line(happening)))

        return daemon.run(config, logs.set_up(config.log_level, config.log_format), started)


def _introduction(base: str, metrics: str, simulator: Simulator, speed: float) -> str:
    """Return what a person reads first: the addresses, and what the demo plays.

    ``base`` is the address of the exporter, and ``metrics`` the path of its metrics.
    """
    # Few certificates contain a loopback address.
    curl = "curl -sk" if base.startswith("https") else "curl -s"
    watched = f"{curl} {base}{metrics} | grep -E '^azure_.*_event_(info|seconds)'"
    pace = f"All scenarios are played in a loop, {speed:g} times as fast as in Azure."
    notice = EventType.PREEMPT.facts.usual_notice / speed  # seconds
    if notice < _VISIBLE_SECONDS:
        pace += (
            f"\nThe notice of an eviction lasts {notice:.2g} s at this speed. To see it, use"
            " --speed 10\n(make demo DEMO='--speed 10')."
        )
    lines = (
        "This is a demo: the exporter watches simulated VMs. Nothing is sent to Azure.",
        "",
        f"  page       {base}/",
        f"  metrics    {base}{metrics}",
        f"  events     {base}/api/v1/events",
        f"  watch      {watched}",
        f"  simulator  {simulator.url}/simulator/record",
        "",
        f"The exporter runs on {simulator.vms[0]}, one of {len(simulator.vms)} VMs.",
        pace,
        "Press Ctrl-C to stop. This is what Azure would do, in UTC:",
    )
    return "\n".join(lines)
