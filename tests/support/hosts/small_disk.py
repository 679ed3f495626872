"""A small disk that can be filled and made read-only."""

import contextlib
import resource
import subprocess
from pathlib import Path

from support.events.journal_recorder import Open


class SmallDisk:
    """A tmpfs where one may mount, else a folder with the limits of a user."""

    begin: Open

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(folder)]
        self.mounted = subprocess.run(command, check=False, capture_output=True).returncode == 0
        self._limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(self) -> None:
        """Let no write succeed that needs room."""
        if not self.mounted:
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, self._limits[1]))
            return
        with contextlib.suppress(OSError), (self.folder / "filler").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))

    def works_again(self) -> None:
        """Make the disk writable again, with room."""
        resource.setrlimit(resource.RLIMIT_FSIZE, self._limits)
        self.writable(yes=True)
        (self.folder / "filler").unlink(missing_ok=True)

    def writable(self, *, yes: bool) -> None:
        """Make the disk read-only, or writable again."""
        if self.mounted:
            subprocess.run(
                ["mount", "-o", f"remount,{'rw' if yes else 'ro'}", str(self.folder)], check=True
            )
        else:
            self.folder.chmod(0o700 if yes else 0o500)

    def remove(self) -> None:
        """Leave nothing mounted."""
        self.works_again()
        if self.mounted:
            subprocess.run(["umount", str(self.folder)], check=True)
