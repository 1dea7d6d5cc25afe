"""What `import pkray` brings."""

import json

import pkray
import pkray.spark
from tests.unit.public_signatures import STORED, signatures


def test_all_is_sorted_and_there():
    assert pkray.__all__ == sorted(pkray.__all__)
    assert all(getattr(pkray, name) is not None for name in pkray.__all__)
    assert set(pkray.__all__) <= set(dir(pkray))


def test_what_spark_has_is_listed():
    assert [name for name in dir(pkray.spark) if not name.startswith("_")] == [
        "IngestQuery",
        "ingest",
        "read",
        "read_stream",
        "register",
        "relation",
        "session",
        "sql",
        "start_ingest",
        "stop",
        "views",
    ]


def test_the_version_is_the_packages():
    from importlib.metadata import PackageNotFoundError, version

    try:
        assert version("pkray") == pkray.__version__
    except PackageNotFoundError:
        assert pkray.__version__


def test_what_users_call_is_called_as_before():
    before, now = json.loads(STORED.read_text()), signatures()
    assert {name: now.get(name) for name in before} == before
