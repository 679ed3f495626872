"""The command ``simulate``: reads its flags, runs a simulator, and prints what happens.

How IMDS behaves is decided by the other modules of this package.
"""

import argparse
import os
import signal
import time
from collections.abc import Callable
from typing import Final, NoReturn, TypeVar

from azure_scheduled_events_exporter.errors import UsageError, printable
from azure_scheduled_events_exporter.http_server.listen_address import parse_listen_address
from azure_scheduled_events_exporter.standard_streams import say
from azure_scheduled_events_exporter.times import format_duration, parse_duration

from .catalog import shipped
from .document import is_version
from .faults import Fault
from .server import Simulator
from .timeline import Happening, What

_LISTEN: Final = "127.0.0.1:10170"
_EXPORTER: Final = "azure-scheduled-events-exporter run --journal.path memory --imds.endpoint"
_USUAL: Final = ("live-migration",)
_ANY_PORT: Final = "--web.listen-address 127.0.0.1:0"  # so that further exporters do not collide
_SLEEP_SECONDS: Final = 1.0  # not longer, because Windows delivers a signal between two sleeps

_Value = TypeVar("_Value")

DESCRIPTION: Final = (
    "Simulate the Azure Instance Metadata Service: play what Azure does to VMs, to try or test an"
    " exporter, alerts and scripts off Azure."
)
_SCENARIO: Final = (
    "Scenario to play: a name of --list, a file of your own (.yaml), a recording of 'history"
    f" --record', or all. May be repeated; scenarios follow one another. (default {_USUAL[0]})"
)
_FAULT: Final = (
    "Fail from START on (scenario time), for DURATION; by default at once and always. Repeatable."
    f" One of: {', '.join(Fault)}"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``simulate`` to ``parser``."""
    add = parser.add_argument
    add("--scenario", action="append", metavar="NAME|FILE|all", help=_SCENARIO)
    add("--fault", action="append", default=[], metavar="NAME[@START[+DURATION]]", help=_FAULT)
    text = "Speed relative to Azure: at 60, a notice of 15 minutes lasts 15 seconds. (default 1)"
    add("--speed", type=speed, default="1", metavar="FACTOR", help=text)
    text = f"Address to listen on. Everyone who can connect can control it. (default {_LISTEN})"
    add("--web.listen-address", default=_LISTEN, metavar="HOST:PORT", help=text)
    text = "Delay the first answer, as IMDS does for up to 2m. (default 0s)"
    add("--first-answer-delay", default="0s", metavar="DURATION", help=text)
    text = "Show no events after the first answer, as IMDS does for up to 5m. (default 0s)"
    add("--first-event-delay", default="0s", metavar="DURATION", help=text)
    text = "Refuse api-versions after this one, as an older IMDS does. (default: none)"
    add("--newest-api-version", default="", metavar="DATE", help=text)
    add("--seed", metavar="TEXT", help="Use the same EventIds every time.")
    text = "Start again after the last scenario, with new EventIds."
    add("--loop", action="store_true", help=text)
    text = "Answer 200 with an empty body while there are no events."
    add("--empty-body", action="store_true", help=text)
    add("--list", action="store_true", help="Print the scenarios and exit.")


def speed(text: str) -> float:
    """Read the value of ``--speed``, as argparse's ``type``. Any number: ``Playlist`` limits it."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"'{text}' is no number: write how many times faster than Azure, such as 60"
        ) from None


def run(arguments: argparse.Namespace) -> int:
    """Play until a signal ends the process with status 0; with ``--list``, print and return 0.

    Raises:
        UsageError: a flag or a scenario file has an impossible value.
        ExporterError: the address cannot be used.
    """
    if arguments.list:
        _list()
        return 0
    simulator = _simulator(arguments)
    simulator.start()
    for name in ("SIGINT", "SIGTERM", "SIGBREAK"):  # only Windows has the last one
        if number := getattr(signal, name, None):
            signal.signal(number, _end)
    _greet(simulator, arguments)
    simulator.report(lambda happening: say(line(happening)))
    while True:
        time.sleep(_SLEEP_SECONDS)


def _end(*_: object) -> NoReturn:
    """End at once: there is nothing to save, and a thread may wait for a reader of its output."""
    os._exit(0)


def line(happening: Happening) -> str:
    """Return a happening as one line for people: UTC time, what, the event, its VMs.

    Names that came from a recording or by hand cannot control the terminal.
    """
    # The widths are those of the longest usual words.
    words = [
        _time_of_day(happening.at),
        f"{happening.what:<11}",
        f"{happening.event_type:<9}",
        f"{happening.event_source:<8}",
        happening.event_id,
        ",".join(happening.resources),
    ]
    if happening.what is What.APPROVED:
        words.append(f"by {happening.vm}")
    elif happening.not_before is not None:
        left = format_duration(happening.not_before - happening.at)
        words.append(f"NotBefore {_time_of_day(happening.not_before)}, in {left}")
    words.append(f"({happening.scenario or 'placed by hand'})")
    return printable(" ".join(words))


def _time_of_day(moment: float) -> str:
    """Return the time in UTC of a moment in Unix seconds."""
    return time.strftime("%H:%M:%S", time.gmtime(moment))


def _simulator(arguments: argparse.Namespace) -> Simulator:
    """Return the simulator that the flags describe."""
    first_answer = _value(arguments, "--first-answer-delay", parse_duration)
    first_event = _value(arguments, "--first-event-delay", parse_duration)
    listen = _value(arguments, "--web.listen-address", parse_listen_address)
    newest = arguments.newest_api_version
    if newest and not is_version(newest):
        raise UsageError(
            f"--newest-api-version: '{newest}' is no version: write a date, such as 2020-07-01"
        )
    return Simulator(
        arguments.scenario or _USUAL,
        speed=arguments.speed,
        loop=arguments.loop,
        address=(listen.host or "0.0.0.0", listen.port),  # noqa: S104 - asked for by ':PORT'
        faults=arguments.fault,
        first_answer_delay=first_answer,
        first_event_delay=first_event,
        empty_body=arguments.empty_body,
        newest_api_version=newest,
        seed=arguments.seed,
    )


def _value(arguments: argparse.Namespace, flag: str, parse: Callable[[str], _Value]) -> _Value:
    """Return the value of ``flag`` as ``parse`` reads it. Its ValueError becomes a UsageError."""
    name = flag.removeprefix("--").replace("-", "_")  # as argparse calls it
    try:
        return parse(vars(arguments)[name])
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from None


def _greet(simulator: Simulator, arguments: argparse.Namespace) -> None:
    """Print how to point an exporter at each VM: the first one is at the root of the simulator."""
    first, *others = simulator.vms
    names = ", ".join(arguments.scenario or _USUAL)
    say(
        f"Playing {names} at speed {simulator.speed:g}. SIGINT (Ctrl-C) ends it. Point an exporter"
        " at it, as"
    )
    say(printable(f"  {first}: {_EXPORTER} {simulator.url}"))
    for name in others:
        say(printable(f"  {name}: {_EXPORTER} {simulator.vm_url(name)} {_ANY_PORT}"))
    say("What happens, in UTC:")


def _list() -> None:
    """Print each shipped scenario with its description."""
    scenarios = shipped()
    width = max(len(scenario.name) for scenario in scenarios)
    for scenario in scenarios:
        say(f"{scenario.name:<{width}}  {scenario.description}")
