"""The processes that a hook starts, above all that of a run: their input, their output, their end.

Must not decide when a run begins or ends, or know the journal.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from azure_scheduled_events_exporter.core.records import Record
from azure_scheduled_events_exporter.errors import printable
from azure_scheduled_events_exporter.snapshot.hooks import HookRun

from .plan import record_of

if TYPE_CHECKING:
    from .stops import Stop

TERMINATE: Final = getattr(signal, "CTRL_BREAK_EVENT", signal.SIGTERM)
"""Asks a command to end: SIGTERM, on Windows CTRL_BREAK_EVENT, which only Windows has."""

_LONGEST_VARIABLE = 32_768
"""Bytes of a variable: Linux starts no program with one of 128 KiB or more."""

_TAIL_BYTES = 4096
"""How much of the end of the output is kept."""

_LAST_LINES = 10
"""How many lines of it a person gets."""

_LONGEST_LINE = 200
"""Characters of each of these lines."""

_LATE_OUTPUT_SECONDS = 0.2
"""How long the end of the output is waited for: children may keep the pipe open."""


if sys.platform == "win32":
    _Environment = Mapping[str, str]
else:
    _Environment = Mapping[bytes, bytes]


class Child(subprocess.Popen[bytes]):
    """A process that reads ``content``, and whose output and errors go to ``pass_on``.

    Args:
        command: the command line.
        content: its standard input.
        pass_on: gets the output, piece by piece, in a thread. It must not wait: the process waits
            for it.
        env: its environment; None for that of the hook.
        has_own_group: whether it is the leader of a new process group.

    Raises:
        OSError, ValueError: the command cannot be started, and does not run.
    """

    def __init__(
        self,
        command: Sequence[str],
        content: bytes,
        pass_on: Callable[[bytes], None],
        env: _Environment | None = None,
        *,
        has_own_group: bool = False,
    ) -> None:
        self._tail = b""
        self._pass_on = pass_on
        group_flag = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0) if has_own_group else 0
        # The process is started last. If it were there when a thread cannot be started, it would
        # run without being known to the hook.
        with _input_of(content) as stdin, _output_to(self._take) as (stdout, reader):
            super().__init__(
                command,
                stdin=stdin,
                stdout=stdout,
                stderr=subprocess.STDOUT,
                env=env,
                start_new_session=has_own_group,
                creationflags=group_flag,
            )
        self._reader = reader

    def read_all(self) -> None:
        """After its end, wait briefly until all that it has printed is passed on."""
        self._reader.join(_LATE_OUTPUT_SECONDS)

    def last_lines(self) -> str:
        """Return the end of its output, printable, for people."""
        self.read_all()
        lines = self._tail.decode(errors="replace").splitlines()[-_LAST_LINES:]
        return "\n".join(printable(line.rstrip())[:_LONGEST_LINE] for line in lines)

    def _take(self, chunk: bytes) -> None:
        """Pass a piece of the output on, and keep the tail. The thread of the output runs this."""
        self._tail = (self._tail + chunk)[-_TAIL_BYTES:]
        self._pass_on(chunk)


class Process(Child):
    """The command of ``run`` and its children.

    The command gets the event in variables, and as JSON on standard input.

    Args:
        command: the command line, without the phase.
        run: the run that begins.
        pass_on: gets the output, piece by piece, in a thread. It must not wait.

    Attributes:
        run: the run, as it was when it began.
        stop: why and when it was asked to end; None before. Set by ``loop``.
        began: when it was started, by the monotonic clock.

    Raises:
        OSError, ValueError: the command cannot be started, and does not run.
    """

    def __init__(
        self, command: Sequence[str], run: HookRun, pass_on: Callable[[bytes], None]
    ) -> None:
        self.run = run
        self.stop: Stop | None = None
        self.began = time.monotonic()
        record = record_of(run)
        # Only the variables have these; standard input has the record as it was stored.
        record |= {
            "seconds_left": record.get("seconds_until_not_before"),
            "phase": run.phase,
            "run": run.run,
        }
        super().__init__(
            [*command, run.phase],
            run.record.encode(),
            pass_on,
            _environment(record),
            has_own_group=True,
        )

    def send_signal(self, sig: int) -> None:
        """Send a signal to the command, and to its children, also if it has ended.

        ``kill`` of the base class uses this method, so it ends the children too.
        """
        if sys.platform == "win32":
            super().send_signal(sig)
        else:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, sig)


def end_leftovers(runs: Iterable[HookRun]) -> None:
    """End the processes of runs that a hook has left behind when it was killed.

    They are found by the variable EVENT_RUN of their environment, which each command of a hook gets
    and only Linux shows.
    """
    marks = {f"EVENT_RUN={run.run}".encode() for run in runs if run.outcome is None}
    if not marks:
        return
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if not marks.isdisjoint((folder / "environ").read_bytes().split(b"\0")):
                os.kill(int(folder.name), getattr(signal, "SIGKILL", signal.SIGTERM))


@contextmanager
def _input_of(content: bytes) -> Iterator[IO[bytes]]:
    """Open a pipe whose reader gets ``content``. Raises OSError.

    The block starts the process that reads it. A thread writes, because the process may not read.
    """
    stdin, pipe = _pipe()
    with stdin:
        _start_thread(_write, pipe, content)
        yield stdin


@contextmanager
def _output_to(take: Callable[[bytes], None]) -> Iterator[tuple[IO[bytes], threading.Thread]]:
    """Open a pipe, and start the thread that calls ``take`` with what is written to it.

    The block starts the process that writes to it. The thread ends with the last such process, or
    with the block if that has started none. Raises OSError.
    """
    output, stdout = _pipe()
    with stdout:
        yield stdout, _start_thread(_read, output, take)


def _pipe() -> tuple[IO[bytes], IO[bytes]]:
    """Return the two ends of a new pipe: the one to read, and the one to write. Raises OSError."""
    reading, writing = os.pipe()
    return os.fdopen(reading, "rb"), os.fdopen(writing, "wb")


def _start_thread(
    work: Callable[..., None], pipe: IO[bytes], *arguments: object
) -> threading.Thread:
    """Run ``work`` in a thread of its own, which closes ``pipe``, and does not keep the process.

    Raises OSError: no thread can be started, for example at the limit of tasks. The pipe is closed.
    """
    thread = threading.Thread(target=work, args=(pipe, *arguments), daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        pipe.close()
        raise OSError(str(error)) from error
    return thread


def _read(pipe: IO[bytes], take: Callable[[bytes], None]) -> None:
    """Call ``take`` with each piece that comes, until the end. A thread runs this."""
    with pipe, suppress(OSError):
        while chunk := os.read(pipe.fileno(), _TAIL_BYTES):
            take(chunk)


def _write(pipe: IO[bytes], content: bytes) -> None:
    """Write ``content`` and close the pipe. A thread runs this."""
    with suppress(OSError), pipe:
        pipe.write(content)


def _values(record: Record) -> dict[str, str]:
    """Return the event as variables: ``event_type`` becomes EVENT_TYPE, and ``run`` EVENT_RUN."""
    return {
        f"EVENT_{key.removeprefix('event_').upper()}": _text(value) for key, value in record.items()
    }


if sys.platform == "win32":

    def _environment(record: Record) -> _Environment:
        """Return the environment of a command: that of this process, and the event."""
        return os.environ | _values(record)

else:

    def _environment(record: Record) -> _Environment:
        """Return the environment of a command: that of this process, and the event.

        Its values are UTF-8, whatever the locale of this process is.
        """
        values = {name.encode(): _variable(text) for name, text in _values(record).items()}
        return os.environb | values


def _variable(text: str) -> bytes:
    """Return ``text`` as the value of a variable, without NUL, which no variable can have.

    One that is too long is cut, and not within a character.
    """
    content = text.replace("\0", "").encode(errors="replace")
    return content[:_LONGEST_VARIABLE].decode(errors="ignore").encode()


def _text(value: object) -> str:
    """Return a value of an event as a text; None is empty, and a list has commas."""
    if value is None:
        return ""
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value)
