"""The single-file archive and the .deb: what is in them, and that they run."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from azure_scheduled_events_exporter import __version__
from support.paths import ROOT
from support.programs import environment

NAME = "azure-scheduled-events-exporter"


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with both, built from this tree."""
    folder = tmp_path_factory.mktemp("packages")
    env = environment(SOURCE_DATE_EPOCH="1700000000")
    wheel = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(wheel, cwd=ROOT, env=env, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    subprocess.run([ROOT / "scripts" / "package", __version__, built, folder], env=env, check=True)
    return folder


class TestSingleFile:
    """One file that any Python from 3.11 on runs."""

    @pytest.fixture
    def run(self, packages: Path, tmp_path: Path) -> "Run":
        """The archive, with an empty cache."""
        (archive,) = packages.glob("*.pyz")
        return Run(archive, tmp_path / "cache")

    def test_runs(self, run: "Run", tmp_path: Path) -> None:
        """It says its version, reads settings and bcrypt's passwords, and plays the demo's events."""
        assert run("--version").stdout == f"{NAME} {__version__}\n"
        config = tmp_path / "web.yaml"
        config.write_text("basic_auth_users: {me: $2b$04$cVQJFl.SaJTxBr.SPDVEX.fPWGhvlmTnTn4xiIPCRcYmHhAvpCzoK}\n")
        checked = run("check-config", f"--web.config.file={config}", "--imds.endpoint=http://127.0.0.1:9")
        assert checked.returncode == 0, checked.stderr
        assert "imds.endpoint: http://127.0.0.1:9" in checked.stdout

    def test_exported_scripts(self, run: "Run", tmp_path: Path) -> None:
        """Exported scripts can be executed, as those of the wheel."""
        assert run("assets", "export", str(tmp_path / "assets")).returncode == 0
        examples = ROOT / "deploy" / "examples"
        for name in ("kubectl-drain", "kubectl-drain.service"):
            exported = (tmp_path / "assets" / "examples" / name).stat().st_mode
            assert exported & 0o100 == (examples / name).stat().st_mode & 0o100

    def test_demo(self, run: "Run") -> None:
        """The demo serves metrics until it is stopped."""
        command = [sys.executable, str(run.archive), "demo", "--web.listen-address=127.0.0.1:0"]
        with subprocess.Popen(
            command, env=run.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as program:
            assert program.stdout is not None
            try:
                assert any(re.search(r"http://127\.0\.0\.1:\d+", line) for line in program.stdout)
            finally:
                program.terminate()

    def test_cache_is_private(self, run: "Run") -> None:
        """Only its user can read the cache; one that others can write is refused before anything in it is run."""
        run("--version")
        ours = run.cache / NAME
        assert {ours.stat().st_mode & 0o777, *(each.stat().st_mode & 0o777 for each in ours.iterdir())} == {0o700}
        ours.chmod(0o777)
        refused = run("--version")
        assert refused.returncode == 1
        assert "XDG_CACHE_HOME" in refused.stderr


class Run:
    """Runs the archive with a cache of its own."""

    def __init__(self, archive: Path, cache: Path) -> None:
        self.archive, self.cache = archive, cache
        self.env = environment(XDG_CACHE_HOME=str(cache))

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run it to its end."""
        command = [sys.executable, str(self.archive), *arguments]
        return subprocess.run(command, env=self.env, capture_output=True, text=True, check=False)


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="needs dpkg-deb")
class TestDeb:
    """What dpkg is given."""

    @pytest.fixture
    def tree(self, packages: Path, tmp_path: Path) -> Path:
        """The package, unpacked, with its control files in DEBIAN."""
        (package,) = packages.glob("*.deb")
        subprocess.run(["dpkg-deb", "--raw-extract", package, tmp_path / "tree"], check=True)
        return tmp_path / "tree"

    def test_contents(self, tree: Path) -> None:
        """Units that start the program in /usr/bin, settings that an upgrade keeps, and no fixed version of Python."""
        assert (tree / "DEBIAN" / "conffiles").read_text() == f"/etc/{NAME}/environment\n"
        settings = (ROOT / "deploy" / "systemd" / "environment").read_bytes()
        assert (tree / "etc" / NAME / "environment").read_bytes() == settings
        for unit in (ROOT / "deploy" / "systemd").glob("*.service"):
            installed = (tree / "usr/lib/systemd/system" / unit.name).read_text()
            assert installed == unit.read_text().replace(f"/opt/{NAME}/bin/", "/usr/bin/")
            assert f"ExecStart=/usr/bin/{NAME} " in installed
        libraries = sorted(path.name for path in tree.rglob("*.so"))
        assert libraries == ["_bcrypt.abi3.so", "_message.abi3.so"], "others would bind it to one version of Python"
        assert "Depends: python3 (>= 3.11)" in (tree / "DEBIAN" / "control").read_text()

    def test_paths(self, tree: Path) -> None:
        """No file names the folder that it was built in."""
        here = str(ROOT).encode()
        assert not [path for path in tree.rglob("*") if path.is_file() and here in path.read_bytes()]
