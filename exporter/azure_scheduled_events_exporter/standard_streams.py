"""Standard output and error of a command: they are open, and take any text.

If a text cannot be written, the command gets an OSError, which ``commands.cli`` reports; only
:func:`say` goes on in silence. Must not know any command, or decide its exit status.
"""

import contextlib
import io
import os
import select
import sys
from collections.abc import Iterator
from typing import TextIO


@contextlib.contextmanager
def made_usable() -> Iterator[None]:
    """Within the block, the standard streams are open and take any text.

    At the end of the block, all text is written, or discarded if that fails; ``sys.stdout`` and
    ``sys.stderr`` are again what they were.
    """
    stdout_before = sys.stdout
    stderr_before = sys.stderr
    _open_closed()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A text that the terminal cannot show must not end the command.
            stream.reconfigure(errors="backslashreplace")
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:
                # Otherwise Python flushes it at the exit, fails again, and exits with status 120.
                discard(stream)
        sys.stdout = stdout_before
        sys.stderr = stderr_before


def failure_of_output() -> OSError | None:
    """Return why standard output cannot be written; None if it can.

    An empty line is written to find out.
    """
    try:
        sys.stdout.write("\n")
        sys.stdout.flush()
    except OSError as error:
        return error
    return None


def say(text: str) -> None:
    """Print a line for people, unless nobody reads it or it cannot be written."""
    try:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
    except OSError:
        discard(sys.stdout)


def has_reader() -> bool:
    """Return whether standard output has a reader; False if it is a pipe without one."""
    if sys.platform == "win32":  # has no poll
        return True
    pipe = select.poll()
    # POLLERR, which says that a pipe has no reader, is reported without being asked for.
    pipe.register(sys.stdout.fileno(), 0)
    return not any(events & select.POLLERR for _, events in pipe.poll(0))


def discard(stream: TextIO) -> None:
    """Discard what was not flushed to ``stream``, and all that is written to it later."""
    with contextlib.suppress(OSError):  # a stream without a file
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _open_closed() -> None:
    """Open the null device for the standard streams that are closed.

    Otherwise the next files that the program opens would get their numbers, and its output would
    be written into these files.
    """
    # Standard output is opened for reading, so that every write fails: a command must not lose its
    # output in silence.
    modes = {0: os.O_RDONLY, 1: os.O_RDONLY, 2: os.O_WRONLY}
    for number, mode in modes.items():
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, mode)  # gets the lowest free number, which is this one
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115 - a descriptor that stays open
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115 - as above
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115 - as above
