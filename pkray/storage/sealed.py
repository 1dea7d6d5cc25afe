"""Small JSON files with a checksum, as values of one type."""

from typing import TypeVar

import msgspec

from pkray.checksums import check_json, seal_json
from pkray.errors import CorruptFileError, MissingFileError
from pkray.storage.object_store import ObjectStore

Value = TypeVar("Value")


def sealed(value: object) -> bytes:
    """Write a value as a file that `read_sealed` reads."""
    return seal_json(msgspec.json.encode(value))


def find_sealed(store: ObjectStore, path: str, kind: type[Value]) -> Value | None:
    """Read a file as of `read_sealed`; None where there is none."""
    try:
        return read_sealed(store, path, kind)
    except MissingFileError:
        return None


def read_sealed(store: ObjectStore, path: str, kind: type[Value]) -> Value:
    """Read a file as a value of a type.

    Raises:
        MissingFileError: there is none.
        CorruptFileError: it is not as it was written, or holds another type.
    """
    return unsealed(store, path, store.read(path), kind)


def unsealed(store: ObjectStore, path: str, data: bytes, kind: type[Value]) -> Value:
    """Take what a file holds as a value of a type; as of `read_sealed`."""
    try:
        check_json(data)
        return msgspec.json.decode(data, type=kind)
    except (ValueError, msgspec.MsgspecError) as error:
        raise CorruptFileError(f"{store.location(path)} is damaged: {error}", path=path) from error
