import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from pkray.errors import CorruptFileError, StorageFullError
from pkray.options import TableOptions
from pkray.storage.opening import open_store
from pkray.storage.parquet import ParquetWriter, read_batches, read_metadata
from pkray.storage.parquet import writer as parquet_writer

OPTIONS = TableOptions.parse({})
ROWS, GROUP_ROWS = 1000, 300
NUMBERS = np.arange(ROWS)
KEYS = {
    "bigint": pa.array(NUMBERS * 3 - 1500),
    "few": pa.array([f"{n // 400}" for n in NUMBERS]),  # has a dictionary
    "text": pa.array([f"key-{n:05}" for n in NUMBERS]),
    "bytes": pa.array([n.to_bytes(3) for n in NUMBERS.tolist()]),
    "decimal": pa.array([Decimal(n) / 100 for n in NUMBERS.tolist()], pa.decimal128(30, 2)),
    "date": pa.array([dt.date(2000, 1, 1) + dt.timedelta(n) for n in NUMBERS.tolist()]),
    "micros": pa.array(NUMBERS, pa.timestamp("us")),
    "nanos": pa.array(NUMBERS, pa.timestamp("ns")),
    "boolean": pa.array(NUMBERS >= 500),
}
VALUES = {
    "s": pa.array([None if n % 3 else f"value {n}" for n in NUMBERS]),
    "nested": pa.array([{"x": n, "y": [str(n)] * (n % 3)} for n in NUMBERS.tolist()]),
    "at": pa.array(NUMBERS, pa.timestamp("ms", "UTC")),
}


@pytest.fixture(autouse=True)
def small_files_share(monkeypatch):
    monkeypatch.setattr(parquet_writer, "SHARED_ROWS", 1)
    monkeypatch.setattr(parquet_writer, "ROW_GROUP_ROWS", GROUP_ROWS)


def whole(*keys: str) -> pa.Table:
    """With each key twice."""
    own = [(pa.field("_KEY_" + k, KEYS[k].type, False), KEYS[k]) for k in keys]
    number = (pa.field("_SEQUENCE_NUMBER", pa.int64(), False), pa.array(NUMBERS))
    again = [(pa.field(k, KEYS[k].type, False), KEYS[k]) for k in keys]
    values = [(pa.field(v, VALUES[v].type), VALUES[v]) for v in VALUES]
    fields, columns = zip(*own, number, *again, *values, strict=True)
    return pa.table(list(columns), schema=pa.schema(fields))


def write(store, table, path="f.parquet", options=OPTIONS):
    copies = {name: name[5:] for name in table.schema.names if name.startswith("_KEY_")}
    with ParquetWriter(store, path, table.schema, options, copies) as writer:
        for batch in table.drop_columns(list(copies)).to_batches(170):
            writer.write(batch)
    return path


def described(store, path):
    """What the metadata says of each column chunk, but for where it is."""
    metadata = read_metadata(store, path)
    groups = [metadata.row_group(n) for n in range(metadata.num_row_groups)]
    places = ("file_offset", "data_page_offset", "dictionary_page_offset")
    chunks = [
        {key: value for key, value in group.column(n).to_dict().items() if key not in places}
        for group in groups
        for n in range(group.num_columns)
    ]
    sizes = [(group.num_rows, group.total_byte_size) for group in groups]
    return metadata.schema, metadata.num_rows, sizes, chunks


@pytest.mark.parametrize("key", KEYS)
def test_both_columns_of_a_key_come_back(store, key):
    table = whole(key)
    path = write(store, table)
    found = pa.Table.from_batches(read_batches(store, path, schema=table.schema))
    assert found.equals(table.cast(found.schema))


def test_all_keys_of_a_file_come_back(store):
    table = whole(*KEYS)
    found = pa.Table.from_batches(read_batches(store, write(store, table), schema=table.schema))
    assert found.equals(table.cast(found.schema))


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_the_metadata_is_that_of_columns_encoded_twice(store, codec, monkeypatch):
    keys = [key for key in KEYS if key != "nanos"]
    options = TableOptions.parse({"file.compression": codec})
    shared = write(store, whole(*keys), "shared.parquet", options)
    monkeypatch.setattr(parquet_writer, "SHARED_ROWS", ROWS)
    plain = write(store, whole(*keys), "plain.parquet", options)
    assert described(store, shared) == described(store, plain)


def test_row_groups_made_larger_are_no_larger_than_pyarrow_makes_them(store, monkeypatch):
    monkeypatch.setattr(parquet_writer, "MOST_ROWS", 400)
    options = TableOptions.parse({"file.block-size": "64 mb"})
    table = whole("text")
    metadata = read_metadata(store, write(store, table, options=options))
    sizes = [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)]
    assert sizes == [400, 400, 200]


def test_a_key_is_encoded_once(store, monkeypatch):
    written = []
    write_table = pq.ParquetWriter.write_table

    def spying(self, table, **arguments):
        written.append(table.schema.names)
        write_table(self, table, **arguments)

    monkeypatch.setattr(pq.ParquetWriter, "write_table", spying)
    write(store, whole("text").slice(0, GROUP_ROWS))
    assert written == [["text"], ["_SEQUENCE_NUMBER", *VALUES]]


def test_chunks_do_not_overlap_and_fill_the_file(tmp_path):
    store = open_store(tmp_path)
    metadata = read_metadata(store, write(store, whole("few", "text")))
    places = []
    for group in (metadata.row_group(n) for n in range(metadata.num_row_groups)):
        for chunk in (group.column(n) for n in range(group.num_columns)):
            start = chunk.dictionary_page_offset or chunk.data_page_offset
            places.append((start, start + chunk.total_compressed_size))
    ends = [4, *(end for _, end in sorted(places))]
    assert [start for start, _ in sorted(places)] == ends[:-1]
    size = (tmp_path / "f.parquet").stat().st_size
    assert ends[-1] + metadata.serialized_size + 8 == size


def test_row_groups_are_chosen_by_either_column(store):
    path = write(store, whole("bigint"))
    for name in ("_KEY_bigint", "bigint"):
        (found,) = read_batches(store, path, ["_SEQUENCE_NUMBER"], filter=pc.field(name) == -1500)
        assert found["_SEQUENCE_NUMBER"].to_pylist() == [0]


def test_damage_to_either_column_is_named(tmp_path):
    store = open_store(tmp_path)
    file = tmp_path / write(store, whole("text"))
    metadata, data = read_metadata(store, "f.parquet"), file.read_bytes()
    for column in (0, 2):
        at = metadata.row_group(1).column(column).data_page_offset + 100
        file.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(CorruptFileError, match=r"f\.parquet"):
            list(read_batches(store, "f.parquet"))


class FullDisk:
    def __init__(self, file):
        self._file = file

    def __getattr__(self, name):
        return getattr(self._file, name)

    def write(self, data):
        del data
        raise OSError(28, "No space left on device")


def test_a_full_disk_leaves_no_file(tmp_path, monkeypatch):
    store = open_store(tmp_path)
    table = whole("text")
    writer = ParquetWriter(store, "f.parquet", table.schema, OPTIONS, {"_KEY_text": "text"})
    rows = table.drop_columns(["_KEY_text"]).combine_chunks()
    with pytest.raises(StorageFullError, match=r"f\.parquet.*free space"), writer:
        writer.write(rows.slice(0, GROUP_ROWS))
        monkeypatch.setattr(writer._output, "_file", FullDisk(writer._output._file))
        writer.write(rows.slice(GROUP_ROWS))
    assert list(store.list(hidden=True)) == []
