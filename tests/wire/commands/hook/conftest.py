"""What the tests of the command ``hook`` share: IMDS, hooks and an exporter."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.simulator import Scenario, Simulator, VirtualMachine
from support.events.hooked_vm import SCRIPT, Start
from support.programs import COMMAND, Exporter, Program, environment

VMS = (VirtualMachine("vm_0"), VirtualMachine("vm_1"), VirtualMachine("vm_2"))


@pytest.fixture
def imds() -> Iterator[Simulator]:
    """Return a simulator of three VMs without events."""
    with Simulator(Scenario("quiet", "Nothing happens.", VMS, ())) as simulator:
        yield simulator


@pytest.fixture
def hook(imds: Simulator, tmp_path: Path) -> Iterator[Start]:
    """Start hooks, ``hook(*options, script="exit 1", vm="vm_0")``, that end with the test;
    ``script`` is added. Without ``file``, the script and its log are named after the VM.
    ``through``: the command line that starts the hook, which is added to it.
    """
    started: list[Program] = []

    def start(
        *options: str,
        script: str = "",
        vm: str = "vm_0",
        file: str = "",
        endpoint: str = "",
        through: Sequence[str] = (),
        **env: str,
    ) -> Program:
        name = file or vm
        path = tmp_path / f"{name}.sh"
        path.write_text(SCRIPT.format(log=tmp_path / f"{name}.log") + script + "\n")
        path.chmod(0o755)
        url = f"{endpoint or imds.url}/vm/{vm}"
        flags = ("--imds.endpoint", url, "--journal.path", str(tmp_path / vm))
        output = tmp_path / f"hook-{len(started)}.log"
        arguments = ["hook", *flags, "--poll.interval", "300ms", *options, "--", str(path)]
        program = Program([*through, COMMAND, *arguments], output, **environment(**env))
        started.append(program)
        return program.__enter__()

    yield start
    for program in started:
        if program.process.poll() is None:
            program.terminate()


@pytest.fixture
def exporter(imds: Simulator, start_exporter: Callable[..., Exporter], tmp_path: Path) -> Exporter:
    """Return the exporter of the first VM."""
    return start_exporter(
        f"{imds.url}/vm/vm_0", "--journal.path", str(tmp_path / "vm_0"), "--poll.interval", "300ms"
    )
