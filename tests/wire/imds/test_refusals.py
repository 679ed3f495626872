"""Who refuses instead of IMDS: Azure's Guest Proxy Agent, another cloud, or another server."""

import os
from pathlib import Path

import pytest

from azure_scheduled_events_exporter.approval.operator_requests import had_no_effect, summary
from azure_scheduled_events_exporter.errors import ImdsError, Outcome
from azure_scheduled_events_exporter.imds.client import ImdsClient
from azure_scheduled_events_exporter.imds.guest_proxy_agent import own_user
from support.servers.imds_peer import (
    LONG_LIMIT,
    MIB,
    Serve,
    always,
    answer,
    assert_one_line,
    client_of,
    failure,
    http_case,
    new_document,
)

NOT_AZURE = "not an Azure VM"
AGENT = "Azure's Guest Proxy Agent"
OTHER = "a proxy or another server answers"
HTML = b"<!DOCTYPE html>\n<html><body>Please sign in</body></html>"
XML = b'<?xml version="1.0" encoding="utf-8"?>\n<Error><Code>NotFound</Code></Error>'


def failed_approval(client: ImdsClient) -> ImdsError:
    """Return how an approval fails."""
    with pytest.raises(ImdsError) as caught:
        client.approve(["an-id"], LONG_LIMIT, new_document)
    return caught.value


@pytest.mark.parametrize(
    ("reply", "advice"),
    [
        (http_case("msp-403"), f"allow /metadata/scheduledevents for user {own_user()}"),
        (http_case("msp-421"), "the next request opens a new connection"),
        (answer(b"", "401 Unauthorized"), "look at systemctl status azure-proxy-agent"),
        (answer(b"", "502 Bad Gateway"), "ProxyAgent.log has the reason"),
    ],
    ids=["403", "421", "401", "502"],
)
def test_guest_proxy_agent(reply: bytes, advice: str, serve: Serve) -> None:
    """A refusal with an empty body is the agent's, of a poll as of an approval. Only a 403 was
    decided by a rule, so only there a rule is the advice. Nothing is said of a VM that is not in
    Azure, or that has no route to IMDS.
    """
    client = client_of(serve(always(reply)).url)
    for message in (str(failure(client)), str(failed_approval(client))):
        assert AGENT in message
        assert advice in message
        assert ("allow /" in message) == ("answered 403" in message)
        assert "see https://" in message
        assert NOT_AZURE not in message
        assert "route" not in message
        assert_one_line(message)


def test_a_body_that_is_too_large_is_not_empty(serve: Serve) -> None:
    """Only an empty refusal is the agent's: one with more than 1 MiB comes from elsewhere."""
    reply = answer(b"x" * (MIB + 1), "403 Forbidden")
    assert AGENT not in str(failure(client_of(serve(always(reply)).url)))


def test_no_rule_for_the_instance_data(serve: Serve) -> None:
    """If the agent refuses the instance data, the advice is to set the VM's name, and not to add a
    rule for the agent as for events: that would keep the instance data from other programs.
    """
    with pytest.raises(ImdsError) as caught:
        client_of(serve(always(http_case("msp-403"))).url).instance(LONG_LIMIT)
    assert "add no rule for /metadata/instance" in str(caught.value)
    assert "set --instance.name to this VM's name as it appears in Resources" in str(caught.value)
    assert "allow /" not in str(caught.value)


def test_user_without_an_account(tmp_path: Path) -> None:
    """The user that an advice names is the one that the agent sees: the agent reads /etc/passwd
    alone, and calls a user that is not in it ``undefined``.
    """
    accounts = tmp_path / "passwd"
    accounts.write_text(f"x:x:99999:0::/:\nme:x:{os.geteuid()}:0::/:\n")
    assert own_user(accounts) == "me"
    accounts.write_text("x:x:99999:0::/:\n")
    assert own_user(accounts).startswith("undefined (uid ")


@pytest.mark.parametrize(
    ("case", "evidence"),
    [
        ("other-cloud-gcp", "Google answers (header Metadata-Flavor)"),
        ("other-cloud-aws-401", "Amazon EC2's metadata service answers (header Server: EC2ws)"),
        ("other-cloud-aws-404", "Amazon EC2's metadata service answers (header Server: EC2ws)"),
    ],
)
def test_other_cloud(case: str, evidence: str, serve: Serve) -> None:
    """The metadata service of another cloud is named, with the evidence."""
    message = str(failure(client_of(serve(always(http_case(case))).url)))
    assert NOT_AZURE in message
    assert evidence in message
    assert AGENT not in message
    assert "moving" not in message, "no hint that IMDS may be about to answer"
    assert_one_line(message)


@pytest.mark.parametrize(
    ("reply", "evidence"),
    [
        (answer(HTML, "403 Forbidden", "Content-Type: text/html"), "with a web page"),
        (answer(HTML, "503 Service Unavailable"), "with a web page"),
        (answer(XML, "404 Not Found", "Content-Type: text/xml"), "with XML"),
        (answer(XML, "400 Bad Request"), "with XML"),
        (answer(b"", "302 Found", "Location: http://login.example.org/"), "with a redirect"),
        (answer(b"no", "404 Not Found", "Server: nginx"), "(header Server: nginx)"),
        (answer(b"", "204 No Content", "Via: 1.1 bc01 (squid/3.5.27)"), "(header Via: 1.1 bc01"),
        (answer(b"", "403 Forbidden", "Via: 1.1 proxy"), "(header Via: 1.1 proxy)"),
        (answer(b"", "407 Proxy Authentication Required"), "and wants a user"),
        (answer(b"", "403 Forbidden", "Server: squid/5.7"), "(header Server: squid/5.7)"),
    ],
    ids=[
        "page-403",
        "page-503",
        "xml-404",
        "xml-400",
        "redirect",
        "nginx",
        "via-squid",
        "via-proxy",
        "proxy-password",
        "squid",
    ],
)
def test_other_server(reply: bytes, evidence: str, serve: Serve) -> None:
    """A proxy, a web server and the wire server are distinguished from IMDS, and the address is
    doubted.
    """
    message = str(failure(client_of(serve(always(reply)).url)))
    assert OTHER in message
    assert evidence in message
    assert "check --imds.endpoint" in message
    assert AGENT not in message
    assert "api-version" not in message
    assert_one_line(message)


def test_page_of_a_sign_in(serve: Serve) -> None:
    """An error says that a web page with the status 200 is one, and that somebody else than IMDS
    sent it, in answer to a poll as to an approval.
    """
    client = client_of(serve(always(answer(HTML))).url)
    for error in (failure(client), failed_approval(client)):
        assert error.outcome is Outcome.INVALID_DOCUMENT
        assert "answered with a web page" in str(error)
        assert OTHER in str(error)


@pytest.mark.parametrize("body", [HTML, b"x" * (MIB + 1)], ids=["web page", "too large"])
def test_no_certain_answer_to_an_approval(body: bytes, serve: Serve) -> None:
    """What IMDS does not send says nothing about an approval, also with the status 200: the event
    may be approved, and may not.
    """
    error = failed_approval(client_of(serve(always(answer(body))).url))
    assert not had_no_effect(error)
    assert summary(error) == "approval without a certain answer"


@pytest.mark.parametrize("server", ["Microsoft-IIS/10.0", "IMDS/150.870.65.1854"])
def test_server_of_azure(server: str, serve: Serve) -> None:
    """IMDS' own answers are not taken for another server's."""
    reply = answer(b'{"error": "Internal error"}', "500 Internal Server Error", f"Server: {server}")
    message = str(failure(client_of(serve(always(reply)).url)))
    assert "usually temporary" in message
    assert OTHER not in message


def test_version_of_a_setting(serve: Serve) -> None:
    """If IMDS refuses a request and names no cause, the error doubts the api-version of the events,
    which a flag may have set. It does not doubt that of the instance data, which no flag sets.
    """
    client = client_of(serve(always(answer(b"", "400 Bad Request"))).url)
    assert "; also check --imds.api-version (2020-07-01)" in str(failure(client))
    with pytest.raises(ImdsError) as caught:
        client.instance(LONG_LIMIT)
    assert "also check" not in str(caught.value)


def test_no_version_of_the_instance_data(serve: Serve) -> None:
    """If IMDS refuses every api-version of the instance data, which no flag chooses, the error says
    that a flag can give the VM's name.
    """
    client = client_of(serve(always(http_case("version-unknown-404"))).url)
    with pytest.raises(ImdsError, match="give this VM's name as it appears in Resources") as caught:
        client.instance(LONG_LIMIT)
    assert "--instance.name" in str(caught.value)
    assert "--imds.api-version" not in str(caught.value)
