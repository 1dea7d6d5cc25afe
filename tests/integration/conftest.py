"""A warehouse of a test's own, and an endpoint of S3 (moto's server) for those that want one."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pkray


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[pkray.Catalog]:
    with pkray.connect(tmp_path) as catalog:
        yield catalog


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    from moto.s3.responses import S3Response
    from moto.server import ThreadedMotoServer  # takes a second: most tests need none

    put_object = S3Response.put_object
    putting = threading.Lock()

    def put_alone(self: S3Response) -> Any:
        """Look and put at once, as stores do: moto lets another put come between the two."""
        with putting:
            return put_object(self)

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(S3Response, "put_object", put_alone)
        server.start()
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
        server.stop()


@pytest.fixture(scope="session")
def s3_options(endpoint: str) -> dict[str, str]:
    """What opens a store there."""
    return {
        "endpoint": endpoint,
        "region": "us-east-1",
        "access_key_id": "test",
        "secret_access_key": "secret",
    }


@pytest.fixture(scope="session")
def s3(s3_options: dict[str, str]) -> Any:
    """A client of the endpoint."""
    import boto3

    return boto3.client(
        "s3",
        endpoint_url=s3_options["endpoint"],
        region_name=s3_options["region"],
        aws_access_key_id=s3_options["access_key_id"],
        aws_secret_access_key=s3_options["secret_access_key"],
    )
