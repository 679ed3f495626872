"""Checks of passwords: what they cost, what is remembered of them, and that no client delays another."""

import asyncio
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack

import pytest

from azure_scheduled_events_exporter.http_server.basic_auth import BasicAuth, Refusal
from azure_scheduled_events_exporter.http_server.connection import Limits
from azure_scheduled_events_exporter.http_server.messages import Request
from azure_scheduled_events_exporter.http_server.tls import Tls
from support.programs import eventually
from support.servers.serving import LIMITS, PATIENCE, Running, basic, header, read_all, request, serving, status


def asking(user: str, password: str, path: str = "/metrics", *headers: str) -> bytes:
    """Return the bytes of a request with a password."""
    return request(path, "GET", "1.1", f"Authorization: {basic(user, password)}", *headers)


class Gate:
    """A comparison that can be held up; the "hash" of a password is the password behind a cost, ``$2b$10$secret``."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.open.set()
        self.seen: list[tuple[bytes, bytes]] = []

    def matches(self, password: bytes, stored: bytes) -> bool:
        """Compare as soon as the gate is open."""
        self.seen.append((password, stored))
        assert self.open.wait(PATIENCE)
        if password == b"trouble":
            raise ZeroDivisionError
        return stored[7:] == password

    def work(self) -> int:
        """Return what bcrypt would have worked since this was last asked."""
        seen, self.seen = self.seen, []
        return sum(1 << int(stored[4:6]) for _, stored in seen)


class GatedAccess:
    """Plain HTTP with passwords, which the gate compares."""

    tls: Tls | None = None
    headers: tuple[tuple[str, str], ...] = ()

    def __init__(self, gate: Gate, users: dict[bytes, bytes], log: logging.Logger) -> None:
        self._pool = ThreadPoolExecutor(1)
        self._auth = BasicAuth(users.items(), gate.matches, self._pool, log)

    def admit(self, request: Request, client: str) -> Refusal | asyncio.Future[Refusal]:
        """Require a password."""
        return self._auth.judge(request.headers.get("authorization", ""), client)

    async def watch(self, retire: Callable[[bool], None]) -> None:
        """Nothing changes."""

    def close(self) -> None:
        """End the thread."""
        self._pool.shutdown(wait=False, cancel_futures=True)


@pytest.fixture(name="gate")
def _gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.open.set()


def gated(gate: Gate, limits: Limits = LIMITS, **users: str) -> AbstractContextManager[Running]:
    """Serve to ``users``, each with the hash of the gate."""
    stored = {name.encode(): text.encode() for name, text in (users or {"scraper": "$2b$10$secret"}).items()}
    return serving(limits=limits, access=lambda log: GatedAccess(gate, stored, log))


def connect(running: Running, source: str) -> socket.socket:
    """Return a connection of the client ``source``, one of this machine's many loopback addresses."""
    return socket.create_connection(("127.0.0.1", running.server.port), PATIENCE, (source, 0))


def answered(client: socket.socket) -> int:
    """Return the status of the next answer, and read all of it."""
    with client.makefile("rb") as file:
        code = int(file.readline().split()[1])
        length = 0
        while line := file.readline().strip():
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        file.read(length)
    return code


class TestCost:
    """The cost of a check, and stored results."""

    def test_unknown_user(self, gate: Gate) -> None:
        """An unknown user costs the same work as each known one, although their hashes differ in cost."""
        with gated(gate, cheap="$2b$04$one", dear="$2b$12$two") as running:
            for user, password in (("cheap", "x"), ("cheap", "one"), ("dear", "x"), ("dear", "two"), ("nobody", "x")):
                running.get(Authorization=basic(user, password))
                assert gate.work() == 1 << 12, user

    def test_remembered(self, gate: Gate) -> None:
        """Right and wrong passwords, of known and unknown users, are checked once and then remembered."""
        with gated(gate) as running:
            for user, password, code in (("scraper", "secret", 200), ("scraper", "x", 401), ("nobody", "x", 401)):
                assert [running.get(Authorization=basic(user, password))[0] for _ in range(4)] == [code] * 4
                assert gate.work() == 1 << 10

    def test_no_confusion(self, gate: Gate) -> None:
        """What is remembered of one user and password never answers for another, however they are cut."""
        with gated(gate, a="$2b$04$bc", ab="$2b$04$bc") as running:
            assert running.get(Authorization=basic("a", "bc"))[0] == 200
            for user, password in (
                ("ab", "c"),
                ("abc", ""),
                ("", "abc"),
                ("a$2b$04$bc", ""),
                ("a", "$2b$04$bc"),
                ("a", "b"),
            ):
                gate.work()
                assert running.get(Authorization=basic(user, password))[0] == 401
                assert gate.work(), (user, password)

    def test_digest(self, gate: Gate) -> None:
        """What is remembered is told apart wherever user, hash and password are cut, and differs between processes."""
        one, two = (
            BasicAuth([(b"a", b"$2b$04$")], gate.matches, ThreadPoolExecutor(1), logging.root) for _ in range(2)
        )
        cuts = [(b"abc", b"", b""), (b"ab", b"c", b""), (b"a", b"bc", b""), (b"a", b"b", b"c"), (b"", b"", b"abc")]
        digests = {auth._digest(*cut) for auth in (one, two) for cut in cuts}
        assert len(digests) == 2 * len(cuts)

    def test_knowing_the_hash(self, gate: Gate) -> None:
        """Who knows a stored hash cannot make the memory take it for the password, as the toolkit once did."""
        with gated(gate) as running:
            stored = "$2b$10$secret"
            for user, password in ((f"scraper{stored}", ""), ("scraper", stored), (f"scraper:{stored}", stored)):
                assert running.get(Authorization=basic(user, password))[0] == 401
            assert running.get(Authorization=basic("scraper", ""))[0] == 401
            assert running.get(Authorization=basic("scraper", stored))[0] == 401

    def test_wrong_ones_do_not_push_out(self, gate: Gate) -> None:
        """After any number of wrong passwords, the right one is still stored, and the latest of the wrong ones."""
        with gated(gate) as running, running.connect() as client:
            client.sendall(asking("scraper", "secret"))
            assert answered(client) == 200
            for number in range(300):
                client.sendall(asking("scraper" if number % 2 else f"user {number}", f"wrong {number}"))
                assert answered(client) == 401
            gate.work()
            for user, password, code in (("scraper", "secret", 200), ("scraper", "wrong 299", 401)):
                client.sendall(asking(user, password))
                assert answered(client) == code
            assert gate.work() == 0
            client.sendall(asking("scraper", "wrong 1"))
            assert answered(client) == 401
            assert gate.work() == 1 << 10

    def test_failing_comparison(self, gate: Gate) -> None:
        """A comparison that raises refuses access, is logged, and is not stored."""
        with gated(gate, scraper="$2b$10$trouble") as running:
            assert [running.get(Authorization=basic("scraper", "trouble"))[0] for _ in range(2)] == [500, 500]
            assert {record.levelname for record in running.records} == {"ERROR"}
            assert gate.work() == 2 << 10


class TestWaiting:
    """Checks take long, and only those who need one wait."""

    def test_known_scraper_does_not_wait(self, gate: Gate) -> None:
        """While wrong passwords are checked, a scraper that was right before is answered at once, and so is nobody."""
        with gated(gate) as running:
            assert running.get(Authorization=basic("scraper", "secret"))[0] == 200
            gate.open.clear()
            guessers = [running.connect() for _ in range(3)]
            for number, guesser in enumerate(guessers):
                guesser.sendall(asking("scraper", f"guess {number}"))
            eventually(lambda: len(gate.seen) > 1, "the first guess")
            assert running.get(Authorization=basic("scraper", "secret"))[0] == 200
            assert running.get()[0] == 401
            gate.open.set()
            for guesser in guessers:
                assert answered(guesser) == 401
                guesser.close()

    def test_one_client_cannot_fill_the_queue(self, gate: Gate) -> None:
        """Of a client with many guesses a few wait and the rest get 503; a new scraper elsewhere has its turn."""
        with gated(gate) as running:
            gate.open.clear()
            guessers = [connect(running, "127.0.0.2") for _ in range(10)]
            for number, guesser in enumerate(guessers):
                guesser.sendall(asking("scraper", f"guess {number}"))
            eventually(lambda: len(gate.seen) == 1, "the first guess")
            codes = [answered(guesser) for guesser in guessers[4:]]
            scraper = connect(running, "127.0.0.3")
            scraper.sendall(asking("scraper", "secret"))
            gate.open.set()
            assert codes == [503] * 6
            assert answered(scraper) == 200
            assert [answered(guesser) for guesser in guessers[:4]] == [401] * 4
            for client in (scraper, *guessers):
                client.close()

    def test_all_clients_together(self, gate: Gate) -> None:
        """From however many addresses they come, only so many checks wait; the rest get 503 at once."""
        with gated(gate) as running:
            gate.open.clear()
            guessers = [connect(running, f"127.0.1.{number}") for number in range(1, 41)]
            for number, guesser in enumerate(guessers):
                guesser.sendall(asking("scraper", f"guess {number}"))
                eventually(lambda: gate.seen, "the first guess")
            assert {answered(guesser) for guesser in guessers[32:]} == {503}
            gate.open.set()
            assert {answered(guesser) for guesser in guessers[:32]} == {401}
            for guesser in guessers:
                guesser.close()

    def test_same_password_is_checked_once(self, gate: Gate) -> None:
        """Scrapers that come at once with the same password wait for one check."""
        with gated(gate) as running:
            gate.open.clear()
            scrapers = [running.connect() for _ in range(50)]
            for scraper in scrapers:
                scraper.sendall(asking("scraper", "secret"))
            guesser = connect(running, "127.0.0.2")
            guesser.sendall(asking("scraper", "guess"))
            eventually(lambda: len(gate.seen) == 1, "the check")
            gate.open.set()
            assert [answered(scraper) for scraper in scrapers] == [200] * 50
            assert answered(guesser) == 401
            guesser.close()
            gate.seen.pop()
            assert len(gate.seen) == 1
            for scraper in scrapers:
                scraper.close()

    def test_pipeline(self, gate: Gate) -> None:
        """Of requests sent at once only the first is checked and answered."""
        with gated(gate) as running:
            answer = running.talk(asking("scraper", "x") + asking("scraper", "secret") * 2)
        assert [int(part.split(b" ", 1)[0]) for part in answer.split(b"HTTP/1.1 ")[1:]] == [401]

    def test_head_whose_check_takes_too_long(self, gate: Gate) -> None:
        """HEAD gets 503 without a body when its check takes too long, and idle clients are closed in time as before."""
        gate.open.clear()
        limits = Limits(check_seconds=0.2, request_seconds=2.0)
        with gated(gate, limits) as running, running.connect() as client:
            client.sendall(asking("scraper", "secret").replace(b"GET", b"HEAD", 1))
            answer = read_all(client)
            assert status(answer) == 503
            assert answer.endswith(b"\r\n\r\n")
            assert answer.count(b"\r\n\r\n") == 1
            with running.connect() as idle:
                assert read_all(idle) == b""
            gate.open.set()
            assert running.records == []

    def test_flood_from_many_clients(self, gate: Gate) -> None:
        """While eight clients fill the queue with wrong passwords, another client's check comes after one of each."""
        gate.open.clear()
        with gated(gate) as running, ExitStack() as stack:
            flood = [stack.enter_context(connect(running, f"127.0.0.{2 + number % 8}")) for number in range(40)]
            for number, client in enumerate(flood):
                client.sendall(asking("scraper", f"wrong {number}"))
            assert {answered(client) for client in flood[32:]} == {503}  # so the others wait
            scraper = stack.enter_context(connect(running, "127.0.0.99"))
            scraper.sendall(asking("scraper", "secret"))
            assert answered(flood[24]) == 503  # which made room
            gate.open.set()
            assert answered(scraper) == 200
            assert (b"secret", b"$2b$10$secret") in gate.seen[:12]

    def test_stop_with_waiting_checks(self, gate: Gate) -> None:
        """A server that stops while checks wait ends without an error."""
        for _ in range(20):
            gate.open.clear()
            with gated(gate) as running, ExitStack() as stack:
                for number in range(8):
                    client = stack.enter_context(connect(running, f"127.0.0.{2 + number}"))
                    client.sendall(asking("scraper", f"wrong {number}"))
                eventually(lambda: len(running.server._connections) == 8, "the connections")
                gate.open.set()

    def test_client_leaves(self, gate: Gate) -> None:
        """A client that leaves, politely or not, while its password is checked harms nobody."""
        with gated(gate) as running:
            gate.open.clear()
            for number, linger in enumerate((False, True)):
                client = running.connect()
                client.sendall(asking("scraper", f"guess {number}"))
                wanted = number + 1
                eventually(lambda: len(running.server._connections) == wanted, "the connection")  # noqa: B023 - at once
                if linger:  # a reset instead of an end
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                client.close()
            eventually(lambda: gate.seen, "the check")
            gate.open.set()
            eventually(lambda: not running.server._connections, "the end of both connections")
            assert running.get(Authorization=basic("scraper", "secret"))[0] == 200

    def test_deadline(self, gate: Gate) -> None:
        """A check that does not come to its turn in time is given up with 503, and costs nothing later."""
        with gated(gate, Limits(check_seconds=2.0)) as running:
            gate.open.clear()
            first, second = running.connect(), running.connect()
            first.sendall(asking("scraper", "guess 1"))
            eventually(lambda: gate.seen, "the first guess")
            second.sendall(asking("scraper", "guess 2"))
            for client in (first, second):
                answer = read_all(client)
                assert (status(answer), header(answer, "Connection")) == (503, "close")
                client.close()
            gate.open.set()
            assert running.get(Authorization=basic("scraper", "secret"))[0] == 200
            assert [password for password, _ in gate.seen] == [b"guess 1", b"secret"]

    def test_stop(self, gate: Gate) -> None:
        """The server ends at once, although a password is being checked and others wait."""
        with gated(gate) as running:
            gate.open.clear()
            clients = [running.connect() for _ in range(3)]
            for number, client in enumerate(clients):
                client.sendall(asking("scraper", f"guess {number}"))
            eventually(lambda: gate.seen, "the first guess")
        for client in clients:
            assert read_all(client) == b""
            client.close()

    def test_cap(self, gate: Gate) -> None:
        """At the cap of connections an idle one makes room before one whose password is being checked."""
        with gated(gate, Limits(connections=2)) as running:
            gate.open.clear()
            asked = running.connect()
            asked.sendall(asking("scraper", "secret"))
            eventually(lambda: gate.seen, "the check")
            with running.connect() as idle:
                assert running.get()[0] == 401
                assert read_all(idle) == b""
            gate.open.set()
            assert answered(asked) == 200
            asked.close()
