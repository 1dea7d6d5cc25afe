"""Stores that Parquet files are written to: on local disk and in memory."""

import pytest

from pkray.storage.opening import open_store


@pytest.fixture(params=["local", "memory"])
def store(request, tmp_path):
    return open_store(tmp_path if request.param == "local" else f"memory://{tmp_path.name}")
