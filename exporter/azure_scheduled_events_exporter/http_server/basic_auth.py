"""Basic authentication: reads credentials, checks passwords, and remembers the results.

bcrypt is slow on purpose, so it runs in the given thread pool, one check at a time, and never on the event loop.
A verified password is answered from memory: a flood of wrong passwords cannot lock out a scraper that has been
verified. It delays a new one only by the checks of other clients: each client may have a few checks waiting, clients
take turns, and a full queue drops a check of the client that has the most.

Results are stored under a hash, with a secret of this process, over user, stored hash and password, each preceded by
its length. So different triples have different keys (the toolkit's GHSA-4v48-4q5m-8vx4), and a client cannot choose a
key. Right and wrong passwords are stored separately, so wrong ones never displace a right one. A check takes the same
time for unknown and known users.

Must not depend on connections, files or TLS.
"""

import asyncio
import base64
import binascii
import hashlib
import logging
import re
import secrets
import socket
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from .messages import Response, plain

_LONGEST = 72  # bytes of a password that bcrypt looks at; longer ones are cut, as the toolkit and htpasswd do
_WAITING = 32  # checks that may wait; requests with the same user and password wait for one check
_WAITING_OF_ONE = 4  # the same of one client
_REMEMBERED = 256  # wrong passwords kept, so that a misconfigured scraper costs little
_ALPHABET = "./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"  # bcrypt's
_SCHEME = re.compile(r"basic +(\S+)", re.IGNORECASE | re.ASCII)
_REALM = 'Basic realm="azure-scheduled-events-exporter", charset="UTF-8"'  # without a realm some browsers do not ask

Refusal: TypeAlias = Response | None
"""The response that refuses a request; None if it is allowed."""


def credentials(authorization: str) -> tuple[bytes, bytes] | None:
    """Return user and password of the header; None if it has none in the form of RFC 7617."""
    found = _SCHEME.fullmatch(authorization.strip())
    if not found:
        return None
    try:
        user, colon, password = base64.b64decode(found[1], validate=True).partition(b":")
    except (binascii.Error, ValueError):
        return None
    # RFC 7617 forbids control characters; NUL in particular ends a password for some bcrypts and not for others.
    return (user, password) if colon and b"\0" not in user + password else None


def unguessable_hash(cost: int) -> bytes:
    """Return a random bcrypt hash of ``cost``: a check takes the usual time and never matches."""
    salt, tail = ("".join(secrets.choice(_ALPHABET) for _ in range(length)) for length in (21, 31))
    return f"$2b${cost:02d}${salt}.{tail}".encode()  # the last character of a salt has two bits only


@dataclass(slots=True)
class _Check:
    """A waiting or running check, and the requests that wait for it, each with its client."""

    digest: bytes
    user: bytes
    hashed: bytes
    password: bytes = field(repr=False)
    waiters: list[tuple[asyncio.Future[Refusal], str]] = field(default_factory=list)


class BasicAuth:
    """Checks requests on one event loop.

    ``users`` are names and bcrypt hashes. ``matches(password, hash)`` blocks, so it runs in ``pool``.
    """

    def __init__(
        self,
        users: Iterable[tuple[bytes, bytes]],
        matches: Callable[[bytes, bytes], bool],
        pool: Executor,
        log: logging.Logger,
    ) -> None:
        self._key = secrets.token_bytes(32)
        self._hashes = {self._digest(name): hashed for name, hashed in users}
        costs = [_cost(hashed) for hashed in self._hashes.values()]
        self._cost = max(costs)
        self._nobody = unguessable_hash(self._cost)
        self._padding = {cost: unguessable_hash(cost) for cost in range(min(costs), self._cost)}
        self._matches = matches
        self._pool = pool
        self._log = log
        self._right: dict[bytes, bytes] = {}  # by user, so it has as many entries as users
        self._wrong: dict[bytes, None] = {}  # the oldest first
        self._checks: dict[bytes, _Check] = {}  # the oldest first
        self._running: _Check | None = None
        self._turns: dict[str, int] = {}  # checks begun for each client, the latest client last

    def judge(self, authorization: str, client: str) -> Refusal | asyncio.Future[Refusal]:
        """Return None to allow the request, or the refusal; a future of either if the password must be checked.

        Cancel the future when the result is no longer needed.
        """
        given = credentials(authorization)
        if given is None:
            return refused()
        name, password = given
        user = self._digest(name)
        hashed = self._hashes.get(user, self._nobody)
        digest = self._digest(name, hashed, password)
        if secrets.compare_digest(self._right.get(user, b""), digest):
            return None
        if digest in self._wrong:
            return refused()
        if digest not in self._checks and not self._has_place(network(client)):
            return plain(503, ("Retry-After", "1"))
        check = self._checks.setdefault(digest, _Check(digest, user, hashed, password))
        future: asyncio.Future[Refusal] = asyncio.get_running_loop().create_future()
        check.waiters.append((future, network(client)))
        future.add_done_callback(partial(self._leave, check))
        self._run_next()
        return future

    def _has_place(self, client: str) -> bool:
        """Return whether a check may wait for ``client``; at the limit the client with the most checks loses one."""
        every = ([one for one in check.waiters if not one[0].done()] for check in self._checks.values())
        checks = [waiters for waiters in every if waiters]
        waiting = Counter(waiters[0][1] for waiters in checks)
        if waiting[client] >= _WAITING_OF_ONE:
            return False
        if len(checks) < _WAITING:
            return True
        greedy, most = waiting.most_common(1)[0]
        if most <= waiting[client] + 1:
            return False
        latest = [waiters for waiters in checks if waiters[0][1] == greedy][-1]
        for future, _ in latest:
            future.set_result(plain(503, ("Retry-After", "1")))
        return True

    def _digest(self, *parts: bytes) -> bytes:
        framed = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
        return hashlib.blake2b(framed, key=self._key, digest_size=32).digest()

    def _leave(self, check: _Check, future: asyncio.Future[Refusal]) -> None:
        """Remove a request from ``check``; a check without requests is not started."""
        check.waiters = [waiter for waiter in check.waiters if waiter[0] is not future]
        if not check.waiters and check is not self._running and self._checks.get(check.digest) is check:
            del self._checks[check.digest]

    def _run_next(self) -> None:
        """Begin the next check that a request waits for; at the end of the server none does."""
        waiting = [check for check in self._checks.values() if not all(one.done() for one, _ in check.waiters)]
        if self._running is None and waiting:
            self._running = check = min(waiting, key=self._turn)  # the oldest of those with equal turns
            for client in {who for _, who in check.waiters}:
                self._turns[client] = self._turns.pop(client, 0) + 1
            while len(self._turns) > _REMEMBERED:
                self._turns.pop(next(iter(self._turns)))
            work = asyncio.get_running_loop().run_in_executor(self._pool, self._compare, check)
            work.add_done_callback(partial(self._done, check))

    def _turn(self, check: _Check) -> int:
        """Return how many recent checks the client of ``check`` has had; the client with the fewest is next."""
        return min((self._turns.get(who, 0) for _, who in check.waiters), default=0)

    def _compare(self, check: _Check) -> bool:
        """Return whether the password is right, always after the time of the costliest hash; runs in the pool."""
        password = check.password[:_LONGEST]
        right = self._matches(password, check.hashed)
        for cost in range(_cost(check.hashed), self._cost):  # 2^4 + 2^4 + 2^5 + ... + 2^11 = 2^12
            self._matches(password, self._padding[cost])
        return right and check.user in self._hashes

    def _done(self, check: _Check, work: asyncio.Future[bool]) -> None:
        self._running = None
        self._checks.pop(check.digest, None)
        refusal: Refusal = None
        if work.cancelled():  # the server ends
            refusal = plain(503)
        elif error := work.exception():
            self._log.error("internal error in a password check: %s", type(error).__name__, exc_info=error)
            refusal = plain(500)
        elif work.result():
            self._right[check.user] = check.digest
        else:
            refusal = refused()
            self._wrong[check.digest] = None
            while len(self._wrong) > _REMEMBERED:
                self._wrong.pop(next(iter(self._wrong)))
        for future, _ in tuple(check.waiters):
            if not future.done():
                future.set_result(refusal)
        if not work.cancelled():
            self._run_next()


def refused() -> Response:
    """Return the response that asks for user and password."""
    return plain(401, ("WWW-Authenticate", _REALM))


def network(client: str) -> str:
    """Return what counts as one client: an IPv4 address, or an IPv6 /64 network, which one host can own."""
    client = client.removeprefix("::ffff:").partition("%")[0]
    try:
        return socket.inet_pton(socket.AF_INET6, client)[:8].hex() if ":" in client else client
    except OSError:
        return client


def _cost(hashed: bytes) -> int:
    return int(hashed[4:6])
