"""``make release``: everything that names the version agrees, or one line says what does not; what
is built runs.
"""

import hashlib
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from support.paths import ROOT
from support.programs import debian, environment

NAME = "azure-scheduled-events-exporter"
PACKAGE = "exporter/azure_scheduled_events_exporter"
VERSION = "7.8.9"
TODAY = f"{datetime.now(UTC):%Y-%m-%d}"
LEFT_OUT = (
    ".git",
    ".venv",
    ".tools",
    ".hypothesis",
    "*_cache",
    "__pycache__",
    "dist",
    "build",
    "images",
    "payloads",
)


class Checkout:
    """A repository of its own with this tree, ready for the release of VERSION."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*LEFT_OUT))
        (folder / ".venv").symlink_to(ROOT / ".venv")
        self.replace(
            f"{PACKAGE}/__init__.py", r'__version__ = "[^"]*"', f'__version__ = "{VERSION}"'
        )
        self.replace("CHANGELOG.md", r"(?m)\A(.*?)^## [^\n]*", rf"\1## {VERSION} - {TODAY}")
        chart = folder / "deploy" / "helm" / "azure-scheduled-events-exporter" / "Chart.yaml"
        chart.parent.mkdir(parents=True, exist_ok=True)
        chart.write_text(f'apiVersion: v2\nname: x\nversion: 0.0.1\nappVersion: "{VERSION}"\n')
        self.git("init", "-q", "-b", "main")
        (folder / ".git" / "info" / "exclude").write_text("/.venv\n")
        self.commit()

    def git(self, *arguments: str) -> str:
        """Run git here, with a test author."""
        who = (
            "-c",
            "user.name=nobody",
            "-c",
            "user.email=nobody@example.org",
            "-c",
            "core.hooksPath=/dev/null",
        )
        done = subprocess.run(
            ["git", *who, *arguments],
            cwd=self.folder,
            env=environment(),
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout

    def commit(self) -> None:
        """Commit all of the tree."""
        self.git("add", "--all")
        self.git("commit", "-q", "--allow-empty", "-m", "all of it")

    def replace(self, name: str, pattern: str, by: str) -> None:
        """Change a file; the pattern has to be in it."""
        path = self.folder / name
        text, count = re.subn(pattern, by, path.read_text(), count=1, flags=re.DOTALL)
        assert count == 1, f"{pattern} is not in {name}"
        path.write_text(text)

    def release(self, version: str = VERSION, **env: str) -> subprocess.CompletedProcess[str]:
        """Run the script as make does."""
        names = ("GIT_AUTHOR", "GIT_COMMITTER")
        nobody = {
            f"{name}_{key}": value
            for name in names
            for key, value in (("NAME", "n"), ("EMAIL", "n@example.org"))
        }
        return subprocess.run(
            [self.folder / "scripts" / "release", version],
            env=environment(**nobody, **env),
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """The repository that all tests begin with."""
    return Checkout(tmp_path_factory.mktemp("release") / "checkout")


@pytest.fixture
def checkout(pristine: Checkout) -> Checkout:
    """The repository as it was made, whatever a test before has done to it."""
    pristine.git(
        "reset", "-q", "--hard", pristine.git("rev-list", "--max-parents=0", "HEAD").strip()
    )
    pristine.git("clean", "-q", "-ffdx", "--exclude", "/.venv")
    for tag in pristine.git("tag").split():
        pristine.git("tag", "-d", tag)
    return pristine


def version_in_package(checkout: Checkout) -> None:
    """The package was forgotten."""
    checkout.replace(f"{PACKAGE}/__init__.py", VERSION, "7.8.8")


def unreleased(checkout: Checkout) -> None:
    """The changelog was forgotten."""
    checkout.replace("CHANGELOG.md", f"## {VERSION} - {TODAY}", "## Unreleased")


def version_in_chart(checkout: Checkout) -> None:
    """The Helm chart was forgotten."""
    checkout.replace("deploy/helm/azure-scheduled-events-exporter/Chart.yaml", VERSION, "7.8.8")


class TestDisagreement:
    """Nothing is built, and one line says what to change."""

    @pytest.mark.parametrize(
        ("spoil", "words"),
        [
            (version_in_package, ("__init__.py", "7.8.8")),
            (unreleased, ("CHANGELOG.md", "Unreleased", f"{VERSION} - ")),
            (version_in_chart, ("Chart.yaml", "7.8.8")),
        ],
        ids=lambda value: value.__name__ if callable(value) else "",
    )
    def test_files(self, checkout: Checkout, spoil: object, words: tuple[str, ...]) -> None:
        """A file that names another version, or a changelog without entries, stops the release."""
        assert callable(spoil)
        spoil(checkout)
        checkout.commit()
        self.assert_refused(checkout, *words)

    def test_uncommitted(self, checkout: Checkout) -> None:
        """What is not committed would not be in the tag: it stops the release."""
        (checkout.folder / "forgotten.py").touch()
        self.assert_refused(checkout, "not clean", "forgotten.py")

    def test_tag_elsewhere(self, checkout: Checkout) -> None:
        """A tag of that name on another commit stops the release."""
        checkout.git("tag", f"v{VERSION}")
        checkout.commit()
        self.assert_refused(checkout, f"v{VERSION}", checkout.git("rev-parse", "HEAD").strip())

    @pytest.mark.parametrize("version", ["v7.8.9", "7.8.9;id"])
    def test_no_version(self, checkout: Checkout, version: str) -> None:
        """An invalid version is refused, with an example of a valid one."""
        done = checkout.release(version)
        assert done.returncode == 1
        assert "VERSION=1.2.3" in done.stderr

    @staticmethod
    def assert_refused(checkout: Checkout, *words: str) -> None:
        """One line with ``words``, and nothing was built."""
        done = checkout.release()
        assert (done.returncode, done.stdout) == (1, "")
        assert re.fullmatch(r"release: [^\n]+\n", done.stderr), done.stderr
        for word in words:
            assert word in done.stderr
        assert not (checkout.folder / "dist").exists()


@pytest.fixture(scope="module")
def released(pristine: Checkout) -> Checkout:
    """The repository after a release with TAG=1; every test of what is built reads this one."""
    done = pristine.release(TAG="1")
    assert done.returncode == 0, done.stderr
    assert f"git push origin v{VERSION}" in done.stdout
    return pristine


class TestAgreement:
    """Wheel, sdist, checksums and notes are made; nothing leaves the machine."""

    def test_all(self, released: Checkout) -> None:
        """One wheel and one sdist of the commit, the checksums of both, and the notes from the
        changelog.
        """
        checkout = released
        name = f"azure_scheduled_events_exporter-{VERSION}"
        dist = checkout.folder / "dist"
        assert {path.name for path in dist.iterdir()} == {
            f"{name}-py3-none-any.whl",
            f"{name}.tar.gz",
        }
        release = checkout.folder / "build" / "release"
        built = [
            *dist.iterdir(),
            *(each for end in ("pyz", "deb", "tgz") for each in release.glob(f"*.{end}")),
        ]
        sums = {f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}" for path in built}
        assert set((checkout.folder / "build/release/SHA256SUMS").read_text().splitlines()) == sums
        notes = (checkout.folder / "build" / "release" / "notes.md").read_text()
        assert notes.startswith("### ")
        assert "\n## " not in notes
        assert notes.strip() in (checkout.folder / "CHANGELOG.md").read_text()
        committed = int(checkout.git("log", "-1", "--format=%ct"))
        assets = f"azure-scheduled-events-exporter-assets-{name.rpartition('-')[2]}"
        archive = checkout.folder / f"build/release/{assets}.tar.gz"
        digest = hashlib.sha256(archive.read_bytes()).hexdigest()
        assert (
            archive.with_name(f"{archive.name}.sha256").read_text() == f"{digest}  {archive.name}\n"
        )
        with tarfile.open(archive) as tar:
            names = set(tar.getnames())
        assert f"{assets}/alerts/prometheus/prometheus-rules.yml" in names
        assert f"{assets}/dashboards/azure-scheduled-events-fleet.json" in names
        assert {each.split("/")[1] for each in names if each != assets} == {
            "alerts",
            "dashboards",
            "runbooks",
        }
        chart = [
            debian("helm"),
            "show",
            "chart",
            f"{release}/azure-scheduled-events-exporter-{VERSION}.tgz",
        ]
        assert f"appVersion: {VERSION}\n" in subprocess.check_output(chart, text=True)
        with zipfile.ZipFile(dist / f"{name}-py3-none-any.whl") as wheel:
            moments = {
                datetime(*each.date_time, tzinfo=UTC).timestamp() for each in wheel.infolist()
            }
            assert all(abs(moment - committed) <= 2 for moment in moments), (
                "times of files are those of the commit"
            )
        with tarfile.open(dist / f"{name}.tar.gz") as sdist:
            assert f"{name}/scripts/release" in sdist.getnames()
        assert checkout.git("status", "--porcelain") == "", "what is built is ignored by git"

    def test_tag_if_requested(self, released: Checkout) -> None:
        """With TAG=1 the tag is made, and names this commit."""
        assert released.git("rev-parse", f"v{VERSION}^{{commit}}") == released.git(
            "rev-parse", "HEAD"
        )


class TestSingleFile:
    """One file that any Python from 3.11 on runs."""

    @pytest.fixture
    def run(self, released: Checkout, tmp_path: Path) -> "Run":
        """The archive, with an empty cache."""
        (archive,) = (released.folder / "build" / "release").glob("*.pyz")
        return Run(archive, tmp_path / "cache")

    def test_runs(self, run: "Run", tmp_path: Path) -> None:
        """It says its version, reads settings and bcrypt's passwords, and plays the demo's events."""
        assert run("--version").stdout == f"{NAME} {VERSION}\n"
        config = tmp_path / "web.yaml"
        config.write_text(
            "basic_auth_users: {me: $2b$04$cVQJFl.SaJTxBr.SPDVEX.fPWGhvlmTnTn4xiIPCRcYmHhAvpCzoK}\n"
        )
        checked = run(
            "check-config", f"--web.config.file={config}", "--imds.endpoint=http://127.0.0.1:9"
        )
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
        """Only its user can read the cache; one that others can write is refused before anything in
        it is run.
        """
        run("--version")
        ours = run.cache / NAME
        assert {
            ours.stat().st_mode & 0o777,
            *(each.stat().st_mode & 0o777 for each in ours.iterdir()),
        } == {0o700}
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
    def tree(self, released: Checkout, tmp_path: Path) -> Path:
        """The package, unpacked, with its control files in DEBIAN."""
        (package,) = (released.folder / "build" / "release").glob("*.deb")
        subprocess.run(["dpkg-deb", "--raw-extract", package, tmp_path / "tree"], check=True)
        return tmp_path / "tree"

    def test_contents(self, tree: Path) -> None:
        """Units that start the program in /usr/bin, settings that an upgrade keeps, and no fixed
        version of Python.
        """
        assert (tree / "DEBIAN" / "conffiles").read_text() == f"/etc/{NAME}/environment\n"
        settings = (ROOT / "deploy" / "systemd" / "environment").read_bytes()
        assert (tree / "etc" / NAME / "environment").read_bytes() == settings
        for unit in (ROOT / "deploy" / "systemd").glob("*.service"):
            installed = (tree / "usr/lib/systemd/system" / unit.name).read_text()
            assert installed == unit.read_text().replace(f"/opt/{NAME}/bin/", "/usr/bin/")
        exported = [unit.read_text() for unit in tree.rglob("assets/**/*.service")]
        assert len(exported) >= 7
        assert all(f"ExecStart=/usr/bin/{NAME} " in unit for unit in exported)
        libraries = sorted(path.name for path in tree.rglob("*.so"))
        assert libraries == ["_bcrypt.abi3.so", "_message.abi3.so"], (
            "others would bind it to one version of Python"
        )
        assert "Depends: python3 (>= 3.11)" in (tree / "DEBIAN" / "control").read_text()
