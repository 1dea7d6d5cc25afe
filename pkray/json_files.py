"""JSON files of a table, read strictly: anybody may have written them."""

import json
import math
from typing import Annotated, Any, TypeVar

import msgspec

from pkray.checksums import check_json

T = TypeVar("T")

_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
Long = Annotated[int, msgspec.Meta(ge=_LEAST, le=_MOST)]
"""What Java's long holds."""
Id = Annotated[int, msgspec.Meta(ge=0, le=_MOST)]
"""Of a schema, or a size."""
SnapshotId = Annotated[int, msgspec.Meta(ge=1, le=_MOST)]
Millis = Annotated[int, msgspec.Meta(ge=-62_135_596_800_000, le=253_402_300_799_999)]
"""Epoch milliseconds of the years 1 to 9999."""


def decode(data: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """Decode a file's content.

    Raises:
        ValueError: it is damaged, or is no such file.
    """
    if not check_json(data):
        values(data)
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(str(error)) from error


def values(data: bytes) -> Any:
    """Parse the values of a JSON text: nothing in it is said twice, and its numbers fit Java's.

    Raises:
        ValueError: what is wrong with it.
    """
    try:
        found = json.loads(
            data.decode(),
            object_pairs_hook=_unique,
            parse_int=_whole,
            parse_float=_finite,
            parse_constant=_finite,
        )
        if b"\\u" in data:
            json.dumps(found, ensure_ascii=False).encode()  # a lone surrogate is no text
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None
    return found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        again = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"it says {again!r} twice")
    return found


def _whole(text: str) -> int:
    number = int(text)
    if not _LEAST <= number <= _MOST:
        raise ValueError(f"it holds the number {text}, which is none of 64 bits")
    return number


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"it holds {text}, which is no number")
    return number
