"""What counts as a web page that a proxy or a sign-in sends in place of an answer."""

import pytest
from requests.structures import CaseInsensitiveDict

from azure_scheduled_events_exporter.http_client.web_page import is_web_page


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("text/html; charset=utf-8", b"<head><title>Sign in</title>"),
        ("Application/XHTML+XML", b"\n<body>"),
        ("", b"<!DOCTYPE html><p>Sign in</p>"),
        ("", b"\xef\xbb\xbf<html>"),
        ("application/json", b'<?xml version="1.0"?>\n<!-- a proxy -->\n<HTML lang="en">'),
    ],
)
def test_pages(content_type: str, body: bytes) -> None:
    """HTML is a web page whatever its type is said to be, and so is any markup that claims to be
    HTML.
    """
    assert is_web_page(CaseInsensitiveDict({"Content-Type": content_type}), body)


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("text/html", b""),  # some web frameworks give an empty answer this type
        ("text/html", b'{"status": "success"}'),
        ("application/xml", b'<?xml version="1.0"?><Error/>'),
        ("", b"<Error><Code>AccessDenied</Code></Error>"),
        ("application/json", b'{"page": "<html>"}'),
    ],
)
def test_answers(content_type: str, body: bytes) -> None:
    """An empty answer, JSON and XML are no web pages, also if their type says so."""
    assert not is_web_page(CaseInsensitiveDict({"Content-Type": content_type}), body)
