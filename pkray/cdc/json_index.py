"""Where the members of JSON objects stand, found over all records of a block at once.

Arrow's reader does not tell a member that is null from one that is not there, and reads no value as
text. `JsonIndex` finds both from the quotes, brackets and colons of texts that are JSON.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

Ints = Any
"""int64, one a place."""

_OPENS, _CLOSES, _COLON, _COMMA = 1, 2, 3, 4
_ROLES = np.zeros(256, np.uint8)
_ROLES[list(b"{[")] = _OPENS
_ROLES[list(b"}]")] = _CLOSES
_ROLES[ord(":")] = _COLON
_ROLES[ord(",")] = _COMMA
_QUOTE, _BACKSLASH, _BRACE = ord('"'), ord("\\"), ord("{")


class Members(NamedTuple):
    """The members of some objects.

    Attributes:
        objects: how many objects there are.
        owner: which of them a member is of; int64, one a member.
        names: dictionary-encoded, one a member.
    """

    objects: int
    owner: Ints
    names: pa.DictionaryArray

    def has(self, names: Sequence[str]) -> Any:
        """Say which objects have which members: bool, (objects, names)."""
        found = np.zeros((self.objects, len(names)), bool)
        places = {name: place for place, name in enumerate(names)}
        known = [places.get(name, -1) for name in self.names.dictionary.to_pylist()]
        places_of = np.array(known, np.int64)[self.names.indices.to_numpy()]
        counted = places_of >= 0
        found[self.owner[counted], places_of[counted]] = True
        return found


class JsonIndex:
    """Finds members of the objects that texts are.

    Args:
        texts: string, one JSON object each, without nulls.
    """

    def __init__(self, texts: pa.Array) -> None:
        texts = pa.concat_arrays([texts.cast(pa.large_string())])
        _, offsets, data = texts.buffers()
        bounds = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
        raw = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
        self._bytes = raw[bounds[0] : bounds[-1]]
        self._bounds = bounds - bounds[0]
        self._quotes = _quotes(self._bytes)
        roles = _ROLES[self._bytes]
        places = np.flatnonzero(roles)
        outside = np.searchsorted(self._quotes, places) & 1 == 0
        self._places = places[outside]
        self._roles = roles[self._places]
        steps = (self._roles == _OPENS).astype(np.int64) - (self._roles == _CLOSES)
        self._depth = np.cumsum(steps)

    def members(self, name: str, depth: int = 2) -> Members:
        """Find the members of the objects that the top member ``name`` of each text is or lists.

        Args:
            depth: 2: it is an object; 3: it is a list of objects.
        """
        under = self._under(name)
        opens = (self._roles == _OPENS) & (self._depth == depth) & under
        opens &= self._bytes[self._places] == _BRACE
        colons = np.flatnonzero((self._roles == _COLON) & (self._depth == depth) & under)
        return Members(int(opens.sum()), np.cumsum(opens)[colons] - 1, self._names(colons))

    def values(self, name: str) -> pa.Array:
        """Cut out the value of the top member ``name`` of each text; null where it has none."""
        colons = self._top
        is_named = self._is_named(name)
        chosen = colons[is_named]
        ends = np.flatnonzero(
            ((self._roles == _COMMA) & (self._depth == 1))
            | ((self._roles == _CLOSES) & (self._depth == 0))
        )
        stops = self._places[ends[np.searchsorted(ends, chosen)]]
        starts = self._places[chosen] + 1
        rows = np.searchsorted(self._bounds, starts, "right") - 1
        return _cut(self._bytes, starts, stops, rows, len(self._bounds) - 1)

    def top_names(self) -> Members:
        """Find the members of the texts themselves."""
        rows = np.searchsorted(self._bounds, self._places[self._top], "right") - 1
        return Members(len(self._bounds) - 1, rows, self._names(self._top))

    @cached_property
    def _top(self) -> Ints:
        return np.flatnonzero((self._roles == _COLON) & (self._depth == 1))

    def _is_named(self, name: str) -> Any:
        names = self._names(self._top)
        wanted = np.array([each == name for each in names.dictionary.to_pylist()], bool)
        return wanted[names.indices.to_numpy()] if len(wanted) else np.zeros(0, bool)

    def _under(self, name: str) -> Any:
        """Say of each place whether the last top member before it is ``name``."""
        last = np.zeros(len(self._places), np.int64)
        last[self._top] = np.arange(1, len(self._top) + 1)
        owner = np.maximum.accumulate(last)
        named = np.concatenate(([False], self._is_named(name)))
        return named[owner]

    def _names(self, colons: Ints) -> pa.DictionaryArray:
        after = np.searchsorted(self._quotes, self._places[colons])
        starts, stops = self._quotes[after - 2] + 1, self._quotes[after - 1]
        names = _cut(self._bytes, starts, stops, np.arange(len(colons)), len(colons))
        encoded = names.dictionary_encode()
        plain = [_unescaped(each) for each in encoded.dictionary.to_pylist()]
        return pa.DictionaryArray.from_arrays(encoded.indices, pa.array(plain, pa.string()))


def _unescaped(name: str) -> str:
    return json.loads(f'"{name}"') if "\\" in name else name


def _quotes(data: Any) -> Ints:
    """Find the quotes that begin and end strings."""
    quotes = np.flatnonzero(data == _QUOTE)
    slashes = np.flatnonzero(data == _BACKSLASH)
    if not len(slashes):
        return quotes
    # A quote is escaped where an odd number of backslashes stands before it.
    begins = np.concatenate(([True], np.diff(slashes) > 1))
    first = np.maximum.accumulate(np.where(begins, np.arange(len(slashes)), 0))
    before = np.searchsorted(slashes, quotes) - 1
    is_after = (before >= 0) & (slashes[before] == quotes - 1)
    run = np.where(is_after, quotes - slashes[first[before]], 0)
    return quotes[run & 1 == 0]


def _cut(data: Any, starts: Ints, stops: Ints, rows: Ints, count: int) -> pa.Array:
    """Make texts of parts of the bytes, one for each of ``rows``; null for the other rows."""
    lengths = np.zeros(count, np.int64)
    lengths[rows] = stops - starts
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    shift = np.repeat(starts - offsets[rows], stops - starts)
    copied = data[np.arange(offsets[-1]) + shift]
    is_there = np.zeros(count, bool)
    is_there[rows] = True
    validity = pa.py_buffer(np.packbits(is_there, bitorder="little"))
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(copied)]
    return pa.Array.from_buffers(pa.large_string(), count, buffers)
