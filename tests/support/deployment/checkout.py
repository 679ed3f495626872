"""A copy of this tree as a git repository of its own, in which a release is made."""

import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from support.paths import ROOT
from support.programs import environment

PACKAGE = "exporter/azure_scheduled_events_exporter"
TODAY = f"{datetime.now(UTC):%Y-%m-%d}"
_LEFT_OUT = (
    *(".git", ".venv", ".venv-demo", ".tools", ".hypothesis"),
    *("*_cache", "__pycache__", "dist", "build", "rendered"),
)
_AUTHOR = {
    f"GIT_{role}_{key}": value
    for role in ("AUTHOR", "COMMITTER")
    for key, value in (("NAME", "nobody"), ("EMAIL", "nobody@example.org"))
}


class Checkout:
    """A repository with this tree as its one commit."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*_LEFT_OUT), symlinks=True)
        _make_environment(folder)
        (folder / ".tools").symlink_to(ROOT / ".tools")
        self.git("init", "-q", "-b", "main")
        (folder / ".git" / "info" / "exclude").write_text("/.venv\n/.tools\n")
        self.commit("all of it")

    def run(
        self, *command: str | Path, check: bool = True, **env: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a program here; its first part may be a path in the repository."""
        program = self.folder / command[0]
        done = subprocess.run(
            [program if program.exists() else command[0], *command[1:]],
            cwd=self.folder,
            env=environment(**_AUTHOR, **env),
            capture_output=True,
            text=True,
            check=False,
        )
        if check:
            assert done.returncode == 0, f"{command}:\n{done.stdout}{done.stderr}"
        return done

    def git(self, *arguments: str) -> str:
        """Run git here, and return what it prints."""
        return self.run("git", "-c", "core.hooksPath=/dev/null", *arguments).stdout

    def commit(self, message: str) -> None:
        """Commit all of the tree."""
        self.git("add", "--all")
        self.git("commit", "-q", "--allow-empty", "-m", message)

    def reset(self, commit: str) -> None:
        """Go back to a commit, without a tag and without what has been built."""
        self.git("reset", "-q", "--hard", commit)
        self.git("clean", "-q", "-ffdx", "--exclude", "/.venv", "--exclude", "/.tools")
        for tag in self.git("tag").split():
            self.git("tag", "-d", tag)

    def replace(self, name: str, pattern: str, by: str) -> None:
        """Change a file; the pattern has to be in it."""
        path = self.folder / name
        text, count = re.subn(pattern, by, path.read_text(), count=1, flags=re.DOTALL)
        assert count == 1, f"{pattern} is not in {name}"
        path.write_text(text)

    def set_version(self, version: str) -> None:
        """Do by hand what the first step of docs/releasing.md says."""
        quoted = f'__version__ = "{version}"'
        self.replace(f"{PACKAGE}/__init__.py", r'__version__ = "[^"]*"', quoted)
        self.replace("CHANGELOG.md", r"(?m)^## Unreleased$", f"## {version} - {TODAY}")

    def release(self, version: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run the script as make does."""
        return self.run("scripts/release", version, check=False, **env)

    def use(self, python: str) -> None:
        """Make the .venv anew, of another Python, with what a release needs."""
        environment_of = self.folder / ".venv"
        subprocess.run([python, "-m", "venv", "--clear", environment_of], check=True)
        packages = [f"--requirement={ROOT}/requirements/{name}.txt" for name in ("build", "run")]
        install = (
            *("-m", "pip", "install", "-qq", "--disable-pip-version-check"),
            *("--no-deps", "--require-hashes", *packages),
        )
        subprocess.run([environment_of / "bin" / "python", *install], check=True)


def _make_environment(folder: Path) -> None:
    """Make the .venv of ``folder``: this one's packages, but with the code of ``folder``."""
    ours = ROOT / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / ".venv"], check=True)
    (site,) = (folder / ".venv").glob("lib/python3.*/site-packages")
    (installed,) = ours.glob("lib/python3.*/site-packages")
    paths = [folder / "exporter", folder, installed]
    (site / "checkout.pth").write_text("".join(f"{path}\n" for path in paths))
    for program in (ours / "bin").iterdir():
        copy = folder / ".venv" / "bin" / program.name
        if not copy.exists():
            content = program.read_bytes()
            copy.write_bytes(content.replace(bytes(ours), bytes(folder / ".venv")))
            copy.chmod(0o755)
    for stamp in ours.glob(".*set-up-from"):
        shutil.copy(stamp, folder / ".venv")
