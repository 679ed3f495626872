"""For ``approve``: the exporter that sends the requests in the journal.

It is the exporter that runs on this VM, or else this process.
"""

import logging
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from azure_scheduled_events_exporter.commands.waiting import until
from azure_scheduled_events_exporter.config.settings import Config
from azure_scheduled_events_exporter.errors import (
    ExporterError,
    ImdsError,
    JournalInUseError,
    Outcome,
)
from azure_scheduled_events_exporter.imds.api_versions import event_versions
from azure_scheduled_events_exporter.imds.client import ImdsClient
from azure_scheduled_events_exporter.imds.rate_limiter import RateLimiter
from azure_scheduled_events_exporter.journal.access import writable
from azure_scheduled_events_exporter.journal.disk.lock import has_writer
from azure_scheduled_events_exporter.journal.tables.store import Store
from azure_scheduled_events_exporter.polling.document_reader import FIRST_TIMEOUT_SECONDS
from azure_scheduled_events_exporter.service.exporter import Exporter

_POLL_SECONDS = 1.0
"""Time between polls if this process is the exporter."""

_THROTTLED_POLLS = 5
"""After so many polls that IMDS throttled, no answer is expected any more.

Another approve, or other programs of this VM, may have used up the limit of IMDS.
"""

_ANSWER_SECONDS = 20.0
"""How long polls may take, beyond the time of one request to IMDS, if this process is the exporter.

IMDS has answered a moment before; if it throttles, :data:`_THROTTLED_POLLS` polls take as long.
"""

_STARTING_SECONDS = 3.0
"""How long an exporter that starts may take to open its journal."""

_NO_EXPORTER = (
    "approve: no exporter uses the journal in {}, so this command sends the request itself, and"
    " writes it to that journal. If an exporter runs here with another journal, name it:"
    " --journal.path"
)


@contextmanager
def journal_with_exporter(
    config: Config, log: logging.Logger, limiter: RateLimiter, *, tells_no_exporter: bool = False
) -> Iterator[Store]:
    """Open the journal, and see to it that an exporter sends what is requested in it.

    That is the exporter that runs already, or else this process. Then no other exporter can start
    during the block, so the block must not wait for a person or a reader. ``tells_no_exporter``:
    whether to say on standard error, after the block, that it was this process.
    """
    path = Path(config.journal_path)
    if not has_writer(path):
        _wait_for_imds(config, limiter)
    is_exporter = False
    try:
        with ExitStack() as stack:
            try:
                stack.enter_context(_own_exporter(config, log, limiter))
            except JournalInUseError:
                pass  # an exporter runs, and sends what is requested
            else:
                is_exporter = True
                # Raises if this user may not write it, which the next line would take for a full
                # disk.
                writable(path).close()
            _wait_for_writer(path)
            yield stack.enter_context(closing(writable(path)))
    finally:
        if is_exporter and tells_no_exporter:
            with suppress(OSError):
                print(_NO_EXPORTER.format(path.absolute()), file=sys.stderr, flush=True)


def ask_imds(config: Config, limiter: RateLimiter, timeout: float) -> None:
    """Ask IMDS for its document once. Raises ImdsError: it does not answer, or refuses."""
    versions = event_versions(config.imds_api_version)
    wait = threading.Event().wait
    client = ImdsClient(config.imds_endpoint, versions, limiter, wait, config.imds_timeout)
    client.scheduled_events(timeout)


def _wait_for_imds(config: Config, limiter: RateLimiter) -> None:
    """Wait until IMDS answers, which may take two minutes, while an exporter can still start.

    Raises ImdsError: it does not answer, or refuses.
    """
    try:
        ask_imds(config, limiter, max(FIRST_TIMEOUT_SECONDS, config.imds_timeout))
    except ImdsError as error:
        if error.outcome is not Outcome.THROTTLED:  # which may be over at the next poll
            raise


@contextmanager
def _own_exporter(config: Config, log: logging.Logger, limiter: RateLimiter) -> Iterator[None]:
    """Within the block, this process is an exporter, which knows the events that IMDS shows now.

    Raises:
        JournalInUseError: an exporter runs already.
        ExporterError: the journal must not be used, or IMDS does not answer.
    """
    # It pushes no alerts, which it would not live to resolve. A file that
    # would have to be renamed, such as another VM's journal, is refused.
    settings = replace(config, poll_interval=_POLL_SECONDS, alertmanager_url=())
    exporter = Exporter(settings, log, rate_limiter=limiter, renames_journal=False)
    try:
        exporter.journal.wait_until_read(_STARTING_SECONDS)
        if exporter.journal.refusal is not None:  # it is in use, for example
            raise exporter.journal.refusal
        exporter.start()
        _wait_for_poll(exporter, config.imds_timeout + _ANSWER_SECONDS)
        if exporter.journal.refusal is not None:  # it is another VM's, which IMDS has shown
            raise exporter.journal.refusal
        yield
    finally:
        exporter.stop()


def _wait_for_writer(path: Path) -> None:
    """Wait until an exporter writes the journal, which one that is just starting does soon.

    Raises ExporterError: none does, because its disk fails. Then it would find no request there.
    """
    if not until(lambda: has_writer(path), time.monotonic() + _STARTING_SECONDS):
        raise ExporterError(
            f"the exporter cannot write its journal {path}, so it gets no request: "
            "make room on that disk, or mend it, and try again"
        )


def _wait_for_poll(exporter: Exporter, seconds: float) -> None:
    """Wait until the journal has what IMDS shows now, for at most so many ``seconds``.

    Raises ExporterError: IMDS does not answer.
    """

    def is_over() -> bool:
        """Return whether a poll had another result than a 429, or too many polls had a 429."""
        outcomes = exporter.latest().polls.outcomes
        throttled = outcomes[Outcome.THROTTLED]
        others = sum(outcomes.values()) - throttled
        return others > 0 or throttled >= _THROTTLED_POLLS

    until(is_over, time.monotonic() + seconds)
    polls = exporter.latest().polls
    if polls.up or polls.partial:  # the events in the rest of a partial document are known
        return
    if polls.outcomes[Outcome.THROTTLED]:
        raise ExporterError(f"{polls.failure}; try again")
    raise ExporterError(polls.failure or "IMDS answered once, and does not any more; try again")
