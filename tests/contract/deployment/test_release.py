"""``make release``: everything that names the version agrees, or one line says what does not; what
is built runs.
"""

import hashlib
import platform
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from deploy.packages.debian_package import PYTHONS, debian_version
from support.deployment.checkout import PACKAGE, TODAY, Checkout
from support.paths import ROOT
from support.programs import debian, environment

NAME = "azure-scheduled-events-exporter"
CHART = f"deploy/helm/{NAME}/Chart.yaml"
VERSION = "7.8.9rc1"
"""A candidate, which Debian, Helm and Python write in three ways."""


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """A repository that is ready for the release of VERSION."""
    checkout = Checkout(tmp_path_factory.mktemp("release") / "checkout")
    checkout.set_version(VERSION)
    checkout.run("scripts/chart")
    checkout.commit("ready")
    checkout.git("branch", "ready")
    return checkout


@pytest.fixture
def checkout(pristine: Checkout) -> Checkout:
    """The repository as it was made, whatever a test before has done to it."""
    pristine.reset("ready")
    return pristine


def version_in_package(checkout: Checkout) -> None:
    """The package was forgotten."""
    checkout.replace(f"{PACKAGE}/__init__.py", VERSION, "7.8.8")


def unreleased(checkout: Checkout) -> None:
    """The changelog was forgotten."""
    checkout.replace("CHANGELOG.md", f"## {VERSION} - {TODAY}", "## Unreleased")


def version_in_chart(checkout: Checkout) -> None:
    """The Helm chart was forgotten."""
    checkout.replace(CHART, f'appVersion: "{VERSION}"', 'appVersion: "7.8.8"')


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
    def test_files(
        self, checkout: Checkout, spoil: Callable[[Checkout], None], words: tuple[str, ...]
    ) -> None:
        """A file that names another version, or a changelog without this one, stops the release."""
        spoil(checkout)
        checkout.commit("spoiled")
        self.assert_refused(checkout, *words)

    def test_uncommitted(self, checkout: Checkout) -> None:
        """What is not committed would not be in the tag: it stops the release."""
        (checkout.folder / "forgotten.py").touch()
        self.assert_refused(checkout, "not clean", "forgotten.py")

    def test_tag_elsewhere(self, checkout: Checkout) -> None:
        """A tag of that name on another commit stops the release."""
        checkout.git("tag", f"v{VERSION}")
        checkout.commit("spoiled")
        self.assert_refused(checkout, f"v{VERSION}", checkout.git("rev-parse", "HEAD").strip())

    @pytest.mark.parametrize("version", ["v7.8.9", "7.8.9;id"])
    def test_invalid_version(self, checkout: Checkout, version: str) -> None:
        """An invalid version is refused, with an example of a valid one."""
        done = checkout.release(version)
        assert done.returncode == 1
        assert "VERSION=1.2.3" in done.stderr

    @staticmethod
    def assert_refused(checkout: Checkout, *words: str) -> None:
        """One line with ``words``, and nothing was built."""
        done = checkout.release(VERSION)
        assert (done.returncode, done.stdout) == (1, "")
        assert re.fullmatch(r"release: [^\n]+\n", done.stderr), done.stderr
        for word in words:
            assert word in done.stderr
        assert not (checkout.folder / "dist").exists()


@pytest.fixture(scope="module")
def released(pristine: Checkout) -> Checkout:
    """The repository after a release with TAG=1; every test of what is built reads this one."""
    pristine.reset("ready")
    done = pristine.release(VERSION, TAG="1")
    assert done.returncode == 0, done.stderr
    assert f"git push origin v{VERSION}" in done.stdout
    return pristine


@pytest.fixture(scope="module")
def files(released: Checkout) -> dict[str, Path]:
    """All that is published, by its name."""
    folders = (released.folder / "dist", released.folder / "build" / "release")
    return {path.name: path for folder in folders for path in folder.iterdir()}


class TestAgreement:
    """All files are made; nothing leaves the machine."""

    def test_files_and_checksums(self, files: dict[str, Path]) -> None:
        """SHA256SUMS has every file that is published, under a name that GitHub keeps."""
        sums = files["SHA256SUMS"].read_text().splitlines()
        package = f"azure_scheduled_events_exporter-{VERSION}"
        published = {
            f"{package}-py3-none-any.whl",
            f"{package}.tar.gz",
            f"{NAME}-{VERSION}-x86_64.pyz",
            f"{NAME}-{VERSION}-aarch64.pyz",
            f"{NAME}-assets-{VERSION}.tar.gz",
            f"{NAME}-{VERSION}.tgz",
        }
        if shutil.which("dpkg-deb"):
            published |= {f"{NAME}_{VERSION}_{each}.deb" for each in ("amd64", "arm64")}
        assert files.keys() == published | {"SHA256SUMS", "notes.md"}
        expected = [
            f"{hashlib.sha256(files[name].read_bytes()).hexdigest()}  {name}" for name in published
        ]
        assert sorted(sums) == sorted(expected)
        assert all(re.fullmatch(r"[\w.-]+", name) for name in published), (
            "GitHub replaces any other character by a dot"
        )

    def test_notes(self, released: Checkout, files: dict[str, Path]) -> None:
        """The notes are the changelog's section."""
        notes = files["notes.md"].read_text()
        assert notes.startswith("### ")
        assert "\n## " not in notes
        assert notes.strip() in (released.folder / "CHANGELOG.md").read_text()

    def test_assets(self, files: dict[str, Path]) -> None:
        """The archive of assets has dashboards, rules and runbooks."""
        folder = f"{NAME}-assets-{VERSION}"
        with tarfile.open(files[f"{folder}.tar.gz"]) as archive:
            names = set(archive.getnames())
        assert f"{folder}/alerts/prometheus/prometheus-rules.yml" in names
        assert f"{folder}/dashboards/azure-scheduled-events-fleet.json" in names
        kinds = {name.split("/")[1] for name in names}
        assert kinds == {"alerts", "dashboards", "runbooks"}

    def test_chart(self, files: dict[str, Path]) -> None:
        """Helm reads the chart, whose application is this version."""
        chart = str(files[f"{NAME}-{VERSION}.tgz"])
        shown = subprocess.check_output([debian("helm"), "show", "chart", chart], text=True)
        assert f"appVersion: {VERSION}\n" in shown

    def test_wheel_and_sdist(self, released: Checkout, files: dict[str, Path]) -> None:
        """The times of the wheel's files are those of the commit, and the sdist has the script that
        makes a release.
        """
        committed = int(released.git("log", "-1", "--format=%ct"))
        package = f"azure_scheduled_events_exporter-{VERSION}"
        with zipfile.ZipFile(files[f"{package}-py3-none-any.whl"]) as wheel:
            moments = [datetime(*each.date_time, tzinfo=UTC) for each in wheel.infolist()]
        # Times in a zip file are even seconds.
        assert all(abs(moment.timestamp() - committed) <= 2 for moment in moments)
        with tarfile.open(files[f"{package}.tar.gz"]) as sdist:
            assert f"{package}/scripts/release" in sdist.getnames()

    def test_tag_if_requested(self, released: Checkout) -> None:
        """With TAG=1 the tag is made, and names the commit that was released. What was built leaves
        the checkout clean for git.
        """
        tagged = released.git("rev-parse", f"v{VERSION}^{{commit}}")
        assert tagged == released.git("rev-parse", "HEAD")
        assert released.git("status", "--porcelain") == ""


class TestSingleFile:
    """One file that any Python from 3.11 on runs."""

    @pytest.fixture
    def run(self, files: dict[str, Path], tmp_path: Path) -> "Run":
        """The archive, with an empty cache."""
        name = f"{NAME}-{VERSION}-{platform.machine()}.pyz"
        return Run(files[name], tmp_path / "cache")

    def test_runs(self, run: "Run", tmp_path: Path) -> None:
        """The file prints its version, and reads settings and bcrypt hashes."""
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
        """An exported script can be executed, and an exported unit cannot, as in the checkout."""
        assert run("assets", "export", str(tmp_path / "assets")).returncode == 0
        examples = ROOT / "deploy" / "examples"
        for name in ("kubectl-drain", "kubectl-drain.service"):
            exported = (tmp_path / "assets" / "examples" / name).stat().st_mode
            assert exported & stat.S_IXUSR == (examples / name).stat().st_mode & stat.S_IXUSR

    def test_demo(self, run: "Run") -> None:
        """The demo runs from the single file: it prints the addresses to open."""
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
        for path in (ours, *ours.iterdir()):
            assert stat.S_IMODE(path.stat().st_mode) == 0o700, path
        ours.chmod(0o777)
        refused = run("--version")
        assert refused.returncode == 1
        assert "XDG_CACHE_HOME" in refused.stderr


class Run:
    """Runs the archive with a cache of its own."""

    def __init__(self, archive: Path, cache: Path) -> None:
        self.archive = archive
        self.cache = cache
        self.env = environment(XDG_CACHE_HOME=str(cache))

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run it to its end."""
        command = [sys.executable, str(self.archive), *arguments]
        return subprocess.run(command, env=self.env, capture_output=True, text=True, check=False)


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="needs dpkg-deb")
class TestDeb:
    """The Debian packages that a release has."""

    @pytest.fixture(params=["amd64", "arm64"])
    def tree(self, files: dict[str, Path], tmp_path: Path, request: pytest.FixtureRequest) -> Path:
        """The package, unpacked, with its control files in DEBIAN."""
        package = files[f"{NAME}_{VERSION}_{request.param}.deb"]
        subprocess.run(["dpkg-deb", "--raw-extract", package, tmp_path / "tree"], check=True)
        control = (tmp_path / "tree" / "DEBIAN" / "control").read_text()
        assert f"Architecture: {request.param}\n" in control
        return tmp_path / "tree"

    def test_contents(self, tree: Path) -> None:
        """The package has units that start the program in /usr/bin, and settings that an upgrade
        keeps. It depends on no fixed version of Python.
        """
        assert (tree / "DEBIAN" / "conffiles").read_text() == f"/etc/{NAME}/environment\n"
        settings = (ROOT / "deploy" / "systemd" / "environment").read_bytes()
        assert (tree / "etc" / NAME / "environment").read_bytes() == settings
        for unit in (ROOT / "deploy" / "systemd").glob("*.service"):
            installed = (tree / "usr/lib/systemd/system" / unit.name).read_text()
            assert installed == unit.read_text().replace(f"/opt/{NAME}/bin/", "/usr/bin/")
        # `assets export` writes these: the units of hooks of deploy/examples, and our own.
        exported = [unit.read_text() for unit in tree.rglob("assets/**/*.service")]
        hooks = list((ROOT / "deploy" / "examples").glob("*.service"))
        assert len(exported) >= len(hooks), "there are units to check"
        assert all(f"ExecStart=/usr/bin/{NAME} " in unit for unit in exported)
        control = (tree / "DEBIAN" / "control").read_text()
        assert "Depends: python3 (>= 3.11)" in control
        assert "Version: 7.8.9~rc1\n" in control

    def test_libraries(self, tree: Path) -> None:
        """Compiled libraries are for the package's processor and for every Python."""
        control = (tree / "DEBIAN" / "control").read_text()
        (architecture,) = re.findall(r"(?m)^Architecture: (.*)$", control)
        machine = {"amd64": 62, "arm64": 183}[architecture]  # e_machine of ELF
        libraries = sorted(tree.rglob("*.so"))
        names = [path.name for path in libraries]
        assert names == ["_bcrypt.abi3.so", "_message.abi3.so"], (
            "others would bind it to one version of Python"
        )
        for path in libraries:
            e_machine = path.read_bytes()[18:20]  # where the header of ELF has it
            assert int.from_bytes(e_machine, "little") == machine

    def test_every_supported_python_finds_the_packages(self, tree: Path) -> None:
        """Each version of Python that the project names has its folder of packages."""
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        named = re.findall(r":: (3\.\d+)", "\n".join(project["classifiers"]))
        assert list(PYTHONS) == named
        for version in named:
            site = tree / "usr" / "lib" / NAME / "lib" / f"python{version}" / "site-packages"
            assert (site / "azure_scheduled_events_exporter" / "__init__.py").exists()


def test_a_candidate_is_older_than_its_release() -> None:
    """Debian sorts 1.2.3~rc1 before 1.2.3."""
    assert debian_version("1.2.3rc1") == "1.2.3~rc1"
    assert debian_version("1.2.3") == "1.2.3"
