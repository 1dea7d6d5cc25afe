"""Files of events, and those of text: whole lines at a time, so that memory does not depend on
their size."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pkray.cdc.decoder import Records
from pkray.errors import InputError

_BLOCK_BYTES = 4 << 20
"""Text read at a time."""
_LONGEST_LINE = 256 << 20
"""Bytes of a line that is held in memory to be read: more is no record of a row."""
_COMPRESSED = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4"}


def codec_of(path: Path) -> str | None:
    """Give Arrow's name of the compression that a file's extension says."""
    return _COMPRESSED.get(path.suffix)


@dataclass(frozen=True)
class EventFile(ABC):
    """A file of events; ``-`` is the standard input.

    Raises:
        InputError: there is no such file.
    """

    path: Path

    def __post_init__(self) -> None:
        if not self.is_stream and not self.path.is_file():
            what = "is a folder: name its files" if self.path.is_dir() else "does not exist"
            raise InputError(f"{self.name} {what}", path=str(self.path))

    @property
    def is_stream(self) -> bool:
        """Whether it can be read once alone."""
        return str(self.path) == "-"

    @property
    def name(self) -> str:
        """Name it as errors do."""
        return "stdin" if self.is_stream else f"file {str(self.path)!r}"

    @property
    def size(self) -> int | None:
        """Its bytes, for progress; None for a stream."""
        return None if self.is_stream else self.path.stat().st_size

    @abstractmethod
    def records(self) -> Iterator[tuple[Records, int]]:
        """Yield some records at a time, and how many bytes of the file were read so far.

        Raises:
            InputError: the file is damaged.
        """


@dataclass(frozen=True)
class LineFile(EventFile):
    """A file with a record a line."""

    def records(self) -> Iterator[tuple[Records, int]]:
        """Yield some lines at a time, and how many bytes of the file were read so far.

        Raises:
            InputError: the file is damaged, or a line is longer than can be.
        """
        try:
            with self._open() as raw:
                codec = None if self.is_stream else codec_of(self.path)
                source = pa.CompressedInputStream(raw, codec) if codec else raw
                first, offset = 1, 0
                for block in _whole_lines(source, self.name):
                    records = _lines(block, self.name, first, offset)
                    yield records, 0 if self.is_stream else raw.tell()
                    first += len(records.texts)
                    offset += len(block)
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{self.name}: {error}", path=str(self.path)) from None

    def _open(self) -> Any:
        if self.is_stream:
            return pa.PythonFile(sys.stdin.buffer, mode="r")
        return pa.OSFile(str(self.path), "rb")


def _whole_lines(source: Any, name: str) -> Iterator[bytes]:
    parts: list[bytes] = []
    held = 0
    while block := source.read(_BLOCK_BYTES):
        end = block.rfind(b"\n") + 1
        if end:
            yield b"".join([*parts, block[:end]])
            parts, held = [], 0
        parts.append(block[end:])
        held += len(block) - end
        if held > _LONGEST_LINE:
            raise InputError(f"{name}: a line is longer than {_LONGEST_LINE} bytes: write one each")
    if held:
        yield b"".join(parts)


def _lines(block: bytes, name: str, first: int, offset: int) -> Records:
    data = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(data == ord("\n")) + 1
    if not len(ends) or ends[-1] < len(block):
        ends = np.append(ends, len(block))
    bounds = np.concatenate(([0], ends)).astype(np.int64)
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(block)]
    texts = pa.Array.from_buffers(pa.large_binary(), len(ends), buffers)
    return Records(texts, name, first, bounds[:-1] + offset, "line")
