"""Text from outside as commands print it."""

import pytest

from azure_scheduled_events_exporter.errors import printable, without_password


def test_what_can_be_printed_stays() -> None:
    """Letters of any language are printed as they are."""
    assert printable("Wartung für 維護 · vmss_0") == "Wartung für 維護 · vmss_0"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://me:sesame@host:80/x", "http://***@host:80/x"),
        ("http://me:ses@me@host", "http://***@host"),
        ("http://me:ses/me@host", "http://***@host"),
        ("http://me:ses?me#x@host", "http://***@host"),
        ("http://me:ses/me@one,http://me:sesame@two/x", "http://***@one,http://***@two/x"),
        ("me:sesame@host:4318", "***@host:4318"),
        ("me:ses/me@host", "***@host"),
        ("http:/me:sesame@host", "***@host"),
        ("host:4318", "host:4318"),
        ("http://host/mail@example", "http://host/mail@example"),
        ("http://host:9090/mail@example", "http://host:9090/mail@example"),
    ],
)
def test_addresses_are_shown_without_passwords(text: str, shown: str) -> None:
    """No part of a password is shown, whatever characters it has; an @ in a path is no end of a
    password.
    """
    assert without_password(text) == shown
