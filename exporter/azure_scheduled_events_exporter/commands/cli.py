"""The command line: a table of commands.

Loads only the module of the command that runs; reports errors in one line.
"""

import argparse
import contextlib
import importlib
import re
import signal
import sqlite3
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NoReturn

from azure_scheduled_events_exporter import __version__, standard_streams
from azure_scheduled_events_exporter.config.flags import GROUPS, add_settings
from azure_scheduled_events_exporter.config.settings import (
    CONFIG_FILE_FLAG,
    FLAGS,
    environment_name,
)
from azure_scheduled_events_exporter.errors import (
    DamagedTextError,
    ExporterError,
    UsageError,
    closest,
)

from .interruption import Interrupted

PROGRAM = "azure-scheduled-events-exporter"
_VERSION = f"{PROGRAM} {__version__}"
_EPILOG = (
    f"Each setting is also an environment variable, such as {environment_name('poll.interval')} for"
    f" --poll.interval, and a key of the YAML file that --{CONFIG_FILE_FLAG} names (poll.interval)."
    " A flag overrides the variable, the variable overrides the file, and the file overrides the"
    " default. Write durations as 500ms, 1s, 1m30s or 90d. 'run --help' shows all settings."
)
_NO_READER = 128 + 13
"""As a shell reports a program that SIGPIPE ended: 13, a signal that Windows does not name."""
_ASKING = ("metadata service", "events", "journal")
"""Groups of settings of commands that ask the metadata service, or follow the journal."""


class _Parser(argparse.ArgumentParser):
    """Reports an error in one line."""

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing the whole usage."""
        raise UsageError(f"{message} (see {self.prog} --help)")


@dataclass(frozen=True, slots=True)
class Command:
    """A command.

    Its module has ``run``, and may have ``add_arguments``, ``DESCRIPTION``, ``SETTINGS`` and
    ``HIDDEN``.

    Attributes:
        summary: its line in the help of the program.
        settings: the groups of settings that its help lists, all by default. A command without any
            takes no settings.
        operands: what follows its name in the usage.
        module: its module, without the name of the package. It is ``""`` for the module in
            ``commands`` that has the command's name.
    """

    summary: str
    settings: Collection[str] = tuple(GROUPS)
    operands: str = "[OPTIONS]"
    module: str = ""


COMMANDS = {
    "run": Command("Poll the metadata service and serve metrics until stopped."),
    "demo": Command("Run the exporter with simulated events, off Azure."),
    "simulate": Command("Simulate the Azure metadata service.", (), module="simulator.command"),
    "events": Command("Ask the metadata service once and print current events.", _ASKING),
    "approve": Command(
        "Approve events: they start now, before NotBefore.",
        _ASKING,
        "[EVENT_ID ...] [OPTIONS]",
        module="commands.approve.command",
    ),
    "hook": Command(
        "Run a command before an event of this VM, and after it.",
        _ASKING,
        "[OPTIONS] -- COMMAND [ARGUMENT ...]",
        module="commands.hook.command",
    ),
    "history": Command("Print past and current events from the journal.", ("journal",)),
    "report": Command(
        "Print one event as a page for a post-mortem.", ("journal",), "EVENT_ID|--last [OPTIONS]"
    ),
    "check-config": Command("Validate the configuration and print the settings."),
    "doctor": Command("Check the whole chain, and print what to do."),
    "assets": Command("List or export dashboards, alert rules, chart and more.", (), "ACTION"),
    "drill": Command(
        "Test your paging and measure how long a page takes.",
        (),
        module="commands.drill.command",
    ),
}
_LINES = "".join(f"    {name:<14}{command.summary}\n" for name, command in COMMANDS.items())
_HELP = f"""\
usage: {PROGRAM} COMMAND [OPTIONS] | --help | --version

Polls the Scheduled Events of an Azure VM and reports maintenance, evictions and
host failures.

  try it anywhere    {PROGRAM} demo
  run it on a VM     {PROGRAM} run
                     then open http://localhost:10169/
  current events     {PROGRAM} events
  past events        {PROGRAM} history
  check the setup    {PROGRAM} doctor

commands ('COMMAND --help' shows the options of one):
{_LINES}"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that ``arguments`` name; return the exit status.

    It is 0, 1 for failure, 2 for usage, 128 and the number of a signal that ended it, or 141 if
    nobody reads its output.
    """
    with standard_streams.made_usable():
        try:
            status = _run(sys.argv[1:] if arguments is None else arguments)
            sys.stdout.flush()
        except ExporterError as error:
            return _failed(str(error), error.exit_status)
        except (sqlite3.Error, DamagedTextError) as error:
            return _failed(f"cannot read the journal: {error}")
        except (Interrupted, KeyboardInterrupt) as interrupted:
            # Python's own KeyboardInterrupt has no status.
            return getattr(interrupted, "exit_status", 128 + signal.SIGINT)
        except BrokenPipeError:
            return _NO_READER
        except OSError as error:
            cause = _cause_outside(error)
            if not cause:
                raise
            return _failed(cause)
        return status


def _cause_outside(error: OSError) -> str:
    """Return why any command fails with ``error``, whatever it does; ``""`` if that is not known.

    It writes an empty line to standard output, to see whether that can be written.
    """
    # If the file that is missing has no name, it is the current directory.
    if isinstance(error, FileNotFoundError) and error.filename is None:
        return (
            "the current directory has been deleted, and relative paths need one: change to another"
        )
    unwritable = standard_streams.failure_of_output()
    if unwritable is not None:
        return f"standard output cannot be written: {unwritable.strerror or unwritable}"
    return ""


def _failed(text: str, status: int = 1) -> int:
    """Print why the command fails; return its exit status."""
    with contextlib.suppress(OSError):  # if nobody reads it, the exit status tells
        print(f"{PROGRAM}: {text}", file=sys.stderr)
    return status


def _run(words: Sequence[str]) -> int:
    """Run the command that the first of ``words`` names; return the exit status."""
    name = words[0] if words else ""
    if name in {"-h", "--help"}:
        sys.stdout.write(_HELP)
        return 0
    if name == "--version":
        sys.stdout.write(f"{_VERSION}\n")
        return 0
    if name not in COMMANDS:
        raise _no_command(name)
    parser = parser_of(name)
    try:
        parsed, unknown = parser.parse_known_args(words[1:])
    except SystemExit:  # after --help and --version
        return 0
    if unknown:
        parser.error(f"unrecognized arguments: {_shown(unknown)}{_hint(unknown, parser)}")
    return int(parsed.command(parsed))


def _shown(unknown: Sequence[str]) -> str:
    """Return ``unknown`` words for an error: flags by their names; values are only counted.

    An unknown flag may be a mistyped one, and its value a secret.
    """
    shown = [word.partition("=")[0] for word in unknown if word.startswith("-")]
    values = len(unknown) - len(shown)
    if values:
        shown.append(
            "1 word that is no flag" if values == 1 else f"{values} words that are no flags"
        )
    return " and ".join(shown)


def _no_command(word: str) -> UsageError:
    """Return (not raise) the error that the program's first word, or ``""``, is no command."""
    name = word.partition("=")[0]
    if name.lstrip("-") in FLAGS:
        return UsageError(
            f"{name}: name a command first, for example: {PROGRAM} run {name} (see --help)"
        )
    if not word:
        return UsageError(f"name a command: choose from {', '.join(COMMANDS)}")
    meant = closest(word, COMMANDS)
    hint = f"did you mean '{meant}'?" if meant else f"choose from {', '.join(COMMANDS)}"
    # Without the word, which may be the value of a setting.
    return UsageError(f"the first word is no command: {hint} (see --help)")


def _hint(unknown: Sequence[str], parser: argparse.ArgumentParser) -> str:
    """Return the end of the error about ``unknown``, such as ``: did you mean '--log.level'?``.

    It has the flag that the first similar word resembles, and is ``""`` if no word is similar.
    """
    in_help = re.findall(r"--[a-z][\w.-]*", parser.format_help())
    known = [*in_help, *(f"--{flag}" for flag in FLAGS)]
    flags = [word.partition("=")[0] for word in unknown if word.startswith("-")]
    for flag in flags:
        meant = closest(flag, known)
        if meant:
            return f": did you mean '{meant}'?"
    return ""


def parser_of(name: str) -> argparse.ArgumentParser:
    """Return the parser of a command.

    Its result has two more values than the flags: ``command_name``, and ``command``, the function
    that runs it with the result.
    """
    command = COMMANDS[name]
    place = command.module or f"commands.{name.replace('-', '_')}"
    module = importlib.import_module(f"azure_scheduled_events_exporter.{place}")
    parser = _Parser(
        prog=f"{PROGRAM} {name}",
        usage=f"%(prog)s {command.operands}",
        description=getattr(module, "DESCRIPTION", command.summary),
        epilog=_EPILOG if command.settings else None,
        allow_abbrev=False,
    )
    parser.set_defaults(command=module.run, command_name=name)
    parser.add_argument("--version", action="version", version=_VERSION, help=argparse.SUPPRESS)
    if command.settings:
        add_settings(
            parser, getattr(module, "SETTINGS", {}), getattr(module, "HIDDEN", ()), command.settings
        )
    if hasattr(module, "add_arguments"):
        module.add_arguments(parser)
    return parser
