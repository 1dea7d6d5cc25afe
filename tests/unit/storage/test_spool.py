"""Numbered batches of Arrow files."""

import msgspec
import pyarrow as pa
import pytest

from pkray.checksums import seal_json
from pkray.errors import CorruptFileError
from pkray.storage.opening import open_store
from pkray.storage.spool import Feeder, Spool, SpooledBatch, SpoolFile

SCHEMA = pa.schema([("a", pa.int64())])


@pytest.fixture
def spool(tmp_path) -> Spool:
    return Spool(open_store(tmp_path))


def write(spool: Spool, number: int, *values: int, writer: str = "") -> bool:
    batches = [pa.record_batch({"a": [each]}, SCHEMA) for each in values]
    file = spool.write_file(number, SCHEMA, batches)
    return spool.add(number, [file] if file else [], writer)


def read(spool: Spool, number: int) -> list[int]:
    batch = spool.batch(number)
    assert batch is not None
    return [value for rows in spool.read(batch) for value in rows.column("a").to_pylist()]


def test_batches_are_read_as_they_were_written(spool):
    assert spool.count() == 0
    write(spool, 0, 1, 2)
    write(spool, 1)
    assert spool.count() == 2
    assert read(spool, 0) == [1, 2]
    assert read(spool, 1) == []
    assert spool.batch(0).rows == 2


def test_a_batch_that_is_written_again_stays_as_it_was(spool):
    assert write(spool, 0, 1)
    assert not write(Spool(spool.store), 0, 2)
    assert read(spool, 0) == [1]


def test_old_rows_are_deleted_and_the_next_number_stays_known(spool):
    for number in range(3):
        write(spool, number, number, writer="w")
    spool.delete_below(3)
    again = Spool(spool.store)
    assert again.count() == 3
    assert again.batch(0) is None
    assert again.batch(2).writer == "w"
    assert [each.path for each in again.store.list("rows/")] == []


def test_rows_of_attempts_that_failed_go_with_their_batch(spool):
    spool.write_file(0, SCHEMA, [pa.record_batch({"a": [9]}, SCHEMA)])
    write(spool, 0, 1)
    write(spool, 1, 2)
    spool.delete_below(1)
    assert read(spool, 1) == [2]
    assert len(list(spool.store.list("rows/"))) == 1


def test_a_file_whose_writing_fails_is_not_there(spool):
    def rows():
        yield pa.record_batch({"a": [1]}, SCHEMA)
        raise ValueError("broke")

    with pytest.raises(ValueError, match="broke"):
        spool.write_file(0, SCHEMA, rows())
    assert [each.path for each in spool.store.list("rows/", hidden=True)] == []


@pytest.mark.parametrize("name", ["../../secret", "/etc/passwd", "..", ""])
def test_a_name_that_leads_elsewhere_is_refused(spool, name):
    batch = SpooledBatch(0, (SpoolFile(name, 1),), "", 0)
    spool.store.create("batches/batch-0", seal_json(msgspec.json.encode(batch)))
    with pytest.raises(CorruptFileError):
        read(spool, 0)


def test_a_damaged_batch_is_refused(spool):
    write(spool, 0, 1)
    data = spool.store.read("batches/batch-0")
    spool.store.write("batches/batch-0", data.replace(b'"rows":1', b'"rows":2'))
    with pytest.raises(CorruptFileError, match="checksum"):
        spool.batch(0)


def test_a_damaged_file_is_refused(spool):
    write(spool, 0, 1)
    path = f"rows/{spool.batch(0).files[0].name}"
    spool.store.write(path, spool.store.read(path)[:-40])
    with pytest.raises(CorruptFileError, match="damaged"):
        read(spool, 0)


def test_what_fills_it_is_known(spool):
    assert spool.feeder() is None
    spool.say(Feeder("f", "failed", message="broke"))
    found = spool.feeder()
    assert (found.state, found.message) == ("failed", "broke")
    assert found.time > 0
