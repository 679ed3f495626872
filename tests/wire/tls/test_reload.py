"""A web configuration file, or a certificate that it names, that changes while the server runs."""

import http.client
import logging
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import bcrypt
import pytest

from support.programs import eventually
from support.servers.certificates import Authority, Pair
from support.servers.serving import PAGE, Running, header, read_all, read_answer, request, status
from support.servers.tls_serving import (
    REQUIRED,
    SECRET,
    TLS_ONLY,
    ask,
    encrypted,
    install,
    let_in,
    logged_at,
    replace,
    trusting,
    wrapped,
)

WITHOUT_TLS = None
"""In the place of an SSL context: the request is sent in plain."""


def resumes(running: Running, context: ssl.SSLContext, session: ssl.SSLSession | None) -> bool:
    """Return whether the page is served to a client that resumes ``session``."""
    try:
        with wrapped(running, context, session) as client:
            client.sendall(request())
            return read_answer(client) == PAGE
    except (OSError, http.client.HTTPException):
        return False


def tls_and_users_in_log(running: Running) -> list[tuple[bool, int]]:
    """Return whether TLS is on and how many users there are, as each line of the log says."""
    facts = [getattr(record, "facts", {}) for record in running.records]
    return [(each["tls"], each["users"]) for each in facts]


def scraper_with_secret() -> str:
    """Return the part of a web configuration that lets in the user of SECRET."""
    hashed = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()
    return f"basic_auth_users: {{scraper: {hashed}}}\n"


def scrape_anew(running: Running, context: ssl.SSLContext, end: threading.Event) -> set[int]:
    """Scrape over one connection after another until ``end``; return the statuses."""
    codes = set()
    while not end.is_set():
        codes.add(ask(running, context, Authorization=SECRET))
    return codes


def scrape_on_one_connection(
    running: Running, context: ssl.SSLContext, end: threading.Event
) -> set[int]:
    """Scrape until ``end``, over one connection as long as the server keeps it open; return the
    statuses.
    """
    codes = set()
    connection = http.client.HTTPSConnection("localhost", running.server.port, context=context)
    while not end.is_set():
        connection.request("GET", "/metrics", headers={"Authorization": SECRET})
        with connection.getresponse() as answer:
            answer.read()
            codes.add(answer.status)
    connection.close()
    return codes


class TestChange:
    """The file, or a certificate, changes while the server runs."""

    def test_renewed_certificate(self, web_config: Path, authority: Authority) -> None:
        """New connections get a renewed certificate, and open ones end with their next answer."""
        context = trusting(authority)
        with encrypted(web_config) as running, ExitStack() as stack:
            served, fresh = (stack.enter_context(wrapped(running, context)) for _ in range(2))
            served.sendall(request())
            assert read_answer(served) == PAGE
            before = served.getpeercert(binary_form=True)
            install(web_config, "renewed")

            def renewed() -> bool:
                with wrapped(running, context) as client:
                    return client.getpeercert(binary_form=True) != before

            eventually(renewed, "the renewed certificate")
            for client in (served, fresh):
                client.sendall(request())
                answer = read_all(client)
                assert answer.endswith(PAGE)
                assert header(answer, "connection") == "close"
            assert logged_at(running, logging.ERROR) == []

    def test_under_load(self, web_config: Path, authority: Authority) -> None:
        """While certificate and users are replaced again and again, no scrape with the right
        credentials fails.
        """
        context = trusting(authority)
        # Each hash of the same password differs.
        states = [
            ("renewed", TLS_ONLY + scraper_with_secret()),
            ("server", TLS_ONLY + scraper_with_secret()),
        ]
        web_config.write_text(TLS_ONLY + scraper_with_secret())
        with encrypted(web_config) as running, ThreadPoolExecutor(4) as pool:
            end = threading.Event()
            scrapes = [
                pool.submit(scrape, running, context, end)
                for scrape in (scrape_anew, scrape_on_one_connection) * 2
            ]
            try:
                for certificate, text in states * 3:
                    before = len(logged_at(running, logging.INFO))
                    install(web_config, certificate)
                    replace(web_config, text)
                    # A change that is taken back before the server looks would not be seen.
                    eventually(lambda: len(logged_at(running, logging.INFO)) > before, "the change")  # noqa: B023 - at once
            finally:
                end.set()
            assert [each.result() for each in scrapes] == [{200}] * 4
            assert logged_at(running, logging.ERROR) == []

    def test_mounted_volume(self, web_config: Path, authority: Authority, tmp_path: Path) -> None:
        """A ConfigMap or Secret that Kubernetes swaps by a symbolic link is read again."""
        mounted = tmp_path / "mounted"
        mounted.mkdir()
        for version, name in (("1", "server"), ("2", "renewed")):
            (mounted / version).mkdir()
            (mounted / version / "web.yml").write_text(TLS_ONLY)
            for suffix in ("pem", "key"):
                (mounted / version / f"server.{suffix}").write_text(
                    (web_config.parent / f"{name}.{suffix}").read_text()
                )
        (mounted / "..data").symlink_to("1")
        for each in ("web.yml", "server.pem", "server.key"):
            (mounted / each).symlink_to(f"..data/{each}")
        with encrypted(mounted / "web.yml") as running:
            (mounted / "..next").symlink_to("2")
            (mounted / "..next").rename(mounted / "..data")
            eventually(
                lambda: "web configuration reloaded" in logged_at(running, logging.INFO),
                "the new version",
            )
            assert let_in(running, trusting(authority))
            assert logged_at(running, logging.ERROR) == []

    def test_key_follows_certificate(self, web_config: Path, authority: Authority) -> None:
        """A key that comes a moment after its certificate is no error: a change takes effect when
        the next look, here a second later, finds the files as the look before has found them.
        """
        context = trusting(authority)
        with encrypted(web_config, pause=1.0) as running:
            certificate = web_config.parent / "server.pem"
            replace(certificate, (web_config.parent / "renewed.pem").read_text())
            # The key is to come between two looks. Nothing public says what a look has found.
            access = vars(running.server.app.access)
            eventually(
                lambda: certificate.read_bytes() in access["_found"], "the change to be seen"
            )
            replace(
                web_config.parent / "server.key", (web_config.parent / "renewed.key").read_text()
            )
            eventually(lambda: len(logged_at(running, logging.INFO)) > 1, "the renewed certificate")
            assert let_in(running, context)
            assert logged_at(running, logging.ERROR) == []

    def test_half_renewed(self, web_config: Path, authority: Authority) -> None:
        """A certificate without its key changes nothing and is logged once; with its key it is
        used, and logged.
        """
        context = trusting(authority)
        with encrypted(web_config) as running:
            replace(
                web_config.parent / "server.pem", (web_config.parent / "renewed.pem").read_text()
            )
            eventually(lambda: logged_at(running, logging.ERROR), "an error in the log")
            assert let_in(running, context)
            replace(
                web_config.parent / "server.key", (web_config.parent / "renewed.key").read_text()
            )
            eventually(
                lambda: len(logged_at(running, logging.INFO)) > 1, "the end of the error in the log"
            )
            assert let_in(running, context)
            assert logged_at(running, logging.ERROR) == [
                "invalid web configuration, the last valid one stays in effect"
            ]
            assert logged_at(running, logging.INFO) == [
                "web configuration loaded",
                "web configuration reloaded",
            ]

    @pytest.mark.parametrize(
        "text",
        [
            pytest.param("", id="emptied"),
            pytest.param("basic_auth_users:\n", id="cut short"),
            pytest.param("basic_auth_users: {scraper: secret}\n", id="no hash"),
            pytest.param("tls_server_config: {\n", id="no YAML"),
            pytest.param(None, id="gone"),
        ],
    )
    def test_a_bad_file_opens_nothing(
        self, web_config: Path, authority: Authority, text: str | None
    ) -> None:
        """While the file is bad or gone, the last good one holds: TLS and a password are required.
        When it is good again, the log says so.
        """
        good = TLS_ONLY + scraper_with_secret()
        web_config.write_text(good)
        context = trusting(authority)
        with encrypted(web_config) as running:
            if text is None:
                web_config.unlink()
            else:
                replace(web_config, text)
            eventually(lambda: logged_at(running, logging.ERROR), "an error in the log")
            assert not let_in(running, WITHOUT_TLS)
            assert ask(running, context) == 401
            assert ask(running, context, Authorization=SECRET) == 200
            [error] = [record for record in running.records if record.levelno == logging.ERROR]
            facts = getattr(error, "facts", {})
            assert str(facts["error"]).startswith(str(web_config))
            replace(web_config, good)
            expected = ["web configuration loaded", "web configuration reloaded"]
            eventually(lambda: logged_at(running, logging.INFO) == expected, "the end of the error")
            assert len(logged_at(running, logging.ERROR)) == 1

    def test_on_and_off(self, web_config: Path, authority: Authority) -> None:
        """TLS and users are turned on and off without a restart; the log says which are on."""
        context = trusting(authority)
        users = scraper_with_secret()
        # A web configuration must not be empty. This setting has nothing to do with TLS or users.
        neither = "http_server_config: {http2: true}\n"
        web_config.write_text(neither)
        with encrypted(web_config) as running:
            assert let_in(running, WITHOUT_TLS)
            replace(web_config, users)
            eventually(lambda: ask(running, WITHOUT_TLS) == 401, "users in plain")
            assert let_in(running, WITHOUT_TLS, Authorization=SECRET)
            replace(web_config, TLS_ONLY + users)
            eventually(lambda: let_in(running, context, Authorization=SECRET), "users under TLS")
            assert not let_in(running, WITHOUT_TLS, Authorization=SECRET)
            assert not let_in(running, context)
            replace(web_config, TLS_ONLY)
            eventually(lambda: let_in(running, context), "nobody asked under TLS")
            replace(web_config, neither)
            eventually(lambda: let_in(running, WITHOUT_TLS), "plain again")
            # Neither, users, both, TLS, neither.
            tls_and_users = [(False, 0), (False, 1), (True, 1), (True, 0), (False, 0)]
            eventually(lambda: tls_and_users_in_log(running) == tls_and_users, "the log")

    def test_new_certificate_authority(
        self, web_config: Path, authority: Authority, tmp_path: Path
    ) -> None:
        """When the CA of the clients is replaced, the old ones are let in no more, not even by a
        resumed session.
        """
        web_config.write_text(REQUIRED)
        old = trusting(authority, Pair(tmp_path / "client.pem", tmp_path / "client.key"))
        new = trusting(authority, Authority(tmp_path, "next").client("next client"))
        with encrypted(web_config) as running:
            with wrapped(running, old) as client:
                client.sendall(request("/metrics", "GET", "1.1", "Connection: close"))
                assert status(read_all(client)) == 200
                session = client.session
            assert resumes(running, old, session)
            assert not let_in(running, new)
            replace(tmp_path / "ca.pem", (tmp_path / "next.pem").read_text())
            eventually(lambda: let_in(running, new), "the new CA")
            assert not let_in(running, old)
            assert not resumes(running, old, session)
