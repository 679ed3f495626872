"""``assets export``: what a values file fills in, and what a later export must not reset unseen."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest
import yaml

from azure_scheduled_events_exporter.commands.cli import main
from support.paths import ROOT

PLACEHOLDER = re.compile(rb"REPLACE|example\.com")


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What an export writes with the values file of docs/alerts.md and a label to keep."""
    folder = tmp_path_factory.mktemp("export")
    (sample,) = re.findall(
        r"```yaml\n(pager\..*?)```", (ROOT / "docs" / "alerts.md").read_text(), re.DOTALL
    )
    (folder / "values.yaml").write_text(f"{sample}labels.keep: [team]\n")
    assert (
        main(
            ["assets", "export", str(folder / "rendered"), "--values", str(folder / "values.yaml")]
        )
        == 0
    )
    return folder / "rendered"


def test_no_placeholder_is_left(exported: Path) -> None:
    """After the documented sample of a values file, no exported file has an address or key to fill
    in.
    """
    files = [path for path in exported.rglob("*") if path.is_file()]
    assert len(files) > 50, "an export has alerts, dashboards, runbooks and configurations"
    assert [str(path) for path in files if PLACEHOLDER.search(path.read_bytes())] == []


def test_no_key_goes_to_exporters(exported: Path) -> None:
    """The values file for exporters is the whole values file without the receivers, whose settings
    have keys.
    """
    whole = yaml.safe_load((exported / "alerts/values.yaml").read_text())
    for_exporters = yaml.safe_load((exported / "alerts/exporter/values.yaml").read_text())
    assert {name.partition(".")[0] for name in whole.keys() - for_exporters.keys()} == {
        "pager",
        "chat",
        "tickets",
    }
    assert for_exporters == {name: whole[name] for name in for_exporters}
    assert for_exporters["labels.keep"] == ["team"]


def test_settings_are_not_reset_unseen(exported: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An export over another one is refused if it would reset settings of that one, and names them.
    With the values file that was exported, it changes nothing.
    """
    before = {path: path.read_bytes() for path in exported.rglob("*") if path.is_file()}
    words = (
        r"was exported with settings that this export would reset: labels\.keep, .*--values"
        r" .*/alerts/values\.yaml, or export to another folder"
    )
    for flags in ((), ("--set", "group.wait=1m")):
        assert main(["assets", "export", str(exported), *flags]) == 2
        assert re.search(words, capsys.readouterr().err)
    assert (
        main(["assets", "export", str(exported), "--values", str(exported / "alerts/values.yaml")])
        == 0
    )
    assert {path: path.read_bytes() for path in before} == before


def test_a_setting_is_changed_on_purpose(tmp_path: Path) -> None:
    """An export without --values may change a setting that --set names."""
    target = str(tmp_path / "rendered")
    for wait in ("5s", "20s"):
        assert main(["assets", "export", target, "--set", f"group.wait={wait}"]) == 0


KEYS = (
    *("--set", "pager.pagerduty-key=HIDDEN1"),
    *("--set", "pager.opsgenie-key=HIDDEN2"),
    *("--set", "pager.webhook-url=https://pager.example.org/HIDDEN3"),
    *("--set", "chat.slack-url=https://chat.example.org/HIDDEN4"),
    *("--set", "tickets.webhook-url=https://tickets.example.org/HIDDEN5"),
    *("--set", "group.wait=5s"),  # no key: a file with this value alone stays readable
)


@pytest.fixture
def usual_umask() -> Iterator[None]:
    """Let others read new files."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def closed_to_others(files: Iterable[Path]) -> set[Path]:
    """Return those of ``files`` that neither the group nor others may read."""
    return {path for path in files if not path.stat().st_mode & 0o044}


@pytest.mark.usefixtures("usual_umask")
def test_keys_are_for_the_own_user(tmp_path: Path) -> None:
    """Exactly the files with a key of a receiver are for this user alone, also over files of an
    earlier export, unless --world-readable is given.
    """
    export = ["assets", "export", str(tmp_path / "rendered")]
    assert main(export) == 0
    for path in (tmp_path / "rendered").rglob("*.y*ml"):
        path.chmod(0o644)
    assert main([*export, *KEYS]) == 0
    files = [path for path in (tmp_path / "rendered").rglob("*") if path.is_file()]
    secret = {path for path in files if b"HIDDEN" in path.read_bytes()}
    assert len(secret) == 4, "three forms of Alertmanager's configuration, and the values"
    assert closed_to_others(files) == secret
    assert main([*export, *KEYS, "--world-readable"]) == 0
    assert closed_to_others(files) == set()


def test_links_are_replaced(tmp_path: Path) -> None:
    """An export writes into the folder that it is given, not through a link that is in it."""
    rendered = tmp_path / "rendered"
    elsewhere = tmp_path / "elsewhere"
    (rendered / "alerts" / "alertmanager").mkdir(parents=True)
    (elsewhere / "folder").mkdir(parents=True)
    (elsewhere / "file").write_text("precious\n")
    (rendered / "alerts/alertmanager/alertmanager.yml").symlink_to(elsewhere / "file")
    (rendered / "dashboards").symlink_to(elsewhere / "folder")
    assert main(["assets", "export", str(rendered), *KEYS]) == 0
    assert (elsewhere / "file").read_text() == "precious\n"
    assert not list((elsewhere / "folder").iterdir())
    assert list((rendered / "dashboards").glob("*.json"))
    assert "HIDDEN1" in (rendered / "alerts/alertmanager/alertmanager.yml").read_text()


def test_a_severity_that_nothing_routes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An export says which word makes tickets, because no route names it."""
    flags = ["--set", "severities=Reboot=P1,Freeze=P3", "--set", "severities.paging=P3,critical"]
    assert main(["assets", "export", str(tmp_path), *flags]) == 0
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "Warning" in line]
    assert line.startswith("Warning: no route names the severity P1, so its alerts make tickets.")
    assert line.endswith("add it: severities.paging=P3,critical,P1")


# Settings that are emptied, and the receivers that then notify nobody. As shipped, each setting of
# a receiver has a placeholder. The chat is a way to notify of both receivers, pager and tickets.
@pytest.mark.parametrize(
    ("empty", "warnings"),
    [
        (["pager.webhook-url", "tickets.email-to", "tickets.webhook-url"], []),
        (["tickets.email-to", "tickets.webhook-url", "chat.slack-url"], ["tickets"]),
        (
            ["pager.webhook-url", "pager.pagerduty-key", "pager.opsgenie-key", "chat.slack-url"],
            ["pager"],
        ),
    ],
)
def test_a_receiver_that_notifies_nobody(
    empty: Sequence[str],
    warnings: Sequence[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """An export says which receiver is left without a way to notify."""
    flags = [flag for name in empty for flag in ("--set", f"{name}=")]
    assert main(["assets", "export", str(tmp_path), *flags]) == 0
    warned = [line for line in capsys.readouterr().err.splitlines() if "Warning" in line]
    expected = [rf"Warning: .* {receiver}\b.* notifies nobody.*" for receiver in warnings]
    assert len(warned) == len(expected)
    for line, pattern in zip(warned, expected, strict=True):
        assert re.fullmatch(pattern, line)
