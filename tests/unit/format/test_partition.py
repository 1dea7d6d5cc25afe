"""Partitions: rows to partitions, partitions to folders and back."""

import pickle
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pkray.errors import CorruptFileError, UnsupportedError
from pkray.format.binary_row import EMPTY_ROW
from pkray.format.partition import PartitionSpec
from pkray.format.partition_text import escape
from pkray.schema.table_schema import TableSchema
from pkray.schema.types import DataField, DataType
from tests.unit.format.row_reference import row_of


def spec_of(columns: list[tuple[str, str]], **options: str) -> PartitionSpec:
    names = [name for name, _ in columns]
    schema = TableSchema(
        id=0,
        fields=tuple(
            DataField(i, name, DataType.parse(kind))
            for i, (name, kind) in enumerate([("k", "BIGINT"), *columns])
        ),
        highest_field_id=len(columns),
        partition_keys=tuple(names),
        primary_keys=("k", *names),
        options={key.replace("__", ".").replace("_", "-"): value for key, value in options.items()},
        comment=None,
        time_millis=0,
    )
    return PartitionSpec(schema)


def partition_of(spec: PartitionSpec, values: dict[str, Any]) -> bytes:
    columns = [pa.array([values[n]], t.arrow) for n, t in zip(spec.names, spec.types, strict=True)]
    _, (partition,) = spec.encode(pa.table(columns, list(spec.names)))
    return partition


LEGACY = [
    ("BOOLEAN", True, "true"),
    ("TINYINT", -5, "-5"),
    ("BIGINT", 2**63 - 1, "9223372036854775807"),
    ("FLOAT", 0.1, "0.1"),
    ("FLOAT", 16777216.0, "1.6777216E7"),
    ("FLOAT", 1.0, "1.0"),
    ("DOUBLE", 100.0, "100.0"),
    ("DOUBLE", 1e7, "1.0E7"),
    ("DOUBLE", 1.25e-4, "1.25E-4"),
    ("DOUBLE", 0.001, "0.001"),
    ("DOUBLE", -0.0, "-0.0"),
    ("DOUBLE", float("nan"), "NaN"),
    ("DOUBLE", float("-inf"), "-Infinity"),
    ("DECIMAL(6, 2)", Decimal("-0.05"), "-0.05"),
    ("DECIMAL(38, 0)", Decimal(10) ** 37, "1" + "0" * 37),
    ("DECIMAL(20, 10)", Decimal("0E-10"), "0.0000000000"),
    ("STRING", "a b/c", "a b%2Fc"),
    ("STRING", "é=100%", "é%3D100%25"),
    ("STRING", "", "__DEFAULT_PARTITION__"),
    ("STRING", " \t", "__DEFAULT_PARTITION__"),
    ("STRING", "\u00a0", "\u00a0"),
    ("STRING", None, "__DEFAULT_PARTITION__"),
    ("DATE", date(2024, 1, 2), "19724"),
    ("DATE", date(1969, 12, 31), "-1"),
    ("TIME(3)", time(0, 0, 1, 5000), "1005"),
    ("TIMESTAMP(3)", datetime(2024, 1, 1), "2024-01-01T00%3A00"),
    ("TIMESTAMP(3)", datetime(2024, 1, 1, 12, 30, 5), "2024-01-01T12%3A30%3A05"),
    ("TIMESTAMP(6)", datetime(1969, 12, 31, 23, 59, 59, 500000), "1969-12-31T23%3A59%3A59.500"),
    ("TIMESTAMP(6)", datetime(2024, 1, 1, 0, 0, 0, 1), "2024-01-01T00%3A00%3A00.000001"),
    ("TIMESTAMP(9)", datetime(2024, 1, 1, 0, 0, 0, 10), "2024-01-01T00%3A00%3A00.000010"),
    ("TIMESTAMP_LTZ(6)", datetime(2024, 1, 1, 1, 2, tzinfo=UTC), "2024-01-01T01%3A02"),
]
CAST = [
    ("BOOLEAN", False, "false"),
    ("DOUBLE", 1.5, "1.5"),
    ("DATE", date(2024, 1, 2), "2024-01-02"),
    ("TIME(0)", time(12, 30, 5), "12%3A30%3A05"),
    ("TIME(3)", time(12, 30, 5, 120000), "12%3A30%3A05.12"),
    ("TIME(3)", time(12, 30, 5, 5000), "12%3A30%3A05.005"),
    ("TIMESTAMP(0)", datetime(2024, 1, 1), "2024-01-01 00%3A00%3A00"),
    ("TIMESTAMP(3)", datetime(2024, 1, 1), "2024-01-01 00%3A00%3A00.000"),
    ("TIMESTAMP(6)", datetime(2024, 1, 1, 0, 0, 0, 120), "2024-01-01 00%3A00%3A00.000120"),
    ("BYTES", b"ab", "ab"),
]


@pytest.mark.parametrize(("kind", "value", "text"), LEGACY)
def test_folders_are_named_as_java_prints_the_value(kind: str, value: Any, text: str) -> None:
    spec = spec_of([("dt", kind)])
    assert spec.path(partition_of(spec, {"dt": value})) == f"dt={text}/"


@pytest.mark.parametrize(("kind", "value", "text"), CAST)
def test_folders_are_named_by_sql_casts_where_asked_for(kind: str, value: Any, text: str) -> None:
    spec = spec_of([("dt", kind)], partition__legacy_name="false")
    assert spec.path(partition_of(spec, {"dt": value})) == f"dt={text}/"


def test_the_default_name_can_be_chosen() -> None:
    spec = spec_of([("dt", "STRING")], partition__default_name="none")
    assert spec.path(partition_of(spec, {"dt": None})) == "dt=none/"


@pytest.mark.parametrize(
    ("kind", "legacy"), [("BYTES", "true"), ("BINARY(3)", "true"), ("TIMESTAMP_LTZ(3)", "false")]
)
def test_types_without_a_stable_name_are_refused(kind: str, legacy: str) -> None:
    with pytest.raises(UnsupportedError, match="partition column 'dt'") as caught:
        spec_of([("dt", kind)], partition__legacy_name=legacy)
    assert caught.value.column == "dt"


def test_columns_come_in_declared_order() -> None:
    spec = spec_of([("b", "INT"), ("a", "STRING")])
    partition = partition_of(spec, {"a": "x", "b": 1})
    assert partition == b"\0\0\0\2" + row_of([1, "x"], list(spec.types))
    assert spec.path(partition) == "b=1/a=x/"
    assert spec.to_dict(partition) == {"b": 1, "a": "x"}


def test_rows_get_the_partition_of_their_values() -> None:
    spec = spec_of([("dt", "DATE"), ("r", "STRING")])
    days = [date(2024, 1, 1), date(2024, 1, 2), None]
    rows = [(days[i % 3], ["eu", None][i % 2]) for i in range(100)]
    table = pa.table(
        {
            "r": pa.chunked_array([[r for _, r in rows[:40]], [r for _, r in rows[40:]]]),
            "dt": pa.chunked_array([[d for d, _ in rows[:70]], [d for d, _ in rows[70:]]]),
        }
    )
    indices, partitions = spec.encode(table)
    assert indices.dtype == np.int32
    assert len(partitions) == len(set(partitions)) == 6
    assert [partitions[code] for code in indices] == [
        partition_of(spec, {"dt": d, "r": r}) for d, r in rows
    ]
    values = [column.take(pa.array(indices)).to_pylist() for column in spec.values(partitions)]
    assert list(zip(*values, strict=True)) == rows


def test_more_combinations_than_fit_a_table() -> None:
    spec = spec_of([("a", "INT"), ("b", "INT")])
    numbers = np.arange(3000, dtype=np.int32)
    table = pa.table({"a": numbers, "b": numbers[::-1]})
    indices, partitions = spec.encode(table)
    assert len(partitions) == 3000
    firsts, seconds = spec.values([partitions[code] for code in indices])
    assert firsts.to_pylist() == numbers.tolist()
    assert seconds.to_pylist() == numbers[::-1].tolist()


def test_a_record_batch_and_no_rows() -> None:
    spec = spec_of([("a", "INT")])
    batch = pa.record_batch({"a": pa.array([2, 1, 2], pa.int32())})
    indices, partitions = spec.encode(batch)
    assert [spec.to_dict(partitions[code])["a"] for code in indices] == [2, 1, 2]
    indices, partitions = spec.encode(batch.slice(3))
    assert (indices.tolist(), partitions) == ([], [])


def test_an_unpartitioned_table_has_one_partition() -> None:
    spec = spec_of([])
    indices, partitions = spec.encode(pa.table({"k": [1, 2]}))
    assert (indices.tolist(), partitions) == ([0, 0], [EMPTY_ROW])
    assert (spec.path(EMPTY_ROW), partition_of(spec, {})) == ("", EMPTY_ROW)


def test_names_and_texts_in_paths_are_escaped() -> None:
    spec = spec_of([("dt", "STRING"), ("a=b", "STRING")])
    path = spec.path(partition_of(spec, {"dt": "a b/c%", "a=b": ""}))
    assert path == "dt=a b%2Fc%25/a%3Db=__DEFAULT_PARTITION__/"


def test_a_partition_of_another_table_is_reported() -> None:
    with pytest.raises(CorruptFileError, match="not of this table"):
        spec_of([("a", "INT"), ("b", "INT")]).path(partition_of(spec_of([("a", "INT")]), {"a": 1}))


def test_a_spec_survives_pickling() -> None:
    spec = spec_of([("dt", "STRING")])
    partition = partition_of(spec, {"dt": "a"})
    assert pickle.loads(pickle.dumps(spec)).path(partition) == spec.path(partition)


def test_what_paths_give_a_meaning_is_escaped() -> None:
    special = "\x01\n\x1f\"#%'*/:=?\\\x7f{}[]^"
    assert escape(special) == ("%01%0A%1F%22%23%25%27%2A%2F%3A%3D%3F%5C%7F%7B%7D%5B%5D%5E")
    assert escape("aZ09 -_.~!@$&()+,;<>|é") == "aZ09 -_.~!@$&()+,;<>|é"
