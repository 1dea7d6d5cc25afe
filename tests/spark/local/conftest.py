"""One Spark in this process's own JVM for all tests of this package."""

import pytest

import pkray
import pkray.spark
from tests.spark.jvm import CONFIGS


def pytest_collection_modifyitems(items):
    for item in items:
        if "tests/spark/local" in str(item.path):
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="package")
def spark():
    yield pkray.spark.session("pkray-tests", configs=CONFIGS)
    pkray.spark.stop()


@pytest.fixture
def catalog(tmp_path):
    with pkray.connect(str(tmp_path / "warehouse")) as catalog:
        yield catalog


@pytest.fixture
def no_wait(monkeypatch):
    monkeypatch.setattr("pkray.spark.batch.time.sleep", lambda _: None)
