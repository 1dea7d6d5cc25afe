"""The push job itself: what it refuses, when it runs again, what its errors are."""

import uuid

import pytest

import pkray.spark
from pkray.errors import InputError, LostBatchesError, OptionError, SchemaError
from tests.spark.local.stand_in import StandInTable
from tests.spark.tables import SCHEMA, spark_rows


@pytest.fixture
def table(tmp_path):
    return StandInTable(tmp_path, SCHEMA, ["id"])


@pytest.fixture(scope="module")
def df(spark):
    return spark.range(300_000, numPartitions=3).selectExpr(
        "id", "concat('n', id) AS name", "id / 2 AS amount"
    )


def in_key_order(rows):
    return rows.sort_by("id").combine_chunks().cast(SCHEMA)


def test_every_row_is_pushed_once(df, table):
    pushed = pkray.spark.ingest(df, table)
    assert in_key_order(pushed).equals(in_key_order(spark_rows(df)))


def test_a_job_whose_batches_were_lost_runs_again(df, table, no_wait):
    table.losses = 2
    pushed = pkray.spark.ingest(df, table)
    assert in_key_order(pushed).equals(in_key_order(spark_rows(df)))
    assert len(table.names) == 3
    assert len(set(table.names)) == 1
    assert table.aborted == 2


def test_losses_without_end_are_raised(df, table, no_wait):
    table.losses = 100
    with pytest.raises(LostBatchesError):
        pkray.spark.ingest(df, table, max_attempts=3)
    assert len(table.names) == 3
    assert not table.committed


def test_a_committed_name_runs_no_job(spark, df, table):
    name = {"commit_user": "job", "commit_identifier": 7}
    first = pkray.spark.ingest(df, table, **name)
    never = spark.range(1).selectExpr(
        "id", "string(raise_error('the job ran')) AS name", "1.0D AS amount"
    )
    assert pkray.spark.ingest(never, table, **name) is first


def test_each_call_without_a_name_has_its_own(df, table):
    pkray.spark.ingest(df.limit(1), table)
    pkray.spark.ingest(df.limit(1), table)
    assert len(set(table.names)) == 2


def test_half_a_name_is_refused(df, table):
    with pytest.raises(OptionError, match="both, or neither"):
        pkray.spark.ingest(df, table, commit_user="job")
    assert table.names == []


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        (["id", "name"], InputError, "'amount'"),
        (["id", "name", "amount", "1 AS more"], InputError, "'more'"),
        (["id", "name", "string(amount) AS amount"], InputError, "'amount' is string"),
        (["id", "name", "interval '1' month AS amount"], SchemaError, "'amount'"),
        (["id", "name", "amount", "amount"], SchemaError, "more than once"),
    ],
)
def test_columns_that_do_not_fit_are_refused_before_the_job(df, table, columns, error, message):
    with pytest.raises(error, match=message):
        pkray.spark.ingest(df.selectExpr(*columns), table)
    assert table.names == []


def test_a_null_key_in_a_task_is_an_input_error_on_the_driver(df, table):
    with pytest.raises(InputError, match="'id' is null") as caught:
        pkray.spark.ingest(df.selectExpr("nullif(id, 250000) AS id", "name", "amount"), table)
    assert caught.value.column == "id"
    assert "Traceback" not in str(caught.value)
    assert (table.aborted, table.committed) == (1, {})


def test_an_error_of_the_dataframe_stays_sparks(df, table):
    with pytest.raises(Exception, match="no such row") as caught:
        pkray.spark.ingest(
            df.selectExpr("id", "raise_error('no such row')", "amount")
            .toDF("id", "name", "amount")
            .selectExpr("id", "string(name) AS name", "amount"),
            table,
        )
    assert not isinstance(caught.value, pkray.PkrayError)


def test_unknown_row_kinds_column(df, table):
    with pytest.raises(InputError, match="'op'"):
        pkray.spark.ingest(df, table, row_kinds="op")


def test_a_streaming_dataframe_is_sent_to_start_ingest(spark, table):
    stream = spark.readStream.format("rate").load()
    with pytest.raises(InputError, match="start_ingest"):
        pkray.spark.ingest(stream, table)


def test_a_batch_dataframe_is_sent_to_ingest(df, table, tmp_path):
    with pytest.raises(InputError, match=r"pkray\.spark\.ingest"):
        pkray.spark.start_ingest(df, table, checkpoint_location=str(tmp_path / uuid.uuid4().hex))
