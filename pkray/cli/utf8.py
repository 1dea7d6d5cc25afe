"""Text that users hand over, which is UTF-8 or refused where it is not."""

import codecs
import io
from typing import Any

from pkray.errors import InputError


class Utf8(io.RawIOBase):
    """A file of bytes whose reader learns where they are no UTF-8.

    Args:
        source: what is read; another ``read`` gives the bytes after those of the last.
        name: what messages call it.
    """

    def __init__(self, source: Any, name: str) -> None:
        self._source = source
        self._name = name
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._bytes, self._lines = 0, 1

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """Read up to so many bytes.

        Raises:
            InputError: they are no UTF-8; the message says line and byte.
        """
        data: bytes = self._source.read(size)
        pending = self._decoder.getstate()[0]
        try:
            self._decoder.decode(data, final=size < 0 or not data)
        except UnicodeDecodeError as error:
            place = self._bytes - len(pending) + error.start
            line = self._lines + error.object[: error.start].count(b"\n")
            raise InputError(
                f"{self._name} is not UTF-8: the byte at offset {place} (line {line}) is "
                f"0x{error.object[error.start]:02x}; write it in UTF-8",
                offset=place,
                line=line,
            ) from None
        self._bytes += len(data)
        self._lines += data.count(b"\n")
        return data
