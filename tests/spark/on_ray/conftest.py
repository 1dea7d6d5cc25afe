"""One Ray cluster with one RayDP session for all tests of this package."""

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
def shared(tmp_path_factory):
    """A warehouse whose pool of workers all tests here share: to start one takes seconds."""
    runtime = {"owners": 2, "pool_workers": 2}
    warehouse = str(tmp_path_factory.mktemp("cluster"))
    with pkray.connect(warehouse, runtime="ray", runtime_options=runtime) as catalog:
        yield catalog
        end_pool(catalog)


@pytest.fixture(scope="package")
def spark(shared):
    yield pkray.spark.session("pkray-tests", ray=True, configs=CONFIGS)
    pkray.spark.stop()


@pytest.fixture
def catalog(spark, shared):
    yield shared
    for name in shared.list_tables():
        shared.drop_table(name)
