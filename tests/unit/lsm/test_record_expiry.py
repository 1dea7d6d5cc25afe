"""Rows older than ``record-level.expire-time`` go in compaction, and changelogs say so."""

from datetime import UTC, datetime
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from pkray.errors import OptionError, SchemaError
from pkray.lsm.record_expiry import RecordExpiry
from pkray.lsm.writer.bucket_writer import BucketWriter
from pkray.schema.table_schema import KIND, TableSchema
from tests.effort import examples
from tests.lsm_samples import Bucket, make_schema

TTL = 100
COLUMNS = (("k", "BIGINT NOT NULL"), ("v", "INT"), ("t", "INT"))


class Clocked(Bucket):
    """A bucket at a time of its own, in seconds."""

    def __init__(self, schema: TableSchema) -> None:
        self.now = 0
        super().__init__(schema)

    def reopen(self) -> None:
        super().reopen()
        self.writer = BucketWriter(
            self.schema, self.files, self.committed, clock=lambda: self.now * 1000
        )


def expiring(columns: Any = COLUMNS, **options: str) -> TableSchema:
    said = {"record-level.expire-time": f"{TTL} s", "record-level.time-field": "t"}
    return make_schema(columns, **said, **options)


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update", "aggregation", "first-row"])
def test_a_full_compaction_leaves_out_rows_that_are_older(engine: str) -> None:
    bucket = Clocked(expiring(engine=engine, write_only="true"))
    bucket.write(("+I", 1, 1, 50), ("+I", 2, 2, 51), ("+I", 3, 3, None))
    bucket.commit()
    bucket.now = 151
    if engine != "first-row":
        assert [row[0] for row in bucket.content()] == [1, 2, 3]
    bucket.commit(full=True)
    assert bucket.content() == [(2, 2, 51), (3, 3, None)]


def test_rows_that_lie_at_the_top_already_expire_too() -> None:
    bucket = Clocked(expiring(target="1 kb"))
    bucket.write(*[("+I", key, 0, 10 if key < 3 else 500) for key in range(100)])
    bucket.commit(full=True)
    names = {file.file_name for file in bucket.committed.files}
    bucket.now = 110
    bucket.commit(full=True)
    assert {file.file_name for file in bucket.committed.files} == names
    bucket.now = 111
    bucket.commit(full=True)
    assert [row[0] for row in bucket.content()] == list(range(3, 100))
    names = {file.file_name for file in bucket.committed.files}
    bucket.commit(full=True)
    assert {file.file_name for file in bucket.committed.files} == names


def test_a_table_whose_rows_have_all_expired_is_empty() -> None:
    bucket = Clocked(expiring())
    bucket.write(("+I", 1, 1, 0))
    bucket.commit(full=True)
    bucket.now = 1000
    bucket.commit(full=True)
    assert bucket.committed.files == ()


@pytest.mark.parametrize(
    "newer", [("+I", 1, 2, 10), ("-D", 1, 1, 10)], ids=["a row expires", "a delete does not expire"]
)
def test_an_older_row_does_not_come_back(newer: tuple[str, int, int, int]) -> None:
    bucket = Clocked(expiring(write_only="true"))
    for row in (("+I", 1, 1, 500), newer):
        bucket.write(row)
        bucket.commit()
    bucket.now = 200
    bucket.commit(full=True)
    assert bucket.content() == []


def test_an_expired_row_stays_while_an_older_one_is_left_below() -> None:
    bucket = Clocked(expiring(producer="lookup"))
    bucket.write(*[("+I", key, 1, 5000) for key in range(400)])
    bucket.commit(full=True)
    bucket.now = 1000
    bucket.write(("+I", 7, 2, 10))
    changes = bucket.commit()
    assert [run.level for run in bucket.committed.runs()] == [4, 5]
    assert changes == [("-U", 7, 1, 5000), ("+U", 7, 2, 10)]
    assert bucket.commit(full=True) == [("-D", 7, 2, 10)]
    assert 7 not in [row[0] for row in bucket.content()]


def test_an_aggregate_starts_anew_after_its_state_expired() -> None:
    options = {"fields.v.aggregate-function": "sum"}
    bucket = Clocked(expiring(engine="aggregation", producer="lookup", **options))
    bucket.write(("+I", 1, 5, 10))
    bucket.commit(full=True)
    bucket.now = 200
    bucket.write(("+I", 1, 3, 200))
    assert bucket.commit(full=True) == [("-U", 1, 5, 10), ("+U", 1, 3, 200)]
    assert bucket.content() == [(1, 3, 200)]


@pytest.mark.parametrize(
    ("kind", "said", "alive", "expired"),
    [
        ("INT", None, 900, 899),
        ("INT", "seconds-int", 900, 899),
        ("BIGINT", "seconds-long", 900, 899),
        ("BIGINT", "millis-long", 900_000, 899_999),
        ("BIGINT", None, 900, 899),
        ("TIMESTAMP(3)", None, datetime(1970, 1, 1, 0, 15), datetime(1970, 1, 1, 0, 14, 59)),
        ("TIMESTAMP(6)", None, datetime(1970, 1, 1, 0, 15), datetime(1970, 1, 1, 0, 14, 59)),
        (
            "TIMESTAMP_LTZ(9)",
            None,
            datetime(1970, 1, 1, 0, 15, tzinfo=UTC),
            datetime(1970, 1, 1, 0, 14, 59, 999_999, tzinfo=UTC),
        ),
    ],
)
def test_times_are_what_the_column_or_the_option_says(
    kind: str, said: str | None, alive: Any, expired: Any
) -> None:
    options = {} if said is None else {"record-level.time-field-type": said}
    schema = expiring((("k", "BIGINT NOT NULL"), ("t", kind)), **options)
    expiry = RecordExpiry(schema, now=1_000_999)
    times = pa.array([alive, expired, None], schema.arrow_schema.field("t").type)
    rows = pa.RecordBatch.from_arrays([times, pa.array([0, 0, 0], pa.int8())], names=["t", KIND])
    assert expiry.expired(rows).tolist() == [False, True, False]


def test_large_bigints_are_milliseconds_where_nothing_is_said() -> None:
    schema = expiring((("k", "BIGINT NOT NULL"), ("t", "BIGINT")))
    expiry = RecordExpiry(schema, now=2_000_000_000_000)
    times = pa.array([1_999_999_900_000, 1_999_999_899_999, 1_999_999_900, 1_999_999_899])
    rows = pa.RecordBatch.from_arrays([times, pa.array(np.zeros(4, np.int8))], names=["t", KIND])
    assert expiry.expired(rows).tolist() == [False, True, False, True]


def test_expiry_needs_a_time_field() -> None:
    with pytest.raises(OptionError, match="needs"):
        make_schema(COLUMNS, **{"record-level.expire-time": "1 s"})


def test_a_time_field_is_a_time() -> None:
    with pytest.raises(SchemaError, match="INT, BIGINT or TIMESTAMP"):
        expiring((("k", "BIGINT NOT NULL"), ("t", "STRING")))


@pytest.mark.parametrize(
    ("kind", "said"), [("BIGINT", "seconds-int"), ("INT", "millis-long"), ("INT", "seconds-long")]
)
def test_the_time_fields_type_fits_the_column(kind: str, said: str) -> None:
    columns = (("k", "BIGINT NOT NULL"), ("t", kind))
    with pytest.raises(OptionError, match="leave the option out"):
        expiring(columns, **{"record-level.time-field-type": said})


ROWS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9), st.integers(0, 400)), max_size=6)


@settings(max_examples=examples(12))
@given(
    steps=st.lists(st.tuples(ROWS, st.integers(0, 90), st.booleans()), max_size=8),
    producer=st.sampled_from(["lookup", "full-compaction"]),
    engine=st.sampled_from(["deduplicate", "partial-update", "aggregation"]),
    vectors=st.booleans(),
)
def test_a_changelog_replays_the_table_while_rows_expire(
    steps: list[tuple[list[tuple[int, int, int]], int, bool]],
    producer: str,
    engine: str,
    vectors: bool,
) -> None:
    options = {"vectors": "true"} if vectors and producer == "lookup" else {}
    bucket = Clocked(expiring(producer=producer, engine=engine, trigger="3", **options))
    replayed: dict[int, tuple[int, ...]] = {}
    for rows, passed, full in steps:
        bucket.now += passed
        bucket.write(*[("+I", *row) for row in rows])
        for kind, *row in bucket.commit(full=full):
            if kind in ("-U", "-D"):
                assert replayed.pop(row[0]) == tuple(row)
            else:
                assert row[0] not in replayed
                replayed[row[0]] = tuple(row)
        if producer == "lookup" or full:
            assert sorted(replayed.values()) == bucket.content()
        if full:
            assert all(row[2] >= bucket.now - TTL for row in replayed.values())


def test_rows_expire_beside_columns_without_an_order() -> None:
    nested = (*COLUMNS, ("l", {"type": "ARRAY", "element": "INT"}))
    bucket = Clocked(expiring(nested, write_only="true"))
    bucket.write(("+I", 1, 1, 50, [1]), ("+I", 2, 2, 51, []))
    bucket.commit()
    bucket.now = 151
    bucket.commit(full=True)
    assert bucket.content() == [(2, 2, 51, [])]
