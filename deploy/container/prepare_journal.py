"""Gives the journal's folder of a node, and the journal's files, to the user of the exporter.

The chart's init container runs it as root with the capability CHOWN alone. It is needed because
the kubelet makes the folder as root's, and the files of an earlier ``runAsUser`` are that user's.
A folder that has other files is left as it is, because it is another program's. So is a file with a
second name (hard link).
"""  # noqa: INP001 - a program in the image, no package

import os
import stat
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Owner:
    """A user and a group, by their numbers."""

    user: int
    group: int

    def takes(self, path: Path) -> None:
        """Give ``path`` to this owner; a symbolic link is not followed."""
        os.chown(path, self.user, self.group, follow_symlinks=False)


ROOT = Owner(0, 0)


def prepare(folder: Path, owner: Owner) -> str | None:
    """Give ``folder`` to ``owner``; return why it was left as it is, None if it was given.

    Raises:
        OSError: it cannot be given away.
    """
    before = folder.stat()
    try:
        paths = list(folder.iterdir())
    except PermissionError:
        # Root without other capabilities can list only a folder that is its own.
        ROOT.takes(folder)
        paths = list(folder.iterdir())
    foreign = sorted(path.name for path in paths if not _is_ours(path))
    if foreign:
        # Undo what was done to list the folder.
        Owner(before.st_uid, before.st_gid).takes(folder)
        return (
            f"the journal's folder is left as it is, because it has other files ({foreign[0]}):"
            " give journal.path a folder of its own"
        )
    ROOT.takes(folder)  # so that its owner cannot exchange a file while we look at it
    for path in paths:
        found = path.lstat()
        if stat.S_ISREG(found.st_mode) and found.st_nlink == 1:
            owner.takes(path)
    owner.takes(folder)
    return None


def _is_ours(path: Path) -> bool:
    """Return whether a file is of the journal, or ``lost+found``, which every disk may have."""
    return path.name.startswith("journal.sqlite") or path.name == "lost+found"


def main() -> None:
    """Prepare the folder that the command line names.

    It never fails: with a read-only disk, the exporter keeps its journal in memory.
    """
    folder, user, group = sys.argv[1:]
    try:
        problem = prepare(Path(folder), Owner(int(user), int(group)))
    except OSError as error:
        problem = f"the journal's folder cannot be prepared: {error}"
    if problem:
        print(problem, file=sys.stderr)


if __name__ == "__main__":
    main()
