"""A folder of a test's own, as a store and as a warehouse, a clock, and packages to be missed."""

import pytest

import pkray
from pkray import extras
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


@pytest.fixture
def hidden(monkeypatch):
    """Packages that count as not installed."""
    names: set[str] = set()
    found = extras.find_spec
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name in names else found(name))
    return names
