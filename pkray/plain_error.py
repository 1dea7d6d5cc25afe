"""Errors as plain data: what goes where a pickle would be found in a text."""

from typing import Any

import msgspec
import numpy as np

from pkray import errors
from pkray.errors import PkrayError

_KINDS: dict[str, type[PkrayError]] = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, PkrayError)
}
_MESSAGE_CHARACTERS = 64 << 10
_VALUE_BYTES = 16 << 10
"""Bounds of what an error carries to another process: a message is for people to read."""


class _PlainError(msgspec.Struct, forbid_unknown_fields=True):
    kind: str
    message: str
    values: dict[str, Any]


_DECODER = msgspec.json.Decoder(_PlainError)


def encode(error: PkrayError) -> bytes:
    """Write an error as JSON: its class's name, its message, its values.

    Values that are no numbers, text, lists or mappings become text; those of more than 16 KiB
    stay behind. A message is cut after 65,536 characters.
    """
    kind = next(each.__name__ for each in type(error).__mro__ if each.__name__ in _KINDS)
    values = {_text(name): _encoded(value) for name, value in error.values.items()}
    kept = {name: data for name, data in values.items() if len(data) <= _VALUE_BYTES}
    plain = _PlainError(kind, _text(error.message[:_MESSAGE_CHARACTERS]), kept)
    return msgspec.json.encode(plain)


def decode(data: bytes) -> PkrayError | None:
    """Read what `encode` wrote; None where the bytes are nothing of the kind."""
    try:
        plain = _DECODER.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return None
    kind = _KINDS.get(plain.kind)
    if kind is None:
        return None
    error = kind(plain.message)
    error.values = plain.values
    return error


def _encoded(value: object) -> msgspec.Raw:
    try:
        return msgspec.Raw(msgspec.json.encode(_plain(value)))
    except (ValueError, OverflowError, RecursionError):  # of too many digits, without end
        return msgspec.Raw(msgspec.json.encode(f"(a value of {type(value).__name__}, not written)"))


def _plain(value: object) -> object:
    """Make a value plain; this is not left to the encoder, which would write out the fields of any
    object, secrets too."""
    match value:
        case None | bool() | int() | float():
            return value
        case np.generic():
            return _plain(value.item())
        case list() | tuple() | set() | frozenset():
            return [_plain(each) for each in value]
        case dict():
            return {_text(str(name)): _plain(each) for name, each in value.items()}
    return _text(str(value))


def _text(value: str) -> str:
    """Remove the lone surrogates that no encoding has."""
    return value.encode("utf-8", "backslashreplace").decode()
