"""One target in a process of its own: ``python -m fuzz.child NAME CORPUS FINDINGS SECONDS SEED``, or ``NAME FILE``.

Atheris lets the coverage of this project and h11 guide it. libFuzzer ends the process, with a status other than 0 when
an input breaks the promise.
"""

import hashlib
import importlib
import sys
import tempfile
from pathlib import Path

SLOW_SECONDS = 10
"""An input that takes longer is a finding: no body, file or request may hold a daemon."""

MEMORY_MIB = 2048
_INSTRUMENTED = ["azure_scheduled_events_exporter", "h11", "email._parseaddr"]
"""What coverage is taken of; PyYAML besides would make its targets five times slower."""


def main(name: str, *where: str) -> None:
    """Fuzz until time is up or an input breaks the promise, or try the one input of a file."""
    atheris = importlib.import_module("atheris")
    with atheris.instrument_imports(include=_INSTRUMENTED):
        modules = [importlib.import_module(f"fuzz.targets.{module}") for module in ("documents", "written")]
    (target,) = (module.TARGETS[name] for module in modules if name in module.TARGETS)
    flags = [f"-timeout={SLOW_SECONDS}", f"-rss_limit_mb={MEMORY_MIB}", f"-max_len={target.longest}"]
    if len(where) > 1:
        corpus, findings, seconds, seed = where
        for data in target.seeds():
            (Path(corpus) / hashlib.sha1(data, usedforsecurity=False).hexdigest()).write_bytes(data)
        flags += [f"-max_total_time={seconds}", f"-seed={seed}", f"-artifact_prefix={findings}/"]
        flags += ["-reduce_inputs=0", "-print_final_stats=1"]
        if target.words:  # libFuzzer refuses an empty file
            words = Path(tempfile.mkdtemp()) / "words"
            quoted = ("".join(map(r"\x{:02x}".format, word)) for word in target.words)
            words.write_text("".join(f'"{word}"\n' for word in quoted))
            flags.append(f"-dict={words}")
    atheris.Setup([sys.argv[0], *flags, where[0]], target.check)
    atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
