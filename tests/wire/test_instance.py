"""How a running exporter learns who its VM is, from bodies that IMDS really gave."""

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.events.imds_bodies import INSTANCES, entry
from support.paths import PAYLOADS
from support.programs import Exporter, Scrape, eventually, fetch
from support.servers.imds_peer import CASES, Peer, answer, http_case

AKS = PAYLOADS / "instance_aks_vmss_uniform_v2021-02-01.json"
TEAMCITY = PAYLOADS / "instance_teamcity_msdocs_v2023-07-01.json"
PLACES = (
    "location",
    "zone",
    "fault_domain",
    "resource_group",
    "subscription_id",
    "vm_size",
    "priority",
)


def labels_of(body: Path) -> dict[str, str]:
    """Return the labels that ``instance_info`` has of the VM in a captured answer.

    Azure spells the names of scale sets, resource groups and subscriptions in varying case, so the
    exporter shows them in lower case.
    """
    instance = INSTANCES[body.name]
    known = {name: getattr(instance, name) for name in ("vm_name", "vm_id", "scale_set", *PLACES)}
    known["computer_name"] = instance.host_name
    in_lower_case = ("scale_set", "resource_group", "subscription_id")
    return {**known, **{name: known[name].lower() for name in in_lower_case}}


Start = Callable[..., Exporter]


class Service(Peer):
    """An IMDS whose answers about the VM are set by hand; its document names one VM per event.

    Attributes:
        instance: the body of the answer about the VM; None for a 404.
        versions: the api-versions of this answer that are known.
        refusal: the whole answer to another version.
        hang: whether it never answers about the VM.
        asked: how often it was asked about the VM, in a version that is known.
        resources: the VMs that its document names.
        may_poll: is cleared to hold the answers to polls.
        polled: is set once a poll has come.
        polled_unnamed: whether a poll came before the answer about the VM, while polls were held.
    """

    def __init__(self) -> None:
        self.instance: bytes | None = None
        self.versions: tuple[str, ...] = ("2021-02-01",)
        self.refusal = answer(b"", "404 Not Found")
        self.hang = False
        self.asked = 0
        self.resources = ["vm"]
        self.may_poll = threading.Event()
        self.may_poll.set()
        self.polled = threading.Event()
        self.polled_unnamed = False
        super().__init__(lambda connection, request: connection.sendall(self._answer(request)))

    def _answer(self, request: bytes) -> bytes:
        assert b"Metadata: true" in request
        path, _, version = request.split()[1].decode().partition("?api-version=")
        if path == "/metadata/scheduledevents":
            self.polled.set()
            self.may_poll.wait()
            return answer(self.document())
        if version not in self.versions:
            return self.refusal
        self.asked += 1
        if self.hang:
            self.ending.wait()
        if not self.may_poll.is_set():
            # An exporter that does not wait for this answer polls in the meantime.
            self.polled_unnamed |= self.polled.wait(0.3)
        return answer(b"", "404 Not Found") if self.instance is None else answer(self.instance)

    def document(self) -> bytes:
        """Return one Reboot per VM in ``resources``."""
        events = [
            entry(
                EventId=f"0000000{number}-0000-0000-0000-000000000000",
                Resources=[name],
                EventStatus="Started",
                NotBefore="",
            )
            for number, name in enumerate(self.resources)
        ]
        return json.dumps({"DocumentIncarnation": 1, "Events": events}).encode()

    def end(self) -> None:
        """Stop serving."""
        self.may_poll.set()
        super().end()


@pytest.fixture
def service() -> Iterator[Service]:
    """An IMDS that does not know about the VM yet."""
    running = Service()
    yield running
    running.end()


def first_scrape_with(exporter: Exporter, metric: str, **labels: str) -> Scrape:
    """Return the first scrape that has a series of ``metric`` with ``labels``."""

    def look(scrape: Scrape) -> Scrape | None:
        return scrape if scrape.series(metric, **labels) else None

    found = exporter.shows(f"{metric} with {labels}", look)
    assert found
    return found


def scopes(scrape: Scrape) -> dict[str, str]:
    """Return the scope of each current event by the VM that it names."""
    return {labels["resources"]: labels["scope"] for labels, _ in scrape.series("event_info")}


MISNAMED = "--instance.name differs from this VM's name in IMDS"


def case(name: str) -> bytes:
    """Return one of the answers about a VM that IMDS gave in the wild, with made-up names."""
    return (CASES / f"{name}.instance.json").read_bytes()


@pytest.mark.parametrize("refusal", ["400", "404"])
def test_unknown_version_of_the_metadata(
    refusal: str, service: Service, start_exporter: Start
) -> None:
    """An IMDS that does not know the newest version is asked with an older one; compute.name is in
    all of them.
    """
    service.instance = case("full")
    service.versions = ("2017-08-01",)
    service.refusal = http_case(f"version-unknown-{refusal}")
    exporter = start_exporter(service.url)
    first_scrape_with(exporter, "instance_info", vm_name="vm_0")


def test_no_version_of_the_metadata_is_known(service: Service, start_exporter: Start) -> None:
    """The warning names the request that failed. It does not advise ``--imds.api-version``, which
    sets the version of requests for events only.
    """
    service.versions = ()
    service.refusal = http_case("version-unknown-404")
    exporter = start_exporter(service.url)
    line = exporter.wait_for_line(".*VM name unknown.*")[0]
    assert (
        f"{service.url}/metadata/instance answered 404: Not found. Invalid version requested"
        in line
    )
    assert "--imds.api-version" not in line


def test_name_of_the_host(service: Service, start_exporter: Start) -> None:
    """A host name that is given for the VM's name is warned of in the log and on the page."""
    service.instance = case("full")
    exporter = start_exporter(service.url, "--instance.name", "vm000000")
    line = exporter.wait_for_line(f".*{MISNAMED}.*")[0]
    assert "instance_name=vm000000 name_in_imds=vm_0" in line
    first_scrape_with(exporter, "instance_info", location="westeurope")
    page = fetch(exporter.url).body.decode()
    assert "--instance.name is not the name of this VM in IMDS" in page


@pytest.mark.parametrize("body", [AKS, TEAMCITY], ids=lambda body: body.name)
def test_captured_answer(body: Path, service: Service, start_exporter: Start) -> None:
    """A VM knows itself by compute.name and not by its host name, and carries all labels of the
    answer.
    """
    name = INSTANCES[body.name].vm_name
    service.instance = body.read_bytes()
    service.resources = [name, name.upper(), "aks-nodepool1-22790412-vmss000000", name + "1"]
    # No poll is answered until the name is known: a poll waits for the name, but only for a second,
    # which may be too short on a busy machine.
    service.may_poll.clear()
    exporter = start_exporter(service.url)
    exporter.wait_for_line("this VM's name is known")
    service.may_poll.set()
    scrape = first_scrape_with(exporter, "event_info")
    assert not service.polled_unnamed, "the exporter has asked for the name first"
    assert scrape.series("instance_info") == [(labels_of(body), 1)]
    host = json.loads(body.read_bytes())["compute"]["osProfile"]["computerName"]
    assert scrape.series("host_info") == [({"computer_name": host}, 1)]
    own, in_capitals, of_host, longer = service.resources
    assert scopes(scrape) == {own: "self", in_capitals: "self", of_host: "peer", longer: "peer"}
    assert scrape.value("started", event_type="Reboot", scope="self") == 2
    assert scrape.total("started", event_type="Reboot", scope="unknown") == 0
    # The name was known before the first document, so no transition was counted with another scope.
    assert scrape.transitions(scope="unknown") == {}
    assert service.asked == 1, "a name that is known is not asked for again"


def test_learnt_in_the_background(service: Service, start_exporter: Start) -> None:
    """While IMDS does not say who the VM is, events have the scope unknown, and the exporter asks
    again.
    """
    exporter = start_exporter(service.url, "--poll.interval", "250ms")
    scrape = first_scrape_with(exporter, "event_info")
    assert scopes(scrape) == {"vm": "unknown"}
    assert scrape.series("instance_info") == []
    service.instance = b'{"compute": {"name": ""}}'  # an answer, but no name
    eventually(lambda: service.asked >= 2, "another try")
    service.instance = b'{"compute": {"name": "vm", "location": "westeurope"}}'
    scrape = first_scrape_with(exporter, "instance_info")
    assert [labels["location"] for labels, _ in scrape.series("instance_info", vm_name="vm")] == [
        "westeurope"
    ]
    assert scrape.series("host_info") == []
    exporter.shows("the scope", lambda now: scopes(now) == {"vm": "self"})
    scrape = exporter.scrape()
    assert scrape.value("started", event_type="Reboot", scope="self") == 1
    assert scrape.total("started", event_type="Reboot", scope="unknown") == 0
    assert scrape.total("transitions_total", transition="detected") == 1
    assert scrape.value("up") == 1
    assert len(exporter.lines("VM name unknown")) == 1
    assert len(exporter.lines("this VM's name is known")) == 1


def test_flag_wins(service: Service, start_exporter: Start) -> None:
    """--instance.name overrides the name from IMDS; the other labels still come from IMDS."""
    service.instance = TEAMCITY.read_bytes()
    service.resources = ["chosen", "examplevmname"]
    exporter = start_exporter(service.url, "--instance.name", "chosen", "--poll.interval", "250ms")
    scrape = first_scrape_with(exporter, "instance_info", location="westus")
    assert scrape.series("instance_info") == [({**labels_of(TEAMCITY), "vm_name": "chosen"}, 1)]
    assert scopes(scrape) == {"chosen": "self", "examplevmname": "peer"}


def test_polling_does_not_wait_for_the_name(service: Service, start_exporter: Start) -> None:
    """An IMDS that hangs when asked about the VM keeps no event from being seen."""
    service.hang = True
    exporter = start_exporter(service.url)
    scrape = first_scrape_with(exporter, "event_info")
    assert scopes(scrape) == {"vm": "unknown"}
    exporter.shows("the end of the poll", lambda now: now.value("up") == 1)
    assert exporter.terminate() == 0
