"""Keeps a run of the tests apart from other runs on the machine, and from what an aborted one left.

A mount that outlives its run would break the cleanup of every later one. So tests mount in a
namespace of their own, which ends with the last of their processes, however they end.
"""

import ctypes
import hashlib
import os
import sys
import tempfile
from pathlib import Path

from support.paths import ROOT

_CLONE_NEWNS = 0x00020000
_MS_REC = 0x4000
_MS_PRIVATE = 0x40000


def mounts() -> None:
    """Let nothing that is mounted from now on be seen by other processes, if we may say so."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS) == 0:
        libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None)


def temporary_folder() -> None:
    """Let pytest keep its temporary folders where no other checkout does."""
    checkout = hashlib.sha256(bytes(ROOT)).hexdigest()[:8]
    folder = Path(tempfile.gettempdir()) / f"pytest-{checkout}"
    folder.mkdir(mode=0o700, exist_ok=True)
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(folder))
