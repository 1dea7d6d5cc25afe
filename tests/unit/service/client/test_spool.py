"""Batches in files of the local disk."""

import msgspec
import pyarrow as pa
import pytest

from pkray.errors import CorruptFileError
from pkray.service.client.spool import SpoolWriter, read_spool
from pkray.service.protocol import RoutedBatch, Slice

ROWS = pa.record_batch({"id": [1, 2, 3]})
SLICES = (Slice(b"p", 0, 0, 1), Slice(b"p", 1, 1, 2))


def test_batches_come_back(tmp_path):
    writer = SpoolWriter(tmp_path / "f.arrow")
    writer.append(RoutedBatch(ROWS, SLICES))
    writer.close()
    assert list(read_spool(writer.path)) == [RoutedBatch(ROWS, SLICES)]


@pytest.mark.parametrize(
    "slices", [b"\xc1", b"", msgspec.msgpack.encode([{"bucket": "0"}]), msgspec.msgpack.encode(7)]
)
def test_damaged_slices_are_named(tmp_path, slices):
    path = str(tmp_path / "f.arrow")
    with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, ROWS.schema) as writer:
        writer.write_batch(ROWS, custom_metadata={"slices": slices})
    with pytest.raises(CorruptFileError, match=r"f\.arrow"):
        list(read_spool(path))
