"""The whole path in Azurite, which stands for Azure's blobs; ``npm install azurite`` brings it."""

import base64
import hashlib
import hmac
import shutil
import socket
import subprocess
import time
import urllib.request
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest

import pkray
from pkray.storage.opening import open_store
from tests.store_contract import StoreContract

SERVER = shutil.which("azurite-blob")
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Azurite's own, which its manual names."""
CONTAINER = "box"
OPTIONS = {
    "azure_storage_account_name": ACCOUNT,
    "azure_storage_account_key": KEY,
    "allow_http": "true",
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(SERVER is None, reason="azurite-blob is not on the path"),
]


@pytest.fixture(scope="module")
def options(tmp_path_factory) -> Iterator[dict[str, str]]:
    """Run Azurite with one container; give what opens a store of it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place = str(tmp_path_factory.mktemp("azurite"))
    command = [str(SERVER), "--silent", "--skipApiVersionCheck", "--disableTelemetry"]
    command += ["--location", place, "--blobHost", "127.0.0.1", "--blobPort", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with suppress(OSError):
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            time.sleep(0.1)
        make_container(port)
        yield OPTIONS | {"azure_endpoint": f"http://127.0.0.1:{port}/{ACCOUNT}"}
    finally:
        process.kill()
        process.wait()


def make_container(port: int) -> None:
    """Make the container, by a request that is signed with the account's key."""
    date = datetime.now(UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
    named = {"x-ms-date": date, "x-ms-version": "2021-08-06"}
    headers = "".join(f"{name}:{value}\n" for name, value in named.items())
    place = f"/{ACCOUNT}/{ACCOUNT}/{CONTAINER}\nrestype:container"
    text = "PUT" + "\n" * 12 + headers + place
    digest = hmac.digest(base64.b64decode(KEY), text.encode(), hashlib.sha256)
    signed = f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}"
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/{ACCOUNT}/{CONTAINER}?restype=container",
        method="PUT",
        headers={**named, "Authorization": signed, "Content-Length": "0"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert answer.status == 201


class TestStore(StoreContract):
    many = 5100
    """A page of Azure's lists has 5,000."""

    @pytest.fixture
    def store(self, options):
        return open_store(f"az://{CONTAINER}/{uuid.uuid4().hex}", **options)


@pytest.fixture
def catalog(options, request) -> Iterator[pkray.Catalog]:
    with pkray.connect(f"az://{CONTAINER}/{request.node.name}", **options) as catalog:
        yield catalog


def made(catalog: pkray.Catalog) -> Any:
    options = {"bucket": "2", "changelog-producer": "lookup"}
    return catalog.create_table("d.t", [("k", "INT"), ("v", "BIGINT")], ["k"], options=options)


def rows(value: int) -> list[dict[str, int]]:
    return [{"k": key, "v": value + key} for key in range(50)]


def test_a_table_is_written_read_and_looked_up(catalog):
    table = made(catalog)
    for value in (0, 100, 200):
        table.upsert(rows(value))
    table.delete([{"k": 7}])
    expected = [each for each in rows(200) if each["k"] != 7]
    assert sorted(table.to_arrow().to_pylist(), key=lambda row: row["k"]) == expected
    assert table.lookup([{"k": 3}, {"k": 7}]).to_pylist() == [{"k": 3, "v": 203}]
    table.expire_snapshots(retain_max=1, retain_min=1, older_than=2**42)
    table.remove_orphan_files(2**42)
    assert sorted(table.to_arrow().to_pylist(), key=lambda row: row["k"]) == expected


def test_a_query_follows_a_table(catalog):
    table = made(catalog)
    table.upsert(rows(0))
    query = catalog.sql("SELECT v % 3 AS s, COUNT(*) AS n FROM d.t GROUP BY v % 3").materialize(
        "d.r"
    )
    table.upsert(rows(1))
    query.wait({"d.t": table.latest_snapshot().id}, timeout=120)
    assert query.verify().equal
    query.stop()


def test_two_that_commit_at_once_lose_nothing(catalog, options, request):
    made(catalog)

    def commit(user: int) -> None:
        with pkray.connect(f"az://{CONTAINER}/{request.node.name}", **options) as own:
            table = own.load_table("d.t")
            for number in range(5):
                table.upsert(
                    [{"k": 1000 * user + number, "v": number}],
                    commit_user=f"user-{user}",
                    commit_identifier=number,
                )

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(commit, range(2)))
    found = catalog.load_table("d.t").to_arrow(["k"])["k"].to_pylist()
    assert sorted(found) == [1000 * user + number for user in range(2) for number in range(5)]
