"""The command line: parses flags and dispatches to the command's module. A module is loaded when its command runs."""

import argparse
import contextlib
import importlib
import os
import re
import sqlite3
import sys
import textwrap
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import NoReturn

from azure_scheduled_events_exporter import __version__, logs, standard_streams
from azure_scheduled_events_exporter.config import (
    CONFIG_FILE_FLAG,
    Config,
    environment_name,
    resolve,
    unknown_variables,
)
from azure_scheduled_events_exporter.config.flags import FLAGS, GROUPS, add_settings, repeated_flags, written_flags
from azure_scheduled_events_exporter.errors import (
    DamagedTextError,
    ExporterError,
    OutputError,
    UsageError,
    closest,
    without_password,
)
from azure_scheduled_events_exporter.service.ending import Ending

from .settings import config_of, config_without_policy, from_file

PROGRAM = "azure-scheduled-events-exporter"
_DESCRIPTION = """\
Polls the Scheduled Events of an Azure VM and reports maintenance, evictions and
host failures.

  try it anywhere    azure-scheduled-events-exporter demo
  run it on a VM     azure-scheduled-events-exporter run
                     then open http://localhost:10169/
  current events     azure-scheduled-events-exporter events
  past events        azure-scheduled-events-exporter history
  check the setup    azure-scheduled-events-exporter doctor
"""
_EPILOG = f"""\
Each setting is also an environment variable, such as
{environment_name("poll.interval")} for --poll.interval, and a key of
the YAML file that --{CONFIG_FILE_FLAG} names (poll.interval). A flag overrides the
variable, the variable overrides the file, and the file overrides the default.
Write durations as 500ms, 1s, 1m30s or 90d. 'run --help' shows all settings.
"""
_ALL_GROUPS = (*GROUPS, "others")
_ASKING = ("metadata service", "journal")
"""Settings of commands that ask the metadata service, or follow the journal."""
_WIDTH = 80
_UNREAD = 128 + 13
"""The exit status when nobody reads the output: a shell's for a program that SIGPIPE ended."""


class _Parser(argparse.ArgumentParser):
    """Reports an error in one line."""

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing the whole usage."""
        raise UsageError(f"{message} (see {self.prog} --help)")


@dataclass(frozen=True, slots=True)
class _Command:
    """A command, and what its help shows.

    Attributes:
        shown: the groups of settings that its help lists; without any, it takes no settings.
        module: loaded if this command runs, for its ``run``, ``add_arguments``, ``DESCRIPTION`` and ``SETTINGS`` (other
            defaults).
        function: runs it instead of ``run``.
    """

    name: str
    summary: str
    shown: Collection[str] = _ALL_GROUPS
    module: str = ""
    function: Callable[[argparse.Namespace], int] | None = None
    operands: str = ""
    hidden: Collection[str] = ()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that ``arguments`` name; return the exit status.

    It is 0, 1 for failure, 2 for usage, and 141 if the program that reads standard output has ended.
    """
    with standard_streams.checked():
        try:
            return _flushed(_status(sys.argv[1:] if arguments is None else arguments))
        except SystemExit as ended:  # after --help and --version
            raise SystemExit(_flushed(int(ended.code or 0))) from None


def _status(arguments: Sequence[str]) -> int:
    """Run the command and return its exit status."""
    try:
        parsed = _parse(arguments)
        return int(parsed.command(parsed))
    except ExporterError as error:
        _complain(str(error))
        return error.exit_status
    except (sqlite3.Error, DamagedTextError) as error:
        _complain(f"cannot read the journal: {error}")
        return 1
    except FileNotFoundError:
        if _has_current_directory():
            raise
        _complain("the current directory has been deleted, so relative paths have no meaning: change to another one")
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return _UNREAD


def _has_current_directory() -> bool:
    try:
        os.getcwd()  # noqa: PTH109 - Path.cwd does no more
    except FileNotFoundError:
        return False
    return True


def _flushed(status: int) -> int:
    """Write what is left of the output; return ``status``, or the failure if that was success."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        status = status or _UNREAD
    except OutputError as error:
        if not status:
            _complain(str(error))
        status = status or error.exit_status
    else:
        return status
    standard_streams.discard(sys.stdout)
    return status


def _complain(text: str) -> None:
    with contextlib.suppress(OSError):  # if nobody reads it, the exit status tells
        print(f"{PROGRAM}: {text}", file=sys.stderr)


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = _parser(arguments[:1])
    commands = parser.get_default("commands")
    first = arguments[0] if arguments else ""
    words = list(arguments)
    run_by_hook: list[str] = []
    if first == "hook" and "--" in words:
        place = words.index("--")
        words, run_by_hook = words[:place], words[place + 1 :]
    if first.lstrip("-").partition("=")[0] in FLAGS:
        shown = without_password(first)
        raise UsageError(f"{shown}: name a command first, for example: {PROGRAM} run {shown} (see --help)")
    if first and not first.startswith("-") and first not in commands:
        meant = closest(first, commands)
        hint = f"did you mean '{meant}'?" if meant else f"choose from {', '.join(commands)}"
        raise UsageError(f"unknown command '{first}': {hint} (see --help)")
    parsed, unknown = parser.parse_known_args(words)
    parsed.run_by_hook = run_by_hook
    if unknown:
        known = _flags_of(commands[first]) if first in commands else ()
        likely = [closest(word.partition("=")[0], known) for word in unknown if word.startswith("-")]
        hint = next((f": did you mean '{flag}'?" for flag in likely if flag), "")
        shown = " ".join(map(without_password, unknown))
        raise UsageError(f"unrecognized arguments: {shown}{hint} (see {PROGRAM} {first} --help)")
    return parsed


def _flags_of(parser: argparse.ArgumentParser) -> list[str]:
    """Return the flags of a command: those of its help, and all settings."""
    return [*re.findall(r"--[a-z][\w.-]*", parser.format_help()), *(f"--{flag}" for flag in FLAGS)]


def _parser(wanted: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser. Only the module of the command ``wanted`` is loaded, to save memory in the daemon."""
    parser = _Parser(
        prog=PROGRAM,
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    every: dict[str, argparse.ArgumentParser] = {}
    parser.set_defaults(commands=every)
    for command in _COMMANDS:
        every[command.name] = _add_command(commands.add_parser, command, is_wanted=command.name in wanted)
    return parser


def _add_command(
    add_parser: Callable[..., argparse.ArgumentParser], command: _Command, *, is_wanted: bool
) -> argparse.ArgumentParser:
    name = command.name
    module = importlib.import_module(command.module) if is_wanted and command.module else None
    description = getattr(module, "DESCRIPTION", command.summary)
    added = add_parser(
        name,
        help=command.summary,
        description="\n".join(textwrap.fill(line, _WIDTH) for line in description.splitlines()),
        usage=None if name == "assets" else f"{PROGRAM} {name} {command.operands or '[OPTIONS]'}",
        epilog=_EPILOG if command.shown else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    added.set_defaults(command=command.function or getattr(module, "run", None), name=name)
    if command.shown:
        add_settings(added, getattr(module, "SETTINGS", {}), command.hidden, command.shown)
    added.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}", help=argparse.SUPPRESS)
    if module is not None and hasattr(module, "add_arguments"):
        module.add_arguments(added)
    return added


def _run(parsed: argparse.Namespace) -> int:
    ending = Ending()
    with ending.on_signals():  # before anything that takes time
        from azure_scheduled_events_exporter.service import daemon  # noqa: PLC0415 - only what a command needs is loaded

        variables = dict(os.environ)
        config = config_of(parsed)
        log = logs.set_up(config.log_level, config.log_format)

        def read_again() -> Config:
            found, places = from_file(parsed, variables)
            return resolve(written_flags(parsed), {**variables, **found}, places)

        for name, meant in unknown_variables(os.environ):
            hint = f"did you mean {meant}?" if meant else "see --help"
            log.warning("unknown environment variable", extra=logs.facts(name=name, hint=hint))
        for flag in repeated_flags(parsed):
            log.warning("flag is written more than once: its last value is used", extra=logs.facts(flag=flag))
        return daemon.run(config, log, ending=ending, read_again=read_again)


def _hook(parsed: argparse.Namespace) -> int:
    from . import hook as hook_command  # noqa: PLC0415 - only what a command needs is loaded

    config = config_without_policy(parsed)
    return hook_command.run(config, parsed, parsed.run_by_hook, written_flags(parsed))


_PACKAGE = "azure_scheduled_events_exporter"
_COMMANDS = (
    _Command("run", "Poll the metadata service and serve metrics until stopped.", function=_run),
    _Command(
        "demo",
        "Run the exporter with simulated events, off Azure: all scenarios in a loop.",
        module=f"{_PACKAGE}.commands.demo",
        hidden=("imds.endpoint",),
    ),
    _Command("simulate", "Simulate the Azure metadata service.", (), module=f"{_PACKAGE}.simulator.command"),
    _Command(
        "events",
        "Ask the metadata service once and print the current events.",
        _ASKING,
        module=f"{_PACKAGE}.commands.events",
    ),
    _Command(
        "approve",
        "Approve events: they start now, before NotBefore, on every VM in their Resources.",
        _ASKING,
        module=f"{_PACKAGE}.commands.approve",
        operands="[EVENT_ID ...] [OPTIONS]",
    ),
    _Command(
        "hook",
        "Run a command before an event of this VM, and again when it is over.",
        _ASKING,
        function=_hook,
        module=f"{_PACKAGE}.commands.hook",
        operands="[OPTIONS] -- COMMAND [ARGUMENT ...]",
    ),
    _Command(
        "history",
        "Print past and current events from the journal, also of a running exporter.",
        ("journal",),
        module=f"{_PACKAGE}.commands.history",
    ),
    _Command(
        "check-config",
        "Validate the configuration and print the effective settings.",
        module=f"{_PACKAGE}.commands.check_config",
    ),
    _Command(
        "doctor",
        "Check the whole chain, from IMDS to the dashboards, and print what to do.",
        module=f"{_PACKAGE}.commands.doctor",
    ),
    _Command(
        "assets",
        "List or export dashboards, alert rules, runbooks, systemd unit, Helm chart and examples.",
        (),
        module=f"{_PACKAGE}.commands.assets",
    ),
    _Command(
        "drill",
        "Test your paging with an alert that is labeled as a drill.",
        (),
        module=f"{_PACKAGE}.commands.drill",
    ),
)
