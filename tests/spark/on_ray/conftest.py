"""One Ray cluster with one RayDP session for all tests of this package."""

from __future__ import annotations

import pytest

import pkray
import pkray.spark
from tests.ray.conftest import end_pool
from tests.spark.jvm import CONFIGS


def pytest_collection_modifyitems(items):
    for item in items:
        if "tests/spark/on_ray" in str(item.path):
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.ray)


@pytest.fixture(scope="package")
def spark(tmp_path_factory):
    runtime = {"owners": 2, "pool_workers": 2}
    warehouse = str(tmp_path_factory.mktemp("cluster"))
    with pkray.connect(warehouse, runtime="ray", runtime_options=runtime):
        yield pkray.spark.session("pkray-tests", ray=True, configs=CONFIGS)
        pkray.spark.stop()


@pytest.fixture
def catalog(spark, tmp_path):
    runtime = {"owners": 2, "pool_workers": 2}
    warehouse = str(tmp_path / "warehouse")
    with pkray.connect(warehouse, runtime="ray", runtime_options=runtime) as catalog:
        yield catalog
        for name in catalog.list_tables():
            catalog.drop_table(name)
        end_pool(catalog)
