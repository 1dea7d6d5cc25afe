"""Choose how each column of a Parquet file is encoded and compressed.

Measured on 500k rows: a codec costs several times what the encoding does, and buys nothing on
doubles or random identifiers; a dictionary halves the speed of high-cardinality columns and
doubles that of low-cardinality ones. Paimon 0.9 reads PLAIN and dictionary pages only, so
DELTA_BINARY_PACKED, the fastest for integers, is for ``parquet.writer.version`` v2.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from pkray.errors import OptionError
from pkray.options import TableOptions
from pkray.schema.table_schema import KEY_PREFIX

SAMPLE_SLICES = 4
SAMPLE_SLICE_ROWS = 1024
SAMPLE_BYTES = 4 << 20
"""What is looked at of a column: little against writing it, and from all over it."""
COMPRESSED_BYTES = 128 << 10
MIN_COMPRESSED_BYTES = 4 << 10
"""How much of a sample is compressed to see whether it shrinks; less than this says nothing."""
INCOMPRESSIBLE = 0.75
"""Columns whose sample shrinks to no less than this are stored without a codec."""

_CODECS = {
    "none": "NONE",
    "uncompressed": "NONE",
    "snappy": "SNAPPY",
    "gzip": "GZIP",
    "brotli": "BROTLI",
    "lz4": "LZ4",
    "lz4_raw": "LZ4",
    "zstd": "ZSTD",
}


@dataclass
class ColumnEncodings:
    """Arguments of a Parquet writer, by leaf column."""

    codecs: dict[str, str] = field(default_factory=dict)
    levels: dict[str, int] = field(default_factory=dict)
    dictionaries: list[str] = field(default_factory=list)
    encodings: dict[str, str] = field(default_factory=dict)
    statistics: list[str] = field(default_factory=list)


def choose_encodings(table: pa.Table, options: TableOptions) -> ColumnEncodings:
    """Choose encodings that fit the rows of a file's first row group.

    Raises:
        OptionError: ``file.compression`` names no codec of Parquet.
    """
    codec = _codec(options.file_compression)
    level = options.file_compression_zstd_level if codec == "ZSTD" else None
    delta = options.parquet_writer_version in ("v2", "parquet_2_0")
    keys = {
        name.removeprefix(KEY_PREFIX) for name in table.schema.names if name.startswith(KEY_PREFIX)
    }
    chosen = ColumnEncodings()
    for column in table.schema:
        leaves = list(_leaves(column))
        sample = _sample(table[column.name])
        dictionary = _repeats(sample)
        compress = codec != "NONE" and (dictionary or _shrinks(sample))
        for leaf in leaves:
            chosen.codecs[leaf] = codec if compress else "NONE"
            if compress and level is not None:
                chosen.levels[leaf] = level
        if dictionary:
            chosen.dictionaries += leaves
        elif delta and _is_integer(column.type):
            chosen.encodings[column.name] = "DELTA_BINARY_PACKED"
        if column.name.removeprefix(KEY_PREFIX) in keys:
            chosen.statistics += leaves
    return chosen


def _codec(name: str) -> str:
    try:
        return _CODECS[name.strip().lower()]
    except KeyError:
        raise OptionError(
            f"file.compression = {name!r} is not a codec of Parquet: use one of "
            f"{', '.join(sorted(_CODECS))}",
            key="file.compression",
            value=name,
        ) from None


def _leaves(column: pa.Field, path: str = "") -> Iterator[str]:
    path = f"{path}.{column.name}" if path else column.name
    kind = column.type
    if pa.types.is_list(kind):
        yield from _leaves(kind.value_field.with_name("element"), f"{path}.list")
    elif pa.types.is_map(kind):
        yield from _leaves(kind.key_field.with_name("key"), f"{path}.key_value")
        yield from _leaves(kind.item_field.with_name("value"), f"{path}.key_value")
    elif pa.types.is_struct(kind):
        for child in kind:
            yield from _leaves(child, path)
    else:
        yield path


def _sample(column: pa.ChunkedArray) -> pa.Array:
    """A few slices from all over the column, of about `SAMPLE_BYTES` at most."""
    rows = len(column)
    width = max(1, column.nbytes // max(1, rows))
    size = max(1, min(SAMPLE_SLICE_ROWS, SAMPLE_BYTES // width // SAMPLE_SLICES))
    if rows <= SAMPLE_SLICES * size:
        slices = column.chunks
    else:
        step = rows // SAMPLE_SLICES
        slices = [
            chunk
            for start in range(0, SAMPLE_SLICES * step, step)
            for chunk in column.slice(start, size).chunks
        ]
    return pa.concat_arrays(slices) if slices else pa.array([], column.type)


def _repeats(sample: pa.Array) -> bool:
    if pa.types.is_nested(sample.type):
        return True  # arrow falls back to PLAIN when its dictionary grows too large
    if pa.types.is_boolean(sample.type):
        return False
    # Keys of a changelog come twice, as -U and +U: a dictionary would not pay.
    return len(sample.unique()) <= max(1, (len(sample) - 1) // 2)


def _shrinks(sample: pa.Array) -> bool:
    if pa.types.is_nested(sample.type) or sample.nbytes < MIN_COMPRESSED_BYTES:
        return True
    data = sample.buffers()[-1]
    if data is None or data.size == 0:
        return True
    data = data.slice(0, min(data.size, COMPRESSED_BYTES))
    packed = pa.Codec("zstd", compression_level=1).compress(data)
    return bool(packed.size < INCOMPRESSIBLE * data.size)


def _is_integer(kind: pa.DataType) -> bool:
    return (pa.types.is_integer(kind) or pa.types.is_temporal(kind)) and kind != pa.timestamp("ns")
