import dataclasses
import datetime as dt
import functools
import json
import tracemalloc
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from pkray.errors import CorruptFileError, MissingFileError, OptionError
from pkray.options import TableOptions
from pkray.storage.block_checksums import BLOCK_BYTES
from pkray.storage.opening import open_store
from pkray.storage.parquet import ParquetWriter, read_batches, read_metadata
from pkray.storage.parquet import writer as parquet_writer
from pkray.storage.parquet.footer import parse_footer

OPTIONS = TableOptions.parse({})
GROUP_ROWS = 8 << 10
KEYED = pa.schema(
    [
        pa.field("_KEY_k", pa.int64(), False),
        pa.field("_SEQUENCE_NUMBER", pa.int64(), False),
        pa.field("_VALUE_KIND", pa.int8(), False),
        pa.field("k", pa.int64()),
        pa.field("v", pa.float64()),
        pa.field("s", pa.string()),
    ]
)


@pytest.fixture(autouse=True)
def small_row_groups(monkeypatch):
    """Files of many row groups need not be large."""
    monkeypatch.setattr(parquet_writer, "ROW_GROUP_ROWS", GROUP_ROWS)
    monkeypatch.setattr(parquet_writer, "ROW_GROUP_BYTES", 2 << 20)


@functools.cache
def keyed(rows: int) -> pa.Table:
    rng = np.random.default_rng(0)
    keys = pa.array(np.arange(rows) * 3)
    columns = [
        keys,
        pa.array(rng.permutation(rows)),
        pa.array(np.zeros(rows, np.int8)),
        keys,
        pa.array(rng.random(rows)),
        pa.array(rng.integers(0, 3, rows)).cast(pa.string()),
    ]
    return pa.table(columns, schema=KEYED)


def write(store, table, options=OPTIONS, path="b/f.parquet", step=3_000):
    with ParquetWriter(store, path, table.schema, options) as writer:
        for batch in table.to_batches(step):
            writer.write(batch)
    return path


def read(store, path, schema=None, **how):
    batches = list(read_batches(store, path, schema=schema, **how))
    return pa.Table.from_batches(batches)


def test_rows_come_back(store):
    table = keyed(20_001)
    path = write(store, table)
    assert read(store, path, KEYED).equals(table.cast(read(store, path, KEYED).schema))
    assert read(store, path).num_rows == 20_001


def test_close_tells_the_size(store):
    writer = ParquetWriter(store, "f", KEYED, OPTIONS)
    writer.write(keyed(1000))
    assert not store.exists("f")
    assert writer.close() == store.size("f")
    assert writer.num_rows == 1000


def test_the_size_so_far_is_near(store):
    writer = ParquetWriter(store, "f", KEYED, OPTIONS)
    for batch in keyed(40_000).to_batches(3_000):
        writer.write(batch)
    estimate = writer.bytes_written
    assert writer.close() == pytest.approx(estimate, rel=0.1)


def test_an_aborted_file_never_appears(store):
    def fail() -> None:
        with ParquetWriter(store, "f", KEYED, OPTIONS) as writer:
            writer.write(keyed(20_000))
            raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        fail()
    assert list(store.list(hidden=True)) == []


def test_a_file_without_rows_is_read(store):
    path = write(store, keyed(0))
    assert list(read_batches(store, path)) == []
    assert read_metadata(store, path).num_rows == 0


def test_columns_and_batch_sizes_are_as_asked(store):
    path = write(store, keyed(10_000))
    batches = list(read_batches(store, path, ["v", "k"], batch_rows=3000))
    assert [b.schema.names for b in batches] == [["v", "k"]] * len(batches)
    assert max(b.num_rows for b in batches) <= 3000
    assert sum(b.num_rows for b in batches) == 10_000


def test_row_groups_are_bounded_and_chosen(store):
    rows = 2 * GROUP_ROWS + 5
    path = write(store, keyed(rows))
    metadata = read_metadata(store, path)
    sizes = [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)]
    assert sizes == [GROUP_ROWS, GROUP_ROWS, 5]
    last = read(store, path, columns=["k"], row_groups=[2, 0])
    assert last["k"][0].as_py() == 3 * 2 * GROUP_ROWS
    assert last.num_rows == GROUP_ROWS + 5


def test_wide_rows_make_small_row_groups(store):
    table = pa.table({"b": pa.array([bytes([n]) * (64 << 10) for n in range(70)])})
    metadata = read_metadata(store, write(store, table, step=7))
    sizes = [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)]
    assert max(sizes) <= 64
    assert read(store, "b/f.parquet").equals(table)


def test_row_groups_may_be_made_larger(store):
    path = write(store, keyed(20_000), TableOptions.parse({"file.block-size": "64 mb"}))
    assert read_metadata(store, path).num_row_groups == 1
    path = write(store, keyed(20_000), TableOptions.parse({"file.block-size": "64 kb"}))
    assert read_metadata(store, path).num_row_groups > 9


def test_a_filter_keeps_what_it_holds_for(store):
    path = write(store, keyed(20_000))
    found = read(store, path, columns=["s"], filter=pc.field("k") < 30)
    assert found.equals(keyed(20_000).slice(0, 10).select(["s"]).cast(found.schema))
    nothing = list(read_batches(store, path, ["s"], filter=pc.field("k") < 0))
    assert nothing == []


def test_a_filter_skips_row_groups(tmp_path, monkeypatch):
    monkeypatch.setattr("pkray.storage.block_checksums.SMALL_BYTES", 0)
    store = open_store(tmp_path)
    path = write(store, keyed(20_000))
    data = bytearray((tmp_path / path).read_bytes())
    start = read_metadata(store, path).row_group(1).column(0).data_page_offset + BLOCK_BYTES
    data[start : start + 100] = bytes(100)
    (tmp_path / path).write_bytes(data)
    assert read(store, path, columns=["k"], filter=pc.field("k") < 30).num_rows == 10
    with pytest.raises(CorruptFileError):
        read(store, path)


def test_java_reads_the_encodings(store):
    metadata = read_metadata(store, write(store, keyed(20_000)))
    group = metadata.row_group(0)
    columns = {group.column(n).path_in_schema: group.column(n) for n in range(6)}
    allowed = {"PLAIN", "RLE", "RLE_DICTIONARY", "PLAIN_DICTIONARY"}
    assert all(set(c.encodings) <= allowed for c in columns.values())
    assert "RLE_DICTIONARY" in columns["_VALUE_KIND"].encodings
    assert "RLE_DICTIONARY" in columns["s"].encodings
    assert "RLE_DICTIONARY" not in columns["k"].encodings
    assert columns["k"].compression == "ZSTD"
    assert columns["v"].compression == "UNCOMPRESSED"
    assert columns["k"].is_stats_set
    assert columns["_KEY_k"].is_stats_set


@pytest.mark.parametrize("codec", ["none", "snappy", "lz4", "gzip", "zstd"])
def test_codecs(store, codec):
    table = keyed(5000)
    options = TableOptions.parse({"file.compression": codec})
    path = write(store, table, options)
    assert read(store, path, KEYED).equals(table.cast(read(store, path, KEYED).schema))
    names = {"none": "UNCOMPRESSED", "lz4": "LZ4"}
    compression = read_metadata(store, path).row_group(0).column(0).compression
    assert compression == names.get(codec, codec.upper())


def test_an_unknown_codec_is_refused(store):
    options = dataclasses.replace(OPTIONS, file_compression="zpaq")
    with pytest.raises(OptionError, match="zpaq"):
        write(store, keyed(10), options)
    assert list(store.list(hidden=True)) == []


EVERY_TYPE = {
    "boolean": (pa.bool_(), [True, False, None]),
    "tinyint": (pa.int8(), [-128, 127, None]),
    "smallint": (pa.int16(), [-32768, 32767, None]),
    "int": (pa.int32(), [-(2**31), 2**31 - 1, None]),
    "bigint": (pa.int64(), [-(2**63), 2**63 - 1, None]),
    "float": (pa.float32(), [1.5, float("-inf"), None]),
    "double": (pa.float64(), [-0.0, 1e300, None]),
    "decimal9": (pa.decimal128(9, 2), [Decimal("-1234567.89"), Decimal("0.01"), None]),
    "decimal18": (pa.decimal128(18, 0), [Decimal(10**18 - 1), Decimal(-1), None]),
    "decimal38": (pa.decimal128(38, 10), [Decimal("-1.5"), Decimal(10**27), None]),
    "string": (pa.string(), ["", "né\U0001f600", None]),
    "binary": (pa.binary(), [b"", b"\x00\xff", None]),
    "date": (pa.date32(), [dt.date(1, 1, 1), dt.date(9999, 12, 31), None]),
    "time": (pa.time32("ms"), [0, 86_399_999, None]),
    "millis": (pa.timestamp("ms"), [-1, 253_402_300_799_999, None]),
    "micros": (pa.timestamp("us"), [-1, 253_402_300_799_999_999, None]),
    "nanos": (pa.timestamp("ns"), [-1, 2**62, None]),
    "millis_utc": (pa.timestamp("ms", "UTC"), [-62_135_596_800_000, 0, None]),
    "micros_utc": (pa.timestamp("us", "UTC"), [-62_135_596_800_000_000, 1, None]),
    "nanos_utc": (pa.timestamp("ns", "UTC"), [-(2**62), 1, None]),
    "array": (pa.list_(pa.string()), [[], ["a", None], None]),
    "map": (pa.map_(pa.string(), pa.int64()), [[("a", 1), ("b", None)], [], None]),
    "row": (
        pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))]),
        [{"x": 1, "y": ["z"]}, {"x": None, "y": None}, None],
    ),
}  # fmt: skip


def of_every_type(names=tuple(EVERY_TYPE)) -> pa.Table:
    return pa.table({n: pa.array(EVERY_TYPE[n][1], EVERY_TYPE[n][0]) for n in names})


@pytest.mark.parametrize("name", EVERY_TYPE)
def test_a_column_of_each_type_comes_back(store, name):
    table = of_every_type([name])
    assert read(store, write(store, table), table.schema).equals(table)


def test_all_types_in_one_file_come_back(store):
    table = of_every_type()
    path = write(store, table)
    assert read(store, path, table.schema).equals(table)
    two = ["micros", "nanos"]
    assert read(store, path, table.schema, columns=two).equals(table.select(two))


def test_a_filter_on_a_file_with_nanoseconds(store):
    table = of_every_type()
    path = write(store, table)
    found = read(store, path, table.schema, columns=["micros"], filter=pc.field("tinyint") == 127)
    assert found.equals(table.select(["micros"]).slice(1, 1))
    late = pc.field("micros") > pa.scalar(0, pa.timestamp("us"))
    found = read(store, path, table.schema, columns=["tinyint"], filter=late)
    assert found["tinyint"].to_pylist() == [127]


def test_timestamps_are_stored_as_paimon_does(store):
    without = of_every_type(["millis", "micros"])
    kinds = [c.physical_type for c in columns_of(store, write(store, without))]
    assert kinds == ["INT64", "INT64"]
    with_nanos = of_every_type(["millis", "micros_utc", "nanos", "micros"])
    columns = columns_of(store, write(store, with_nanos))
    assert [c.physical_type for c in columns] == ["INT64", "INT64", "INT96", "INT64"]
    kinds = [json.loads(c.logical_type.to_json()) for c in columns]
    assert [k.get("timeUnit") for k in kinds] == [
        "milliseconds",
        "microseconds",
        None,
        "microseconds",
    ]
    assert [k.get("isAdjustedToUTC") for k in kinds] == [False, True, None, False]


def test_nested_timestamps_beside_nanoseconds_come_back(store):
    inner = pa.struct([("a", pa.timestamp("ms", "UTC")), ("b", pa.timestamp("ns"))])
    table = pa.table(
        {
            "before": pa.array([1], pa.timestamp("us")),
            "l": pa.array([[1, None]], pa.list_(pa.timestamp("us"))),
            "m": pa.array([[(1, [2])]], pa.map_(pa.timestamp("ms"), pa.list_(pa.timestamp("us")))),
            "s": pa.array([{"a": 5, "b": 6}], inner),
            "a": pa.array([7], pa.int64()),
            "after": pa.array([8], pa.timestamp("ms", "UTC")),
        }
    )
    path = write(store, table)
    assert read(store, path, table.schema).equals(table)
    kinds = [c.physical_type for c in columns_of(store, path)]
    assert kinds == ["INT64"] * 5 + ["INT96", "INT64", "INT64"]


class Active(pa.ExtensionType):
    """A type that other libraries register: its values do what their bytes say."""

    def __init__(self):
        super().__init__(pa.binary(), "test.active")

    def __arrow_ext_serialize__(self):
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type, serialized):
        return cls()


def test_a_type_that_a_file_claims_for_itself_ends_at_the_tables(tmp_path):
    """What a library like Ray Data registers would run the values of a crafted file."""
    pa.register_extension_type(Active())
    try:
        values = pa.ExtensionArray.from_storage(Active(), pa.array([b"code"]))
        nested = pa.ListArray.from_arrays([0, 1], values)
        pq.write_table(pa.table({"b": values, "l": nested}), tmp_path / "f.parquet")
        assert pq.read_table(tmp_path / "f.parquet").schema.field("b").type == Active()
        schema = pa.schema([("b", pa.binary()), ("l", pa.list_(pa.binary()))])
        (batch,) = read_batches(open_store(tmp_path), "f.parquet", schema=schema)
        assert batch.to_pylist() == [{"b": b"code", "l": [b"code"]}]
        assert [column.type for column in batch.columns] == schema.types
    finally:
        pa.unregister_extension_type("test.active")


def test_only_a_footer_is_annotated():
    with pytest.raises(ValueError, match="not a Parquet footer"):
        parse_footer(b"\x00\x00\x00\x05\x00\x00\x00PAR1")


def test_decimals_are_stored_as_paimon_does(store):
    table = of_every_type(["decimal9", "decimal18", "decimal38"])
    kinds = [c.physical_type for c in columns_of(store, write(store, table))]
    assert kinds == ["INT32", "INT64", "FIXED_LEN_BYTE_ARRAY"]


def columns_of(store, path):
    schema = read_metadata(store, path).schema
    return [schema.column(n) for n in range(len(schema))]


def test_a_missing_file_is_named(store):
    with pytest.raises(MissingFileError, match=r"none\.parquet"):
        list(read_batches(store, "b/none.parquet"))


def test_a_missing_column_is_named(store):
    path = write(store, keyed(10))
    with pytest.raises(CorruptFileError, match="no column 'w'"):
        list(read_batches(store, path, ["w"]))


NO_TEXT = pa.array([b"a", b"\xff"]).view(pa.string())


@pytest.mark.parametrize("column", [NO_TEXT, pa.ListArray.from_arrays([0, 2], NO_TEXT)])
def test_text_of_others_that_is_no_utf_8_is_damage(store, column):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"k": range(len(column)), "s": column}), sink)
    store.write("f.parquet", sink.getvalue().to_pybytes())
    with pytest.raises(CorruptFileError, match=r"f\.parquet.*'s'.*UTF8"):
        list(read_batches(store, "f.parquet"))
    assert list(read_batches(store, "f.parquet", ["k"]))


@pytest.mark.parametrize("kept", [0, 3, 100, 0.5, -1])
def test_a_file_cut_short_is_named(store, kept):
    path = write(store, keyed(20_000))
    data = store.read(path)
    size = int(len(data) * kept) if isinstance(kept, float) else kept
    store.write(path, data[:size])
    with pytest.raises(CorruptFileError, match=r"f\.parquet.*damaged") as caught:
        list(read_batches(store, path))
    assert caught.value.path.endswith("b/f.parquet")


def out_of_memory(*given: object, **_: object) -> None:
    del given  # the traceback would hold an open writer
    raise pa.ArrowMemoryError("malloc of size 1278208 failed")


def test_a_file_that_memory_does_not_suffice_for_is_not_called_damaged(store, monkeypatch):
    write(store, keyed(10))
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", out_of_memory)
    with pytest.raises(MemoryError, match="1278208"):
        read(store, "b/f.parquet")


def test_a_file_that_memory_does_not_suffice_to_write_never_appears(store, monkeypatch):
    monkeypatch.setattr(pq.ParquetWriter, "write_table", out_of_memory)
    with pytest.raises(MemoryError, match="1278208"):
        write(store, keyed(10))
    assert not store.exists("b/f.parquet")


def test_delta_encoding_is_an_option(store):
    table = keyed(20_000)
    path = write(store, table, TableOptions.parse({"parquet.writer.version": "v2"}))
    column = read_metadata(store, path).row_group(0).column(0)
    assert "DELTA_BINARY_PACKED" in column.encodings
    assert read(store, path, KEYED).equals(table.cast(read(store, path, KEYED).schema))


def test_reading_holds_little_memory(tmp_path):
    store = open_store(tmp_path)
    path = write(store, keyed(300_000), step=50_000)
    pa.default_memory_pool().release_unused()
    tracemalloc.start()  # what is read is Python's until it is decoded
    try:
        before, most = pa.total_allocated_bytes(), 0
        for _ in read_batches(store, path, batch_rows=4096):
            read = tracemalloc.get_traced_memory()[0]
            most = max(most, pa.total_allocated_bytes() - before + read)
    finally:
        tracemalloc.stop()
    assert most < 3 << 20
    assert pq.read_metadata(tmp_path / path).num_rows == 300_000
