"""The command ``approve``: its flags, and what is checked and asked before events are approved.

``hook`` runs this command too, with ``--by-hook``, and writes the event to its standard input.
"""

import argparse
import getpass
import logging
import os
import sys
from pathlib import Path

from azure_scheduled_events_exporter import logs
from azure_scheduled_events_exporter.approval.operator_requests import to_approve
from azure_scheduled_events_exporter.commands.interruption import interruptible
from azure_scheduled_events_exporter.commands.settings import config_of, shared_journal
from azure_scheduled_events_exporter.config.settings import Config
from azure_scheduled_events_exporter.core.lifecycle import Approver, Lifecycle
from azure_scheduled_events_exporter.errors import ExporterError, UsageError, printable
from azure_scheduled_events_exporter.imds.rate_limiter import RateLimiter
from azure_scheduled_events_exporter.journal.content.codec import decode
from azure_scheduled_events_exporter.journal.disk.folder_owner import as_folder_owner
from azure_scheduled_events_exporter.journal.disk.location import file_path
from azure_scheduled_events_exporter.journal.disk.opening import check_may_be_opened
from azure_scheduled_events_exporter.service.endpoint import with_endpoint
from azure_scheduled_events_exporter.standard_streams import say

from .exporter import journal_with_exporter
from .question import is_confirmed, question
from .requests import Asker, Ended, report, request_approvals

DESCRIPTION = "Approve events: they start now, before NotBefore, on every VM in their Resources."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``approve`` to ``parser``."""
    parser.add_argument("event_ids", metavar="EVENT_ID", nargs="*", help="Events to approve.")
    text = (
        "Approve all Scheduled events of this VM, including Preempt and Terminate, which delete it."
    )
    parser.add_argument("--all-mine", action="store_true", help=text)
    parser.add_argument("--yes", action="store_true", help="Do not ask for confirmation.")
    parser.add_argument("--by-hook", metavar="SCRIPT", help=argparse.SUPPRESS)


def run(parsed: argparse.Namespace) -> int:
    """Approve; return the exit status.

    It is 0 if all events are approved or have started, 3 if that is not known of all, 128 and the
    signal's number if a signal ended the command before it had all results, and 1 otherwise.

    Raises:
        ExporterError: nothing to approve, no access, or no answer.
    """
    config = config_of(parsed)
    prepared = _prepared_by_hook() if parsed.by_hook else None
    if not prepared and bool(parsed.event_ids) == parsed.all_mine:  # both, or none
        raise UsageError("approve: give EventIds, or --all-mine")
    path = shared_journal(config)
    with interruptible(), as_folder_owner(path):
        log = logs.set_up("error", config.log_format)
        _check_access(path)
        # First, because this command may become an exporter, and an exporter renames a file that is
        # no journal of this version.
        check_may_be_opened(path)
        return _confirm_and_approve(parsed, with_endpoint(config, log), log, prepared)


def _prepared_by_hook() -> Lifecycle:
    """Return the event that a hook has prepared, as the hook saw it.

    The request is for the event as it was then: if another document shows it otherwise, the request
    is not sent.
    """
    return decode(Lifecycle, sys.stdin.buffer.read().decode(errors="replace"))


def _check_access(path: Path) -> None:
    """Raise ExporterError if this user may not write the journal, before anything else is said."""
    file = file_path(path)
    # Path.exists would raise for a folder that this user cannot read.
    folder = next(each for each in file.parents if os.path.exists(each))  # noqa: PTH110
    may_write = os.access(folder, os.W_OK | os.X_OK)
    if may_write and os.path.exists(file):  # noqa: PTH110
        may_write = os.access(file, os.R_OK | os.W_OK)
    if not may_write and hasattr(os, "geteuid") and os.geteuid() != 0:
        raise ExporterError(
            f"approve: the user {_login_name()} may not write the journal {file}: run approve as"
            " root, or as the exporter's user"
        )


def _confirm_and_approve(
    parsed: argparse.Namespace, config: Config, log: logging.Logger, prepared: Lifecycle | None
) -> int:
    """Show the events, ask a person who has not given ``--yes``, and approve; return the status.

    ``prepared`` is the event that a hook has prepared, which needs no confirmation; None for an
    operator.
    """
    if parsed.by_hook:
        asker = Asker(parsed.by_hook, Approver.HOOK)
    else:
        asker = Asker(_operator(), Approver.OPERATOR)
    limiter = RateLimiter()
    ended: Ended | None = None
    with journal_with_exporter(config, log, limiter, tells_no_exporter=True) as store:
        # Without a prepared event and without ids, these are all of this VM.
        chosen = [prepared] if prepared else to_approve(store.current(), parsed.event_ids)
        # If none is open to approval, the requests start nothing: they only tell why.
        if prepared or parsed.yes or not any(life.is_open_to_approval for life in chosen):
            ended = request_approvals(store, chosen, asker, config)
    # The journal is closed while the person reads, so that an exporter can start meanwhile.
    if ended is not None:
        if not prepared:
            say(question(chosen))
        return report(ended, config)
    print(question(chosen), flush=True)
    if not is_confirmed():
        return 1
    with journal_with_exporter(config, log, limiter) as store:
        ended = request_approvals(store, chosen, asker, config)
    return report(ended, config)


def _operator() -> str:
    """Return the operator's login name: with sudo, that of the person and not root."""
    return printable(os.environ.get("SUDO_USER") or _login_name())


def _login_name() -> str:
    """Return the login name of this process' user, for people."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"
