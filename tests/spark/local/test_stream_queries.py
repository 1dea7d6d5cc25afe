"""Continuous queries over Spark streams: each micro-batch is one epoch, once."""

import pyarrow as pa
import pytest

import pkray.spark
from pkray.errors import OptionError, QueryFailedError, SchemaError, UnsupportedError
from tests.spark.tables import file_stream, rows, write_files

FILES = (
    rows((1, "a", 1.0), (2, "b", 2.0)),
    rows((3, "a", 4.0)),
    rows((4, "c", 8.0), (5, "b", 16.0)),
)
TOTALS = "SELECT name, COUNT(*) AS n, SUM(amount) AS total FROM clicks GROUP BY name"
EXPECTED = [("a", 2, 5.0), ("b", 2, 18.0), ("c", 1, 8.0)]


@pytest.fixture
def stream(spark, tmp_path):
    """A stream of a file a micro-batch."""

    def made(*files: pa.Table, folder: str = "in", **arguments):
        schema = arguments.pop("schema", "id BIGINT, name STRING, amount DOUBLE")
        frame = file_stream(spark, write_files(tmp_path / folder, *files), schema)
        return pkray.spark.relation(frame, **arguments)

    return made


@pytest.fixture(params=["by the driver", "by tasks"])
def written(request, monkeypatch):
    """Who writes the rows of a micro-batch."""
    if request.param == "by tasks":
        monkeypatch.setattr("pkray.spark.streams.spooling._SMALL_BYTES", -1)


def view(catalog, relation, name="clicks") -> None:
    catalog.create_view(name, relation, temporary=True)


def content(catalog, name: str) -> list[tuple]:
    found = catalog.load_table(name).to_arrow()
    kept = [each for each in found.column_names if each != "_row_key"]
    return sorted(tuple(row.values()) for row in found.select(kept).to_pylist())


def ended(query) -> None:
    query.wait_ended(120)
    assert query.status()["state"] == "ended"


def test_each_micro_batch_is_one_epoch_of_the_result(catalog, stream, written):
    view(catalog, stream(*FILES, keep=True))
    query = catalog.sql(TOTALS).materialize("db.totals", trigger="available_now")
    ended(query)
    assert content(catalog, "db.totals") == EXPECTED
    assert query.status()["sources"] == {"stream": 3}
    assert query.status()["streams"] == {"stream": "ended"}
    assert len(catalog.load_table("db.totals").snapshots()) == 3
    assert query.verify()


KINDS = "kind STRING, id BIGINT, name STRING"


def kinds(*changes: tuple) -> pa.Table:
    columns = list(zip(*changes, strict=True))
    return pa.table({"kind": columns[0], "id": columns[1], "name": columns[2]})


def test_changes_by_key_replace_rows(catalog, stream, written):
    files = (
        kinds(("+I", 1, "a"), ("+I", 2, "b"), ("+I", 3, "c")),
        kinds(("+U", 1, "z"), ("-D", 2, None), ("-U", 3, "c"), ("+U", 4, "c")),
    )
    changes = stream(*files, schema=KINDS, row_kinds="kind", primary_key=["id"])
    view(catalog, changes)
    query = catalog.sql("SELECT name, COUNT(*) AS n FROM clicks GROUP BY name")
    ended(query.materialize("db.names", trigger="available_now"))
    assert content(catalog, "db.names") == [("c", 1), ("z", 1)]


def test_a_kind_that_is_none_fails_the_query_with_the_cause(catalog, stream, written):
    view(catalog, stream(kinds(("+I", 1, "a"), ("+X", 2, "b")), schema=KINDS, row_kinds="kind"))
    query = catalog.sql("SELECT * FROM clicks").materialize("db.copy")
    with pytest.raises(QueryFailedError, match=r"stream 'stream' failed: .*'\+X', not a row kind"):
        query.wait({"stream": 1}, timeout=120)
    assert query.status()["streams"] == {"stream": "failed"}


def test_a_failed_stream_fails_the_query_with_the_cause(catalog, spark, tmp_path):
    folder = write_files(tmp_path / "in", rows((1, "a", 1.0)))
    frame = file_stream(spark, folder).selectExpr(
        "id", "CAST(raise_error('it broke') AS STRING) AS name"
    )
    view(catalog, pkray.spark.relation(frame))
    query = catalog.sql("SELECT id, CAST(name AS STRING) AS name FROM clicks").materialize(
        "db.copy"
    )
    with pytest.raises(QueryFailedError, match="it broke"):
        query.wait({"stream": 1}, timeout=120)


def test_a_stopped_query_goes_on_at_the_next_micro_batch(catalog, stream, tmp_path):
    view(catalog, stream(*FILES[:2]))
    query = catalog.sql(TOTALS).materialize("db.totals", trigger="available_now")
    ended(query)
    write_files(tmp_path / "in", FILES[2])
    query.resume()
    ended(query)
    assert content(catalog, "db.totals") == EXPECTED
    assert query.status()["sources"] == {"stream": 3}


def test_a_micro_batch_that_is_replayed_is_taken_once(catalog, spark, tmp_path):
    folder = write_files(tmp_path / "in", *FILES)
    unique = file_stream(spark, folder).dropDuplicates(["id"])  # Spark's state goes along
    view(catalog, pkray.spark.relation(unique))
    query = catalog.sql(TOTALS).materialize("db.totals", trigger="available_now")
    ended(query)
    place = tmp_path / "warehouse" / ".queries" / "db.totals" / "lives"
    for path in place.glob("*/streams/stream/checkpoint/commits/*2*"):
        path.unlink()  # as if the driver had been killed before it
    write_files(tmp_path / "in", rows((5, "b", 100.0), (6, "c", 1.0)))
    query.resume()
    ended(query)
    assert content(catalog, "db.totals") == [("a", 2, 5.0), ("b", 2, 18.0), ("c", 2, 9.0)]
    assert query.status()["sources"] == {"stream": 4}


def test_a_stream_whose_checkpoint_is_gone_is_not_taken_for_the_one_before(
    catalog, stream, tmp_path
):
    relation = stream(*FILES, checkpoint_location=str(tmp_path / "first"))
    view(catalog, relation)
    ended(catalog.sql(TOTALS).materialize("db.totals", trigger="available_now"))
    (tmp_path / "first").rename(tmp_path / "lost")
    query = catalog.sql(TOTALS).materialize("db.totals", trigger="available_now")
    with pytest.raises(QueryFailedError, match="its checkpoint is another"):
        query.wait_ended(120)
    assert content(catalog, "db.totals") == EXPECTED


def test_a_stream_has_no_bounded_run(stream):
    with pytest.raises(UnsupportedError, match="is a stream: materialize"):
        stream(FILES[0]).to_arrow()


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"row_kinds": "kind"}, SchemaError, "no column 'kind'"),
        ({"row_kinds": "amount"}, SchemaError, "must be a string"),
        ({"primary_key": ["id"]}, OptionError, "give row_kinds"),
        ({"name": "a/b"}, OptionError, "no name of a stream"),
    ],
)
def test_arguments_of_a_stream_are_checked(stream, arguments, error, said):
    with pytest.raises(error, match=said):
        stream(FILES[0], **arguments)


def test_arguments_of_streams_are_not_for_others(spark):
    with pytest.raises(OptionError, match="is not streaming"):
        pkray.spark.relation(spark.range(1), row_kinds="id")
