"""What GitHub runs for this project: valid, pinned, with no more rights than it needs, and in step
with the project.
"""

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.paths import ROOT
from support.programs import environment

GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
FORMS = sorted(
    path for path in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml"
)
# By workflow and job: the rights to write that the job cannot do without.
PUSHES_AND_SIGNS = {"packages", "id-token", "attestations"}
WRITES: dict[str, dict[str, set[str]]] = {
    "ci": {},
    "image": {"build": {"packages"}, "tag": PUSHES_AND_SIGNS},
    "release": {
        "attest": {"id-token", "attestations"},
        "image": PUSHES_AND_SIGNS,
        "chart": PUSHES_AND_SIGNS,
        "pypi": {"id-token"},
        "github": {"contents"},
    },
}


def content(path: Path) -> Any:
    """The parsed file; the key ``on`` stays a word, as GitHub reads it."""
    return yaml.load(path.read_text(), Loader=yaml.BaseLoader)  # noqa: S506 - BaseLoader makes texts only


def jobs(path: Path) -> dict[str, dict[str, Any]]:
    """The jobs of a workflow by their id."""
    found: dict[str, dict[str, Any]] = content(path)["jobs"]
    return found


def steps(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every step with the id of its job."""
    for name, job in jobs(path).items():
        for step in job.get("steps", ()):
            yield name, step


def scripts(path: Path) -> Iterator[str]:
    """The shell text of every step that runs one."""
    return (step["run"] for _, step in steps(path) if "run" in step)


@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("vendor.github-workflows", WORKFLOWS),
        ("custom.github-workflows-require-timeout", [GITHUB / "workflows" / "ci.yml"]),
        ("vendor.dependabot", [GITHUB / "dependabot.yml"]),
        ("vendor.github-issue-forms", FORMS),
        ("vendor.github-issue-config", [GITHUB / "ISSUE_TEMPLATE" / "config.yml"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_github_can_read_them(schema: str, files: list[Path]) -> None:
    """Every file has the form that GitHub's own schemas ask for."""
    assert files
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *map(str, files)]
    done = subprocess.run(check, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
class TestWorkflow:
    """What holds for each workflow."""

    def test_actions_are_pinned(self, path: Path) -> None:
        """A moved tag of an action does not affect a run: each action is pinned by commit, with its
        version.
        """
        pinned = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
        for line in path.read_text().splitlines():
            if found := re.search(r"uses: (.*)", line):
                assert pinned.fullmatch(found[1]) or found[1].startswith("./.github/workflows/"), (
                    line
                )

    def test_nothing_foreign_becomes_shell(self, path: Path) -> None:
        """No title, branch or tag is pasted into a script, where it would be run: values come as
        variables.
        """
        for script in scripts(path):
            assert "${{" not in script

    def test_rights(self, path: Path) -> None:
        """A run may read the sources. What a job may write is in WRITES, and the workflow has a
        reason beside it.
        """
        assert content(path)["permissions"] == {"contents": "read"}
        for name, job in jobs(path).items():
            writes = {
                right for right, level in job.get("permissions", {}).items() if level == "write"
            }
            assert writes == WRITES[path.stem].get(name, set()), name
        for line in path.read_text().splitlines():
            assert ": write" not in line or re.search(r": write # \w+", line), line

    def test_credentials_do_not_lie_around(self, path: Path) -> None:
        """The token of a run is not left in the checkout, where every later step could take it."""
        checkouts = [
            step for _, step in steps(path) if step.get("uses", "").startswith("actions/checkout@")
        ]
        assert checkouts
        assert all(step["with"]["persist-credentials"] == "false" for step in checkouts)

    def test_what_it_runs_exists(self, path: Path) -> None:
        """Every script is valid shell, and every make target and program of ours in it is there."""
        targets = set(re.findall(r"(?m)^([a-z-]+):", (ROOT / "Makefile").read_text()))
        for script in scripts(path):
            subprocess.run(["bash", "-n"], input=script, text=True, check=True)
            assert set(re.findall(r"(?m)^\s*make ([a-z-]+)", script)) <= targets
            for program in re.findall(r"(?m)(?:^|\s)(scripts/[a-z-]+)", script):
                assert (ROOT / program).stat().st_mode & 0o111, program


def test_every_supported_python_is_tested() -> None:
    """The Pythons that the package names are those that tests and wheel are run on."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [
        found[1] for each in project["classifiers"] if (found := re.search(r":: (3\.\d+)$", each))
    ]
    for job in ("test", "installed"):
        assert (
            jobs(GITHUB / "workflows" / "ci.yml")[job]["strategy"]["matrix"]["python-version"]
            == named
        )
    assert project["requires-python"] == f">={named[0]}"


def test_what_is_published_is_built_once() -> None:
    """PyPI, the release and the attestations get the files that one job has built and
    checked.
    """
    release = GITHUB / "workflows" / "release.yml"
    builders = {name for name, step in steps(release) if "make release" in step.get("run", "")}
    assert builders == {"build"}
    for job in ("attest", "pypi", "github"):
        downloaded = [
            step["with"]["name"]
            for name, step in steps(release)
            if name == job and "name" in step.get("with", {})
        ]
        assert "dist" in downloaded, job
    assert set(jobs(release)["attest"]["needs"]) == {"ci", "build"}, "ci has the tests"


def jobs_before(name: str, workflow: dict[str, dict[str, Any]]) -> set[str]:
    """Return every job that has ended when the job ``name`` begins."""
    needed = workflow[name].get("needs", [])
    direct = {needed} if isinstance(needed, str) else set(needed)
    return direct.union(*(jobs_before(each, workflow) for each in direct))


def test_nothing_is_public_before_somebody_has_approved_it() -> None:
    """The first job that writes anything waits for an approval, which its environment asks for.
    Every other job that writes comes after it.
    """
    release = jobs(GITHUB / "workflows" / "release.yml")
    assert release["attest"]["environment"] == "release"
    writing = set(WRITES["release"]) - {"attest"}
    assert [name for name in writing if "attest" not in jobs_before(name, release)] == []


def test_every_file_of_a_release_is_attested_and_attached() -> None:
    """Each file that make release builds is a subject of both attestations, and is attached to the
    release.
    """
    built = {"dist/*", "release/*.pyz", "release/*.deb", "release/*.tgz", "release/*.tar.gz"}
    release = GITHUB / "workflows" / "release.yml"
    attested = [
        set(step["with"]["subject-path"].split())
        for name, step in steps(release)
        if name == "attest" and "subject-path" in step.get("with", {})
    ]
    assert attested == [built, built]
    (attached,) = (
        step["run"] for name, step in steps(release) if "gh release" in step.get("run", "")
    )
    assert built | {"release/SHA256SUMS", "release/sbom.cdx.json"} <= set(attached.split())


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_make_uses_the_python_of_its_job(path: Path) -> None:
    """Where make sets up an environment, the job says of which Python: otherwise it is the
    system's, whatever the job has installed.
    """
    for name, step in steps(path):
        if re.search(r"^make ", step.get("run", ""), re.MULTILINE):
            job = jobs(path)[name]
            chosen = {**job.get("env", {}), **step.get("env", {})}.get("PYTHON")
            # In a container, the image of Python has its own there, and Debian another one.
            of_the_job = "/usr/local/bin/python3" if "container" in job else "python"
            assert chosen == of_the_job, name
