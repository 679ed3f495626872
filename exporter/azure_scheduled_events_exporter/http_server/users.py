"""Basic authentication: checks passwords in a thread, and remembers the pairs that were right.

bcrypt is slow on purpose. A verified client never waits for it, so somebody who guesses cannot stop
its scrapes. Must not depend on files or TLS.
"""

import asyncio
import base64
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass

import bcrypt

from .messages import Request, Response, plain

# Bytes of a password that bcrypt looks at. exporter-toolkit and htpasswd cut longer ones, too.
_LONGEST = 72
# Without a realm, some browsers do not ask for a password.
_CHALLENGE = 'Basic realm="azure-scheduled-events-exporter", charset="UTF-8"'
_WRONG = plain(401, ("WWW-Authenticate", _CHALLENGE))
_MOST_CHECKS = 16  # checks that may run or wait
_MOST_CHECKS_OF_ONE = 4  # the same for one client address
_DIGEST = "sha256"  # one that OpenSSL also allows in FIPS mode
_KEY_BYTES = 32
_KNOWN_PASSWORD = b"U*U"
_KNOWN_HASH = b"$2b$04$CCCCCCCCCCCCCCCCCCCCC.K7Qr0se1MxuggH4aP4YgB.U2Em1pGSK"
"""The bcrypt hash of that password, with the least cost."""


@dataclass(frozen=True, slots=True)
class _Check:
    """A password that is being checked, and the address that asked first."""

    client: str
    task: asyncio.Task[bool]


class Users:
    """Checks the user and the password of each request, on one event loop."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(_KEY_BYTES)
        # For each user, the digest of the password that was right last, with the user and the hash
        # in the file. So when the file has another hash, the password is checked again.
        self._right: dict[bytes, bytes] = {}
        # The checks that run or wait, by the same digest, so that equal requests share one.
        self._checks: dict[bytes, _Check] = {}
        self._turn = asyncio.Semaphore(1)

    async def refuse(self, request: Request, hashes: Mapping[bytes, bytes]) -> Response | None:
        """Return the response to a request without a right password, or None to allow it.

        It is 401, or 429 if too many checks are waiting. ``hashes`` has the bcrypt hash of each
        user name; it has at least one.
        """
        given = _credentials(request.headers.get("authorization", ""))
        if given is None:
            return _WRONG
        user, password = given
        hashed = hashes.get(user)
        if hashed is None:
            # An unknown user takes as long as the known one with the highest cost, so that the time
            # does not show which users there are.
            hashed = max(hashes.values(), key=_cost)
        digest = _digest(self._key, user, hashed, password)
        if user in hashes and secrets.compare_digest(self._right.get(user, b""), digest):
            return None
        if digest not in self._checks:
            if self._is_busy(request.client):
                return plain(429, ("Retry-After", "1"))
            task = asyncio.create_task(self._check(digest, password, hashed))
            self._checks[digest] = _Check(request.client, task)
        # Shielded: other requests may wait for the same check when this one is cancelled.
        is_right = await asyncio.shield(self._checks[digest].task)
        # An unknown user may have sent the password behind the hash of the known one.
        if not is_right or user not in hashes:
            return _WRONG
        self._right[user] = digest
        return None

    def _is_busy(self, client: str) -> bool:
        """Return whether too many checks are waiting, in total or of this address."""
        clients = [check.client for check in self._checks.values()]
        return len(clients) >= _MOST_CHECKS or clients.count(client) >= _MOST_CHECKS_OF_ONE

    async def _check(self, digest: bytes, password: bytes, hashed: bytes) -> bool:
        """Return whether ``password`` is right; one check runs at a time, in a thread."""
        try:
            async with self._turn:
                return await asyncio.to_thread(bcrypt.checkpw, password, hashed)
        finally:
            del self._checks[digest]


def try_out() -> None:
    """Check a password that is known to be right, with all that a request needs.

    Raises:
        ValueError: the cryptography of this machine does not permit it.
    """
    _digest(bytes(_KEY_BYTES), b"user", _KNOWN_HASH, _KNOWN_PASSWORD)
    if not bcrypt.checkpw(_KNOWN_PASSWORD, _KNOWN_HASH):
        raise ValueError("bcrypt does not know a password that is right")


def _cost(hashed: bytes) -> bytes:
    """Return the cost of a bcrypt hash: its two digits after ``$2b$``."""
    return hashed[4:6]


def _digest(key: bytes, *parts: bytes) -> bytes:
    """Return a digest of ``parts`` that only who has ``key`` can compute."""
    separated = repr(parts).encode()  # so that "ab", "c" is not "a", "bc"
    return hmac.digest(key, separated, _DIGEST)


def _credentials(authorization: str) -> tuple[bytes, bytes] | None:
    """Return user and password of the header; None if it has none in the form of RFC 7617."""
    scheme, _, text = authorization.strip().partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        decoded = base64.b64decode(text.strip(), validate=True)
    except ValueError:
        return None
    user, colon, password = decoded.partition(b":")
    if not colon:
        return None
    if b"\0" in user or b"\0" in password:
        return None
    return user, password[:_LONGEST]
