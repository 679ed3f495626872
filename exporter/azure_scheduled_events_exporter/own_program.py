"""The command line that starts this program again, as another process."""

import sys
from typing import Final

PACKAGE: Final = "azure_scheduled_events_exporter"


def own_command(*words: str) -> list[str]:
    """Return the command line of this program with the arguments ``words``.

    Without ``-P``, Python would import modules from the current folder first: a file that another
    user has put there would run as the user of this process, which may be root.
    """
    flag = "-P"
    if sys.flags.isolated:  # this process was started with -I, which is -P and ignores PYTHONPATH
        flag = "-I"
    return [sys.executable, flag, "-m", PACKAGE, *words]
