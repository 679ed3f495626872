"""Basic authentication: checks passwords in a thread, and remembers the pairs that were right.

bcrypt is slow on purpose. A verified client never waits for it, so somebody who guesses cannot stop
its scrapes. Must not depend on files or TLS.
"""

import asyncio
import base64
import hashlib
import secrets
from collections.abc import Mapping

import bcrypt

from .app import Request, Response, plain

# bytes of a password that bcrypt looks at; longer ones are cut, as exporter-toolkit and htpasswd do
_LONGEST = 72
# without a realm some browsers do not ask
_REALM = 'Basic realm="azure-scheduled-events-exporter", charset="UTF-8"'
_WRONG = plain(401, ("WWW-Authenticate", _REALM))
_WAITING = 16  # checks that may run or wait
_WAITING_OF_ONE = 4  # the same of one address


class Users:
    """Checks the user and the password of each request, on one event loop."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._right: dict[bytes, bytes] = {}  # user -> digest
        self._checks: dict[
            bytes, tuple[str, asyncio.Task[bool]]
        ] = {}  # digest -> who has asked first, and the check
        self._turn = asyncio.Semaphore(1)

    async def refuse(self, request: Request, hashes: Mapping[bytes, bytes]) -> Response | None:
        """Return 401 if user or password is not in ``hashes``, 429 if too many checks are waiting, or None to allow.

        ``hashes`` has the bcrypt hash of each user name.
        """
        given = _credentials(request.headers.get("authorization", ""))
        if given is None:
            return _WRONG
        user, password = given
        # An unknown user costs as much as the known one with the highest bcrypt cost.
        hashed = hashes.get(user) or max(hashes.values(), key=lambda known: known[4:6])
        digest = hashlib.blake2b(repr((user, hashed, password)).encode(), key=self._key).digest()
        if user in hashes and secrets.compare_digest(self._right.get(user, b""), digest):
            return None
        if digest not in self._checks:
            clients = [client for client, _ in self._checks.values()]
            if len(clients) >= _WAITING or clients.count(request.client) >= _WAITING_OF_ONE:
                return plain(429, ("Retry-After", "1"))
            check = asyncio.create_task(self._check(digest, password, hashed))
            self._checks[digest] = request.client, check
        if not await asyncio.shield(self._checks[digest][1]) or user not in hashes:
            return _WRONG
        self._right[user] = digest
        return None

    async def _check(self, digest: bytes, password: bytes, hashed: bytes) -> bool:
        try:
            async with self._turn:
                return await asyncio.to_thread(bcrypt.checkpw, password, hashed)
        finally:
            del self._checks[digest]


def _credentials(authorization: str) -> tuple[bytes, bytes] | None:
    """Return user and password of the header; None if it has none in the form of RFC 7617."""
    scheme, _, text = authorization.strip().partition(" ")
    try:
        user, colon, password = base64.b64decode(text.strip(), validate=True).partition(b":")
    except ValueError:
        return None
    is_basic = scheme.lower() == "basic" and colon and b"\0" not in user + password
    return (user, password[:_LONGEST]) if is_basic else None
