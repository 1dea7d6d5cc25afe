"""Stores that need no server, local disk and memory, and what no store is opened by."""

import uuid

import pytest

from pkray.errors import OptionError, UnsupportedError
from pkray.storage.opening import open_store
from tests.store_contract import StoreContract


@pytest.fixture(params=["local", "memory"])
def store(request, tmp_path):
    if request.param == "local":
        return open_store(tmp_path / "root")
    return open_store(f"memory://{uuid.uuid4().hex}/a/b")


class TestStores(StoreContract):
    pass


def test_an_unknown_storage_option_is_refused():
    with pytest.raises(OptionError, match="acces_key"):
        open_store("s3://lake/x", acces_key="k")
    with pytest.raises(OptionError, match="only object stores"):
        open_store("/some/where", region="us-east-1")


def test_an_unknown_scheme_is_refused():
    with pytest.raises(UnsupportedError, match="hdfs"):
        open_store("hdfs://host/x")


def test_parallel_requests_are_an_option_of_stores_and_what_is_below_them():
    store = open_store("s3://lake/x", region="us-east-1", parallel_requests="2")
    assert store.parallel_requests == 2
    assert store.child("y").parallel_requests == 2


@pytest.mark.parametrize("number", ["0", "-1", "many"])
def test_parallel_requests_that_are_no_number_are_refused(number):
    with pytest.raises(OptionError, match="parallel_requests"):
        open_store("s3://lake/x", region="us-east-1", parallel_requests=number)
