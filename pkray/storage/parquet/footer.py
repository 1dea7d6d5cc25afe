"""Reads and writes what stands at the end of a Parquet file, and changes what pyarrow put there.

Source: FileMetaData in the Parquet format.
"""

from collections.abc import Iterator

from pkray.checksums import KEY
from pkray.storage.parquet import thrift
from pkray.storage.parquet.thrift import Struct

MAGIC = b"PAR1"
FOOTER_MARK = KEY.encode() + b"\x18\x08"
"""A key of the file's metadata, and what comes before a value of eight bytes."""
FILE_SCHEMA, ROW_GROUPS, COLUMN_ORDERS = 2, 4, 7
"""Of a FileMetaData."""
_NAME, _NUM_CHILDREN = 4, 5
_LENGTH_BYTES = 4


def parse_footer(tail: bytes) -> Struct:
    """Parse the FileMetaData of a file's last bytes, from the metadata to the magic.

    Raises:
        ValueError: these are not the last bytes of a Parquet file.
    """
    end = len(tail) - len(MAGIC) - _LENGTH_BYTES
    length = int.from_bytes(tail[-8:-4], "little")
    if tail[-4:] != MAGIC or length != end:
        raise ValueError(f"{len(tail)} bytes are not a Parquet footer of {length}")
    return thrift.decode(tail[:end])


def footer_of(file: bytes) -> Struct:
    """Parse the FileMetaData of a whole file. Raises as `parse_footer`."""
    length = int.from_bytes(file[-8:-4], "little")
    return parse_footer(file[-length - len(MAGIC) - _LENGTH_BYTES :])


def footer_bytes(metadata: Struct) -> bytes:
    """Write what `parse_footer` parses."""
    data = thrift.encode(metadata)
    return data + len(data).to_bytes(_LENGTH_BYTES, "little") + MAGIC


def leaves(metadata: Struct) -> Iterator[tuple[str, Struct]]:
    """Find the SchemaElements of columns that have values, by path, in the file's order."""
    elements: list[Struct] = metadata[FILE_SCHEMA][1][1]
    parents: list[tuple[str, int]] = []  # of the path so far: prefix, children left
    for position, element in enumerate(elements):
        name = element[_NAME][1].decode()
        children = element[_NUM_CHILDREN][1] if _NUM_CHILDREN in element else 0
        prefix = parents[-1][0] if parents else ""
        path = "" if position == 0 else f"{prefix}.{name}" if prefix else name
        if position and not children:
            yield path, element
        if parents:
            parents[-1] = (prefix, parents[-1][1] - 1)
        if children:
            parents.append((path, children))
        while parents and parents[-1][1] == 0:
            parents.pop()
