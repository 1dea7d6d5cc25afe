"""A folder of a test's own, as a store."""

import pytest

from pkray.storage.opening import open_store


@pytest.fixture
def store(tmp_path):
    return open_store(tmp_path)
