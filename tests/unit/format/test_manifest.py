"""Manifests: what is written is read back, what others write is read, damage is reported."""

import contextlib
import copy
import json
from dataclasses import dataclass
from typing import Any

import fastavro
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pkray.errors import CorruptFileError
from pkray.format.avro import schemas as avro_schemas
from pkray.format.avro.files import _plain, read_records, write_records
from pkray.format.data_file import ADD, DELETE, DataFileMeta, ManifestEntry, SimpleStats
from pkray.format.index_file import DELETION_VECTORS, HASH, DeletionVectorRange, IndexFileMeta
from pkray.format.manifest import (
    IndexManifestEntry,
    ManifestFileMeta,
    read_index_manifest,
    read_manifest,
    read_manifest_list,
    write_index_manifest,
    write_manifest,
    write_manifest_list,
)
from tests.effort import examples

STATS = SimpleStats(b"low", b"high", (0, 3, None))
FILE = DataFileMeta(
    file_name="data-1-0.parquet",
    file_size=1 << 40,
    row_count=7,
    min_key=b"\0a",
    max_key=b"\xffz",
    key_stats=STATS,
    value_stats=SimpleStats(b"", b"", ()),
    min_sequence_number=5,
    max_sequence_number=11,
    schema_id=2,
    level=5,
)
FULL = msgspec.structs.replace(
    FILE,
    extra_files=("data-1-0.parquet.index",),
    creation_time=1_700_000_000_123,
    delete_row_count=3,
    embedded_index=b"\1\2",
    file_source=1,
    value_stats_cols=("a", "b"),
    external_path="s3://elsewhere/file",
    first_row_id=9,
    write_cols=("a",),
)
ENTRIES = [ManifestEntry(ADD, b"part", 3, 4, FILE), ManifestEntry(DELETE, b"", 0, -1, FULL)]
LIST = [
    ManifestFileMeta(
        file_name="manifest-1-0",
        file_size=12,
        num_added_files=3,
        num_deleted_files=1,
        partition_stats=STATS,
        schema_id=0,
    ),
    ManifestFileMeta(
        file_name="manifest-1-1",
        file_size=13,
        num_added_files=0,
        num_deleted_files=2,
        partition_stats=SimpleStats(b"", b"", ()),
        schema_id=1,
        min_bucket=0,
        max_bucket=3,
        min_level=0,
        max_level=5,
        min_row_id=1,
        max_row_id=2,
    ),
]
INDEXES = [
    IndexManifestEntry(
        kind=ADD,
        partition=b"p",
        bucket=1,
        file=IndexFileMeta(
            index_type=DELETION_VECTORS,
            file_name="index-1-0",
            file_size=40,
            row_count=2,
            deletion_vectors=(
                DeletionVectorRange("data-1-0.parquet", 1, 22, 5),
                DeletionVectorRange("data-1-1.parquet", 31, 22),
            ),
        ),
    ),
    IndexManifestEntry(
        kind=DELETE,
        partition=b"p",
        bucket=1,
        file=IndexFileMeta(
            index_type=HASH,
            file_name="index-1-1",
            file_size=4,
            row_count=1,
            external_path="s3://elsewhere/index",
        ),
    ),
]


@dataclass(frozen=True)
class Kind:
    name: str
    content: list[Any]
    write: Any
    read: Any
    schema: Any


KINDS = [
    Kind("manifest", ENTRIES, write_manifest, read_manifest, avro_schemas.MANIFEST_ENTRY),
    Kind(
        "manifest list", LIST, write_manifest_list, read_manifest_list, avro_schemas.MANIFEST_LIST
    ),
    Kind(
        "index manifest",
        INDEXES,
        write_index_manifest,
        read_index_manifest,
        avro_schemas.INDEX_MANIFEST_ENTRY,
    ),
]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


@every_kind
@pytest.mark.parametrize("compression", ["zstd", "default", "snappy", "none"])
def test_what_is_written_is_read(kind: Kind, compression: str) -> None:
    assert kind.read(kind.write(kind.content, compression), "m") == kind.content


@every_kind
def test_an_empty_one(kind: Kind) -> None:
    assert kind.read(kind.write([]), "m") == []


def test_many_entries_keep_their_order() -> None:
    entries = [
        ManifestEntry(ADD, b"p" * 100, i, 4, msgspec.structs.replace(FULL, file_name=f"data-{i}"))
        for i in range(3000)
    ]
    assert read_manifest(write_manifest(entries), "m") == entries


def without(schema: Any, names: set[str]) -> Any:
    """A schema that lacks fields, as an older writer's."""
    if isinstance(schema, list):
        return [without(each, names) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {k: without(v, names) for k, v in schema.items()}
    if "fields" in kept:
        kept["fields"] = [field for field in kept["fields"] if field["name"] not in names]
    return kept


NEWER = {
    "_VALUE_STATS_COLS",
    "_EXTERNAL_PATH",
    "_FIRST_ROW_ID",
    "_WRITE_COLS",
    "_CARDINALITY",
    *(f"_{end}_{what}" for end in ("MIN", "MAX") for what in ("BUCKET", "LEVEL", "ROW_ID")),
}
ABSENT = {"value_stats_cols": None, "external_path": None, "first_row_id": None, "write_cols": None}


def test_a_manifest_of_java_09_lacks_the_newer_fields() -> None:
    records = list(read_records(write_manifest(ENTRIES)))
    old = write_records(without(avro_schemas.MANIFEST_ENTRY, NEWER), records)
    expected = [
        msgspec.structs.replace(each, file=msgspec.structs.replace(each.file, **ABSENT))
        for each in ENTRIES
    ]
    assert read_manifest(old, "m") == expected


def test_a_manifest_list_of_java_09_lacks_the_newer_fields() -> None:
    records = list(read_records(write_manifest_list(LIST)))
    old = write_records(without(avro_schemas.MANIFEST_LIST, NEWER), records)
    bounds = dict.fromkeys(
        ("min_bucket", "max_bucket", "min_level", "max_level", "min_row_id", "max_row_id")
    )
    assert read_manifest_list(old, "m") == [LIST[0], msgspec.structs.replace(LIST[1], **bounds)]


def test_an_index_manifest_of_java_09_lacks_the_newer_fields() -> None:
    records = list(read_records(write_index_manifest(INDEXES)))
    old = write_records(without(avro_schemas.INDEX_MANIFEST_ENTRY, NEWER), records)
    first, second = read_index_manifest(old, "m")
    assert first.file.deletion_vectors is not None
    assert [each.cardinality for each in first.file.deletion_vectors] == [None, None]
    assert [each.offset for each in first.file.deletion_vectors] == [1, 31]
    assert second.file.external_path is None


@every_kind
def test_fields_that_a_newer_writer_adds_are_passed_over(kind: Kind) -> None:
    schema = copy.deepcopy(kind.schema)
    schema["fields"].append({"name": "_NEW", "type": ["null", "string"], "default": None})
    records = [{**each, "_NEW": "x"} for each in read_records(kind.write(kind.content))]
    assert kind.read(write_records(schema, records), "m") == kind.content


def test_null_counts_that_are_null_are_no_counts() -> None:
    record = next(read_records(write_manifest(ENTRIES[:1])))
    record["_FILE"]["_KEY_STATS"]["_NULL_COUNTS"] = None
    (entry,) = read_manifest(write_records(avro_schemas.MANIFEST_ENTRY, [record]), "m")
    assert entry.file.key_stats == SimpleStats(b"low", b"high", ())


def test_the_writers_schema_says_value_stats_cols_even_where_null() -> None:
    (record,) = read_records(write_manifest(ENTRIES[:1]))
    assert record["_VERSION"] == 2
    assert record["_FILE"]["_VALUE_STATS_COLS"] is None


@every_kind
def test_every_cut_is_noticed(kind: Kind) -> None:
    data = kind.write(kind.content)
    whole_header = len(kind.write([]))
    for length in range(len(data)):
        if length == whole_header:
            continue  # a file of no blocks is a whole file
        with pytest.raises(CorruptFileError, match="manifest/m") as caught:
            kind.read(data[:length], "manifest/m")
        assert caught.value.path == "manifest/m"


def test_a_manifest_cut_between_blocks_is_noticed_by_its_size() -> None:
    data = write_manifest(ENTRIES)
    cut = write_manifest([])
    assert read_manifest(data, "m", len(data)) == ENTRIES
    with pytest.raises(CorruptFileError, match=f"should have {len(data)} bytes"):
        read_manifest(cut, "m", len(data))


@pytest.mark.parametrize("total", [0, -3])
def test_rows_are_spread_over_some_buckets(total: int) -> None:
    entry = msgspec.structs.replace(ENTRIES[0], total_buckets=total)
    with pytest.raises(CorruptFileError, match=f"manifest m is damaged.*over {total} buckets"):
        read_manifest(write_manifest([entry]), "m")


@given(st.integers(0, 10**6), st.integers(1, 255))
@settings(max_examples=examples(60))
def test_a_changed_byte_is_read_or_reported(position: int, change: int) -> None:
    data = bytearray(write_manifest(ENTRIES))
    data[position % len(data)] ^= change
    with contextlib.suppress(CorruptFileError):
        read_manifest(bytes(data), "m")


@pytest.mark.parametrize("data", [b"", b"Obj", b"not avro at all", bytes(100)])
def test_other_files_are_reported(data: bytes) -> None:
    with pytest.raises(CorruptFileError, match=r"manifest list m is damaged \(\d+ bytes\)"):
        read_manifest_list(data, "m")


def test_a_manifest_is_no_manifest_list() -> None:
    with pytest.raises(CorruptFileError, match="manifest list m"):
        read_manifest_list(write_manifest(ENTRIES), "m")


WRONG_TYPES = {
    "string": "0/../../x",
    "null": None,
    "double": 1.5,
    "boolean": True,
    "long": 1 << 40,
    "bytes": b"x",
}


@pytest.mark.parametrize("field", ["_BUCKET", "_KIND", "_TOTAL_BUCKETS"])
@pytest.mark.parametrize("kind", WRONG_TYPES)
def test_values_of_other_types_are_no_entry(field, kind):
    """A file says itself which types it has: what a path is made of is a number all the same."""
    described = json.loads(json.dumps(_plain(avro_schemas.MANIFEST_ENTRY)))
    next(each for each in described["fields"] if each["name"] == field)["type"] = kind
    records = [{**each, field: WRONG_TYPES[kind]} for each in read_records(write_manifest(ENTRIES))]
    data = write_records(fastavro.parse_schema(described), records)
    with pytest.raises(CorruptFileError, match=r"manifest-4 is damaged.*other types"):
        read_manifest(data, "manifest-4")


def test_numbers_may_be_written_in_more_bytes_than_they_need():
    described = json.loads(json.dumps(_plain(avro_schemas.MANIFEST_ENTRY)))
    next(each for each in described["fields"] if each["name"] == "_BUCKET")["type"] = "long"
    records = list(read_records(write_manifest(ENTRIES)))
    data = write_records(fastavro.parse_schema(described), records)
    assert read_manifest(data, "m") == ENTRIES
