"""Files of rows, read batch by batch with a table's column types."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json
import pyarrow.parquet as pq
import typer

from pkray.cdc.decoder import ChangeFormat
from pkray.cli import json_rows
from pkray.cli.hexadecimal import from_hex
from pkray.cli.utf8 import Utf8
from pkray.errors import InputError, UnsupportedError
from pkray.schema.table_schema import TableSchema
from pkray.schema.types import DataType

_BLOCK_BYTES = 4 << 20
_BATCH_ROWS = 65_536
"""Rows of a batch, so that memory does not depend on the file's size."""


class FileFormat(StrEnum):
    """The format in which rows are written in a file."""

    parquet = "parquet"
    csv = "csv"
    jsonl = "jsonl"
    debezium_json = "debezium-json"
    debezium_avro = "debezium-avro"
    canal_json = "canal-json"
    maxwell_json = "maxwell-json"

    @property
    def is_of_changes(self) -> bool:
        """Whether the file has events that are changes of rows, as `pkray.cdc` reads them."""
        return self.value in list(ChangeFormat)


_EXTENSIONS = {
    ".parquet": FileFormat.parquet,
    ".pq": FileFormat.parquet,
    ".csv": FileFormat.csv,
    ".jsonl": FileFormat.jsonl,
    ".ndjson": FileFormat.jsonl,
    ".json": FileFormat.jsonl,
}
_COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")


@dataclass(frozen=True)
class RowFile:
    """One file of rows.

    Args:
        size: in bytes, for progress; None for a stream.
        fields: types of the columns of the table, and of the one that holds row kinds.
    """

    path: Path
    format: FileFormat
    fields: dict[str, DataType]
    size: int | None

    @classmethod
    def open(
        cls, path: Path, file_format: FileFormat | None, schema: TableSchema, row_kinds: str | None
    ) -> Self:
        """Find the file and how it is written; ``-`` is the standard input.

        Raises:
            InputError: there is no such file.
        """
        is_stream = str(path) == "-"
        if not is_stream and not path.is_file():
            what = "is a folder: name its files" if path.is_dir() else "does not exist"
            raise InputError(f"file {str(path)!r} {what}", path=str(path))
        fields = {field.name: field.type for field in schema.fields}
        if row_kinds is not None:
            fields.setdefault(row_kinds, DataType("STRING"))
        size = None if is_stream else path.stat().st_size
        return cls(path, file_format or _by_extension(path), fields, size)

    @cached_property
    def types(self) -> dict[str, pa.DataType]:
        """Return the types as Arrow has them."""
        return {name: data_type.arrow for name, data_type in self.fields.items()}

    def batches(self) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Yield batches, and how many bytes of the file were read so far.

        Raises:
            InputError: the file is damaged, or a value is none of its column's type.
        """
        try:
            if self.format is FileFormat.parquet:
                yield from self._parquet()
                return
            with self._source() as raw:
                source = pa.CompressedInputStream(raw, codec) if (codec := self._codec) else raw
                for batch in self._text(Utf8(source, "its text")):
                    yield batch, 0 if self.size is None else raw.tell()
        except pa.ArrowNotImplementedError as error:
            raise UnsupportedError(
                f"{self._name}: {error}: use Parquet for such columns", path=str(self.path)
            ) from None
        except InputError as error:
            raise InputError(f"{self._name}: {error}", **error.values) from None
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{self._name}: {error}", path=str(self.path)) from None

    @property
    def _name(self) -> str:
        return "stdin" if self.size is None else f"file {str(self.path)!r}"

    def _parquet(self) -> Iterator[tuple[pa.RecordBatch, int]]:
        source = sys.stdin.buffer.read() if self.size is None else str(self.path)
        with pq.ParquetFile(pa.BufferReader(source) if self.size is None else source) as file:
            rows, done = max(file.metadata.num_rows, 1), 0
            for batch in file.iter_batches(_BATCH_ROWS):
                done += batch.num_rows
                yield batch, (self.size or 0) * done // rows

    def _source(self) -> Any:
        if self.size is None:
            return pa.PythonFile(sys.stdin.buffer, mode="r")
        return pa.OSFile(str(self.path), "rb")

    @property
    def _codec(self) -> str | None:
        if self.path.suffix not in _COMPRESSED:
            return None
        return {".gz": "gzip", ".zst": "zstd"}.get(self.path.suffix, self.path.suffix[1:])

    def _text(self, source: Any) -> Iterator[pa.RecordBatch]:
        is_nested = any(data_type.is_nested for data_type in self.fields.values())
        if self.format is FileFormat.jsonl and is_nested:
            return json_rows.batches(source, self.fields)
        return map(self._decoded, self._by_arrow(source))

    def _by_arrow(self, source: Any) -> Any:
        # What the readers do not parse themselves comes as text; `_decoded` goes on from there.
        if self.format is FileFormat.csv:
            types = {
                name: pa.string() if pa.types.is_binary(data_type) else _wide(data_type)
                for name, data_type in self.types.items()
            }
            return pa_csv.open_csv(
                source,
                read_options=pa_csv.ReadOptions(block_size=_BLOCK_BYTES),
                convert_options=pa_csv.ConvertOptions(
                    column_types=types,
                    null_values=[""],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )
        fields = [
            pa.field(name, pa.string() if _is_text_in_json(data_type) else _wide(data_type))
            for name, data_type in self.types.items()
        ]
        return pa_json.open_json(
            source,
            read_options=pa_json.ReadOptions(block_size=_BLOCK_BYTES),
            parse_options=pa_json.ParseOptions(explicit_schema=pa.schema(fields)),
        )

    def _decoded(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = []
        for name, array in zip(batch.schema.names, batch.columns, strict=True):
            wanted = self.types.get(name, array.type)
            if pa.types.is_string(array.type):
                if pa.types.is_binary(wanted):
                    array = from_hex(array, name)
                elif pa.types.is_time(wanted):
                    array = _time(array)
            arrays.append(array if array.type == wanted else _cast(array, wanted, name))
        return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def _time(texts: pa.Array) -> pa.Array:
    """Parse times of day, which Arrow parses with a date alone."""
    moments = pc.binary_join_element_wise("1970-01-01T", texts, "").cast(pa.timestamp("ms"))
    return moments.cast(pa.time32("ms"))


def _is_text_in_json(data_type: pa.DataType) -> bool:
    is_a = pa.types
    # Arrow's reader of JSON would drop the zone of a time, and make up one.
    return is_a.is_temporal(data_type) or is_a.is_binary(data_type)


def _wide(data_type: pa.DataType) -> pa.DataType:
    """Widen a type: Arrow's readers make infinity of numbers that a float does not hold."""
    return pa.float64() if pa.types.is_float32(data_type) else data_type


def _cast(array: pa.Array, wanted: pa.DataType, name: str) -> pa.Array:
    cast = array.cast(wanted)
    if pa.types.is_float32(wanted):
        lost = pc.index(pc.and_(pc.is_inf(cast), pc.is_finite(array)), True).as_py()
        if lost >= 0:
            raise InputError(
                f"column {name!r} is FLOAT, which does not hold {array[lost].as_py()!r}: "
                "correct it, or give the column a wider type",
                column=name,
                value=array[lost].as_py(),
            )
    return cast


def _by_extension(path: Path) -> FileFormat:
    plain = path.with_suffix("") if path.suffix in _COMPRESSED else path
    if plain.suffix.lower() not in _EXTENSIONS:
        raise typer.BadParameter(
            f"{str(path)!r} does not say how it is written: pass --format parquet, csv or jsonl"
        )
    return _EXTENSIONS[plain.suffix.lower()]
