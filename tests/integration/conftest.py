"""A warehouse of a test's own, and an endpoint of S3 (moto's server) for those that want one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import pkray


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[pkray.Catalog]:
    with pkray.connect(tmp_path) as catalog:
        yield catalog


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    from moto.server import ThreadedMotoServer  # takes a second: most tests need none

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()
