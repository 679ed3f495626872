"""The command ``simulate``: parses flags and runs a simulator until it is stopped.

Does not decide how IMDS behaves.
"""

import argparse
import os
import signal
import time
from typing import Final, NoReturn

from azure_scheduled_events_exporter.errors import UsageError, printable
from azure_scheduled_events_exporter.http_server.listen_address import parse_listen_address
from azure_scheduled_events_exporter.standard_streams import say
from azure_scheduled_events_exporter.times import format_duration, parse_duration

from .document import is_version
from .faults import Fault
from .scenario import shipped
from .server import Simulator
from .timeline import Happening, What

_LISTEN: Final = "127.0.0.1:10170"
_EXPORTER: Final = "azure-scheduled-events-exporter run --journal.path memory --imds.endpoint"
_USUAL: Final = ("live-migration",)
_ANY_PORT: Final = "--web.listen-address 127.0.0.1:0"  # so that further exporters do not collide
_SLEEP_SECONDS: Final = 1.0  # Windows delivers a signal between two sleeps

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
# Flags with a value: flag, placeholder, default, help.
_VALUES: Final = (
    (
        "--speed",
        "FACTOR",
        "1",
        "Speed relative to Azure: at 60, a notice of 15 minutes lasts 15 seconds.",
    ),
    (
        "--web.listen-address",
        "HOST:PORT",
        _LISTEN,
        "Address to listen on. Everyone who can connect can control it.",
    ),
    (
        "--first-answer-delay",
        "DURATION",
        "0s",
        "Delay the first answer, as IMDS does for up to 2m.",
    ),
    (
        "--first-event-delay",
        "DURATION",
        "0s",
        "Show no events after the first answer, as IMDS does for up to 5m.",
    ),
    (
        "--newest-api-version",
        "DATE",
        "",
        "Refuse api-versions after this one, as an older IMDS does. (default: none)",
    ),
    ("--seed", "TEXT", None, "Use the same EventIds every time."),
)
# Flags without a value: flag, help.
_SWITCHES: Final = (
    ("--loop", "Start again after the last scenario, with new EventIds."),
    ("--empty-body", "Answer 200 with an empty body while there are no events."),
    ("--list", "Print the scenarios and exit."),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``simulate`` to ``parser``."""
    parser.add_argument("--scenario", action="append", metavar="NAME|FILE|all", help=_SCENARIO)
    parser.add_argument(
        "--fault", action="append", default=[], metavar="NAME[@START[+DURATION]]", help=_FAULT
    )
    for flag, metavar, default, text in _VALUES:
        told = f"{text} (default {default})" if default else text
        parser.add_argument(
            flag,
            type=speed if flag == "--speed" else str,
            default=default,
            metavar=metavar,
            help=told,
        )
    for flag, text in _SWITCHES:
        parser.add_argument(flag, action="store_true", help=text)


def speed(text: str) -> float:
    """Read the value of ``--speed``."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"'{text}' is no number: write how many times faster than Azure, such as 60"
        ) from None


def run(arguments: argparse.Namespace) -> int:
    """Play until a signal ends the process with status 0; return the exit status of ``--list``.

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

    Names from a recording cannot control the terminal.
    """
    clock = time.strftime("%H:%M:%S", time.gmtime(happening.at))
    # Columns as wide as the longest usual word.
    words = [
        clock,
        f"{happening.what:<11}",
        f"{happening.event_type:<9}",
        f"{happening.event_source:<8}",
    ]
    words += [happening.event_id, ",".join(happening.resources)]
    if happening.what is What.APPROVED:
        words.append(f"by {happening.vm}")
    elif happening.not_before is not None:
        start = time.strftime("%H:%M:%S", time.gmtime(happening.not_before))
        words.append(
            f"NotBefore {start}, in {format_duration(happening.not_before - happening.at)}"
        )
    return printable(f"{' '.join(words)} ({happening.scenario or 'placed by hand'})")


def _simulator(arguments: argparse.Namespace) -> Simulator:
    """Return the simulator that the flags describe."""
    try:
        flag = "--first-answer-delay"  # the one that is read, for the error
        first_answer = parse_duration(arguments.first_answer_delay)
        flag = "--first-event-delay"
        first_event = parse_duration(arguments.first_event_delay)
        flag = "--web.listen-address"
        listen = parse_listen_address(vars(arguments)["web.listen_address"])
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from None
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


def _greet(simulator: Simulator, arguments: argparse.Namespace) -> None:
    """Print how to point an exporter at each VM."""
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
