"""A store in S3, moto's server, does what every store does."""

import uuid
from typing import Any

import pytest

from pkray.errors import StorageError
from pkray.storage.opening import open_store
from tests.store_contract import StoreContract


@pytest.fixture(scope="module")
def options(s3: Any, s3_options: dict[str, str]) -> dict[str, str]:
    s3.create_bucket(Bucket="lake")
    return s3_options


@pytest.fixture
def store(options):
    return open_store(f"s3://lake/{uuid.uuid4().hex}/t", **options)


class TestStores(StoreContract):
    many = 30  # each takes moto a while


def test_printing_a_store_tells_no_secret(options):
    store = open_store("s3://lake/x", **options | {"secret_access_key": "hush"})
    assert "hush" not in repr(store)
    with pytest.raises(StorageError) as caught:
        open_store("s3://nowhere-at-all/x", **options).write("a", b"")
    assert "hush" not in str(caught.value)


def test_s3_options_come_from_the_environment(options, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", options["endpoint"])
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", options["access_key_id"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", options["secret_access_key"])
    store = open_store("s3://lake/from-environment")
    assert store.create("a", b"1")
    assert not store.create("a", b"2")
