"""Starts the program without its imports: a process that has done them forks for each start.

Imports are most of the processor time of a start, and the tests start the program some six hundred
times. What is different from a real start: the modules are there already. Programs that start
through a shell, as a service or with another Python environment, are started really.
"""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence

_READ_AT_START = ("PYTHON", "LC_", "LANG", "TZ", "LD_")
"""Variables that Python reads before it runs any code."""
_LARGEST = 1 << 20


class Process:
    """A started program, with the part of ``subprocess.Popen`` that tests use."""

    def __init__(self, arguments: Sequence[str], pid: int, status: int) -> None:
        self.args = arguments
        self.pid = pid
        self._status = status
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit status, None while it runs."""
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status once it has ended."""
        if (status := self._ended(timeout)) is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return status

    def _ended(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._status], [], [], timeout)[0]:
            self.returncode = int(os.read(self._status, 16))
            os.close(self._status)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)


class Prepared:
    """The process that forks; it starts with the first program."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._at_start: dict[str, str] = {}

    def close(self) -> None:
        """End the process, not the programs."""
        if self._control and self._process:
            self._control.close()
            self._process.wait()

    def start(
        self, arguments: Sequence[str], output: int, env: Mapping[str, str]
    ) -> Process | None:
        """Start the program; return None if only a real start would be the same with ``env``."""
        at_start = {name: value for name, value in env.items() if name.startswith(_READ_AT_START)}
        with self._lock:
            if self._control is None:
                self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                command = [sys.executable, __file__, str(theirs.fileno())]
                with theirs:
                    self._process = subprocess.Popen(
                        command, env=env, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()]
                    )
                self._at_start = at_start
            if at_start != self._at_start:
                return None
            ended, end = os.pipe()
            request = json.dumps([list(arguments), dict(env), os.getcwd()])  # noqa: PTH109 - Path.cwd does no more
            socket.send_fds(self._control, [request.encode()], [output, end])
            os.close(end)
            return Process(arguments, int(self._control.recv(16)), ended)


def serve(control: socket.socket) -> None:
    """Fork for each request; return in the fork, ready to run the program, and end when nobody asks
    any more.
    """
    ends: dict[int, int] = {}
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        for ready in select.select([control.fileno(), woken], [], [])[0]:
            if ready == woken:
                os.read(woken, 4096)
                _report(ends)
                continue
            request, files, _, _ = socket.recv_fds(control, _LARGEST, 2)
            if not request:
                sys.exit()
            output, end = files
            if pid := os.fork():
                ends[pid] = end
                os.close(output)
                control.send(str(pid).encode())
                continue
            sys.argv, env, folder = json.loads(request)
            os.dup2(output, 1)
            os.dup2(output, 2)
            control.detach()
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            first_after_streams = 3
            os.closerange(first_after_streams, max(output, end, *ends.values(), wake) + 1)
            os.environ.clear()
            os.environ.update(env)
            os.chdir(folder)
            return


def _report(ends: dict[int, int]) -> None:
    """Tell whoever waits for a program that it has ended."""
    while ends:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        end = ends.pop(pid)
        os.write(end, str(os.waitstatus_to_exitcode(status)).encode())
        os.close(end)


if __name__ == "__main__":
    import uvicorn.protocols.http.h11_impl  # noqa: F401 - the server loads it when it starts

    import azure_scheduled_events_exporter.service.daemon  # noqa: F401 - so does the command run
    from azure_scheduled_events_exporter.commands.cli import main

    serve(socket.socket(fileno=int(sys.argv[1])))
    sys.exit(main())
