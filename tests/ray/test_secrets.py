"""The keys of an object store stay out of what Ray writes and shows."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pkray
from tests.integration.misbehaving_endpoint import MisbehavingEndpoint, misbehaving, says
from tests.integration.test_secrets_stay_hidden import ACCESS_KEY, SECRET, check, check_error

pytestmark = pytest.mark.ray


@pytest.fixture
def endpoint() -> Iterator[MisbehavingEndpoint]:
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    keys = {"aws_access_key_id": "k", "aws_secret_access_key": "s", "region_name": "us-east-1"}
    boto3.client("s3", endpoint_url=f"http://{host}:{port}", **keys).create_bucket(Bucket="hidden")
    with misbehaving(f"http://{host}:{port}") as found:
        yield found
    server.stop()


def test_a_job_on_ray_shows_no_secret(ray_cluster: Any, endpoint: MisbehavingEndpoint) -> None:
    import ray
    from ray.util import list_named_actors

    options = {
        "endpoint": endpoint.url,
        "region": "us-east-1",
        "access_key_id": ACCESS_KEY,
        "secret_access_key": SECRET,
    }
    on_ray: dict[str, Any] = {"runtime": "ray", "runtime_options": {"owners": 1}}
    with pkray.connect("s3://hidden/w", **on_ray, **options) as catalog:
        table = catalog.create_table("db.t", [("id", "BIGINT NOT NULL")], ["id"])
        with table.open_writer("u") as writer:
            writer.upsert([{"id": 1}])
            writer.commit()
            writer.upsert([{"id": 2}])
            endpoint.spoil("PUT", says(403, "Denied", f"{ACCESS_KEY} {SECRET}"), always=True)
            with pytest.raises(pkray.PkrayError, match="keys and rights") as caught:
                writer.commit()
            check_error(caught.value)
            endpoint.spoil("PUT")
        check(repr(list_named_actors(all_namespaces=True)), "names of actors")
        catalog.drop_table("db.t")
    node: Any = ray._private.worker._global_node
    logs = Path(node.get_session_dir_path()) / "logs"
    files = [path for path in logs.rglob("*") if path.is_file()]
    assert files
    for path in files:
        check(path.read_bytes(), path)
