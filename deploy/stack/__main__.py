"""``make stack``: the demo of ``deploy/compose/`` without containers, until Ctrl-C or SIGTERM.

What has no Debian package (Grafana, Tempo) is not part of it.
"""

import argparse
import os
import shutil
import signal
import sys
import tempfile
import threading
from pathlib import Path

from azure_scheduled_events_exporter.errors import ExporterError

from . import compose
from .part import ROOT
from .stack import Stack

COMPOSE = ROOT / "deploy" / "compose" / "compose.yaml"
VICTORIA = ROOT / "deploy" / "compose" / "compose.victoria.yaml"
_LOOK = 0.1  # seconds between looks into the logs


def main() -> int:
    """Return the exit status: 0 after SIGINT or SIGTERM, 1 if a part fails."""
    parser = argparse.ArgumentParser(prog="make stack", description=__doc__)
    parser.add_argument("--free-ports", action="store_true", help="take any free ports instead of the usual ones")
    parser.add_argument(
        "--victoria", action="store_true", help="vmagent, VictoriaMetrics and vmalert instead of Prometheus"
    )
    parser.add_argument("--file", type=Path, default=COMPOSE, metavar="FILE", help="another compose file of this form")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="where to keep logs and data (default: temporary)")
    arguments = parser.parse_args()
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: ended.set())
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="stack-"))
    try:
        services = compose.read(arguments.file, os.environ, *([VICTORIA] if arguments.victoria else []))
        run(Stack(services, folder, free_ports=arguments.free_ports), folder, ended)
    except ExporterError as error:  # the logs are kept: somebody will want to read them
        sys.stderr.write(f"stack: {error}\n")
        if arguments.folder is None and not any(folder.iterdir()):
            folder.rmdir()
        return error.exit_status
    except BrokenPipeError:  # the reader of our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if arguments.folder is None:
        shutil.rmtree(folder)
    return 0


def run(stack: Stack, folder: Path, ended: threading.Event) -> None:
    """Run ``stack`` until ``ended`` is set; leave no process behind.

    Raises:
        ExporterError: a part cannot be started, or ends.
    """
    try:
        say(f"Starting {', '.join(stack.parts)}. Logs: {folder / 'logs'}")
        stack.start(ended)
        if not ended.is_set():
            without = ", without what Debian has no package of: " + ", ".join(stack.absent) if stack.absent else ""
            say(f"Everything is up{without}. Ctrl-C ends it.")
            _follow(stack, ended)
    finally:
        stack.stop()


def _follow(stack: Stack, ended: threading.Event) -> None:
    """Print what the parts for people say, each line with the part's name, until ``ended`` is set."""
    # The addresses are printed last, to stay visible.
    shown = sorted(
        (part for part in stack.parts.values() if part.service.shown),
        key=lambda part: "ADDRESSES" in part.service.environment,
    )
    width = max(len(part.service.name) for part in shown)
    files = [(part.service.name, part.log.open(encoding="utf-8", errors="replace")) for part in shown]
    half: dict[str, str] = {}
    while not ended.is_set():
        for name, file in files:
            *lines, half[name] = (half.get(name, "") + file.read()).split("\n")
            for line in lines:
                say(f"{name:<{width}} | {line}")
        stack.check()
        ended.wait(_LOOK)


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
