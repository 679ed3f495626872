"""How often IMDS is asked who this VM is, and what an answer changes."""

import logging
from itertools import groupby

from azure_scheduled_events_exporter.core.instance import Instance
from azure_scheduled_events_exporter.imds.api_versions import ApiVersions
from azure_scheduled_events_exporter.imds.client import ImdsClient
from azure_scheduled_events_exporter.imds.rate_limiter import RateLimiter
from azure_scheduled_events_exporter.service.identification import Identification
from support.servers.imds_peer import CASES, LONG_LIMIT, Peer, answer

MINUTE = 60.0


def stored_answer(name: str) -> bytes:
    """Return the answer about a VM that the stored case ``name`` has."""
    return answer((CASES / f"{name}.instance.json").read_bytes())


def learnt(*answers: bytes) -> tuple[list[Instance], list[float]]:
    """Let IMDS give these answers, one to each request. Return the identities that are learnt from
    them, each once, and the pause after each request in seconds.
    """
    to_give = iter(answers)
    known: list[Instance | None] = []  # after each request
    pauses: list[float] = []

    def wait(seconds: float) -> bool:
        """Take note instead of waiting; return whether this was the last answer, so that no further
        request is sent. Called after each request.
        """
        known.append(asking.identity)
        pauses.append(seconds)
        return len(pauses) >= len(answers)

    peer = Peer(lambda connection, _: connection.sendall(next(to_give)))
    try:
        client = ImdsClient(
            peer.url,
            ApiVersions("2020-07-01"),
            RateLimiter(100),
            wait=lambda _: False,
            connect_seconds=LONG_LIMIT,
        )
        asking = Identification(client, LONG_LIMIT, None, wait, logging.getLogger("identification"))
        asking.run()
        assert asking.asked.is_set(), "the first poll waits for it"
    finally:
        peer.end()
    return [identity for identity, _ in groupby(known) if identity is not None], pauses


def test_moved_vm() -> None:
    """A VM that moves to another resource group or scale set while it runs is noticed within 15
    minutes.
    """
    found, pauses = learnt(
        stored_answer("full"),
        stored_answer("full"),
        answer(b"", "503 Moving"),
        stored_answer("moved"),
    )
    assert [(each.resource_group, each.scale_set) for each in found] == [
        ("rg1", "vmss1"),
        ("rg-moved", "flex2"),
    ]
    after_an_answer, _, after_a_failure, _ = pauses
    longest = after_an_answer + after_a_failure  # the VM moves after an answer, then one fails
    assert longest <= 15 * MINUTE
    assert after_an_answer >= 5 * MINUTE, "IMDS is not asked more often than necessary"


def test_part_of_an_answer_decides_nothing() -> None:
    """A partial answer gives the name at once; what is missing in a later one has not changed."""
    found, pauses = learnt(*map(stored_answer, ("partial", "partial", "full", "partial")))
    assert [(each.vm_name, each.vm_id != "") for each in found] == [("vm_0", False), ("vm_0", True)]
    after_part, after_part_again, *_ = pauses
    assert max(after_part, after_part_again) <= 30, "the rest is asked for soon"


def test_asked_every_other_second_for_the_name() -> None:
    """Until the name is known, no eviction is this VM's, so the pauses stay short, however long
    IMDS does not say.
    """
    _, pauses = learnt(*[answer(b"", "503 Busy")] * 20)
    assert max(pauses) <= 2
