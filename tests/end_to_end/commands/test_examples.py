"""The examples of docs/approvals.md and deploy/examples: read unchanged, and run against the simulator."""

import configparser
import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self

import kubernetes_validate  # type: ignore[import-untyped]  # ships no types
import pytest
import tree_sitter
import tree_sitter_powershell
import yaml

from azure_scheduled_events_exporter.approval.policy import Action
from azure_scheduled_events_exporter.approval.policy_file import load
from azure_scheduled_events_exporter.core.event_types import EventType
from azure_scheduled_events_exporter.simulator import PlannedEvent, Scenario, Simulator, VirtualMachine, What
from support.paths import ROOT
from support.programs import COMMAND, PATIENCE, Exporter, environment, eventually

EXAMPLES = ROOT / "deploy" / "examples"
PAGE = ROOT / "docs" / "approvals.md"
LIBRARY = "/usr/local/lib/azure-scheduled-events"
POLICIES = ("stateless-web-tier", "database-primary", "spot-batch-workers", "primary-and-secondary")
HOOKS = ("load-balancer-drain", "kubectl-drain", "checkpoint-before-eviction", "patroni-switchover")
VMS = (VirtualMachine("vmss_0", scale_set="vmss"), VirtualMachine("vmss_1", scale_set="vmss"))
QUIET = Scenario("quiet", "Nothing happens.", VMS, ())

# What stands in for every program of somebody else: it writes down when it was called and how, and how it goes.
STAND_IN = """\
#!/bin/sh
echo "$(basename "$0") $*" >> "$CALLS"
[ -e "$CALLS.slow" ] && while [ -e "$CALLS.slow" ]; do sleep 0.05; done
[ ! -e "$CALLS.broken" ]
"""


def blocks(language: str) -> list[str]:
    """Return the page's blocks of code in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("name", POLICIES)
def test_policy_of_the_page(name: str) -> None:
    """The page shows each example policy just as its file has it."""
    assert (EXAMPLES / "policies" / f"{name}.yaml").read_text() in blocks("yaml")


def test_every_policy_of_the_page_is_good(tmp_path: Path) -> None:
    """Every policy on the page is taken, and no example lies about that the page does not show."""
    shown = blocks("yaml")
    assert len(shown) == len(POLICIES) == len(list((EXAMPLES / "policies").iterdir()))
    for number, text in enumerate(shown):
        path = tmp_path / f"{number}.yaml"
        path.write_text(text)
        assert load(path).rules


def test_keys_of_the_page(tmp_path: Path) -> None:
    """The page names every key of a policy file, and none that is not there."""
    path = tmp_path / "policy.yaml"
    known = set()
    for text in ("x: 1", "rules: [{action: hold, x: 1}]", "rules: [{action: hold, match: {x: 1}}]"):
        path.write_text(text if text.startswith("rules") else f"rules: []\n{text}")
        done = subprocess.run(
            [COMMAND, "check-config", "--approval.policy", str(path)],
            check=False,
            capture_output=True,
            text=True,
            env=environment(),
            timeout=PATIENCE,
        )
        assert done.returncode == 2
        known |= set(done.stderr.strip().rpartition("known here: ")[2].split(", "))
    page = PAGE.read_text().partition("## The policy file")[2].partition("**Several VMs.**")[0]
    named = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    assert named == known - {"rules"}


def test_example_policies_hold_what_is_deleted() -> None:
    """No example policy approves the deletion of a VM that Azure takes back."""
    for name in POLICIES:
        for rule in load(EXAMPLES / "policies" / f"{name}.yaml").rules:
            if rule.action is Action.HOLD and (rule.match.event_type is None or "Preempt" in rule.match.event_type):
                break
            if rule.match.event_source == frozenset({"User"}):
                continue
            assert rule.match.event_type is not None
            assert "Preempt" not in rule.match.event_type, (name, rule.name)


@pytest.mark.parametrize("hook", HOOKS)
def test_unit(hook: str, tmp_path: Path) -> None:
    """Each systemd unit is one that systemd takes, runs what lies beside it, and comes back whenever it ends."""
    text = (EXAMPLES / f"{hook}.service").read_text()
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign] # systemd's keys have capitals
    unit.read_string(text)
    assert unit["Service"]["Restart"] == "always"
    assert unit["Service"]["StateDirectory"] == hook
    assert unit["Install"]["WantedBy"] == "multi-user.target"
    runner, *_, run = unit["Service"]["ExecStart"].split()
    for program in (runner, run):
        assert os.access(EXAMPLES / Path(program).relative_to(LIBRARY), os.X_OK)
    assert Path(run).name == hook
    assert "Environment=AZURE_SCHEDULED_EVENTS_JOURNAL_PATH=/var/lib/azure-scheduled-events-exporter\n" in text
    verify = shutil.which("systemd-analyze")
    if verify:
        copy = tmp_path / f"{hook}.service"
        copy.write_text(text.replace(LIBRARY, str(EXAMPLES)))
        done = subprocess.run([verify, "verify", str(copy)], check=False, capture_output=True, text=True)
        complaints = [line for line in done.stderr.splitlines() if hook in line]
        assert not complaints


@pytest.mark.parametrize("hook", HOOKS)
def test_hook_is_a_good_script(hook: str, tmp_path: Path) -> None:
    """Each hook is plain POSIX sh, and refuses what it does not know."""
    path = EXAMPLES / hook
    assert path.read_text().startswith("#!/bin/sh\n")
    if shutil.which("shellcheck"):
        subprocess.run(["shellcheck", str(path)], check=True)
    shell = shutil.which("dash") or "sh"
    subprocess.run([shell, "-n", str(path)], check=True)
    done = subprocess.run([str(path), "destroy"], check=False, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, f"usage: {path} prepare|recover\n")


def test_rights_to_drain() -> None:
    """Kubernetes takes the role of kubectl-drain, which allows to drain and to uncordon and nothing else."""
    objects = list(yaml.safe_load_all((EXAMPLES / "kubectl-drain-rbac.yaml").read_text()))
    for each in objects:
        kubernetes_validate.validate(each, "1.31", strict=True)
    [role] = [each for each in objects if each["kind"] == "ClusterRole"]
    assert {(name, verb) for rule in role["rules"] for name in rule["resources"] for verb in rule["verbs"]} == {
        *(("nodes", "get"), ("nodes", "patch"), ("pods", "get"), ("pods", "list")),
        *(("pods/eviction", "create"), ("daemonsets", "get")),
    }


def test_powershell_runner() -> None:
    """PowerShell's grammar reads the runner for Windows, which knows the same transitions and deletions."""
    text = (EXAMPLES / "prepare-and-recover.ps1").read_text()
    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_powershell.language()))
    assert not parser.parse(text.encode()).root_node.has_error
    assert parser.parse(text.replace("finally {", "finally {{").encode()).root_node.has_error
    for word in ("detected", "returned", "events --follow --mine --since", "history --json"):
        assert word in text


@pytest.mark.parametrize("name", ["prepare-and-recover", "prepare-and-recover.ps1"])
def test_deletions_are_never_approved(name: str) -> None:
    """The runners list every type after which the VM is gone, so that no script approves its own VM's deletion."""
    text = (EXAMPLES / name).read_text()
    found = re.search(r"(?:DELETIONS = |\$deletions = @)\(([^)]*)\)", text)
    assert found
    assert {each.strip(" '\"") for each in found[1].split(",")} == {each for each in EventType if each.facts.deletes}


class Stage:
    """A simulator, an exporter with a journal, and a folder where substitutes of programs record their calls."""

    def __init__(self, stack: ExitStack, folder: Path, simulator: Simulator, exporter: Callable[..., Exporter]) -> None:
        self._stack = stack
        self._folder = folder
        self._start_exporter = exporter
        self._runs = 0
        self.simulator = simulator
        self.state = folder / "journal"
        self.file = folder / "calls"
        programs = folder / "bin"
        programs.mkdir()
        for name in ("az", "kubectl", "azcopy", "systemctl", "drain", "patronictl", "curl"):
            (programs / name).write_text(STAND_IN)
            (programs / name).chmod(0o755)
        self.environment = environment(
            PATH=f"{programs}:{Path(COMMAND).parent}:{os.environ['PATH']}",
            CALLS=str(self.file),
            STATE_DIRECTORY=str(folder),
            AZURE_SCHEDULED_EVENTS_JOURNAL_PATH=str(self.state),
            AZURE_SCHEDULED_EVENTS_IMDS_ENDPOINT=simulator.url,
            AZURE_SCHEDULED_EVENTS_POLL_INTERVAL="250ms",
        )

    @property
    def calls(self) -> list[str]:
        """The calls of the substitutes so far."""
        return self.file.read_text().splitlines() if self.file.exists() else []

    @property
    def handled(self) -> int:
        """The number of the last line that a script has handled."""
        file = self._folder / "state.json"
        return int(json.loads(file.read_text())["cursor"].rpartition(":")[2]) if file.exists() else 0

    @property
    def approved(self) -> list[str]:
        """The types of the events that were approved."""
        return [h.event_type for h in self.simulator.record if h.what is What.APPROVED]

    def exporter(self) -> Exporter:
        """Start the exporter, and wait until it has seen IMDS."""
        exporter = self._start_exporter(
            self.simulator.url, "--poll.interval", "250ms", "--journal.path", str(self.state)
        )
        exporter.shows("IMDS", lambda scrape: scrape.value("up"))
        return exporter

    def run(self, *command: str, **settings: str) -> "Script":
        """Start a script."""
        self._runs += 1
        output = self._folder / f"script-{self._runs}.log"
        return self._stack.enter_context(Script(command, output, {**self.environment, **settings}))

    def unit(self, hook: str, **settings: str) -> "Script":
        """Start what the unit of ``hook`` starts, with its environment and these settings."""
        text = (EXAMPLES / f"{hook}.service").read_text()
        in_unit = dict(
            pair.split("=", 1) for line in re.findall("^Environment=(.*)$", text, re.MULTILINE) for pair in line.split()
        )
        del in_unit["AZURE_SCHEDULED_EVENTS_JOURNAL_PATH"]
        (command,) = re.findall("^ExecStart=(.*)$", text, re.MULTILINE)
        return self.run(*command.replace(LIBRARY, str(EXAMPLES)).split(), **{**in_unit, **settings})

    def slow(self, *, on: bool) -> None:
        """Make the substitutes wait, or end."""
        marker = Path(f"{self.file}.slow")
        marker.touch() if on else marker.unlink()

    def broken(self, *, on: bool) -> None:
        """Make the substitutes fail or succeed."""
        marker = Path(f"{self.file}.broken")
        marker.touch() if on else marker.unlink()


class Script:
    """A script in a session of its own, so that all its processes end together, as under systemd."""

    def __init__(self, command: tuple[str, ...], output: Path, env: dict[str, str]) -> None:
        self.output = output
        with output.open("wb") as file:
            self.process = subprocess.Popen(
                command,
                stdout=file,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=env,
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """End all its processes at once."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE)


@pytest.fixture
def stage(tmp_path: Path, start_exporter: Callable[..., Exporter]) -> Iterator[Stage]:
    """Return a stage on which nothing happens yet."""
    with ExitStack() as stack:
        simulator = stack.enter_context(Simulator(QUIET))
        yield Stage(stack, tmp_path, simulator, start_exporter)


def scenario(
    kind: str,
    *,
    started_for: float = 2.0,
    cancelled_at: float | None = None,
    notice: float = 900,
    duration: int = -1,
    resources: tuple[str, ...] = ("vmss_0",),
) -> Scenario:
    """Return a scenario with one event of the first VM, which begins half a second after its approval."""
    event = PlannedEvent(
        kind,
        resources,
        duration=duration,
        announced_at=0.2,
        notice=notice,
        started_for=started_for,
        approval_delay=0.5,
        cancelled_at=cancelled_at,
    )
    return Scenario(kind, "One event.", VMS, (event,))


def az(what: str) -> str:
    """Return how the load balancer's program is called, with the settings of the unit."""
    return (
        f"az network nic ip-config address-pool {what} --output none --resource-group production --nic-name web-0-nic "
        "--ip-config-name ipconfig1 --lb-name web --address-pool web-vms"
    )


def test_load_balancer_drain(stage: Stage) -> None:
    """The VM leaves the pool, the event is approved when the drain has ended and not before, and the VM comes back."""
    exporter = stage.exporter()
    stage.slow(on=True)
    stage.unit("load-balancer-drain", DRAIN_SECONDS="0")
    stage.simulator.play(scenario("Reboot"))
    eventually(lambda: stage.calls == [az("remove")], "the VM leaves the pool")
    polls = exporter.scrape().total("polls_total")
    exporter.shows("more polls", lambda scrape: scrape.total("polls_total") > polls + 4)
    assert not stage.approved
    stage.slow(on=False)
    eventually(lambda: stage.approved == ["Reboot"], "the approval")
    eventually(lambda: stage.calls == [az("remove"), az("add")], "the VM comes back")
    exporter.shows("the operator", lambda s: s.total("approval_latency_seconds_count", approved_by="operator") == 1)
    assert exporter.scrape().transitions() == {"detected": 1, "approved": 1, "started": 1, "completed": 1}


def test_kubectl_drain(stage: Stage) -> None:
    """The node is drained, the event approved, and the node takes pods again at the end; a freeze is let pass."""
    exporter = stage.exporter()
    state = stage.file.parent / "state.json"
    state.write_text('{"seq": 0, "open": []}')  # of an earlier version
    script = stage.unit("kubectl-drain", NODE="aks-pool1-vmss000000")
    stage.simulator.play(scenario("Freeze", notice=1, started_for=0.5))
    exporter.shows("its end", lambda scrape: scrape.total("transitions_total", transition="completed") == 1)
    stage.simulator.play(scenario("Redeploy"))
    drain = "kubectl drain aks-pool1-vmss000000 --ignore-daemonsets --delete-emptydir-data --timeout=5m"
    eventually(lambda: stage.calls == [drain, "kubectl uncordon aks-pool1-vmss000000"], "drain and uncordon")
    assert stage.approved == ["Redeploy"]
    assert script.process.poll() is None
    # What it keeps is the last line that it has handled, and what is still to be recovered from.
    eventually(lambda: json.loads(state.read_text())["open"] == [], "the state")
    assert json.loads(state.read_text()).keys() == {"cursor", "open"}


def test_checkpoint_before_eviction(stage: Stage) -> None:
    """Work is saved before an eviction, which is not approved; if it is cancelled, the worker continues."""
    stage.exporter()
    stage.unit("checkpoint-before-eviction")
    stage.simulator.play(scenario("Preempt", notice=60))
    blob = "https://example.blob.core.windows.net/checkpoints/batch-worker"
    saved = [
        "systemctl stop batch-worker.service",
        f"azcopy copy /var/lib/batch-worker/checkpoint {blob} --overwrite=true",
    ]
    eventually(lambda: stage.calls == saved, "the checkpoint")
    stage.simulator.set_document([])
    eventually(lambda: stage.calls == [*saved, "systemctl start batch-worker.service"], "the worker goes on")
    assert not stage.approved


def test_killed_while_it_drains(stage: Stage) -> None:
    """Killed during a drain, together with the exporter, the script drains again, then approves, and recovers."""
    exporter = stage.exporter()
    stage.slow(on=True)
    script = stage.unit("kubectl-drain", NODE="node")
    stage.simulator.play(scenario("Reboot"))
    eventually(lambda: len(stage.calls) == 1, "the drain")
    script.kill()
    exporter.kill()
    assert not stage.approved
    stage.slow(on=False)
    stage.exporter()
    stage.unit("kubectl-drain", NODE="node")
    eventually(lambda: stage.calls[-1] == "kubectl uncordon node", "recovery")
    assert [call.split()[1] for call in stage.calls] == ["drain", "drain", "uncordon"]
    assert stage.approved == ["Reboot"]


def test_killed_while_the_event_goes_on(stage: Stage) -> None:
    """A script that is killed after its drain does not drain again, and recovers at the end."""
    stage.exporter()
    script = stage.unit("kubectl-drain", NODE="node")
    stage.simulator.play(scenario("Reboot", started_for=5))
    eventually(lambda: stage.handled >= 1, "the drain is noted as done")
    script.kill()
    stage.unit("kubectl-drain", NODE="node")
    eventually(lambda: stage.calls[-1] == "kubectl uncordon node", "recovery")
    assert [call.split()[1] for call in stage.calls] == ["drain", "uncordon"]


def test_away_at_the_end(stage: Stage) -> None:
    """A script that was killed while the event went on, as by the reboot itself, recovers when it is back, once."""
    exporter = stage.exporter()
    script = stage.unit("kubectl-drain", NODE="node")
    stage.simulator.play(scenario("Reboot", started_for=3))
    eventually(lambda: stage.handled >= 1, "the drain is noted as done")
    script.kill()
    exporter.shows("its end", lambda scrape: scrape.total("transitions_total", transition="completed") == 1)
    script = stage.unit("kubectl-drain", NODE="node")
    eventually(lambda: [call.split()[1] for call in stage.calls] == ["drain", "uncordon"], "recovery")
    script.kill()
    # Begun anew without its state, it takes what is over for history.
    (stage.file.parent / "state.json").unlink()
    stage.unit("kubectl-drain", NODE="node")
    stage.simulator.play(scenario("Redeploy"))
    eventually(lambda: len(stage.calls) == 4, "the next event")
    assert [call.split()[1] for call in stage.calls] == ["drain", "uncordon", "drain", "uncordon"]
    assert stage.approved == ["Reboot", "Redeploy"]


def test_drain_that_fails(stage: Stage) -> None:
    """A drain that fails approves nothing, ends the script for systemd to start it again, and is then tried again."""
    stage.exporter()
    stage.broken(on=True)
    script = stage.unit("kubectl-drain", NODE="node")
    stage.simulator.play(scenario("Reboot"))
    assert script.process.wait(PATIENCE) == 1
    assert script.output.read_text().splitlines()[-1] == (
        f"prepare-and-recover: {EXAMPLES / 'kubectl-drain'} prepare failed with 1; it is tried again after a restart"
    )
    assert not stage.approved
    stage.broken(on=False)
    stage.unit("kubectl-drain", NODE="node")
    eventually(lambda: stage.calls[-1] == "kubectl uncordon node", "recovery")
    assert [call.split()[1] for call in stage.calls] == ["drain", "drain", "uncordon"]
    assert stage.approved == ["Reboot"]


def test_shortest_drain(stage: Stage) -> None:
    """The three lines of the page follow, drain and approve, in this order."""
    (text,) = [block for block in blocks("sh") if "--follow" in block]
    stage.exporter()
    stage.slow(on=True)
    script = stage.run("sh", "-c", text)
    eventually(lambda: _reads_journal(script), "the script follows")
    stage.simulator.play(scenario("Reboot"))
    eventually(lambda: stage.calls == ["drain "], "the drain")
    assert not stage.approved
    stage.slow(on=False)
    eventually(lambda: stage.approved == ["Reboot"], "the approval")


def test_shared_event_is_not_approved(stage: Stage) -> None:
    """One VM that is ready does not start an event of two VMs, except with `--approve=any`."""
    stage.exporter()
    script = stage.unit("kubectl-drain", NODE="node")
    both = ("vmss_0", "vmss_1")
    stage.simulator.play(scenario("Reboot", resources=both))
    eventually(lambda: "also affects other VMs: vmss_0, vmss_1" in script.output.read_text(), "the reason")
    eventually(lambda: stage.handled >= 1, "the line is handled")
    assert stage.calls[-1].startswith("kubectl drain")
    assert not stage.approved
    script.kill()
    stage.run(str(EXAMPLES / "prepare-and-recover"), "--approve=any", str(EXAMPLES / "kubectl-drain"), NODE="node")
    stage.simulator.play(scenario("Redeploy", resources=both))
    eventually(lambda: stage.approved == ["Redeploy"], "the approval")


def test_shared_event_waits_for_all(stage: Stage, tmp_path: Path) -> None:
    """With a shared folder of marks, the last VM to be ready approves an event of two VMs."""
    stage.exporter()
    marks = tmp_path / "marks"
    runner = (str(EXAMPLES / "prepare-and-recover"), "--approve=all", "--marks", str(marks))
    first = stage.run(*runner, str(EXAMPLES / "kubectl-drain"), NODE="first")
    stage.simulator.play(scenario("Reboot", resources=("vmss_0", "vmss_1")))
    eventually(lambda: "waits for vmss_1" in first.output.read_text(), "the first one waits")
    assert not stage.approved
    (tmp_path / "second").mkdir()
    second = {
        "STATE_DIRECTORY": str(tmp_path / "second"),
        "AZURE_SCHEDULED_EVENTS_JOURNAL_PATH": str(tmp_path / "second"),
        "AZURE_SCHEDULED_EVENTS_IMDS_ENDPOINT": stage.simulator.vm_url("vmss_1"),
        "AZURE_SCHEDULED_EVENTS_POLL_INTERVAL": "1s",  # its commands share the five requests a second of this VM
    }
    stage.run(*runner, str(EXAMPLES / "kubectl-drain"), NODE="second", **second)
    eventually(lambda: stage.approved == ["Reboot"], "the last one approves")
    eventually(lambda: "kubectl uncordon first" in stage.calls, "recovery")
    eventually(lambda: not [mark for mark in marks.rglob("*") if mark.is_file()], "no mark is left")


def test_deletion_is_not_approved(stage: Stage) -> None:
    """A Terminate is prepared for, and keeps its whole notice."""
    stage.exporter()
    script = stage.unit("kubectl-drain", NODE="node")
    stage.simulator.play(scenario("Terminate"))
    eventually(lambda: "deletes this VM" in script.output.read_text(), "the reason")
    assert stage.calls[-1].startswith("kubectl drain")
    assert not stage.approved


def test_hook_knows_the_event(stage: Stage, tmp_path: Path) -> None:
    """Every field of the event is in the environment of the hook."""
    hook = tmp_path / "hook"
    hook.write_text('#!/bin/sh\nenv | grep ^EVENT_ | sort > "$CALLS"\n')
    hook.chmod(0o755)
    stage.exporter()
    stage.run(str(EXAMPLES / "prepare-and-recover"), str(hook))
    stage.simulator.play(scenario("Freeze", duration=5, resources=("vmss_0", "vmss_1")))
    told = dict(line.split("=", 1) for line in eventually(lambda: stage.calls, "the hook"))
    assert told["EVENT_TYPE"] == "Freeze"
    assert told["EVENT_SOURCE"] == "Platform"
    assert told["EVENT_STATE"] == "Scheduled"
    assert told["EVENT_SCOPE"] == "self"
    assert told["EVENT_RESOURCES"] == "vmss_0,vmss_1"
    assert float(told["EVENT_DURATION_SECONDS"]) == 5
    assert float(told["EVENT_NOTICE_SECONDS"]) > 800
    assert told["EVENT_NOT_BEFORE"].endswith("Z")
    assert told["EVENT_OUTCOME"] == ""


def test_stopped_runner_leaves_nothing_behind(stage: Stage) -> None:
    """SIGTERM to the runner alone ends its follower too, quietly."""
    stage.exporter()
    script = stage.unit("kubectl-drain", NODE="node")
    eventually(lambda: _reads_journal(script), "the follower")
    script.process.terminate()
    assert script.process.wait(PATIENCE) == 0
    assert not _reads_journal(script)
    assert script.output.read_text() == ""


SWITCHOVER = "patronictl -c /etc/patroni/config.yml switchover main --leader db-0 --force"
ASKED = "curl --silent --fail --output /dev/null http://127.0.0.1:8008/primary"


def test_patroni_switches_over(stage: Stage) -> None:
    """Before a Reboot the leader role is moved to another VM, and then the event is approved."""
    stage.exporter()
    stage.unit("patroni-switchover")
    stage.simulator.play(scenario("Reboot"))
    eventually(lambda: stage.approved == ["Reboot"], "the approval")
    assert stage.calls == [ASKED, SWITCHOVER]


@pytest.mark.parametrize(("duration", "calls"), [(5, []), (30, [ASKED, SWITCHOVER]), (-1, [ASKED, SWITCHOVER])])
def test_patroni_and_a_freeze(duration: int, calls: list[str], stage: Stage) -> None:
    """A short Freeze is left alone; a long one, or one of unknown length, is preceded by a switchover."""
    stage.exporter()
    stage.unit("patroni-switchover")
    stage.simulator.play(scenario("Freeze", duration=duration))
    eventually(lambda: stage.approved == ["Freeze"], "the approval")
    assert stage.calls == calls


def test_patroni_switchover_that_fails(stage: Stage) -> None:
    """Without a switchover, nothing is approved on the leader; a replica needs no switchover."""
    hook = str(EXAMPLES / "patroni-switchover")
    stage.broken(on=True)  # curl fails as well: this VM is not the leader
    settings = {
        **stage.environment,
        "EVENT_TYPE": "Reboot",
        "EVENT_DURATION_SECONDS": "",
        "CLUSTER": "c",
        "MEMBER": "m",
    }
    done = subprocess.run([hook, "prepare"], env=settings, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "this VM is not the leader: no switchover\n")
    (stage.file.parent / "bin" / "curl").write_text("#!/bin/sh\n")
    done = subprocess.run([hook, "prepare"], env=settings, check=False, capture_output=True, text=True)
    assert done.returncode == 1


def _reads_journal(script: Script) -> bool:
    """Whether a process of the script's session has the journal open."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.getpgid(int(process.name)) == script.process.pid:
                links = [str(link.readlink()) for link in (process / "fd").iterdir()]
                if any("journal.sqlite" in link for link in links):
                    return True
        except OSError:  # it has just ended
            continue
    return False
