"""Basic authentication: checks passwords in a thread, and remembers the pairs that were right.

bcrypt is slow on purpose. A verified client never waits for it, so somebody who guesses cannot stop its scrapes. Must
not depend on files or TLS.
"""

import asyncio
import base64
import hashlib
import secrets
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import bcrypt

from .app import Request, Response, plain

_LONGEST = 72  # bytes of a password that bcrypt looks at; longer ones are cut, as the toolkit and htpasswd do
_REALM = 'Basic realm="azure-scheduled-events-exporter", charset="UTF-8"'  # without a realm some browsers do not ask
_WRONG = plain(401, ("WWW-Authenticate", _REALM))
_WAITING = 16  # checks that may run or wait
_WAITING_OF_ONE = 4  # the same of one address


class Users:
    """Checks requests on one event loop.

    Attributes:
        hashes: the bcrypt hash of each user name; may be replaced at any time.
    """

    def __init__(self) -> None:
        self.hashes: dict[bytes, bytes] = {}
        self._key = secrets.token_bytes(32)
        self._right: dict[bytes, bytes] = {}  # user -> digest
        self._pool = ThreadPoolExecutor(1, "passwords")
        self._checks: dict[bytes, asyncio.Future[bool]] = {}
        self._waiting: Counter[str] = Counter()

    async def refuse(self, request: Request) -> Response | None:
        """Return 401 if user or password is wrong, 429 if too many checks are waiting, or None to allow ``request``."""
        given, client = _credentials(request.headers.get("authorization", "")), request.client
        if given is None:
            return _WRONG
        user, password = given
        # An unknown user takes as long as the slowest known one.
        hashed = self.hashes.get(user) or max(self.hashes.values(), key=lambda known: known[4:6])
        digest = self._digest(user, hashed, password)
        if user in self.hashes and secrets.compare_digest(self._right.get(user, b""), digest):
            return None
        check = self._checks.get(digest)
        if check is None:
            if len(self._checks) >= _WAITING or self._waiting[client] >= _WAITING_OF_ONE:
                return plain(429, ("Retry-After", "1"))
            check = asyncio.get_running_loop().run_in_executor(self._pool, bcrypt.checkpw, password, hashed)
            self._checks[digest] = check
            self._waiting[client] += 1
            check.add_done_callback(lambda _: self._done(digest, client))
        if not await asyncio.shield(check) or self.hashes.get(user) != hashed:
            return _WRONG
        self._right[user] = digest
        return None

    def close(self) -> None:
        """End the thread after the check that is running."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _done(self, digest: bytes, client: str) -> None:
        del self._checks[digest]
        self._waiting[client] -= 1
        self._waiting += Counter()  # without addresses that wait for nothing

    def _digest(self, *parts: bytes) -> bytes:
        """Return a hash under this process's key; each part with its length, so that no two triples are alike."""
        framed = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
        return hashlib.blake2b(framed, key=self._key, digest_size=32).digest()


def _credentials(authorization: str) -> tuple[bytes, bytes] | None:
    """Return user and password of the header; None if it has none in the form of RFC 7617."""
    scheme, _, text = authorization.strip().partition(" ")
    try:
        user, colon, password = base64.b64decode(text.strip(), validate=True).partition(b":")
    except ValueError:
        return None
    is_basic = scheme.lower() == "basic" and colon and b"\0" not in user + password
    return (user, password[:_LONGEST]) if is_basic else None
