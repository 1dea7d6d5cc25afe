"""The batch source's options: what any user may write is checked."""

import base64
import pickle

import pytest

import pkray
from pkray.errors import OptionError, PkrayError, UnsupportedError
from pkray.scan.moment import Moment, epoch_millis
from pkray.spark.changes import ChangeSource
from pkray.spark.pyspark_pkray import DefaultSource
from pkray.spark.source import RequestSource, TableSource
from pkray.spark.source_options import SourceOptions
from tests.touching import Touch

TABLE = {"path": "somewhere", "table": "db.t"}


@pytest.mark.parametrize("source", [TableSource, RequestSource, ChangeSource])
def test_a_pickle_as_an_option_is_never_opened(source, tmp_path):
    text = base64.b64encode(pickle.dumps(Touch(tmp_path / "ran"))).decode()
    with pytest.raises(PkrayError):
        source({"request": text}).schema()
    assert not (tmp_path / "ran").exists()


def test_options_are_read_in_any_case():
    options = {
        "PATH": "somewhere",
        "Table": "db.t",
        "columns": "id, name",
        "filter": "id > 1",
        "Snapshot-Id": "7",
        "storage.Endpoint": "http://x",
    }
    assert SourceOptions.parse(options) == SourceOptions(
        "somewhere", "db.t", ("id", "name"), "id > 1", Moment(7), storage={"endpoint": "http://x"}
    )


@pytest.mark.parametrize(
    ("timestamp", "read"),
    [("1700000000000", 1_700_000_000_000), ("2024-02-29", epoch_millis("2024-02-29"))],
)
def test_a_time_is_milliseconds_or_text(timestamp, read):
    assert SourceOptions.parse({**TABLE, "timestamp": timestamp}).at == Moment(timestamp=read)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "needs the options path .* CREATE TEMPORARY VIEW"),
        ({"table": "db.t"}, "needs the options path"),
        ({"path": "somewhere", "table": ""}, "needs the options path"),
        ({**TABLE, "filtre": "x"}, "'filtre' is unknown .* did you mean 'filter'"),
        ({**TABLE, "request": "gASVAA=="}, "'request' is unknown"),
        ({**TABLE, "snapshot-id": "x"}, "snapshot-id is 'x': give a number"),
        ({**TABLE, "snapshot-id": "²"}, "snapshot-id is '²'"),
        ({**TABLE, "watermark": "9" * 5000}, "watermark is '999"),
        ({**TABLE, "filter": "x" * 70_000}, "'filter' of the pkray source has 70,000 characters"),
        ({**TABLE, "storage.runtime": "ray"}, "'storage.runtime' is unknown"),
        ({**TABLE, "storage.warehouse": "x"}, "'storage.warehouse' is unknown"),
        ({**TABLE, "storage.url": "x"}, "'storage.url' is unknown"),
        ({**TABLE, "storage.": "x"}, "'storage.' is unknown"),
    ],
)
def test_a_wrong_option_is_named(options, message):
    with pytest.raises(OptionError, match=message):
        SourceOptions.parse(options)


def test_storage_options_are_not_shown():
    options = SourceOptions.parse({**TABLE, "storage.secret_access_key": "TOPSECRET"})
    assert "TOPSECRET" not in repr(options)


def test_a_table_of_sparks_catalog_is_refused():
    with pytest.raises(UnsupportedError, match=r"CREATE TEMPORARY VIEW v USING pkray OPTIONS"):
        TableSource({**TABLE, "provider": "pkray", "option.table": "db.t"}).schema()


def test_the_source_that_spark_finds_by_itself_pushes_no_filters(tmp_path):
    with pkray.connect(tmp_path) as catalog:
        catalog.create_table("db.t", [("k", "INT")], ["k"])
    options = {"path": str(tmp_path), "table": "db.t"}
    found, registered = DefaultSource(options), TableSource(options)
    assert found.name() == registered.name() == "pkray"
    assert overridden(found) is None
    assert overridden(registered) is not None


def overridden(source: TableSource):
    """Give the method by which a source has filters pushed down, where it has its own."""
    return vars(type(source.reader(source.schema()))).get("pushFilters")
