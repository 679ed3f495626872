"""One target in a process of its own: ``python -m fuzz.child``, started by :mod:`fuzz.campaign`.

Atheris lets the coverage of this project and h11 guide it. Prints the number of inputs tried as its last line on
standard output.
"""

import argparse
import hashlib
import importlib
import sys
from pathlib import Path
from typing import Any

from fuzz.target import Target

SLOW_SECONDS = 10
"""An input that takes longer is a finding: no body, file or request may hold a daemon."""

MEMORY_MIB = 2048
_INSTRUMENTED = ["azure_scheduled_events_exporter", "h11", "email._parseaddr", "fuzz.targets.planted"]
"""What coverage is taken of; PyYAML besides would make its targets five times slower."""


def main() -> None:
    """Run the target that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("target", "corpus", "findings"):
        parser.add_argument(name)
    parser.add_argument("seconds", type=float)
    parser.add_argument("seed", type=int)
    arguments = parser.parse_args()
    corpus, findings = Path(arguments.corpus), Path(arguments.findings)
    atheris = importlib.import_module("atheris")
    with atheris.instrument_imports(include=_INSTRUMENTED):
        target = _load(arguments.target)
    _write_seeds(target, corpus)
    _guided(atheris, target, corpus, findings, arguments.seconds, arguments.seed)


def _load(name: str) -> Target:
    registry = importlib.import_module("fuzz.registry")
    target: Target = registry.target(name)
    return target


def _write_seeds(target: Target, corpus: Path) -> None:
    for data in target.seeds():
        (corpus / hashlib.sha1(data, usedforsecurity=False).hexdigest()).write_bytes(data)


def _guided(atheris: Any, target: Target, corpus: Path, findings: Path, seconds: float, seed: int) -> None:  # noqa: ANN401 - untyped
    """Fuzz until time is up or an input breaks the promise; libFuzzer ends the process."""
    words = findings.parent / "words"
    quoted = ("".join(map(r"\x{:02x}".format, word)) for word in target.words)
    words.write_text("".join(f'"{word}"\n' for word in quoted))
    options = {
        **({"dict": words} if target.words else {}),  # libFuzzer refuses an empty one
        "seed": seed,
        "max_total_time": max(1, round(seconds)),
        "max_len": target.longest,
        "reduce_inputs": 0,
        "timeout": SLOW_SECONDS,
        "rss_limit_mb": MEMORY_MIB,
        "artifact_prefix": f"{findings}/",
        "print_final_stats": 1,
    }
    flags = [f"-{name}={value}" for name, value in options.items()]
    atheris.Setup([sys.argv[0], *flags, str(corpus)], target.check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
