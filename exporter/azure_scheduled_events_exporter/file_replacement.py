"""Writes a file beside its place and renames it, so that a failure leaves the old file as it was.

Must not follow symbolic links at its place: the link is replaced.
"""

import os
from pathlib import Path


def replace(path: Path, content: bytes, mode: int | None = None) -> None:
    """Write ``content`` to ``path`` with the permissions ``mode``; None for those that the process gives a new file.

    Raises:
        OSError: it cannot be written.
    """
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    descriptor = os.open(new, flags, 0o666 if mode is None else 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        if mode is not None:
            new.chmod(mode)
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
