import numpy as np
import pyarrow as pa
import pytest

from pkray.errors import CorruptFileError, MissingFileError
from pkray.storage.object_store import ObjectStore
from pkray.storage.row_pages import RowPages, RowPagesWriter

ROWS = 3_000
TEXTS = ["", None, "x" * 30, "ä"]


def some_rows() -> pa.RecordBatch:
    numbers = np.arange(ROWS)
    return pa.record_batch(
        {
            "k": pa.array(numbers * 3),
            "s": pa.array([TEXTS[n % 4] for n in range(ROWS)]),
            "l": pa.array([[n, None] if n % 5 else None for n in range(ROWS)]),
        }
    )


def write(store: ObjectStore, rows: pa.RecordBatch, batch_rows: int = 700) -> None:
    with RowPagesWriter(store, "f.pages", rows.schema, ["k"]) as writer:
        for start in range(0, rows.num_rows, batch_rows):
            writer.write(rows.slice(start, batch_rows))


def damage(store: ObjectStore, place: int) -> None:
    data = bytearray(store.read("f.pages"))
    data[place] ^= 1
    store.write("f.pages", bytes(data))


def test_pages_hold_the_rows_in_their_order(store):
    write(store, some_rows())
    pages = RowPages.open(store, "f.pages")
    assert len(pages) > 4
    assert pages.row_count == ROWS
    assert pages.read(np.arange(len(pages))).equals(some_rows())


def test_a_page_is_known_by_its_first_row_and_key(store):
    write(store, some_rows())
    pages = RowPages.open(store, "f.pages")
    for number in (0, 2, len(pages) - 1):
        rows = pages.read(np.array([number]))
        assert rows["k"][0] == pages.first_keys["k"][number]
        assert rows["k"][0].as_py() == 3 * pages.first_rows[number]


def test_dictionaries_are_written_as_their_values(store):
    rows = some_rows()
    encoded = rows.set_column(1, "s", rows["s"].dictionary_encode())
    with RowPagesWriter(store, "f.pages", rows.schema, ["k"]) as writer:
        writer.write(encoded)
    pages = RowPages.open(store, "f.pages")
    assert pages.read(np.arange(len(pages))).equals(rows)


def test_an_index_larger_than_the_tail_is_read(store, monkeypatch):
    monkeypatch.setattr("pkray.storage.row_pages.TAIL_BYTES", 100)
    write(store, some_rows())
    assert RowPages.open(store, "f.pages").row_count == ROWS


def test_a_damaged_page_is_refused(store):
    write(store, some_rows())
    damage(store, 20)
    pages = RowPages.open(store, "f.pages")
    with pytest.raises(CorruptFileError, match="page 0"):
        pages.read(np.array([0]))
    assert pages.read(np.array([1])).num_rows


@pytest.mark.parametrize("place", [-1, -16, -60])
def test_a_damaged_end_is_refused(store, place):
    write(store, some_rows())
    damage(store, place)
    with pytest.raises(CorruptFileError):
        RowPages.open(store, "f.pages")


@pytest.mark.parametrize("content", [b"", b"short", b"of another kind" * 10])
def test_another_file_is_refused(store, content):
    store.write("f.pages", content)
    with pytest.raises(CorruptFileError):
        RowPages.open(store, "f.pages")


def test_there_is_no_file_before_it_is_closed(store):
    writer = RowPagesWriter(store, "f.pages", some_rows().schema, ["k"])
    writer.write(some_rows())
    with pytest.raises(MissingFileError):
        RowPages.open(store, "f.pages")
    writer.abort()
    assert list(store.list(hidden=True)) == []


@pytest.mark.parametrize("name", ["place", "checksum", "__k"])
def test_keys_have_any_name(store, name):
    rows = some_rows().rename_columns([name, "s", "l"])
    with RowPagesWriter(store, "f.pages", rows.schema, [name]) as writer:
        writer.write(rows)
    pages = RowPages.open(store, "f.pages")
    assert pages.first_keys.schema.names == [name]
    assert pages.read(np.arange(len(pages))).equals(rows)
