"""A file system in a file: small, mounted, and to be copied at any moment as a power cut would
leave it.
"""

import contextlib
import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from support.programs import eventually

_FREEZE = 0xC0045877
_THAW = 0xC0045878  # FIFREEZE and FITHAW of linux/fs.h


def _run(*command: str | Path) -> str:
    """Run a command; return what it printed. Raises OSError if it failed."""
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise OSError(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
    return done.stdout


def can_mount() -> bool:
    """Return whether this machine lets us mount such a file: Linux, root, a loop device."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            with Image(Path(folder), mebibytes=4):
                return True
        except OSError:
            return False


class Image:
    """An ext4 file system, mounted at :attr:`place` while the block lasts."""

    def __init__(
        self, folder: Path, mebibytes: int = 16, *, journal: bool = True, block: int = 0
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.file = folder / "disk.img"
        self.place = folder / "mounted"
        self.place.mkdir(exist_ok=True)
        with self.file.open("wb") as file:
            file.truncate(mebibytes << 20)
        options = (
            "-E",
            "lazy_itable_init=0",
            "-m",
            "0",
            *(() if journal else ("-O", "^has_journal")),
        )
        block_size = ("-b", str(block)) if block else ()
        _run("mkfs.ext4", "-q", "-F", *options, *block_size, self.file)

    def __enter__(self) -> Self:
        self.mount()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.empty()
        if kind is not None:
            self.pull_out()  # the programs that still use it are about to be ended
            return
        try:
            self._unmount()
        except BaseException:
            self.pull_out()  # a mount that is left behind breaks the cleanup
            raise

    def mount(self) -> None:
        """Mount it (again)."""
        _run("mount", "-o", "loop", self.file, self.place)

    def unmount(self) -> None:
        """Unmount it, once nobody uses it, and wait until the kernel has given it up.

        A process that gets mounts of its own meanwhile, as many services do, has a copy of this
        mount and keeps the file system alive. To mount it again would then show the same file
        system: one that the kernel has made read-only would stay so.
        """
        self._unmount()
        eventually(self._is_detached, f"no loop device of {self.file}")

    def _unmount(self) -> None:
        def unmounted() -> bool:
            try:
                _run("umount", self.place)
            except OSError:
                return False
            return True

        eventually(unmounted, f"an unmounted {self.place}")

    def _is_detached(self) -> bool:
        """Return whether no loop device has the file any more."""
        return not _run("losetup", "--associated", self.file)

    def pull_out(self) -> None:
        """Take it from its place while it is in use: who has opened a file keeps it, and nobody
        finds it any more.
        """
        _run("umount", "--lazy", self.place)

    def fill(self) -> None:
        """Leave no room."""
        with (self.place / "filler").open("wb", buffering=0) as file:
            for block in (1 << 18, 1 << 12, 1 << 9):
                with contextlib.suppress(OSError):
                    while True:
                        file.write(bytes(block))
                with contextlib.suppress(OSError):
                    os.fsync(file.fileno())

    def empty(self) -> None:
        """Make room again."""
        (self.place / "filler").unlink(missing_ok=True)

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Let every write and fsync hang during the block, as on a disk that does not answer."""
        handle = os.open(self.place, os.O_RDONLY)
        try:
            fcntl.ioctl(handle, _FREEZE, 0)
            try:
                yield
            finally:
                fcntl.ioctl(handle, _THAW, 0)
        finally:
            os.close(handle)

    def remount(self, how: str) -> None:
        """Make it read-only (``ro``) or writable (``rw``)."""
        _run("mount", "-o", f"remount,{how}", self.place)

    def fails(self) -> None:
        """Let the kernel meet an error, upon which it makes the file system read-only until it is
        mounted anew.
        """
        _run("mount", "-o", "remount,abort", self.place)


class Power:
    """A disk whose power can be cut at any moment, while its user continues.

    It is a file on a file system of its own. Freezing that one holds up every write to the disk
    between two blocks, so a copy made meanwhile is what the disk held at that moment: what was on
    its way is missing, as after a power cut.
    """

    def __init__(self, folder: Path) -> None:
        self._under = Image(folder / "under", 40, journal=False)
        self._folder = folder
        self._cuts = 0
        self.disk: Image | None = None

    def __enter__(self) -> Self:
        self._under.__enter__()
        self.disk = Image(self._under.place / "disk")
        self.disk.mount()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        assert self.disk
        self.disk.__exit__(kind)
        self._under.__exit__(kind)

    def cut(self) -> "Remains":
        """Return the disk as it is at this moment."""
        assert self.disk
        # A new file each time: its loop device may be detached only later, and mounting the same
        # file again would then show what the device has in memory of the cut before.
        shutil.rmtree(self._folder / f"cut-{self._cuts}", ignore_errors=True)
        self._cuts += 1
        remains = self._folder / f"cut-{self._cuts}"
        remains.mkdir()
        with self._under.frozen():
            shutil.copyfile(self.disk.file, remains / "disk.img")
        return Remains(remains)


class Remains(Image):
    """What a power cut left of a disk; mounting it lets the file system replay its own journal."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "disk.img"
        self.place = folder / "mounted"
        self.place.mkdir(exist_ok=True)
