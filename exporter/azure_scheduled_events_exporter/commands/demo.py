"""The command ``demo``: the exporter on the built-in simulator, in one process, so that a newcomer sees it work."""

from collections.abc import Mapping
from dataclasses import replace

from azure_scheduled_events_exporter import logs
from azure_scheduled_events_exporter.config import resolve, written
from azure_scheduled_events_exporter.errors import UsageError
from azure_scheduled_events_exporter.http_server.listen_address import ListenAddress
from azure_scheduled_events_exporter.journal.files import MEMORY
from azure_scheduled_events_exporter.service import daemon
from azure_scheduled_events_exporter.service.privileges import give_up
from azure_scheduled_events_exporter.simulator import Happening, Simulator
from azure_scheduled_events_exporter.simulator.command import say

_FASTEST = 10_000.0
# At speed 60 the warning of a Spot eviction lasts half a second, which polls a second apart would miss.
_DEFAULTS = {"web.listen-address": "127.0.0.1:10169", "poll.interval": "250ms"}
# Whatever the environment says: what never happened must not get into the journal of a real exporter by accident.
_JOURNAL = {"journal.path": MEMORY}


def run(flags: Mapping[str, str], environment: Mapping[str, str], speed: str) -> int:
    """Play all scenarios in a loop until told to end; return the exit status.

    Raises:
        UsageError: a flag is impossible.
        ExporterError: the address is taken.
    """
    try:
        factor = float(speed)
    except ValueError:
        factor = 0.0
    if not 0 < factor <= _FASTEST:
        raise UsageError(f"--speed: {speed!r} is no factor: write a number above 0, up to {_FASTEST:g}")
    if "imds.endpoint" in flags:
        raise UsageError("--imds.endpoint: demo brings its own simulator; to use another endpoint: run")
    given = {setting.flag for setting, _, place in written(flags, environment) if place}
    defaults = {flag: text for flag, text in _DEFAULTS.items() if flag not in given}
    config = resolve({**defaults, **_JOURNAL, **flags}, environment)
    give_up(config.process_user, config.web_listen_address.port, None)  # before the simulator has threads
    with Simulator("all", speed=factor, loop=True, tell=_tell) as simulator:
        config = replace(config, imds_endpoint=simulator.url)
        log = logs.set_up(config.log_level, config.log_format)

        def started(scheme: str, port: int) -> None:
            base = f"{scheme}://{ListenAddress(config.web_listen_address.host or 'localhost', port)}"
            # A certificate is seldom made for a loopback address.
            curl = "curl -sk" if scheme == "https" else "curl -s"
            say(
                f"This VM is {simulator.vms[0]}; all scenarios in a loop, {factor:g} times as fast as in life.\n"
                f"  metrics    {base}{config.web_telemetry_path}\n"
                f"  page       {base}/\n"
                f"  simulator  {simulator.url}/simulator/record\n"
                f"  watch      {curl} {base}{config.web_telemetry_path} | grep -E 'pending|started|until_not_before'\n"
                "End it with Ctrl-C."
            )

        return daemon.run(config, log, started)


def _tell(happening: Happening) -> None:
    say(f"simulator: {happening.scenario}: {happening.event_type} {happening.what}")
