"""Standard output and error of a command: what cannot be written is reported, and never lost in silence.

Must not know any command, or decide its exit status.
"""

import contextlib
import io
import os
import select
import sys
from collections.abc import Iterator
from typing import Any, TextIO, cast

from .errors import OutputError


class _Checked:
    """A stream whose failed writes raise OutputError, except for BrokenPipeError: the reader has ended."""

    def __init__(self, stream: Any) -> None:  # noqa: ANN401 - of text or of bytes
        self._stream = stream

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the stream has
        return getattr(self._stream, name)

    @property
    def buffer(self) -> "_Checked":
        return _Checked(self._stream.buffer)

    def write(self, content: Any) -> Any:  # noqa: ANN401 - passed on
        with _explained():
            return self._stream.write(content)

    def flush(self) -> None:
        with _explained():
            self._stream.flush()


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(f"standard output cannot be written: {error.strerror or error}") from None


@contextlib.contextmanager
def checked() -> Iterator[None]:
    """Within the block, a write to standard output raises OutputError if it fails, also if the stream is closed."""
    before = sys.stdout, sys.stderr
    _open_closed()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a text that the terminal cannot show must not end the command
            stream.reconfigure(errors="backslashreplace")
    sys.stdout = cast("TextIO", _Checked(sys.stdout))
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, OutputError):  # Python would change the exit status to 120 for what nobody reads
                discard(stream)
        sys.stdout, sys.stderr = before


def say(text: str) -> None:
    """Print a line for people, unless nobody reads it or it cannot be written."""
    try:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
    except (BrokenPipeError, OutputError):
        discard(sys.stdout)


def has_reader() -> bool:
    """Return whether somebody can still read standard output; False if it is a pipe whose reader has ended."""
    if sys.platform == "win32":  # has no poll
        return True
    pipe = select.poll()
    pipe.register(sys.stdout.fileno(), 0)  # POLLERR is reported always
    return not any(events & select.POLLERR for _, events in pipe.poll(0))


def discard(stream: TextIO) -> None:
    """Send what follows on ``stream``, and what was not flushed, nowhere."""
    with contextlib.suppress(OSError):  # a stream without a file
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _open_closed() -> None:
    """Open the standard streams that are closed: other files would get their numbers, and the output written to them.

    Standard output is opened so that every write fails, because a command must not lose its output in silence.
    """
    for number, mode in enumerate((os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, mode)
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115 - a descriptor that stays open
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115 - as above
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115 - as above
