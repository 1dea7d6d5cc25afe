"""Routed batches in Arrow files on the local disk."""

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa

from pkray.errors import CorruptFileError
from pkray.service.protocol import RoutedBatch, Slice
from pkray.storage.private_files import not_kept, private_directory, private_file

_SLICES = msgspec.msgpack.Decoder(tuple[Slice, ...])


class SpoolWriter:
    """Appends routed batches to one file; nobody reads it before `close`."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = str(path)
        self.batches = 0
        self._sink: pa.NativeFile | None = None
        self._writer: pa.ipc.RecordBatchFileWriter | None = None

    def append(self, batch: RoutedBatch) -> None:
        """Append a batch to the file, which is opened by the first."""
        try:
            if self._writer is None:
                private_directory(Path(self.path).parent)
                os.close(private_file(self.path))
                self._sink = pa.OSFile(self.path, "wb")
                self._writer = pa.ipc.new_file(self._sink, batch.rows.schema)
            slices = msgspec.msgpack.encode(batch.slices)
            self._writer.write_batch(batch.rows, custom_metadata={"slices": slices})
        except OSError as error:
            raise not_kept("spool rows to", self.path, error) from error
        self.batches += 1

    def close(self) -> None:
        """Finish the file."""
        if self._writer is not None and self._sink is not None:
            try:
                self._writer.close()
                self._sink.close()
            except OSError as error:
                raise not_kept("spool rows to", self.path, error) from error
            self._writer = self._sink = None


def read_spool(path: str) -> Iterator[RoutedBatch]:
    """Yield the batches of a closed spool file, mapped rather than read."""
    try:
        with pa.memory_map(path) as source:
            reader = pa.ipc.open_file(source)
            for index in range(reader.num_record_batches):
                rows, metadata = reader.get_batch_with_custom_metadata(index)
                yield RoutedBatch(rows, _SLICES.decode(metadata["slices"]))
    except (OSError, pa.ArrowInvalid, KeyError, msgspec.DecodeError) as error:
        raise CorruptFileError(
            f"cannot read spooled rows from {path}: {error}; push them again", path=path
        ) from error


def remove(path: str) -> None:
    Path(path).unlink(missing_ok=True)
