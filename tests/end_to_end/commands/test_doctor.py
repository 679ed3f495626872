"""``doctor`` on a whole chain: green while all is well, and each planted fault is found with the hint that mends it."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import bcrypt
import pytest
import yaml

from alerts import render
from alerts.settings import load
from azure_scheduled_events_exporter.simulator import Scenario, Simulator, VirtualMachine
from support.doctor.doctor_chain import VM, Chain, doctor, healthy_chain
from support.doctor.doctor_faults import Fault
from support.doctor.local_faults import LOCAL_FAULTS, old_span
from support.doctor.monitoring_faults import MONITORING_FAULTS
from support.events.follower import event
from support.programs import COMMAND, Exporter, Program, environment
from support.servers.certificates import Authority

QUIET = Scenario("quiet", "Nothing happens.", (VirtualMachine(VM),), ())
PUSHING = {"AZURE_SCHEDULED_EVENTS_ALERTMANAGER_URL": "http://127.0.0.1:1"}


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chain]:
    """Run the whole chain once for all tests here."""
    with healthy_chain(tmp_path_factory.mktemp("chain")) as running:
        yield running


def test_healthy_chain(chain: Chain) -> None:
    """Every check of a healthy chain is ok, and the exit status is 0."""
    report = doctor(chain.flags)
    assert report.complaints == [], report.complaints
    assert report.status == 0, report.output
    assert len(report.findings) >= 35


def test_lines_for_people(chain: Chain) -> None:
    """The report has a heading for each part, a mark and a sentence for each check, and a sum."""
    given = [part for name, value in chain.flags.items() for part in (f"--{name}", value or "")]
    done = subprocess.run([COMMAND, "doctor", *given], env=environment(), capture_output=True, text=True, check=False)
    assert "Metadata service\n----------------\n√ The metadata service answers at http://127.0.0.1:" in done.stdout
    assert "√ This VM is web_4 of scale set web.\n" in done.stdout
    assert done.stdout.endswith("warnings.\n")


@pytest.mark.parametrize("fault", [*LOCAL_FAULTS, *MONITORING_FAULTS], ids=lambda fault: fault.name)
def test_fault(chain: Chain, fault: Fault) -> None:
    """Each planted fault is found by its check, with a hint what to do."""
    with chain.extra:
        flags, variables = fault.plant(chain)
        report = doctor(flags, **variables)
    found = [each for each in report.of(fault.check) if each["mark"] == fault.mark]
    assert found, report.output
    assert fault.hint in found[0]["hint"], found[0]
    assert found[0]["page"].startswith("https://")
    assert report.status == (1 if any(each["mark"] == "wrong" for each in report.findings) else 0)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--poll.interval", "never"], "--poll.interval: 'never' is no duration"),
        (["--prometheus", "prom:9090"], "--prometheus: 'prom:9090' is not an address: write http://HOST:PORT"),
        (["--grafana", "http://h", "--grafana.http-config.file", "/nowhere"], "/nowhere: cannot be read"),
        (["--config.file", "/nowhere"], "/nowhere: cannot be read"),
    ],
)
def test_wrong_use(flags: list[str], message: str) -> None:
    """A flag that is impossible ends with status 2 and one line, before anything is asked."""
    done = subprocess.run([COMMAND, "doctor", *flags], env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_rules_with_values(chain: Chain) -> None:
    """Rules that keep labels are those of this version if doctor is told with which values they were rendered."""
    values = chain.new_folder() / "values.yaml"
    values.write_text("labels.keep: [team]\n")
    with chain.extra:
        rules = render(load(values), grafana=False)["prometheus/prometheus-rules.yml"]
        flags = {**chain.beyond, "prometheus": chain.run_prometheus(rules=rules)}
        (untold,) = doctor(flags).of("rules-version")
        (told,) = doctor({**flags, "alerts.values": str(values)}).of("rules-version")
        pushing = {**flags, "alerts.values": str(values), "alertmanager.url": chain.whole.alertmanager.url}
        kept, foreign = (
            doctor({**pushing, "alertmanager.labels": f"{name}=search"}).of("alert-labels")[0]
            for name in ("team", "region")
        )
    assert (kept["mark"], foreign["mark"]) == ("ok", "warning"), "the rules keep the label team from targets"
    assert foreign["hint"] == "Leave out region."
    assert untold["mark"] == "warning"
    assert "name it with --alerts.values" in untold["hint"]
    assert told["mark"] == "ok"


def test_rules_that_wait(chain: Chain) -> None:
    """An alert that waits before it fires is named, because a page may then come after the event."""
    rules = yaml.safe_load(chain.rules)
    (preempt,) = [
        rule
        for group in rules["groups"]
        for rule in group["rules"]
        if rule.get("alert") == "AzureScheduledEventPreempt"
    ]
    preempt["for"] = "10m"
    with chain.extra:
        report = doctor({**chain.beyond, "prometheus": chain.run_prometheus(rules=yaml.safe_dump(rules))})
    (found,) = report.of("rules-version")
    assert found["mark"] == "warning"
    assert "'for' of AzureScheduledEventPreempt" in found["sentence"]


@pytest.mark.parametrize("server", ["prometheus", "alertmanager"])
def test_unusable_values(chain: Chain, server: str) -> None:
    """If the values file cannot be read, doctor says so, and checks the rest of the chain."""
    flags = {**chain.beyond, server: chain.flags[server], "alerts.values": "/nowhere.yaml"}
    report = doctor(flags)
    (found,) = report.of("alert-values")
    assert "/nowhere.yaml" in found["sentence"]
    assert report.status == 1


def test_an_exporter_with_tls(chain: Chain) -> None:
    """An exporter with a certificate of a private authority is as configured, and doctor needs no flag for it."""
    folder = chain.new_folder()
    pair = Authority(folder).server()
    web = folder / "web.yaml"
    web.write_text(f"tls_server_config: {{cert_file: {pair.certificate}, key_file: {pair.key}}}")
    with chain.extra:
        exporter = chain.run_exporter(chain.simulator.vm_url(VM), "--web.config.file", str(web))
        address = f"127.0.0.1:{exporter.port}"
        report = doctor({**chain.beyond, "web.listen-address": address, "web.config.file": str(web)})
    assert [each["mark"] for each in (*report.of("served"), *report.of("certificate"))] == ["ok", "ok"], report.output
    assert [each["mark"] for each in report.of("exporter-polls")] == ["ok"], report.output
    assert "InsecureRequestWarning" not in report.output


def test_a_private_certificate_and_a_password(chain: Chain) -> None:
    """Hints lead from an exporter with a private certificate and a password to a file with which doctor reads it."""
    folder = chain.new_folder()
    pair = Authority(folder).server()
    web, http = folder / "web.yaml", folder / "http.yaml"
    web.write_text(
        f"tls_server_config: {{cert_file: {pair.certificate}, key_file: {pair.key}}}\n"
        f"basic_auth_users: {{me: {bcrypt.hashpw(b'sesame', bcrypt.gensalt(4)).decode()}}}\n"
    )
    http.write_text("basic_auth: {username: me, password: sesame}\ntls_config: {insecure_skip_verify: true}\n")
    with chain.extra:
        exporter = chain.run_exporter(chain.simulator.vm_url(VM), "--web.config.file", str(web))
        flags = {**chain.beyond, "web.listen-address": f"127.0.0.1:{exporter.port}", "web.config.file": str(web)}
        (closed,) = doctor(flags).of("exporter")
        (distrusted,) = doctor({**flags, "exporter": f"https://me:sesame@127.0.0.1:{exporter.port}"}).of("served")
        told = doctor({**flags, "exporter.http-config.file": str(http)})
    assert "--exporter.http-config.file" in closed["hint"]
    assert "certificate verify failed" in distrusted["sentence"]
    assert "--exporter.http-config.file" in distrusted["hint"]
    assert [each["mark"] for each in (*told.of("served"), *told.of("exporter-polls"))] == ["ok", "ok"], told.output


def test_an_address_with_a_path(chain: Chain) -> None:
    """An exporter that is named with the path of its metrics is not called another program."""
    (served,) = doctor({**chain.beyond, "exporter": f"{chain.exporter.url}/metrics"}).of("served")
    assert served["hint"] == f"Name it without the path: --exporter {chain.exporter.url}."


def test_a_simulator_at_the_address(chain: Chain) -> None:
    """Doctor does not tell people to end a process of this program, such as a simulator."""
    simulate = [COMMAND, "simulate", "--web.listen-address", "127.0.0.1:0"]
    with Program(simulate, chain.new_folder() / "simulator.log") as program:
        address = program.wait_for_line(r"--imds\.endpoint http://(127\.0\.0\.1:\d+)\n")[1]
        (served,) = doctor({**chain.beyond, "web.listen-address": address}).of("served")
    assert served["hint"] == "Correct --exporter or --web.listen-address."


def test_an_exporter_that_has_not_polled_yet(tmp_path: Path) -> None:
    """A new event that the exporter's next poll will show is no fault."""
    with Simulator(QUIET) as simulator, Exporter(simulator.url, tmp_path / "log", "--poll.interval", "1m") as exporter:
        exporter.shows("a poll", lambda scrape: scrape.value("up"))
        simulator.set_document([event("A")])
        (found,) = doctor(_here(simulator, exporter)).of("exporter-events")
    assert (found["mark"], "yet" in found["sentence"], "1m" in found["hint"]) == ("warning", True, True), found


def test_an_exporter_that_waits_for_more_empty_bodies(tmp_path: Path) -> None:
    """An exporter that does not believe the first empty body is no fault: doctor waits for it."""
    with Simulator(QUIET) as simulator, Exporter(simulator.url, tmp_path / "log") as exporter:
        simulator.set_document([event("A")])
        exporter.shows("an event", lambda scrape: scrape.transitions())
        simulator.serve_body(b"")
        (found,) = doctor(_here(simulator, exporter)).of("exporter-events")
        assert found["mark"] == "ok", found
        assert not exporter.scrape().series("event_info")


def _here(simulator: Simulator, exporter: Exporter) -> dict[str, str | None]:
    address = f"127.0.0.1:{exporter.port}"
    return {"imds.endpoint": simulator.url, "web.listen-address": address, "journal.path": "memory"}


def test_an_exporter_that_does_not_push_yet(tmp_path: Path) -> None:
    """An exporter that was not restarted after it was to push alerts is no exporter that pushes."""
    with Simulator(QUIET) as simulator, Exporter(simulator.url, tmp_path / "log") as exporter:
        exporter.shows("a poll", lambda scrape: scrape.value("up") == 1)
        (found,) = doctor(_here(simulator, exporter), **PUSHING).of("exporter-deliveries")
    assert found["mark"] == "wrong"
    assert "pushes no alerts, although --alertmanager.url is set" in found["sentence"]


def test_an_endpoint_that_a_variable_turns_off(chain: Chain) -> None:
    """An inherited variable that turns tracing off beside a configured collector is named."""
    (found,) = doctor({**chain.flags, "otlp.endpoint": "http://127.0.0.1:1"}, OTEL_SDK_DISABLED="true").of("otlp")
    assert found["mark"] == "warning"
    assert found["sentence"].endswith("the environment has OTEL_SDK_DISABLED=true.")


def test_spans_wait_without_tracing(chain: Chain) -> None:
    """Spans that wait although tracing has been turned off are no fault."""
    (found,) = doctor({**chain.beyond, **old_span(chain)}).of("spans")
    assert (found["mark"], "Tracing is off" in found["sentence"]) == ("ok", True)


def test_credentials_for_pushing_that_cannot_be_read(chain: Chain) -> None:
    """A wrong setting of the exporter's pushing is one finding, and the other checks are made."""
    prefix = "AZURE_SCHEDULED_EVENTS_ALERTMANAGER"
    report = doctor(chain.beyond, **{f"{prefix}_URL": "http://127.0.0.1:9", f"{prefix}_HTTP_CONFIG_FILE": "/nowhere"})
    assert any("/nowhere" in each["sentence"] for each in report.findings), report.output
    assert report.of("journal-kept")


def test_requests_stay_within_the_budget(tmp_path: Path) -> None:
    """Doctor sends the metadata service at most one request in 1.1 s, and only reads."""
    with Simulator() as simulator:
        flags = {"imds.endpoint": simulator.url, "journal.path": str(tmp_path), "web.listen-address": "127.0.0.1:1"}
        doctor(flags)
        first, second = simulator.requests
    assert (first.method, second.method) == ("GET", "GET")
    assert second.at - first.at >= 1.1


def test_nothing_is_changed(chain: Chain) -> None:
    """The journal of an exporter that does not run has the same files, with the same content, before and after."""
    folder = chain.new_folder()
    with chain.extra:
        exporter = chain.run_exporter(chain.simulator.url, "--journal.path", str(folder))
        exporter.shows("an event", lambda scrape: scrape.transitions())
        exporter.terminate()
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    report = doctor({**chain.here, "journal.path": str(folder)})
    assert report.of("journal-content")[0]["sentence"] == "Events in the journal: 1, of this VM: 1."
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_passwords_are_not_shown(tmp_path: Path) -> None:
    """A password in an address never appears in the report."""
    flags = {"imds.endpoint": "http://127.0.0.1:1", "journal.path": str(tmp_path), "web.listen-address": "127.0.0.1:1"}
    addresses = dict.fromkeys(("prometheus", "alertmanager", "grafana"), "http://me:sesame@127.0.0.1:1")
    report = doctor({**flags, **addresses, "otlp.endpoint": "http://me:sesame@127.0.0.1:1"})
    assert "http://***@127.0.0.1:1" in report.output
    assert "sesame" not in report.output
