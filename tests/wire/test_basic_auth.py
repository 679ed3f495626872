"""Users and passwords of a web configuration file: who gets the page, and with which headers and limits."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import bcrypt
import pytest

from azure_scheduled_events_exporter.http_server.access import WebAccess
from support.servers.serving import PAGE, Running, basic, header, request, serving, status

REALM = 'Basic realm="azure-scheduled-events-exporter", charset="UTF-8"'
ASKED = "user name and password required"


def hashed(password: bytes, cost: int = 4, prefix: str = "2b") -> str:
    """Return a real bcrypt hash."""
    return bcrypt.hashpw(password, bcrypt.gensalt(cost)).decode().replace("$2b$", f"${prefix}$")


@pytest.fixture(name="guarded")
def _guarded(tmp_path: Path) -> Callable[[str], AbstractContextManager[Running]]:
    """Serve with a web configuration file, and /-/healthy without a password."""
    path = tmp_path / "web.yml"

    def serve(text: str) -> AbstractContextManager[Running]:
        path.write_text(text)
        return serving(access=lambda log: WebAccess(path, {"/-/healthy", "/open"}, pause=0.05, log=log))

    return serve


class TestUsers:
    """Who is let in by a file."""

    def test_password(self, guarded: Callable[[str], AbstractContextManager[Running]]) -> None:
        """The right password gets the page; none, a wrong one and an unknown user get the same 401, on every path."""
        with guarded(f"basic_auth_users: {{alice: {hashed(b'secret')}, bob: {hashed(b'hidden', 5)}}}") as running:
            for user, password in (("alice", "secret"), ("bob", "hidden")):
                for _ in range(2):
                    assert running.get(Authorization=basic(user, password))[:2] == (200, PAGE)
            refusals = []
            for user, password in (
                ("alice", "hidden"),
                ("bob", "secret"),
                ("carol", "secret"),
                ("", ""),
                ("alice", ""),
            ):
                refusals += [running.get(Authorization=basic(user, password)) for _ in range(2)]
            refusals += [running.get(path) for path in ("/metrics", "/", "/nowhere", "/%2D/healthier")]
            refusals += [running.get(method="POST"), running.get(Authorization="Bearer abc")]
            for code, body, headers in refusals:
                assert (code, body, headers["WWW-Authenticate"]) == (401, f"{ASKED}\n".encode(), REALM)
            assert running.get("/-/healthy")[0] == 404  # nothing is served there in this test, but everybody may ask
            assert running.get("/%2D/healthy")[0] == 404
            assert running.get("/nowhere", Authorization=basic("alice", "secret"))[0] == 404

    @pytest.mark.parametrize("prefix", ["2a", "2b", "2y"])
    def test_prefix(self, prefix: str, guarded: Callable[[str], AbstractContextManager[Running]]) -> None:
        """Hashes of htpasswd, of Go and of Python are all taken."""
        with guarded(f"basic_auth_users: {{alice: {hashed(b'secret', prefix=prefix)}}}") as running:
            assert running.get(Authorization=basic("alice", "secret"))[0] == 200

    @pytest.mark.parametrize(
        ("password", "right", "wrong"),
        [
            ("p:ss: wörd".encode(), "p:ss: wörd".encode(), b"p:ss: word"),
            (b"", b"", b" "),
            (b"x" * 72, b"x" * 72 + b"y", b"x" * 71 + b"y"),  # bcrypt sees no further: as in the toolkit
            (b"a", b"a", b"a\0"),
            (b"a", b"a", b"a\0a"),  # the same key for bcrypt, which repeats it with a NUL between
        ],
    )
    def test_odd_passwords(
        self, password: bytes, right: bytes, wrong: bytes, guarded: Callable[[str], AbstractContextManager[Running]]
    ) -> None:
        """Colons, other scripts, nothing, more than bcrypt sees and NUL: each is answered, and never by a 500."""
        with guarded(f"basic_auth_users: {{alice: {hashed(password)}}}") as running:
            for _ in range(2):
                assert running.get(Authorization=basic("alice", right))[0] == 200
                assert running.get(Authorization=basic("alice", wrong))[0] == 401

    def test_rate_limit(self, guarded: Callable[[str], AbstractContextManager[Running]]) -> None:
        """Requests above the rate limit get 429; the open paths are not counted."""
        with guarded("rate_limit: {interval: 1h, burst: 2}") as running:
            assert [running.get("/-/healthy")[0] for _ in range(5)] == [404] * 5
            assert [running.get()[0] for _ in range(3)] == [200, 200, 429]
            assert running.get()[2]["Retry-After"] == "1"
            assert running.get("/open")[0] == 404

    def test_headers(self, guarded: Callable[[str], AbstractContextManager[Running]]) -> None:
        """Headers of the file are on every answer, good or bad, and take the place of ours."""
        policy = "default-src 'none'"
        text = (
            f'http_server_config: {{headers: {{Content-Security-Policy: "{policy}", X-Content-Type-Options: nosniff}}}}'
        )
        with guarded(text) as running:
            answers = [
                running.talk(request()),
                running.talk(request("/nowhere")),
                running.talk(request(method="POST")),
                running.talk(b"nonsense\r\n\r\n"),
            ]
        assert [status(answer) for answer in answers] == [200, 404, 405, 400]
        for answer in answers:
            assert header(answer, "Content-Security-Policy") == policy
            assert answer.lower().count(b"x-content-type-options") == 1
