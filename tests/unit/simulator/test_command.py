"""The command simulate, as a process of its own, and its flags."""

import argparse
import signal
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.commands.cli import main
from azure_scheduled_events_exporter.errors import ExporterError, UsageError
from azure_scheduled_events_exporter.simulator import Happening, What
from azure_scheduled_events_exporter.simulator.catalog import SHIPPED
from azure_scheduled_events_exporter.simulator.command import add_arguments, line, run
from support.programs import COMMAND, Program


def arguments(*flags: str) -> argparse.Namespace:
    """Parse flags as the command does."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser.parse_args(flags)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_command_plays_tells_and_ends_on_a_signal(number: signal.Signals, tmp_path: Path) -> None:
    """The command prints the addresses, then each thing that happens, and ends with status 0 on
    SIGTERM and SIGINT.
    """
    flags = ["--scenario", "host-failure", "--speed", "5000", "--web.listen-address", "127.0.0.1:0"]
    with Program([COMMAND, "simulate", *flags], tmp_path / "output") as program:
        program.wait_for_line(r" completed .*\n")
        program.process.send_signal(number)
        assert program.process.wait(10) == 0
    # A title, a line for each of the five VMs, a heading, and what happens.
    title, first_vm, _, _, _, last_vm, _, *told = program.log.splitlines()
    assert title.startswith("Playing host-failure at speed 5000.")
    start = "azure-scheduled-events-exporter run --journal.path memory --imds.endpoint http://127.0.0.1:"
    assert first_vm.startswith(f"  vmss_0: {start}")
    assert last_vm.startswith(f"  vmss_4: {start}")
    assert last_vm.endswith("/vm/vmss_4 --web.listen-address 127.0.0.1:0")
    for text, what in zip(told, ("announced", "started", "completed"), strict=True):
        assert f" {what} Reboot Platform " in " ".join(text.split())


def test_list_prints_every_scenario_with_its_description(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """--list prints one line for each shipped scenario and ends."""
    assert run(arguments("--list")) == 0
    printed = capsys.readouterr().out.splitlines()
    assert [text.split()[0] for text in printed] == list(SHIPPED)
    [failure] = [text for text in printed if text.startswith("host-failure ")]
    assert failure.endswith(
        "A host fails without notice; the reboot of its VM first appears as Started."
    )


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["--scenario", "nothing"], "'nothing' is no scenario: choose from all, live-migration,"),
        (["--speed", "0"], "speed 0 cannot be used: it must be at least 0.001 and at most 10000"),
        (["--speed", "1e5"], "speed 100000 cannot be used"),
        (["--speed", "nan"], "speed nan cannot be used"),
        (["--fault", "418"], "'418' is no fault: choose from throttle"),
        (
            ["--newest-api-version", "newest"],
            "--newest-api-version: 'newest' is no version: write a date",
        ),
        (["--first-answer-delay", "2"], "--first-answer-delay: '2' is no duration"),
        (
            ["--web.listen-address", "10170"],
            "--web.listen-address: '10170' is no listen address: write host:port",
        ),
    ],
)
def test_impossible_flag_is_refused(flags: list[str], complaint: str) -> None:
    """A flag that makes no sense is refused in one line, for exit status 2."""
    with pytest.raises(UsageError, match=complaint) as refused:
        run(arguments(*flags))
    assert refused.value.exit_status == 2


def test_a_speed_that_is_no_number(capsys: pytest.CaptureFixture[str]) -> None:
    """The error says what to write."""
    for name in ("simulate", "demo"):
        assert main((name, "--speed", "fast")) == 2
        said = capsys.readouterr().err
        assert "--speed: 'fast' is no number: write how many times faster than Azure" in said


def test_address_in_use_ends_with_status_1() -> None:
    """A port in use is one line, for exit status 1, and signal handlers are restored."""
    before = signal.getsignal(signal.SIGTERM)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(
            ExporterError, match=f"cannot listen on {address}: Address already in use"
        ) as refused:
            run(arguments("--web.listen-address", address))
    assert refused.value.exit_status == 1
    assert signal.getsignal(signal.SIGTERM) is before


def test_lines_for_people() -> None:
    """A line has time, happening, event, VMs, and NotBefore or the approver. No name of a VM
    controls the terminal.
    """
    announced = Happening(
        event_id="A-B",
        event_type="Freeze",
        event_source="Platform",
        resources=("vm_0", "vm_1"),
        what=What.ANNOUNCED,
        at=60,
        scenario="drill",
        not_before=75,
    )
    assert line(announced) == (
        "00:01:00 announced   Freeze    Platform A-B vm_0,vm_1 NotBefore 00:01:15, in 15s (drill)"
    )
    approved = replace(announced, what=What.APPROVED, at=61.9, vm="vm_1", scenario="")
    assert line(approved) == (
        "00:01:01 approved    Freeze    Platform A-B vm_0,vm_1 by vm_1 (placed by hand)"
    )
    hostile = replace(
        announced, what=What.STARTED, not_before=None, resources=("\x1b]52;c;Zm9v\x07",)
    )
    assert line(hostile).endswith(" A-B \\x1b]52;c;Zm9v\\x07 (drill)")
