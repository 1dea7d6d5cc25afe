"""A folder of a test's own, as a store and as a warehouse, and a clock."""

import pytest

import pkray
from pkray.storage.opening import open_store
from tests.clocks import Clock


@pytest.fixture
def store(tmp_path):
    return open_store(tmp_path)


@pytest.fixture
def catalog(tmp_path):
    with pkray.connect(tmp_path / "warehouse") as catalog:
        yield catalog


@pytest.fixture
def clock() -> Clock:
    return Clock()
