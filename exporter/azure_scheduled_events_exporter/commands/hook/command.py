"""The command ``hook``: its options, and what is checked before it begins.

Polls the metadata service itself, so that no other process or disk delays it.
"""

import argparse
import re
import sqlite3
import threading
from collections.abc import Iterable
from concurrent.futures import Future
from contextlib import ExitStack, closing, suppress
from functools import partial
from logging import Logger
from pathlib import Path

from azure_scheduled_events_exporter import logs
from azure_scheduled_events_exporter.commands.interruption import Interrupted, interruptible
from azure_scheduled_events_exporter.commands.settings import config_of, shared_journal
from azure_scheduled_events_exporter.config.flags import argument, written_flags
from azure_scheduled_events_exporter.core.event_types import EventType
from azure_scheduled_events_exporter.core.lifecycle import Kind
from azure_scheduled_events_exporter.errors import ExporterError, JournalInUseError, UsageError
from azure_scheduled_events_exporter.journal.disk.folder_owner import as_folder_owner
from azure_scheduled_events_exporter.journal.disk.lock import writer_lock
from azure_scheduled_events_exporter.journal.disk.opening import check_may_be_opened
from azure_scheduled_events_exporter.own_program import own_command
from azure_scheduled_events_exporter.service.alone import poll_alone
from azure_scheduled_events_exporter.times import parse_duration

from .approvals import Approvals
from .loop import Hook
from .output import Output
from .plan import DEFAULT_KINDS, Rules
from .runs import Runs
from .script import check_script
from .stored import state_file

DESCRIPTION = (
    "Run a command before an event of this VM, and again when the last one is over. The command"
    " gets 'prepare' or 'recover' as its last argument, the event in variables such as EVENT_TYPE,"
    " and the event as JSON on standard input. It is stopped before NotBefore. Prepare must be"
    " safe to run twice; recover undoes it, also if the event was cancelled."
)
_LOCK_SECONDS = 2.0
"""How long the disk may take to give the lock of this hook's name."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_TYPES = ", ".join(EventType)
_KINDS = ", ".join(Kind)
_DEFAULT_KINDS = ",".join(DEFAULT_KINDS)


def _some_of(what: str, choices: Iterable[str], text: str) -> frozenset[str]:
    """Return the names in ``text``, in lower case. Raises ValueError: one is not a choice."""
    known = {choice.casefold(): choice for choice in choices}
    names = frozenset(name.strip().casefold() for name in text.split(","))
    unknown = names - known.keys()
    if unknown:
        raise ValueError(
            f"unknown {what} '{min(unknown)}': choose from {', '.join(known.values())}"
        )
    return names


def _name(text: str) -> str:
    """Return ``text``, which becomes a part of a file's name. Raises ValueError: it may not."""
    if not _NAME.fullmatch(text):
        raise ValueError(
            f"'{text}' is no name of a hook: use up to 64 letters, digits, '-', '_' and '.'"
        )
    return text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument(
        "--name",
        type=argument(_name),
        default="default",
        help=(
            "The name under which this hook keeps what it has prepared. With several hooks on one"
            " VM, give each its own, and never change it during an event. (default default)"
        ),
    )
    parser.add_argument(
        "--types",
        type=argument(partial(_some_of, "event type", EventType)),
        metavar="TYPE,…",
        default=frozenset(),
        help=f"Only events of these types: {_TYPES}. (default all)",
    )
    parser.add_argument(
        "--kinds",
        type=argument(partial(_some_of, "kind", Kind)),
        metavar="KIND,…",
        default=_DEFAULT_KINDS,
        help=(
            f"Only events of these kinds: {_KINDS}. without_notice has no effect, because such an"
            f" event had begun when it was first seen. (default {_DEFAULT_KINDS})"
        ),
    )
    _add_times(parser)
    parser.add_argument(
        "--approve",
        choices=("never", "own"),
        default="never",
        help=(
            "After success, approve events of this VM alone (own). Never a Preempt or Terminate."
            " (default never)"
        ),
    )
    parser.add_argument("command_line", nargs="*", help=argparse.SUPPRESS)


def _add_times(parser: argparse.ArgumentParser) -> None:
    """Add the options that say when a run begins and ends."""
    _add_duration(parser, "--lead", "15m", "Longest time before NotBefore at which prepare begins.")
    _add_duration(
        parser,
        "--timeout",
        "15m",
        "Time after which a run, also of recover, gets SIGTERM; it gets SIGKILL --grace later.",
    )
    _add_duration(
        parser,
        "--grace",
        "5s",
        "Time before NotBefore at which a run gets SIGTERM; it gets SIGKILL at NotBefore. Also the"
        " time from the SIGTERM of --timeout to SIGKILL.",
    )


def _add_duration(parser: argparse.ArgumentParser, flag: str, default: str, meaning: str) -> None:
    """Add an option whose value is a duration; its help is ``meaning`` with the default."""
    parser.add_argument(
        flag,
        type=argument(parse_duration),
        metavar="DURATION",
        default=default,
        help=f"{meaning} (default {default})",
    )


def run(parsed: argparse.Namespace) -> int:
    """Run until a signal ends it; return the exit status.

    Raises:
        ExporterError: an option is wrong, the command cannot be executed, the journal cannot be
            used, or another hook of this name runs.
    """
    config = config_of(parsed)
    command: list[str] = parsed.command_line
    if not command:
        raise UsageError(
            "hook: name the command to run behind --, for example: hook -- /usr/local/bin/my-script"
        )
    check_script(command[0])
    journal = shared_journal(config)
    rules = Rules(
        command=" ".join(command),
        types=parsed.types,
        kinds=parsed.kinds,
        lead=parsed.lead,
        timeout=parsed.timeout,
        grace=parsed.grace,
        approves=parsed.approve == "own",
    )
    log = logs.set_up(config.log_level, config.log_format)
    with ExitStack() as stack:
        lock = _lock(journal, parsed.name, log)
        if lock is not None:
            stack.callback(lock.close)
        runs = Runs(journal, parsed.name, log)
        output = Output(log)
        approvals = Approvals(_approve_command(parsed, command[0]), output.pass_on, log)
        hook = Hook(runs, rules, command, approvals, output, log)
        # A signal raises Interrupted in this block, and further ones are ignored. So the hook is
        # closed without a disturbance, and after that, suppress ends the exception.
        with suppress(Interrupted), interruptible(), closing(hook):
            # What an earlier hook has prepared for may still be current: an empty document is then
            # not believed at once.
            hook.run(poll_alone(config, log, expects_events=lambda: bool(runs.known)))
    return 0


def _lock(journal: Path, name: str, log: Logger) -> sqlite3.Connection | None:
    """Take the lock that makes this hook the only one of its name; closing it releases it.

    Returns None if the disk fails, or does not answer in time: the hook runs without a lock then,
    because the command must run at an event all the same.

    Raises:
        ExporterError: another hook has it, or the file is no journal.
    """
    found: Future[sqlite3.Connection] = Future()

    def take() -> None:
        """Take the lock. A thread runs this, because the disk may hang."""
        try:
            with as_folder_owner(journal):
                check_may_be_opened(journal)
                found.set_result(writer_lock(state_file(journal, name)))
        except Exception as error:  # noqa: BLE001 - `found.result` raises it again
            found.set_exception(error)

    threading.Thread(target=take, name="hook-lock", daemon=True).start()
    failure: Exception
    try:
        return found.result(_LOCK_SECONDS)
    except JournalInUseError:
        raise ExporterError(
            f"hook: another hook named '{name}' runs with the journal {journal}: if it has"
            " another script, give this one its own name with --name"
        ) from None
    except TimeoutError:
        failure = TimeoutError(f"the disk has not answered for {_LOCK_SECONDS:g} s")
    except (sqlite3.Error, OSError) as error:
        failure = error
    log.warning(
        "the hook's lock cannot be taken: a second hook is not noticed",
        extra=logs.facts(error=failure),
    )
    return None


def _approve_command(parsed: argparse.Namespace, script: str) -> list[str]:
    """Return the command line that approves an event, with the settings of this hook."""
    flags = [f"--{name}={value}" for name, value in written_flags(parsed).items()]
    return own_command("approve", "--yes", f"--by-hook={Path(script).name}", *flags)
