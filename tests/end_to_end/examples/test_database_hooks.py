"""The hooks that hand over the role of a database, and the commands of the pages on databases."""

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.events.hook_stage import EXAMPLES, Stage, unit_environment
from support.paths import ROOT
from support.programs import COMMAND, NOBODY, Program, environment
from support.servers.http_peer import HttpServer, Request, Response


class Patroni(HttpServer):
    """Patroni's API, which answers to /primary with one of ``statuses`` after the other; the last
    one stays.
    """

    def __init__(self, *statuses: int) -> None:
        super().__init__()
        self._statuses = list(statuses)

    def respond(self, _: Request) -> Response:
        """Say with 200 that this is the primary, with 503 that it is not."""
        return Response(self._statuses[0] if len(self._statuses) == 1 else self._statuses.pop(0))


SWITCHOVER = ["patronictl -c /etc/patroni/config.yml switchover main --leader db-0 --force"]


@pytest.mark.parametrize(
    ("api_answers", "exit_status", "calls", "output"),
    [
        # Asked before the switchover and twice after it: the first time it is still the leader.
        pytest.param((200, 200, 503), 0, SWITCHOVER, "", id="hands over"),
        # If Patroni refuses, patronictl does not show it in its exit status.
        pytest.param(
            (200,),
            1,
            SWITCHOVER,
            "this VM is still the leader 1 s after the switchover\n",
            id="Patroni refuses",
        ),
        pytest.param(
            (503,), 0, [], "this VM is not the leader: no switchover\n", id="is not the leader"
        ),
        pytest.param(
            (),
            1,
            [],
            "Patroni's API answered 000 to /primary (000: no answer)\n",
            id="Patroni is down",
        ),
    ],
)
def test_patroni(
    api_answers: Sequence[int], exit_status: int, calls: list[str], output: str, stage: Stage
) -> None:
    """Only a leader hands its role on, and the hook fails if it is still the leader."""
    # A hook whose switchover fails waits for all of its time. To ask three times may take longer on
    # a busy machine.
    timeout = "1" if exit_status else "60"
    with Patroni(*api_answers) as patroni:
        api = patroni.url if api_answers else f"http://{NOBODY}"
        settings = {"PATRONI_API": api, "SWITCHOVER_TIMEOUT": timeout}
        ran = stage.hook("patroni-switchover", "prepare", **settings)
    assert ran == (exit_status, calls, output)


def test_mysql(stage: Stage) -> None:
    """Only a primary hands its role on, to a member that is online. The hook fails if there is no
    such member, or if the primary refuses.

    The hook asks ``mysql`` whether the primary is on this VM, and for a secondary that is online.
    ``stage.answers`` tells the substitute of ``mysql`` its answers: the exit status and the output
    for a query that matches a pattern. Any other query is answered with status 0 and no output.
    """
    ran = stage.hook("mysql-switchover", "prepare")
    assert (ran.status, ran.output) == (0, "this VM is not the primary: no switchover\n")
    primary = {"*PRIMARY*": (0, "id-0")}
    stage.answers(primary)
    ran = stage.hook("mysql-switchover", "prepare")
    assert (ran.status, ran.output) == (1, "no other member is online\n")
    members = {**primary, "*SECONDARY*": (0, "id-1")}
    stage.answers(members)
    ran = stage.hook("mysql-switchover", "prepare")
    assert ran.status == 0
    statement = ran.calls[-1].partition("--execute ")[2]
    assert statement == "SELECT group_replication_set_as_primary('id-1', 30)"
    stage.answers({**members, "*set_as_primary*": (1, "")})
    assert stage.hook("mysql-switchover", "prepare").status == 1, "the primary refuses"


# The kubectl of a cluster whose primary is main-1; promoting main-2 works unless a test makes it
# refuse.
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
    """Another ready instance is promoted only if the primary runs here; the hook waits until it is
    the primary, and fails if that takes too long.
    """
    (stage.folder / "bin" / "kubectl").write_text(CNPG)
    settings = {"NODE": "here", "PRIMARY_NODE": "there", "SWITCHOVER_TIMEOUT": "1"}
    ran = stage.hook("cloudnative-pg-switchover", "prepare", **settings)
    assert (ran.status, ran.output) == (0, "the primary main-1 runs on there: no switchover\n")
    settings["PRIMARY_NODE"] = "here"
    refuses = stage.file.with_name("calls.refuses")
    refuses.touch()
    ran = stage.hook("cloudnative-pg-switchover", "prepare", **settings)
    assert (ran.status, ran.output) == (1, "main-1 is still the primary 1 s after the promotion\n")
    refuses.unlink()
    ran = stage.hook("cloudnative-pg-switchover", "prepare", **settings)
    assert ran.status == 0
    promote = "kubectl --namespace databases --request-timeout=30s cnpg promote main main-2"
    assert promote in ran.calls
    assert stage.hook("cloudnative-pg-switchover", "recover") == (0, [], "")


def shell_blocks(page: str, section: str = "") -> list[str]:
    """Return the scripts of a page of the documentation, or of one section, in their order."""
    text = (ROOT / "docs" / page).read_text()
    if section:
        text = text.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return re.findall(r"(?ms)^```sh\n(.*?)^```$", text)


# The redis-cli of a VM with the role $ROLE, until Sentinel's failover moves the master elsewhere,
# which it does unless $STAYS is set. Sentinel answers $SAID.
REDIS = """\
#!/bin/sh
echo "$(basename "$0") $*" >>"$CALLS"
case $* in
*" role") [ -e "$CALLS.moved" ] && echo slave || echo "$ROLE" ;;
*" failover "*) echo "$SAID"; [ -n "$STAYS" ] || touch "$CALLS.moved" ;;
esac
"""


@dataclass(frozen=True)
class RedisCase:
    """A VM's role, what becomes of a failover, and how the hook ends."""

    role: str
    exit_status: int
    output: str
    sentinel_says: str = "OK"
    stays_master: bool = False


@pytest.mark.parametrize(
    "case",
    [
        RedisCase("master", 0, "sentinel failover mymaster: OK\n"),
        RedisCase("slave", 0, "this VM is not the master: no failover\n"),
        RedisCase("", 1, "Redis does not answer with its role: \n"),
        # redis-cli ends with 0 when Sentinel refuses, too.
        RedisCase(
            "master",
            1,
            "sentinel failover mymaster: NOGOODSLAVE none\n",
            sentinel_says="NOGOODSLAVE none",
        ),
        RedisCase(
            "master",
            1,
            "sentinel failover mymaster: OK\n"
            "this VM is still the master 1 s after the failover began\n",
            stays_master=True,
        ),
    ],
    ids=["hands over", "is not the master", "no role", "Sentinel refuses", "stays the master"],
)
def test_redis_sentinel(case: RedisCase, stage: Stage) -> None:
    """Only a master hands its role on. The hook fails if Sentinel refuses, or if this VM stays the
    master.
    """
    (stage.folder / "bin" / "redis-cli").write_text(REDIS)
    settings = {"ROLE": case.role, "SAID": case.sentinel_says, "FAILOVER_TIMEOUT": "60"}
    if case.stays_master:
        settings |= {"STAYS": "yes", "FAILOVER_TIMEOUT": "1"}
    ran = stage.hook("redis-sentinel-failover", "prepare", **settings)
    assert (ran.status, ran.output) == (case.exit_status, case.output)
    failover = "redis-cli -h 127.0.0.1 -p 26379 sentinel failover mymaster"
    assert (failover in ran.calls) == (case.role == "master")
    assert stage.hook("redis-sentinel-failover", "recover") == (0, [], "")


def test_settings_of_the_page_are_those_of_the_units() -> None:
    """The page lists each setting of each unit, with the value that the unit has."""
    # A row: | script | `SETTING`, … | `value`, … | meaning |. Only the first row of a script names
    # the script.
    named: dict[str, dict[str, str]] = {}
    script = ""
    for line in (ROOT / "docs" / "databases-install.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if len(cells) == 4 and cells[1].startswith("`"):
            script = cells[0] or script
            names = re.findall("`([^`]+)`", cells[1])
            values = re.findall("`([^`]+)`", cells[2])
            named.setdefault(script, {}).update(zip(names, values, strict=True))
    assert len(named) == 4, "a unit for each kind of database"
    assert named == {each: unit_environment(each) for each in named}


def test_drop_in_that_does_not_approve() -> None:
    """The command of the page is that of the unit, without its approvals."""
    page = (ROOT / "docs" / "databases-install.md").read_text()
    unit = (EXAMPLES / "patroni-switchover.service").read_text()
    command = re.compile("(?m)^ExecStart=(/.*)$")
    (of_the_page,) = command.findall(page)
    (of_the_unit,) = command.findall(unit)
    assert of_the_page == of_the_unit.replace(" --approve own", "")
    assert of_the_page != of_the_unit, "the unit approves"


def test_units_of_databases_prepare_for_all_types() -> None:
    """The units that the page on databases links to hand the role over before all five types of
    events, also those that delete the VM.
    """
    page = (ROOT / "docs" / "databases.md").read_text()
    assert "The units below run their script for all five types." in page
    for name in (
        "patroni-switchover",
        "mysql-switchover",
        "cloudnative-pg-switchover",
        "redis-sentinel-failover",
    ):
        assert f"[{name}](../deploy/examples/{name})" in page
        unit = (EXAMPLES / f"{name}.service").read_text()
        assert "--types Freeze,Reboot,Redeploy,Preempt,Terminate " in unit


SWITCHOVER_OF_THE_TRIAL = (
    "patronictl -c /etc/patroni/config.yml switchover db --leader db-1 --force"
)


@pytest.mark.parametrize(
    ("section", "lines_of_the_hook", "is_approved"),
    [
        ("Patroni", (SWITCHOVER_OF_THE_TRIAL, "outcome=ok", ": accepted"), True),
        (
            "Patroni refuses",
            (
                SWITCHOVER_OF_THE_TRIAL,
                "this VM is still the leader 5 s after the switchover",
                "outcome=failed",
            ),
            False,
        ),
        ("An eviction", (SWITCHOVER_OF_THE_TRIAL, r"outcome=ok seconds_left=\d"), False),
        ("A host fails", ("hook does not prepare for this event.*it had begun",), False),
        ("Redis", ("sentinel failover mymaster: OK", "outcome=ok", ": accepted"), True),
    ],
)
def test_trials_of_the_page_on_databases(
    section: str, lines_of_the_hook: Sequence[str], is_approved: bool, stage: Stage
) -> None:
    """The commands of each section print what the page says. The first block of the page makes
    stand-ins for the programs of a database.
    """
    env = {**environment(), "PATH": f"{Path(COMMAND).parent}:{os.environ['PATH']}"}

    def start(commands: str, log: str) -> Program:
        """Start commands in the folder of the trial. The last one, the simulator or the hook, gets
        an ``exec``: without that, a kill would end the shell only.
        """
        in_place = re.sub(r"(\./try-hook|azure-scheduled-events-exporter) ", r"exec \1 ", commands)
        return Program(["sh", "-c", f"cd {stage.folder} && {in_place}"], stage.folder / log, **env)

    (stand_ins, *_) = shell_blocks("databases-trial.md")
    # A section prepares its trial, starts the simulator, and then the hook.
    (*before, simulator, hook) = shell_blocks("databases-trial.md", section)
    port = "--web.listen-address 127.0.0.1:0"
    with start(simulator.replace("\n", f" {port}\n"), "simulator.log") as imds:
        url = imds.wait_for_line(r"http://127\.0\.0\.1:\d+")[0]
        for commands in (stand_ins.replace("http://127.0.0.1:10170", url), *before):
            subprocess.run(["sh", "-e", "-c", commands], cwd=stage.folder, env=env, check=True)
        with start(hook, "hook.log") as running_hook:
            for line in lines_of_the_hook:
                running_hook.wait_for_line(line)
        assert (" approved " in imds.log) == is_approved
