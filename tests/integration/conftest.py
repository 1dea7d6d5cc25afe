"""An endpoint of S3 for the tests that want one: moto's server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    from moto.server import ThreadedMotoServer  # takes a second: most tests need none

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()
