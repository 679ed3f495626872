"""What people install: the wheel has everything that the program and its users need."""

import os
import re
import subprocess
import sys
import threading
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from azure_scheduled_events_exporter import __version__
from support.documented import links
from support.paths import GUARD, ROOT
from support.programs import environment

OURS = "azure-scheduled-events-exporter"
SOME_LINKS = 20
"""The description has more links than that."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from this tree."""
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, env=environment(), check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, unpacked."""
    site = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    return site


def test_the_long_description_stands_alone(installed: Path) -> None:
    """An index shows the description away from the repository. So all its links and pictures are
    addresses, and those of this project lead to files of this version.
    """
    (metadata,) = installed.glob("*.dist-info/METADATA")
    _headers, _, description = metadata.read_text().partition("\n\n")
    targets = re.findall(r"\]\(([^)]+)\)", description)
    assert len(targets) > SOME_LINKS, "the links of the description are found"
    assert [target for target in targets if not target.startswith("https://")] == []
    places = [
        re.fullmatch(rf"https://[^/]+/{OURS}/{OURS}/(?:blob/)?v{__version__}/([^#]*)(#.*)?", target)
        for target in targets
    ]
    ours = [place[1] for place in places if place]
    assert len(ours) > SOME_LINKS, "most of them are ours"
    assert [path for path in ours if not (ROOT / path).exists()] == []


def test_the_headers_promise_what_there_is(installed: Path) -> None:
    """The headers say where to report an issue, and name no system on which nothing is tested."""
    (metadata,) = installed.glob("*.dist-info/METADATA")
    headers, _, _description = metadata.read_text().partition("\n\n")
    assert "Project-URL: Issues, https://" in headers
    classifiers = re.findall(r"(?m)^Classifier: .*", headers)
    assert classifiers
    assert "Windows" not in "".join(classifiers)


def program(site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the program as it is in the wheel, away from this tree."""
    path = f"{site}:{GUARD}"
    return subprocess.run(
        [sys.executable, "-m", "azure_scheduled_events_exporter", *arguments],
        cwd=site,
        env=environment(PYTHONPATH=path),
        capture_output=True,
        text=True,
        check=False,
    )


def files_below(folder: Path) -> set[Path]:
    """Return the paths of all files below ``folder``, relative to it."""
    return {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}


def test_every_asset_comes_along(installed: Path, tmp_path: Path) -> None:
    """Dashboards, rules, runbooks and examples exported from the wheel are those of the source
    tree.
    """
    done = program(installed, "assets", "export", str(tmp_path))
    assert done.returncode == 0, done.stderr
    for kind, source in (
        ("dashboards", "dashboards/json"),
        ("alerts", "alerts/generated"),
        ("runbooks", "docs/runbooks"),
        ("metadata-security-protocol", "deploy/metadata-security-protocol"),
        ("systemd", "deploy/systemd"),
        ("helm", "deploy/helm"),
        ("examples", "deploy/examples"),
    ):
        in_source = files_below(ROOT / source)
        exported = files_below(tmp_path / kind)
        assert exported == {path for path in in_source if "__pycache__" not in path.parts}
        for name in exported:
            assert (tmp_path / kind / name).read_bytes() == (ROOT / source / name).read_bytes()


@pytest.mark.parametrize("place", ["folder", "address"])
def test_a_fleet_installs_a_wheel_that_no_index_has(
    wheel: Path, place: str, tmp_path: Path
) -> None:
    """With PIP_FIND_LINKS, the command of the script for fleets installs a wheel from a folder, or
    from its address.
    """
    script = (ROOT / "deploy" / "examples" / "rollout" / "install").read_text()
    (arguments,) = re.findall(r'(?m)^"\$home/bin/pip" (install .*)$', script)
    files = ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(wheel.parent))
    )
    with files:
        threading.Thread(target=files.serve_forever).start()
        find_links = (
            f"http://127.0.0.1:{files.server_port}/{wheel.name}"
            if place == "address"
            else str(wheel.parent)
        )
        # pip has nothing but the wheel: no index, no libraries.
        only = {
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_NO_INDEX": "1",
            "PIP_NO_DEPS": "1",
            "PIP_TARGET": str(tmp_path),
        }
        # The arguments use the script's variable ``version``. To sh, $0 is what follows -c and its
        # text: the Python of these tests, in place of that of the script.
        lines = f'version={__version__}; exec "$0" -m pip {arguments}'
        done = subprocess.run(
            ["/bin/sh", "-c", lines, sys.executable],
            env=environment(PIP_FIND_LINKS=find_links, **only),
            capture_output=True,
            text=True,
            check=False,
        )
        files.shutdown()
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "azure_scheduled_events_exporter" / "__init__.py").exists()


def test_links_of_exported_pages_lead_somewhere(installed: Path, tmp_path: Path) -> None:
    """A relative link in an exported page names an exported file; all other pages are linked by
    their address.
    """
    assert program(installed, "assets", "export", str(tmp_path)).returncode == 0
    found = [(page, target) for page in tmp_path.rglob("*.md") for target in links(page)]
    assert found
    relative = [(page, target) for page, target in found if not re.match(r"[a-z]+:", target)]
    assert not [
        f"{page.relative_to(tmp_path)}: {target}"
        for page, target in relative
        if not (page.parent / target.partition("#")[0]).exists()
    ]
