"""The hooks of deploy/examples, and the drains of docs/approvals.md and docs/follow.md.

What they call around an event.

Programs of somebody else are substitutes, which write down how they were called and answer what a
test says.
"""

import configparser
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.simulator import (
    PlannedEvent,
    Scenario,
    Simulator,
    VirtualMachine,
    What,
)
from support.events.gate import Gate, Treatment, Way
from support.paths import ROOT
from support.programs import COMMAND, NOBODY, PATIENCE, Exporter, Program, environment, eventually
from support.servers.http_peer import HttpServer, Request, Response

EXAMPLES = ROOT / "deploy" / "examples"
HOOKS = (
    "load-balancer-drain",
    "kubectl-drain",
    "checkpoint-before-eviction",
    "patroni-switchover",
    "mysql-switchover",
    "load-balancer-admin-state",
    "pacemaker-node-health",
    "cloudnative-pg-switchover",
    "redis-sentinel-failover",
)
LIBRARY = "/usr/local/lib/azure-scheduled-events"
INSTALLED = "/opt/azure-scheduled-events-exporter/bin/azure-scheduled-events-exporter"
PAGE = "".join((ROOT / "docs" / page).read_text() for page in ("approvals.md", "follow.md"))
FAST = ("--poll.interval", "250ms")
SUBSTITUTE = """\
#!/bin/sh
said="$(basename "$0") $*"
echo "$said" >>"$CALLS"
while [ -e "$CALLS.slow" ]; do sleep 0.05; done
while IFS='|' read -r pattern status answer; do
    case $said in $pattern) [ -z "$answer" ] || echo "$answer"; exit "$status" ;; esac
done <"$CALLS.answers"
"""


class Stage:
    """A folder in which the substitutes of programs record their calls."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.file, self.journal = folder, folder / "calls", folder / "journal"
        programs = folder / "bin"
        programs.mkdir()
        for name in (
            "az",
            "kubectl",
            "azcopy",
            "systemctl",
            "drain",
            "undrain",
            "patronictl",
            "mysql",
            "crm_attribute",
            "crm_node",
            "crm_resource",
            "redis-cli",
        ):
            (programs / name).write_text(SUBSTITUTE)
            (programs / name).chmod(0o755)
        self.environment = environment(
            PATH=f"{programs}:{Path(COMMAND).parent}:{os.environ['PATH']}",
            CALLS=str(self.file),
            STATE_DIRECTORY=str(folder),
            AZURE_SCHEDULED_EVENTS_JOURNAL_PATH=str(self.journal),
            AZURE_SCHEDULED_EVENTS_POLL_INTERVAL="250ms",
        )
        self.answers({})

    def answers(self, said: Mapping[str, tuple[int, str]]) -> None:
        """Let calls end with a status and an output, by patterns of the shell; all others succeed
        in silence.
        """
        lines = (f"{pattern}|{status}|{text}\n" for pattern, (status, text) in said.items())
        self.file.with_name("calls.answers").write_text("".join(lines))

    def slow(self, *, on: bool) -> None:
        """Make the substitutes wait, or end."""
        marker = self.file.with_name("calls.slow")
        marker.touch() if on else marker.unlink()

    @property
    def calls(self) -> list[str]:
        """The calls so far."""
        return self.file.read_text().splitlines() if self.file.exists() else []

    def hook(self, hook: str, what: str, **settings: str) -> tuple[int, list[str], str]:
        """Run a hook with the environment of its unit and ``settings``; return status, calls and
        output.
        """
        before = len(self.calls)
        env = {**self.environment, **unit_environment(hook), **settings}
        done = subprocess.run(
            [EXAMPLES / hook, what], env=env, check=False, capture_output=True, text=True
        )
        return done.returncode, self.calls[before:], done.stdout + done.stderr


def unit_environment(hook: str) -> dict[str, str]:
    """Return the environment of a unit, but for where its journal is."""
    lines = re.findall(
        "^Environment=(.*)$", (EXAMPLES / f"{hook}.service").read_text(), re.MULTILINE
    )
    found = dict(pair.split("=", 1) for line in lines for pair in line.split())
    assert (
        found.pop("AZURE_SCHEDULED_EVENTS_JOURNAL_PATH")
        == "/var/lib/azure-scheduled-events-exporter"
    )
    return found


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """Return a stage on which nothing was called."""
    return Stage(tmp_path)


@pytest.mark.parametrize("hook", HOOKS)
def test_files(hook: str, tmp_path: Path) -> None:
    """Each unit is one that systemd takes and runs what lies beside it, which is plain sh and
    refuses other words.
    """
    text = (EXAMPLES / f"{hook}.service").read_text()
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign] # systemd's keys have capitals
    unit.read_string(text)
    keeps_state = "STATE_DIRECTORY" in (EXAMPLES / hook).read_text()
    assert (unit["Service"]["Restart"], unit["Service"].get("StateDirectory") == hook) == (
        "always",
        keeps_state,
    )
    assert unit["Install"]["WantedBy"] == "multi-user.target"
    copy = tmp_path / f"{hook}.service"
    copy.write_text(text.replace(LIBRARY, str(EXAMPLES)).replace(INSTALLED, COMMAND))
    verify = ["systemd-analyze", "verify", str(copy)]
    done = subprocess.run(verify, check=False, capture_output=True, text=True)
    assert [line for line in done.stderr.splitlines() if hook in line] == []
    assert (EXAMPLES / hook).read_text().startswith("#!/bin/sh\n")
    subprocess.run([shutil.which("dash") or "sh", "-n", EXAMPLES / hook], check=True)
    done = subprocess.run([EXAMPLES / hook, "destroy"], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, f"usage: {EXAMPLES / hook} prepare|recover\n")


def az(what: str) -> str:
    """Return how the load balancer's program is called, with the settings of the unit."""
    return (
        f"az network nic ip-config address-pool {what} --output none --ip-config-name ipconfig1"
        " --lb-name web --address-pool web-vms --resource-group production --nic-name web-0-nic"
    )


def test_load_balancer_drain(stage: Stage) -> None:
    """A VM in the pool leaves it and is added again, once each, however often the hook runs;
    another stays out.
    """
    pool = "/providers/Microsoft.Network/loadBalancers/WEB/backendAddressPools/web-vms"

    def calls(phase: str) -> list[str]:
        """Run the hook; return its calls, but for the question in which pools the VM is."""
        _, made, _ = stage.hook(HOOKS[0], phase, DRAIN_SECONDS="0")
        return [call for call in made if " show " not in call]

    assert calls("prepare") == [], "it is in no pool"
    stage.answers({"az*show*": (0, pool)})
    assert calls("prepare") == [az("remove")]
    stage.answers({})
    assert calls("prepare") == [], "it is out already"
    assert calls("recover") == [az("add")]
    assert calls("recover") == [], "it is back already"


def test_kubectl_drain(stage: Stage) -> None:
    """The node is drained and takes pods again afterwards, unless an operator had cordoned it
    before.
    """
    drain = "kubectl drain n --ignore-daemonsets --delete-emptydir-data --timeout=5m"
    mark = "kubectl annotate node n --request-timeout=30s"
    assert stage.hook(HOOKS[1], "prepare", NODE="n")[1][1:] == [
        f"{mark} --overwrite azure-scheduled-events/cordoned=true",
        drain,
    ]
    stage.answers({"*unschedulable*": (0, "true")})
    assert stage.hook(HOOKS[1], "prepare", NODE="n")[1][1:] == [drain]
    said = "node n is not cordoned for an event, so it stays as it is\n"
    status, calls, output = stage.hook(HOOKS[1], "recover", NODE="n")
    assert (status, len(calls), output) == (0, 1, said)
    stage.answers({"kubectl get*annotations*": (0, "true")})
    assert stage.hook(HOOKS[1], "recover", NODE="n")[1][1:] == [
        "kubectl uncordon n --request-timeout=30s",
        f"{mark} --overwrite azure-scheduled-events/cordoned-",
    ]


def test_checkpoint_before_eviction(stage: Stage) -> None:
    """Work is saved before an eviction; if it is cancelled, the worker goes on; one that does not
    run is left alone.
    """
    stage.answers({"systemctl is-active*": (3, "")})
    assert len(stage.hook(HOOKS[2], "prepare")[1]) == 1
    stage.answers({})
    blob = "https://example.blob.core.windows.net/checkpoints/batch-worker"
    saved = [f"azcopy copy /var/lib/batch-worker/checkpoint {blob} --overwrite=true"]
    assert stage.hook(HOOKS[2], "prepare")[1][1:] == ["systemctl stop batch-worker.service", *saved]
    assert stage.hook(HOOKS[2], "recover")[1] == ["systemctl start batch-worker.service"]
    assert stage.hook(HOOKS[2], "recover") == (0, [], "")


class Patroni(HttpServer):
    """Patroni's API, with these answers; the last one stays."""

    def __init__(self, *statuses: int) -> None:
        super().__init__()
        self._statuses = list(statuses)

    def respond(self, _: Request) -> Response:
        """Say whether this is the primary."""
        return Response(self._statuses[0] if len(self._statuses) == 1 else self._statuses.pop(0))


SWITCHOVER = ["patronictl -c /etc/patroni/config.yml switchover main --leader db-0 --force"]


@pytest.mark.parametrize(
    ("statuses", "status", "calls", "said"),
    [
        ((200, 200, 503), 0, SWITCHOVER, ""),
        # If Patroni refuses, patronictl does not show it in its exit status.
        ((200,), 1, SWITCHOVER, "this VM is still the leader 1 s after the switchover\n"),
        ((503,), 0, [], "this VM is not the leader: no switchover\n"),
        ((), 1, [], "Patroni's API answered 000 to /primary (000: no answer)\n"),
    ],
)
def test_patroni(
    statuses: Sequence[int], status: int, calls: list[str], said: str, stage: Stage
) -> None:
    """Only a leader hands its role on, and the hook fails if it is still the leader."""
    timeout = "1" if said else "60"  # a busy machine is slow to ask three times
    with Patroni(*statuses) as patroni:
        api = patroni.url if statuses else f"http://{NOBODY}"
        assert stage.hook(HOOKS[3], "prepare", PATRONI_API=api, SWITCHOVER_TIMEOUT=timeout) == (
            status,
            calls,
            said,
        )


def test_mysql(stage: Stage) -> None:
    """Only a primary hands its role on, to a member that is online; the hook fails if there is
    none, or it refuses.
    """
    assert stage.hook(HOOKS[4], "prepare")[::2] == (
        0,
        "this VM is not the primary: no switchover\n",
    )
    primary = {"*PRIMARY*": (0, "id-0")}
    stage.answers(primary)
    assert stage.hook(HOOKS[4], "prepare")[::2] == (1, "no other member is online\n")
    members = {**primary, "*SECONDARY*": (0, "id-1")}
    stage.answers(members)
    status, calls, _ = stage.hook(HOOKS[4], "prepare")
    assert (status, calls[-1].partition("--execute ")[2]) == (
        0,
        "SELECT group_replication_set_as_primary('id-1', 30)",
    )
    stage.answers({**members, "*set_as_primary*": (1, "")})
    assert stage.hook(HOOKS[4], "prepare")[0] == 1


def test_load_balancer_admin_state(stage: Stage) -> None:
    """The state is Down during an event and the probe's again after it; another's Down stays."""
    quick = {"DRAIN_SECONDS": "0"}
    stage.answers({"az*show*": (0, "Down")})
    status, calls, said = stage.hook(HOOKS[5], "prepare", **quick)
    assert (status, len(calls), said) == (0, 1, "the state is Down already, and stays so\n")
    assert stage.hook(HOOKS[5], "recover") == (0, [], "")
    stage.answers({"az*show*": (0, "None")})
    (_, down) = stage.hook(HOOKS[5], "prepare", **quick)[1]
    assert down == (
        "az network lb address-pool address update --output none --admin-state Down"
        " --resource-group production --lb-name web --pool-name web-vms --name web-0"
    )
    stage.answers({"az*show*": (0, "Down")})
    assert len(stage.hook(HOOKS[5], "prepare", **quick)[1]) == 2, "it is ours, also the second time"
    (up,) = stage.hook(HOOKS[5], "recover")[1]
    assert up == down.replace("Down", "None")
    assert stage.hook(HOOKS[5], "recover") == (0, [], "")


def test_pacemaker(stage: Stage) -> None:
    """The node's health is red until the event is over, and resources have time to move."""
    stage.answers({"crm_node*": (0, "vm-0")})
    health = "crm_attribute --node vm-0 --name #health-azure-event --lifetime reboot --update"
    who = "crm_node --name"
    moved = "crm_resource --wait --timeout=60s"
    assert stage.hook(HOOKS[6], "prepare") == (0, [who, f"{health} red", moved], "")
    assert stage.hook(HOOKS[6], "recover") == (0, [who, f"{health} green"], "")
    stage.answers({"crm_node*": (0, "vm-0"), "crm_resource*": (124, "")})
    assert stage.hook(HOOKS[6], "prepare")[0] == 124, "resources are still here"


CNPG = """\
#!/bin/sh
echo "$(basename "$0") $*" >>"$CALLS"
case $* in
*promote*) [ -e "$CALLS.refuses" ] || touch "$CALLS.promoted" ;;
*currentPrimary*) [ -e "$CALLS.promoted" ] && echo main-2 || echo main-1 ;;
*nodeName}) echo "$PRIMARY_NODE" ;;
*get\\ pods*) printf 'main-1 here\\nmain-2 there\\nmain-3 elsewhere\\n' ;;
esac
"""


def test_cloudnative_pg(stage: Stage) -> None:
    """Another ready instance is promoted only if the primary runs here, and until it is one."""
    (stage.folder / "bin" / "kubectl").write_text(CNPG)
    quick = {"NODE": "here", "PRIMARY_NODE": "there", "SWITCHOVER_TIMEOUT": "1"}
    status, calls, said = stage.hook(HOOKS[7], "prepare", **quick)
    assert (status, said) == (0, "the primary main-1 runs on there: no switchover\n")
    quick["PRIMARY_NODE"] = "here"
    stage.file.with_name("calls.refuses").touch()
    status, calls, said = stage.hook(HOOKS[7], "prepare", **quick)
    assert (status, said) == (1, "main-1 is still the primary 1 s after the promotion\n")
    stage.file.with_name("calls.refuses").unlink()
    status, calls, _ = stage.hook(HOOKS[7], "prepare", **quick)
    assert status == 0
    promote = "kubectl --namespace databases --request-timeout=30s cnpg promote main main-2"
    assert promote in calls
    assert stage.hook(HOOKS[7], "recover") == (0, [], "")


VMS = (VirtualMachine("vmss_0", scale_set="vmss"), VirtualMachine("vmss_1", scale_set="vmss"))
REBOOT = PlannedEvent("Reboot", ("vmss_0",), announced_at=0.0, started_for=2.0, approval_delay=0.5)
ONE = Scenario("one", "A reboot, once it is approved.", VMS, (REBOOT,))


def approved(simulator: Simulator) -> list[str]:
    """Return the types of the events that were approved."""
    return [each.event_type for each in simulator.record if each.what is What.APPROVED]


def shell_blocks(page: str) -> list[str]:
    """Return the scripts of a page of the documentation, in their order."""
    return re.findall(r"(?ms)^```sh\n(.*?)^```$", (ROOT / "docs" / page).read_text())


REDIS = """\
#!/bin/sh
echo "$(basename "$0") $*" >>"$CALLS"
case $* in
*" role") [ -e "$CALLS.moved" ] && echo slave || echo "$ROLE" ;;
*" failover "*) echo "$SAID"; [ -n "$STAYS" ] || touch "$CALLS.moved" ;;
esac
"""


STILL = "this VM is still the master 1 s after the failover began\n"


@pytest.mark.parametrize(
    ("before", "said", "stays", "status", "output"),
    [
        ("master", "OK", "", 0, "sentinel failover mymaster: OK\n"),
        ("slave", "OK", "", 0, "this VM is not the master: no failover\n"),
        ("", "OK", "", 1, "Redis does not answer with its role: \n"),
        # redis-cli ends with 0 when Sentinel refuses, too.
        ("master", "NOGOODSLAVE none", "", 1, "sentinel failover mymaster: NOGOODSLAVE none\n"),
        (
            "master",
            "OK",
            "yes",
            1,
            "sentinel failover mymaster: OK\n" + STILL,
        ),
    ],
)
def test_redis_sentinel(
    before: str, said: str, stays: str, status: int, output: str, stage: Stage
) -> None:
    """Only a master hands its role on, and the hook fails if Sentinel refuses or it stays one."""
    (stage.folder / "bin" / "redis-cli").write_text(REDIS)
    settings = {"ROLE": before, "SAID": said, "STAYS": stays}
    settings["FAILOVER_TIMEOUT"] = "1" if stays else "60"
    done = stage.hook(HOOKS[8], "prepare", **settings)
    assert (done[0], done[2]) == (status, output)
    failover = "redis-cli -h 127.0.0.1 -p 26379 sentinel failover mymaster"
    assert (failover in done[1]) == (before == "master")
    assert stage.hook(HOOKS[8], "recover") == (0, [], "")


def test_units_of_databases_prepare_for_what_deletes_the_vm() -> None:
    """They hand the role over before each type of event that the page on databases lists."""
    page = (ROOT / "docs" / "databases.md").read_text()
    for name in HOOKS[3], HOOKS[4], HOOKS[7], HOOKS[8]:
        assert f"[{name}](../deploy/examples/{name})" in page
        unit = (EXAMPLES / f"{name}.service").read_text()
        assert "--types Freeze,Reboot,Redeploy,Preempt,Terminate " in unit


def test_installation_of_the_page_on_databases(stage: Stage) -> None:
    """Its commands put script, unit and drop-in where systemd finds them; it takes both."""
    (text,) = [part for part in shell_blocks("databases.md") if "override.conf" in part]
    root = stage.folder / "root"
    text = text.replace("/usr/local", f"{root}/usr/local").replace("/etc/", f"{root}/etc/")
    lines = [line for line in text.splitlines() if not line.startswith("systemctl ")]
    script = "\n".join(lines)
    subprocess.run(["sh", "-eu", "-c", script], cwd=stage.folder, env=stage.environment, check=True)
    assert os.access(root / "usr/local/lib/azure-scheduled-events" / HOOKS[3], os.X_OK)
    units = root / "etc/systemd/system"
    unit = units / f"{HOOKS[3]}.service"
    unit.write_text(unit.read_text().replace(LIBRARY, str(EXAMPLES)).replace(INSTALLED, COMMAND))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(unit)],
        env={**environment(), "SYSTEMD_UNIT_PATH": f"{units}:"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert [line for line in done.stderr.splitlines() if HOOKS[3] in line] == []


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            HOOKS[3],
            "patronictl -c /etc/patroni/config.yml switchover db --leader db-1 --force",
        ),
        (HOOKS[8], "sentinel failover mymaster: OK"),
    ],
)
def test_trial_of_the_page_on_databases(name: str, said: str, stage: Stage) -> None:
    """The stand-ins of the page let each script hand its role over, and its event is approved."""
    parts = shell_blocks("databases-trial.md")
    env = {**environment(), "PATH": f"{Path(COMMAND).parent}:{os.environ['PATH']}"}
    subprocess.run(["sh", "-e", "-c", parts[0]], cwd=stage.folder, env=env, check=True)
    (hook,) = [part for part in parts if f"-- assets/examples/{name}" in part]
    with Simulator(Scenario("quiet", "", VMS, ()), requests_per_second=20) as simulator:
        started = hook.replace("http://127.0.0.1:10170", simulator.url)
        # Without exec, a kill would end only the shell.
        started = started.replace("azure-sch", "exec azure-sch", 1)
        here = f"cd {stage.folder} && {started}"
        with Program(["sh", "-c", here], stage.folder / "hook.log", **env) as run:
            run.wait_for_line("name is known")
            simulator.play(ONE)
            run.wait_for_line(re.escape(said))
            run.wait_for_line("phase=prepare .* outcome=ok")
            run.wait_for_line(": accepted")
        assert approved(simulator) == ["Reboot"]


def test_a_unit_around_an_event(stage: Stage, start_exporter: Callable[..., Exporter]) -> None:
    """What a unit starts drains, approves the event when the drain has ended and not before, and
    recovers.
    """
    with Simulator(Scenario("quiet", "", VMS, ()), requests_per_second=20) as simulator:
        exporter = start_exporter(simulator.url, *FAST, "--journal.path", str(stage.journal))
        exporter.shows("IMDS", lambda scrape: scrape.value("up"))
        stage.slow(on=True)
        text = (EXAMPLES / "kubectl-drain.service").read_text()
        (command,) = re.findall("^ExecStart=(.*)$", text, re.MULTILINE)
        started = command.replace(LIBRARY, str(EXAMPLES)).replace(INSTALLED, COMMAND).split()
        env = {**stage.environment, **unit_environment("kubectl-drain"), "NODE": "n"}
        with Program(
            started,
            stage.folder / "hook.log",
            **env,
            AZURE_SCHEDULED_EVENTS_IMDS_ENDPOINT=simulator.url,
        ):
            simulator.play(ONE)
            eventually(lambda: stage.calls, "the drain")
            polls = exporter.scrape().total("polls_total")
            exporter.shows("more polls", lambda scrape: scrape.total("polls_total") > polls + 4)
            assert not approved(simulator)
            stage.answers({"kubectl get*annotations*": (0, "true")})
            stage.slow(on=False)
            eventually(lambda: approved(simulator) == ["Reboot"], "the approval")
            eventually(
                lambda: "kubectl uncordon n --request-timeout=30s" in stage.calls, "the recovery"
            )
        whole = {"detected": 1, "approved": 1, "started": 1, "completed": 1}
        exporter.shows("the whole event", lambda scrape: scrape.transitions() == whole)


def block(part: str) -> str:
    """Return the script of the page that contains ``part``."""
    (text,) = [each for each in re.findall(r"(?ms)^```sh\n(.*?)^```$", PAGE) if part in each]
    return str(text)


def test_shortest_drain(stage: Stage, start_exporter: Callable[..., Exporter]) -> None:
    """The three lines of the page follow, drain and approve, in this order."""
    with Simulator(Scenario("quiet", "", VMS, ()), requests_per_second=20) as simulator:
        start_exporter(simulator.url, *FAST, "--journal.path", str(stage.journal))
        stage.slow(on=True)
        env = {**stage.environment, "AZURE_SCHEDULED_EVENTS_IMDS_ENDPOINT": simulator.url}
        script = subprocess.Popen(["sh", "-c", block("--follow")], env=env, start_new_session=True)
        try:

            def drains() -> list[str]:
                simulator.play(ONE)  # again, since nobody knows when the script follows
                return stage.calls

            eventually(drains, "the drain")
            assert not approved(simulator)
            stage.slow(on=False)
            eventually(lambda: approved(simulator), "the approval")
        finally:
            os.killpg(script.pid, signal.SIGKILL)
            script.wait(PATIENCE)


@pytest.mark.parametrize(
    ("treatment", "undone"),
    [(Way.LATE, False), (500, False), (409, True)],
    ids=["no answer", "failed", "refused"],
)
def test_drain_that_is_undone(treatment: Treatment, undone: bool, stage: Stage) -> None:
    """The line of the page undoes its drain only if the event is certainly not approved."""
    with Simulator(ONE) as simulator, Gate(simulator.url, treatment, Way.PASS) as gate:
        announced = [
            each.event_id for each in eventually(lambda: simulator.record, "the announcement")
        ]
        flags = {
            "AZURE_SCHEDULED_EVENTS_IMDS_ENDPOINT": gate.url,
            "AZURE_SCHEDULED_EVENTS_IMDS_TIMEOUT": "5s",
        }
        env = {**stage.environment, **flags, "EVENT_ID": announced[0]}
        subprocess.run(["sh", "-c", block("undrain")], env=env, check=True, timeout=PATIENCE)
        assert stage.calls == ["drain ", "undrain "][: 1 + undone]
        assert approved(simulator) == (["Reboot"] if treatment is Way.LATE else [])
