"""``doctor`` on a whole chain: green while all is well, and each planted fault is found with the
hint that mends it.
"""

import subprocess
from collections.abc import Iterator

import bcrypt
import pytest

from support.doctor.doctor_chain import VM, Chain, doctor, healthy_chain
from support.doctor.doctor_faults import Fault
from support.doctor.local_faults import LOCAL_FAULTS
from support.doctor.monitoring_faults import MONITORING_FAULTS
from support.programs import COMMAND, environment, eventually
from support.servers.certificates import Authority

FEWEST_CHECKS = 28
"""Findings about a healthy chain; fewer would mean that a part was left out."""


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chain]:
    """Run the whole chain once for all tests here.

    It has flags for ``doctor``: with ``here`` it looks at this machine, with ``beyond`` at all but
    IMDS. What a test starts beside the chain ends with the block ``with chain.extra``.
    """
    with healthy_chain(tmp_path_factory.mktemp("chain")) as running:
        yield running


def test_healthy_chain(chain: Chain) -> None:
    """Every check of a healthy chain is ok, and the exit status is 0."""
    report = doctor(chain.flags)
    assert report.complaints == [], report.complaints
    assert report.status == 0, report.output
    assert len(report.findings) >= FEWEST_CHECKS


def test_no_journal(chain: Chain) -> None:
    """A folder without a journal is wrong, and the hint does not call the journal damaged."""
    (found,) = doctor({**chain.beyond, "journal.path": str(chain.new_folder())}).of(
        "journal-content"
    )
    assert found["mark"] == "wrong"
    assert "damaged" not in found["hint"]


def test_lines_for_people(chain: Chain) -> None:
    """The report has a heading for each part, a mark and a sentence for each check, and a last line
    with the number of checks by result.
    """
    given = [part for name, value in chain.flags.items() for part in (f"--{name}", value or "")]
    done = subprocess.run(
        [COMMAND, "doctor", *given], env=environment(), capture_output=True, text=True, check=False
    )
    assert (
        "Metadata service\n----------------\n√ The metadata service answers at http://127.0.0.1:"
        in done.stdout
    )
    assert "√ This VM is web_4 of scale set web.\n" in done.stdout
    assert done.stdout.endswith("skipped.\n")


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
    is_any_wrong = any(each["mark"] == "wrong" for each in report.findings)
    assert report.status == (1 if is_any_wrong else 0)


def test_an_exporter_with_tls(chain: Chain) -> None:
    """An exporter with a certificate of a private authority is as configured, and doctor needs no
    flag for it.
    """
    folder = chain.new_folder()
    pair = Authority(folder).server()
    web = folder / "web.yaml"
    web.write_text(f"tls_server_config: {{cert_file: {pair.certificate}, key_file: {pair.key}}}")
    with chain.extra:
        exporter = chain.run_exporter(chain.simulator.vm_url(VM), "--web.config.file", str(web))
        address = f"127.0.0.1:{exporter.port}"
        flags = {**chain.beyond, "web.listen-address": address, "web.config.file": str(web)}
        report = eventually(
            lambda: doctor(flags),
            "the exporter's first poll",
            until=lambda found: found.is_ok("exporter-polls"),
        )
    assert report.is_ok("served", "certificate"), report.output
    assert "InsecureRequestWarning" not in report.output


def test_a_private_certificate_and_a_password(chain: Chain) -> None:
    """Hints lead from an exporter with a private certificate and a password to a file with which
    doctor reads it.
    """
    folder = chain.new_folder()
    pair = Authority(folder).server()
    web = folder / "web.yaml"
    http = folder / "http.yaml"
    web.write_text(
        f"tls_server_config: {{cert_file: {pair.certificate}, key_file: {pair.key}}}\n"
        f"basic_auth_users: {{me: {bcrypt.hashpw(b'sesame', bcrypt.gensalt(4)).decode()}}}\n"
    )
    http.write_text(
        "basic_auth: {username: me, password: sesame}\ntls_config: {insecure_skip_verify: true}\n"
    )
    with chain.extra:
        exporter = chain.run_exporter(chain.simulator.vm_url(VM), "--web.config.file", str(web))
        flags = {
            **chain.beyond,
            "web.listen-address": f"127.0.0.1:{exporter.port}",
            "web.config.file": str(web),
        }
        (without_password,) = doctor(flags).of("exporter")
        (distrusted,) = doctor(
            {**flags, "exporter": f"https://me:sesame@127.0.0.1:{exporter.port}"}
        ).of("served")
        with_file = eventually(
            lambda: doctor({**flags, "exporter.http-config.file": str(http)}),
            "the exporter's first poll",
            until=lambda found: found.is_ok("exporter-polls"),
        )
    assert "--exporter.http-config.file" in without_password["hint"]
    assert "certificate verify failed" in distrusted["sentence"]
    for needed in ("--exporter.http-config.file", "ca_file", "server_name"):
        assert needed in distrusted["hint"]
    assert "systemctl status" not in distrusted["hint"], "the exporter runs: no advice to look"
    assert with_file.is_ok("served"), with_file.output


def test_nothing_is_changed(chain: Chain) -> None:
    """``doctor`` leaves the journal of an exporter that does not run as it is: the same files with
    the same content.
    """
    folder = chain.new_folder()
    with chain.extra:
        exporter = chain.run_exporter(chain.simulator.url, "--journal.path", str(folder))
        exporter.shows("an event", lambda scrape: scrape.transitions())
        exporter.terminate()
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    report = doctor({**chain.here, "journal.path": str(folder)})
    assert report.of("journal-content")[0]["sentence"] == "Events in the journal: 1, of this VM: 1."
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
