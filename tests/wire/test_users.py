"""Users and headers of a web configuration file, through the server."""

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import bcrypt
import pytest

from azure_scheduled_events_exporter.http_server.access import WebAccess
from support.programs import eventually
from support.servers.serving import PAGE, Answer, Running, basic, header, request, serving, status

Guarded = Callable[[str], AbstractContextManager[Running]]
REALM = 'Basic realm="azure-scheduled-events-exporter", charset="UTF-8"'


def hashed(password: bytes, cost: int = 4, prefix: str = "2b") -> str:
    """Return a hash as htpasswd makes it; each further ``cost`` takes twice as long to check."""
    return bcrypt.hashpw(password, bcrypt.gensalt(cost)).decode().replace("$2b$", f"${prefix}$")


@pytest.fixture(name="guarded")
def _guarded(tmp_path: Path) -> Guarded:
    @contextmanager
    def guarded(text: str) -> Iterator[Running]:
        """Run a server with this web configuration."""
        path = tmp_path / "web.yml"
        path.write_text(text + "\n")
        with serving(
            access=lambda log: WebAccess(path, {"/-/healthy"}, pause=0.03, log=log)
        ) as running:
            yield running

    return guarded


@pytest.fixture
def running(guarded: Guarded) -> Iterator[Running]:
    """A server for alice with the password secret, and bob with the password hidden.

    The password of an unknown user is checked by the hash of the highest cost, which is bob's.
    """
    with guarded(
        f"basic_auth_users: {{alice: {hashed(b'secret')}, bob: {hashed(b'hidden', 5)}}}"
    ) as server:
        yield server


def assert_refused(answer: Answer) -> None:
    """Check the one answer that everybody gets without a right password."""
    assert (answer.status, answer.body) == (401, b"user name and password required\n")
    assert answer.headers["www-authenticate"] == REALM


@pytest.mark.parametrize(("user", "password"), [("alice", "secret"), ("bob", "hidden")])
def test_right_password(user: str, password: str, running: Running) -> None:
    """The right password gets the page, and 404 at a path where nothing is."""
    for _ in range(2):  # checked, and remembered
        assert running.get(Authorization=basic(user, password))[:2] == (200, PAGE)
    assert running.get("/nowhere", Authorization=basic(user, password)).status == 404


@pytest.mark.parametrize(
    ("user", "password"),
    [("alice", "hidden"), ("bob", "secret"), ("carol", "hidden"), ("", ""), ("alice", "")],
)
def test_wrong_password(user: str, password: str, running: Running) -> None:
    """A wrong password and an unknown user are refused, also the second time, without a word in the
    log.
    """
    for _ in range(2):
        assert_refused(running.get(Authorization=basic(user, password)))
    assert [record for record in running.records if record.levelno > logging.INFO] == []


@pytest.mark.parametrize(
    "authorization",
    [
        pytest.param("Bearer abc", id="another scheme"),
        pytest.param("Basic", id="nothing"),
        pytest.param("Basic !", id="not base64"),
        pytest.param("Basic YWxpY2U", id="cut base64"),
        pytest.param("Basic YWxpY2U=", id="no colon"),
    ],
)
def test_malformed_credentials(authorization: str, running: Running) -> None:
    """A header that holds no user and password is refused like a wrong password."""
    assert_refused(running.get(Authorization=authorization))


def test_every_path_but_one_needs_a_password(running: Running) -> None:
    """Without a password, every path and method is refused. Only /-/healthy needs none: as nothing
    is served there in this test, the answer is 404.
    """
    for path in ("/metrics", "/", "/nowhere", "/-/healthy/../../metrics"):
        assert_refused(running.get(path))
    assert_refused(running.get(method="POST"))
    for healthy in ("/-/healthy", "/%2D/healthy"):  # %2D is a hyphen
        assert running.get(healthy).status == 404


@pytest.mark.parametrize("prefix", ["2a", "2b", "2y"])
def test_prefix(prefix: str, guarded: Guarded) -> None:
    """Hashes of htpasswd, of Go and of Python are all taken."""
    with guarded(f"basic_auth_users: {{alice: {hashed(b'secret', prefix=prefix)}}}") as running:
        assert running.get(Authorization=basic("alice", "secret")).status == 200


@pytest.mark.parametrize(
    ("password", "right", "wrong"),
    [
        pytest.param(
            "p:ss: wörd".encode(), "p:ss: wörd".encode(), b"p:ss: word", id="colons, another script"
        ),
        pytest.param(b"", b"", b" ", id="nothing"),
        # Bcrypt reads 72 bytes and no more, as in the exporter toolkit of Prometheus.
        pytest.param(b"x" * 72, b"x" * 72 + b"y", b"x" * 71 + b"y", id="more than bcrypt reads"),
        pytest.param(b"a", b"a", b"a\0", id="NUL"),
    ],
)
def test_odd_passwords(password: bytes, right: bytes, wrong: bytes, guarded: Guarded) -> None:
    """An odd password lets in as any other does, and a similar one does not."""
    with guarded(f"basic_auth_users: {{alice: {hashed(password)}}}") as running:
        # The second time, the right password is known, and is not checked by bcrypt again.
        for _ in range(2):
            assert running.get(Authorization=basic("alice", right)).status == 200
            assert running.get(Authorization=basic("alice", wrong)).status == 401


def test_parts_are_not_confused(guarded: Guarded) -> None:
    """A verified pair lets in nobody whose user and password are the same characters, cut at
    another place.
    """
    with guarded(f"basic_auth_users: {{al: {hashed(b'ice:x')}, alice: {hashed(b'y')}}}") as running:
        assert running.get(Authorization=basic("al", "ice:x")).status == 200
        assert running.get(Authorization=basic("alice", ":x")).status == 401
        assert running.get(Authorization=basic("alice", "x")).status == 401


@contextmanager
def guessing(running: Running) -> Iterator[set[int]]:
    """Guess alice's password in twenty threads; yield the set of all statuses that come back."""
    end = threading.Event()
    codes: set[int] = set()

    def guess(number: int) -> None:
        tries = 0
        while not end.is_set():
            tries += 1
            codes.add(running.get(Authorization=basic("alice", f"{number}-{tries}")).status)

    threads = 20
    with ThreadPoolExecutor(threads) as pool:
        guesses = [pool.submit(guess, number) for number in range(threads)]
        try:
            yield codes
        finally:
            end.set()
        for each in guesses:
            each.result()  # raises what the thread has raised


def test_guessing_stops_no_scrape(guarded: Guarded) -> None:
    """Guesses from one address get 401 or 429; a verified scraper and another address read
    meanwhile.
    """
    cost = 7  # enough for the checks of the guesses to queue
    with guarded(
        f"basic_auth_users: {{alice: {hashed(b'secret', cost)}, bob: {hashed(b'hidden', cost)}}}"
    ) as running:
        alice = basic("alice", "secret")
        assert running.get(Authorization=alice).status == 200
        with guessing(running) as codes:
            eventually(lambda: codes == {401, 429}, "guesses are refused without a check")
            for _ in range(5):
                assert running.get(Authorization=alice).status == 200
            with running.connect(source="127.0.0.2") as client:
                bob = f"Authorization: {basic('bob', 'hidden')}"
                client.sendall(request("/metrics", "GET", "1.1", bob, "Connection: close"))
                assert status(client.recv(65536)) == 200


def test_many_scrapers_with_one_password(guarded: Guarded) -> None:
    """Scrapers that come at once with the same user and password share one check. Thirty checks
    would be too many, and some of these scrapers would be refused.
    """
    with (
        # A check of cost 10 takes so long that many scrapers come before the first one is done.
        guarded(f"basic_auth_users: {{alice: {hashed(b'secret', 10)}}}") as running,
        ThreadPoolExecutor(30) as pool,
    ):
        answers = [
            pool.submit(running.get, Authorization=basic("alice", "secret")) for _ in range(30)
        ]
        assert {each.result().status for each in answers} == {200}


def test_users_change(guarded: Guarded, tmp_path: Path) -> None:
    """Once the file has changed, a user whose line is the same still has access. One that was
    removed is refused, and so is the old password of one that got a new password.
    """
    same = f"alice: {hashed(b'secret')}"
    with guarded(
        f"basic_auth_users: {{{same}, bob: {hashed(b'hidden')}, carol: {hashed(b'c')}}}"
    ) as running:
        pairs = [basic("alice", "secret"), basic("bob", "hidden"), basic("carol", "c")]
        *_, carol = pairs
        assert [running.get(Authorization=each).status for each in pairs] == [200, 200, 200]
        (tmp_path / "web.yml").write_text(f"basic_auth_users: {{{same}, bob: {hashed(b'new')}}}\n")
        eventually(lambda: running.get(Authorization=carol).status == 401, "carol is refused")
        assert [running.get(Authorization=each).status for each in pairs] == [200, 401, 401]
        assert running.get(Authorization=basic("bob", "new")).status == 200


def test_headers(guarded: Guarded) -> None:
    """Headers of the file are on every answer to a request, good or bad, and take the place of
    ours.
    """
    policy = "default-src 'none'"
    text = (
        f'http_server_config: {{headers: {{Content-Security-Policy: "{policy}",'
        " X-Content-Type-Options: nosniff}}"
    )
    with guarded(text) as running:
        answers = [
            running.talk(request()),
            running.talk(request("/nowhere")),
            running.talk(request(method="POST")),
        ]
    assert [status(answer) for answer in answers] == [200, 404, 405]
    for answer in answers:
        assert header(answer, "Content-Security-Policy") == policy
        assert answer.lower().count(b"x-content-type-options") == 1
