"""Schemas: creation, JSON, and what is no table."""

import dataclasses
import json
import pickle
from typing import Any

import pyarrow as pa
import pytest

from pkray import errors
from pkray.schema.table_schema import TableSchema
from pkray.schema.types import DataType

COLUMNS = [
    ("dt", "STRING"),
    ("k", "BIGINT"),
    ("k2", "INT"),
    ("v", "STRING"),
    ("n", "INT"),
    ("tags", "ARRAY<STRING>"),
]


def described_by(schema: TableSchema) -> dict[str, Any]:
    """A schema file's content without its checksum."""
    described = json.loads(schema.to_json())
    assert len(described.pop("pkray.crc32")) == 8
    return described


def make(options: dict[str, str] | None = None, **changes: Any) -> TableSchema:
    arguments: dict[str, Any] = {
        "schema": COLUMNS,
        "primary_keys": ["k", "dt"],
        "partition_keys": ["dt"],
        "options": options or {},
        "comment": None,
        "now_millis": 17,
    }
    return TableSchema.create(**{**arguments, **changes})


def test_primary_key_columns_become_not_null() -> None:
    schema = make()
    assert [str(column.type) for column in schema.fields] == [
        "STRING NOT NULL", "BIGINT NOT NULL", "INT", "STRING", "INT", "ARRAY<STRING>",
    ]  # fmt: skip


def test_the_key_in_a_bucket_leaves_out_the_partition() -> None:
    schema = make(primary_keys=["k2", "dt", "k"])
    assert schema.trimmed_primary_keys == ("k2", "k")
    assert schema.bucket_keys == ("k2", "k")


def test_the_bucket_key_may_be_part_of_the_primary_key() -> None:
    schema = make({"bucket": "4", "bucket-key": "k"}, primary_keys=["k2", "dt", "k"])
    assert schema.bucket_keys == ("k",)


def test_the_file_schema_has_key_and_system_columns_first() -> None:
    schema = make(primary_keys=["k2", "dt", "k"])
    assert schema.file_schema.names == [
        "_KEY_k2", "_KEY_k", "_SEQUENCE_NUMBER", "_VALUE_KIND",
        "dt", "k", "k2", "v", "n", "tags",
    ]  # fmt: skip
    assert schema.file_schema.field("_KEY_k") == pa.field("_KEY_k", pa.int64(), nullable=False)
    assert schema.file_schema.field("_SEQUENCE_NUMBER").type == pa.int64()
    assert schema.file_schema.field("_VALUE_KIND").type == pa.int8()


def test_bucket_is_one_and_written_down_where_it_is_not_given() -> None:
    schema = make()
    assert schema.options == {"bucket": "1"}
    assert schema.core.bucket == 1


def test_dynamic_buckets_are_accepted_at_creation() -> None:
    assert make({"bucket": "-1"}).core.bucket == -1


def test_an_arrow_schema_makes_a_table() -> None:
    arrow = pa.schema(
        [
            pa.field("id", pa.int64()),
            pa.field("at", pa.timestamp("us", "UTC"), metadata={"description": "when"}),
            pa.field("code", pa.large_string(), metadata={"paimon.type": "CHAR(3)"}),
        ]
    )
    schema = make(schema=arrow, primary_keys=["id"], partition_keys=[])
    assert [str(t) for t in schema.types(schema.names)] == [
        "BIGINT NOT NULL", "TIMESTAMP_LTZ(6)", "CHAR(3)",
    ]  # fmt: skip
    assert schema.field("at").description == "when"
    assert schema.arrow_schema.types == [pa.int64(), pa.timestamp("us", "UTC"), pa.string()]


def test_field_ids_are_given_depth_first() -> None:
    schema = make(
        schema=[("k", "INT"), ("r", "ROW<a INT, b ARRAY<ROW<c INT>>>"), ("v", "INT")],
        primary_keys=["k"],
        partition_keys=[],
    )
    row = schema.field("r").type.fields
    assert row is not None
    assert row[1].type.element is not None
    inner = row[1].type.element.fields
    assert [column.id for column in schema.fields] == [0, 1, 5]
    assert [part.id for part in row] == [2, 3]
    assert inner is not None
    assert inner[0].id == 4
    assert schema.highest_field_id == 5


def test_the_schema_file_is_paimons() -> None:
    schema = make({"bucket": "2"}, comment="orders")
    assert described_by(schema) == {
        "version": 3,
        "id": 0,
        "fields": [
            {"id": 0, "name": "dt", "type": "STRING NOT NULL"},
            {"id": 1, "name": "k", "type": "BIGINT NOT NULL"},
            {"id": 2, "name": "k2", "type": "INT"},
            {"id": 3, "name": "v", "type": "STRING"},
            {"id": 4, "name": "n", "type": "INT"},
            {"id": 5, "name": "tags", "type": {"type": "ARRAY", "element": "STRING"}},
        ],
        "highestFieldId": 5,
        "partitionKeys": ["dt"],
        "primaryKeys": ["k", "dt"],
        "options": {"bucket": "2"},
        "comment": "orders",
        "timeMillis": 17,
    }


def test_a_schema_survives_its_file_and_pickling() -> None:
    schema = make({"bucket": "2"}, comment="Bücher")
    assert schema.core.bucket == 2
    assert TableSchema.from_json(schema.to_json()) == schema
    assert pickle.loads(pickle.dumps(schema)) == schema


def test_keys_are_not_null_whatever_the_file_says() -> None:
    described = described_by(make())
    for column in described["fields"][:2]:
        column["type"] = column["type"].removesuffix(" NOT NULL")
    assert TableSchema.from_json(json.dumps(described).encode()) == make()


def test_a_file_without_bucket_means_dynamic_buckets() -> None:
    described = described_by(make())
    described["options"] = {}
    assert TableSchema.from_json(json.dumps(described).encode()).core.bucket == -1


def test_a_file_of_the_first_version_has_its_defaults() -> None:
    described = described_by(make())
    described.pop("version")
    described["options"] = {}
    core = TableSchema.from_json(json.dumps(described).encode()).core
    assert (core.bucket, core.file_format) == (1, "orc")


def test_a_file_of_a_newer_version_is_refused_as_such() -> None:
    described = {**described_by(make()), "version": 4}
    with pytest.raises(errors.UnsupportedError, match="version 4"):
        TableSchema.from_json(json.dumps(described).encode(), "schema/schema-0")


def test_options_of_other_engines_are_kept() -> None:
    described = described_by(make())
    described["options"]["my.engine"] = "x"
    schema = TableSchema.from_json(json.dumps(described).encode())
    assert schema.core.bucket == 1
    assert json.loads(schema.to_json())["options"]["my.engine"] == "x"


@pytest.mark.parametrize("kept", [0, 1, 10, 100, -1])
def test_a_truncated_file_is_damaged_and_named(kept: int) -> None:
    data = make().to_json()[:kept]
    with pytest.raises(errors.CorruptFileError, match="schema/schema-0") as caught:
        TableSchema.from_json(data, "schema/schema-0")
    assert caught.value.path == "schema/schema-0"


@pytest.mark.parametrize("lost", ["id", "fields", "highestFieldId", "primaryKeys", "options"])
def test_a_file_that_lacks_a_part_is_damaged(lost: str) -> None:
    described = described_by(make())
    described.pop(lost)
    with pytest.raises(errors.CorruptFileError, match=lost):
        TableSchema.from_json(json.dumps(described).encode())


@pytest.mark.parametrize(
    "change",
    [
        {"fields": 3},
        {"fields": [{"id": 0, "name": "k", "type": "BIGIMT"}]},
        {"primaryKeys": ["gone"]},
        {"options": []},
        {"id": "x"},
        {"highestFieldId": None},
        {"fields": [{"id": 0, "name": c, "type": "INT"} for c in ("dt", "k")]},
        {"fields": [{"id": i, "name": c, "type": "INT"} for i, c in enumerate(("dt", "k", "k"))]},
    ],
)
def test_a_file_whose_parts_do_not_fit_is_damaged(change: dict[str, Any]) -> None:
    described = {**described_by(make()), **change}
    with pytest.raises(errors.CorruptFileError):
        TableSchema.from_json(json.dumps(described).encode())


@pytest.mark.parametrize("data", [b"", b"[]", b"null", b"3", b"\xff\xfe{}"])
def test_what_is_no_schema_is_damaged(data: bytes) -> None:
    with pytest.raises(errors.CorruptFileError):
        TableSchema.from_json(data)


@pytest.mark.parametrize(
    ("changes", "kind", "named"),
    [
        ({"schema": []}, errors.SchemaError, "columns"),
        ({"schema": [*COLUMNS, ("v", "INT")]}, errors.SchemaError, "'v' is there twice"),
        ({"schema": [*COLUMNS, ("", "INT")]}, errors.SchemaError, "cannot be named"),
        ({"schema": [*COLUMNS, ("_KEY_k", "INT")]}, errors.SchemaError, "_KEY_k"),
        ({"schema": [*COLUMNS, ("_SEQUENCE_NUMBER", "INT")]}, errors.SchemaError, "reserved"),
        ({"schema": [*COLUMNS, ("_VALUE_KIND", "INT")]}, errors.SchemaError, "reserved"),
        ({"schema": [*COLUMNS, ("_row_kind", "INT")]}, errors.SchemaError, "reserved"),
        ({"primary_keys": []}, errors.UnsupportedError, "without a primary key"),
        ({"primary_keys": "k"}, errors.SchemaError, r"\['k'\]"),
        ({"primary_keys": ["kk", "dt"]}, errors.SchemaError, "did you mean 'k'"),
        ({"primary_keys": ["k", "k", "dt"]}, errors.SchemaError, "twice"),
        ({"primary_keys": ["k", "tags", "dt"]}, errors.UnsupportedError, "tags"),
        ({"partition_keys": ["tags"]}, errors.UnsupportedError, "tags"),
        ({"partition_keys": ["day"]}, errors.SchemaError, "'day'"),
        ({"primary_keys": ["dt"]}, errors.SchemaError, "partition columns alone"),
        ({"primary_keys": ["k"]}, errors.SchemaError, "lacks partition columns"),
    ],
)
def test_columns_and_keys_that_are_no_table(
    changes: dict[str, Any], kind: type[errors.PkrayError], named: str
) -> None:
    with pytest.raises(kind, match=named):
        make(**changes)


UPDATED = {"merge-engine": "partial-update"}
GROUPED = {**UPDATED, "fields.n.sequence-group": "v"}
REMOVED = {"partial-update.remove-record-on-delete": "true"}
EXPIRING = {"record-level.expire-time": "1 d"}
REFUSED = [
    {"bucket": "0"},
    {"bucket": "-1", "bucket-key": "k"},
    {"bucket-key": "v"},
    {"bucket-key": "k,k"},
    {"bucket-key": "dt"},
    {"sequence.field": "zz"},
    {"sequence.field": "n,n"},
    {"sequence.field": "tags"},
    {"sequence.field": "n", "merge-engine": "first-row"},
    {"sequence.field": "n", "merge-engine": "aggregation", "fields.n.aggregate-function": "sum"},
    {"rowkind.field": "zz"},
    {"rowkind.field": "n"},
    {"merge-engine": "first-row", "changelog-producer": "input"},
    {"merge-engine": "first-row", "changelog-producer": "full-compaction"},
    {"merge-engine": "first-row", "deletion-vectors.enabled": "true"},
    {"deletion-vectors.enabled": "true", "changelog-producer": "full-compaction"},
    {"streaming-read-overwrite": "true", "changelog-producer": "lookup"},
    {**UPDATED, "fields.n.aggregate-function": "sum"},
    {**UPDATED, "fields.default-aggregate-function": "last_value"},
    {**GROUPED, "fields.n.aggregate-function": "sum"},
    {**GROUPED, **REMOVED},
    {**UPDATED, "ignore-delete": "true", **REMOVED},
    {**UPDATED, "fields.zz.sequence-group": "v"},
    {**UPDATED, "fields.n.sequence-group": "zz"},
    {**GROUPED, "fields.k2.sequence-group": "v"},
    {"fields.zz.ignore-retract": "true"},
    {"fields.k.default-value": "1"},
    {"metadata.stats-mode": "some"},
    {"fields.v.stats-mode": "truncate"},
    {"snapshot.num-retained.min": "5", "snapshot.num-retained.max": "3"},
    {"changelog.num-retained.min": "6", "changelog.num-retained.max": "5"},
    {"changelog.num-retained.max": "5"},
    {"changelog.num-retained.min": "20", "snapshot.num-retained.max": "12"},
    EXPIRING,
    {**EXPIRING, "record-level.time-field": "v"},
    {"changelog-producer.row-deduplicate-ignore-fields": "zz"},
]


@pytest.mark.parametrize("options", REFUSED, ids=lambda options: str(options))
def test_options_that_do_not_fit_the_table(options: dict[str, str]) -> None:
    with pytest.raises((errors.OptionError, errors.SchemaError, errors.UnsupportedError)):
        make(options)


ACCEPTED = [
    {"changelog.time-retained": "1 min", "changelog.num-retained.min": "5"},
    {"sequence.field": "n,k2", "merge-engine": "partial-update"},
    {"merge-engine": "first-row", "changelog-producer": "lookup"},
    {"deletion-vectors.enabled": "true", "changelog-producer": "input"},
    {**UPDATED, "fields.n.sequence-group": "v,k2"},
    {**UPDATED, "fields.n.sequence-group": "v,k2", "fields.k2.aggregate-function": "sum"},
    {"rowkind.field": "v"},
    {"bucket-function.type": "mod", "bucket": "4"},
    {**EXPIRING, "record-level.time-field": "n"},
    {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
    {"metadata.stats-mode": "truncate(32)", "fields.v.stats-mode": "none"},
]


@pytest.mark.parametrize("options", ACCEPTED, ids=lambda options: str(options))
def test_options_that_fit(options: dict[str, str]) -> None:
    assert make(options).options == {"bucket": "1", **options}


def test_mod_buckets_take_one_integer_column() -> None:
    options = {"bucket-function.type": "mod", "bucket": "4"}
    with pytest.raises(errors.SchemaError, match="one INT or BIGINT"):
        make(options, primary_keys=["k", "k2", "dt"])


def test_partition_expiry_needs_partitions() -> None:
    with pytest.raises(errors.OptionError, match="partitioned table"):
        make({"partition.expiration-time": "1 d"}, partition_keys=[])


def test_a_key_that_crosses_partitions_needs_dynamic_buckets() -> None:
    with pytest.raises(
        errors.SchemaError, match=r"lacks partition columns of \['dt'\].*bucket = -1"
    ):
        make({"bucket": "2"}, primary_keys=["k"])
    assert make({"bucket": "-1"}, primary_keys=["k"]).crosses_partitions


@pytest.mark.parametrize(
    "options",
    [
        {"ignore-delete": "true"},
        {"merge-engine": "first-row", **EXPIRING, "record-level.time-field": "seen"},
    ],
)
def test_what_would_break_keys_that_cross_partitions_is_refused(options: dict) -> None:
    columns = [("k", "BIGINT"), ("dt", "STRING"), ("seen", "INT")]
    with pytest.raises(errors.UnsupportedError, match="lacks partition columns"):
        make({"bucket": "-1", **options}, schema=columns, primary_keys=["k"])


def test_postponed_buckets_are_refused_with_what_to_do() -> None:
    with pytest.raises(errors.UnsupportedError, match="bucket = -1") as refused:
        make({"bucket": "-2"})
    assert (refused.value.key, refused.value.value) == ("bucket", "-2")
    with pytest.raises(errors.UnsupportedError, match="postponed buckets"):
        dataclasses.replace(make(), options={"bucket": "-2"}).core  # noqa: B018


def test_a_sequence_field_does_not_go_with_keys_that_cross_partitions() -> None:
    with pytest.raises(errors.SchemaError, match="holds the partition columns"):
        make({"bucket": "-1", "sequence.field": "v"}, primary_keys=["k"])


def test_a_column_that_is_not_there_is_named_with_the_nearest() -> None:
    with pytest.raises(errors.SchemaError, match="did you mean 'tags'"):
        make().field("tag")


def test_types_may_be_given_as_types() -> None:
    schema = make(schema=[("k", DataType("BIGINT"))], primary_keys=["k"], partition_keys=[])
    assert schema.field("k").type == DataType("BIGINT", nullable=False)
