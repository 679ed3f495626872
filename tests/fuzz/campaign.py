"""A campaign: one target after another, each in a process of its own, with what became of it."""

import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from support.paths import GUARD, TESTS

_GRACE_SECONDS = 120.0  # to start, on a busy machine, and to try all seeds
_EXECUTED = re.compile(r"stat::number_of_executed_units:\s*(\d+)")
_TOOK = re.compile(r"Done \d+ runs in (\d+) second")
_COVERED = re.compile(r"cov: (\d+)")
_MEMORY = Path("/dev/shm")  # noqa: S108 - a file is written for every input, in a folder of the run's own
_SHOWN = 60  # lines of a failed run
_HUNG = "it did not end by itself"


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one target.

    Attributes:
        executed: inputs tried; seconds: how long that took.
        covered: branches reached, as libFuzzer counts them; None without it.
        findings: inputs that broke the promise, and the files that hold them.
        said: the end of what the process said, if it failed.
    """

    target: str
    seconds: float
    executed: int
    covered: int | None
    findings: dict[Path, bytes]
    said: str

    @property
    def ok(self) -> bool:
        """Whether the promise held."""
        return not self.said

    def __str__(self) -> str:
        """Return a line for the table, and under it what is needed to repeat a finding."""
        rate = self.executed / self.seconds if self.seconds else 0
        covered = "" if self.covered is None else f"{self.covered:>7} branches"
        line = f"{self.target:<14} {self.executed:>9} inputs {rate:>8.0f}/s {covered}"
        if self.ok:
            return line
        shown = "".join(
            f"\n{data!r}\nscripts/fuzz {self.target} --repeat {path}\n" for path, data in self.findings.items()
        )
        return f"{line}\nFAILED {self.target}\n{self.said}\n{shown}"


def fuzz(name: str, seconds: float, seed: int, folder: Path, kept: Path | None = None) -> Result:
    """Fuzz the target ``name``; what it learns for the next time stays in ``folder``, what it finds in ``kept``."""
    corpus, findings = folder / "corpus" / name, (kept or folder / "findings") / name
    corpus.mkdir(parents=True, exist_ok=True)
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("AZURE_", "OTEL_"))}
    paths = os.pathsep.join((str(TESTS), str(GUARD)))
    found: dict[Path, bytes] = {}
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as scratch:
        environment = {**clean, "PYTHONPATH": paths, "PYTHONHASHSEED": "0", "TMPDIR": scratch}
        fresh = Path(scratch) / "findings"
        fresh.mkdir()
        arguments = [name, str(corpus), str(fresh), str(seconds), str(seed)]
        output, status = _run([sys.executable, "-m", "fuzz.child", *arguments], environment, seconds + _GRACE_SECONDS)
        for path in sorted(fresh.iterdir()):
            findings.mkdir(parents=True, exist_ok=True)
            found[findings / path.name] = data = path.read_bytes()
            (findings / path.name).write_bytes(data)
    took = time.monotonic() - began
    executed, covered, timed = (found_in.findall(output) for found_in in (_EXECUTED, _COVERED, _TOOK))
    failed = status != 0 or found or not executed
    return Result(
        name,
        float(timed[-1]) if timed else took,
        int(executed[-1]) if executed else 0,
        int(covered[-1]) if covered else None,
        found,
        "\n".join(output.splitlines()[-_SHOWN:]) or f"exit status {status}" if failed else "",
    )


def _run(command: list[str], environment: dict[str, str], seconds: float) -> tuple[str, int]:
    """Return what the process said and its exit status, -1 if it had to be ended after ``seconds``."""
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired as error:
        return f"{(error.stdout or b'').decode(errors='replace')}\n{_HUNG}", -1
    return done.stdout.decode(errors="replace"), done.returncode
