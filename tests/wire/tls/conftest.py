"""What the tests of TLS share: an authority with certificates, and a web configuration file that a
test may change.
"""

import time
from pathlib import Path

import pytest

from support.servers.certificates import Authority
from support.servers.tls_serving import TLS_ONLY


@pytest.fixture(name="authority", scope="session")
def _authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    authority = Authority(tmp_path_factory.mktemp("tls"))
    authority.server()
    authority.server("renewed")
    day = 86400
    authority.ending("soon", time.time() + 6 * day)  # within the week in which it is warned of
    authority.ending("later", time.time() + 8 * day)
    authority.ending("expired", time.time() - 60)
    authority.client()
    authority.client("another")
    return authority


@pytest.fixture(name="web_config")
def _web_config(authority: Authority, tmp_path: Path) -> Path:
    """A web configuration beside certificates, which a test may replace."""
    for source in authority.folder.iterdir():
        (tmp_path / source.name).symlink_to(source)
    path = tmp_path / "web.yml"
    path.write_text(TLS_ONLY)
    return path
