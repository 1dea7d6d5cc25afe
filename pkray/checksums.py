"""Checksums inside files whose format has none: eight hexadecimal digits after a mark.

They stand where readers that do not know them pass them over, and are of all other bytes. A file
without one was written by somebody else, and is read as it is.
"""

import zlib

import msgspec

KEY = "pkray.crc32"
EMPTY = b"00000000"
"""What stands after the mark before a file is sealed."""
_JSON_MARK = f'"{KEY}": "'.encode()


def seal(data: bytes, mark: bytes) -> bytes:
    """Append a checksum to bytes.

    Raises:
        ValueError: there is no mark with `EMPTY` after it.
    """
    at = data.rindex(mark + EMPTY) + len(mark)
    return b"".join((data[:at], _checksum(data, at), data[at + len(EMPTY) :]))


def is_damaged(data: bytes, mark: bytes) -> bool:
    """Whether the bytes have a checksum, and are not those that it was made of."""
    found = data.rfind(mark)
    if found < 0:
        return False
    at = found + len(mark)
    return data[at : at + len(EMPTY)] != _checksum(data, at)


def seal_json(data: bytes) -> bytes:
    """Write an object as text, indented by two, with its checksum in a last field."""
    body = data.rstrip()
    assert body.endswith(b"}"), body
    return seal(body[:-1].rstrip() + b",\n  " + _JSON_MARK + EMPTY + b'"\n}', _JSON_MARK)


def check_json(data: bytes) -> bool:
    """Whether the text has a checksum. Raises ValueError: it is not as it was sealed."""
    if b"\n" not in data and _JSON_MARK in data:  # the Java core copies texts without line breaks
        data = _indented(data)
    if is_damaged(data, _JSON_MARK):
        raise ValueError(f"its checksum is wrong (who edits it by hand removes {KEY!r})")
    return _JSON_MARK in data


def _indented(data: bytes) -> bytes:
    try:
        return msgspec.json.format(data, indent=2)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(str(error)) from error


def _checksum(data: bytes, at: int) -> bytes:
    view = memoryview(data)
    before = zlib.crc32(EMPTY, zlib.crc32(view[:at]))
    return b"%08x" % zlib.crc32(view[at + len(EMPTY) :], before)
