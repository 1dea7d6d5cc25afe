"""Locate the members of JSON objects, over all records of a block at once.

Arrow's reader does not tell a member that is null from one that is not there, and reads no value as
text. `JsonIndex` finds both from the quotes, brackets and colons of texts that are JSON.
"""

import json
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

Ints = Any
"""int64, one a place."""

_OPENS, _CLOSES, _COLON, _COMMA, _QUOTES = 1, 2, 3, 4, 5
_ROLES = np.zeros(256, np.uint8)
_ROLES[list(b"{[")] = _OPENS
_ROLES[list(b"}]")] = _CLOSES
_ROLES[ord(":")] = _COLON
_ROLES[ord(",")] = _COMMA
_ROLES[ord('"')] = _QUOTES
_STEPS = np.array([0, 1, -1, 0, 0, 0], np.int32)
_QUOTE, _BACKSLASH, _BRACE = ord('"'), ord("\\"), ord("{")
QUOTED_NUMBER = "\x7f"
"""Begins a text that was a number: a character that JSON allows, and that nobody writes."""
_IN_NUMBERS = np.zeros(256, bool)
_IN_NUMBERS[list(b"+-.0123456789eE")] = True
_BEGINS_NUMBERS = np.zeros(256, bool)
_BEGINS_NUMBERS[list(b"-0123456789")] = True


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
        roles = _ROLES[self._bytes]
        places = np.flatnonzero(roles)
        roles = roles[places]
        is_quote = roles == _QUOTES
        _drop_escaped(self._bytes, places, is_quote)
        quotes = np.cumsum(is_quote, dtype=np.int32)
        outside = np.flatnonzero((quotes & 1 == 0) & (roles != _QUOTES))
        self._quotes = places[is_quote]
        self._places = places[outside]
        self._roles = roles[outside]
        self._quotes_before = quotes[outside]
        self._depth = np.cumsum(_STEPS[self._roles], dtype=np.int32)

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

    def with_quoted_numbers(self, names: Sequence[str], member: str, depth: int = 2) -> pa.Array:
        """Make texts of the numbers in a member of the objects that some top members are or list.

        Args:
            names: the top members.
            member: its numbers, also those in lists, become texts after `QUOTED_NUMBER`.
            depth: as `members` takes it.

        Returns:
            large_string, the texts with these quotes.
        """
        under = np.logical_or.reduce([self._under(name) for name in names])
        colons = np.flatnonzero((self._roles == _COLON) & (self._depth == depth) & under)
        found = self._names(colons)
        wanted = np.array([each == member for each in found.dictionary.to_pylist()], bool)
        colons = colons[wanted[found.indices.to_numpy()]] if len(wanted) else colons[:0]
        ends = np.flatnonzero(
            ((self._roles == _COMMA) & (self._depth == depth))
            | ((self._roles == _CLOSES) & (self._depth == depth - 1))
        )
        within = np.zeros(len(self._bytes) + 1, np.int32)
        within[self._places[colons] + 1] = 1
        within[self._places[ends[np.searchsorted(ends, colons)]]] -= 1
        in_text = np.zeros(len(self._bytes), np.int32)
        in_text[self._quotes] = 1
        is_number = (np.cumsum(within[:-1]) == 1) & (np.cumsum(in_text) & 1 == 0)
        is_number &= _IN_NUMBERS[self._bytes]
        edges = np.diff(is_number.astype(np.int8), prepend=0, append=0)
        starts, stops = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
        begins = _BEGINS_NUMBERS[self._bytes[starts]]  # and not the e of true
        starts, stops = starts[begins], stops[begins]
        places = np.concatenate([starts, starts, stops])
        marks = np.repeat([_QUOTE, ord(QUOTED_NUMBER), _QUOTE], len(starts)).astype(np.uint8)
        order = np.argsort(places, kind="stable")
        places, marks = places[order], marks[order]
        copied = np.insert(self._bytes, places, marks)
        offsets = self._bounds + np.searchsorted(places, self._bounds)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(copied)]
        return pa.Array.from_buffers(pa.large_string(), len(offsets) - 1, buffers)

    def top_names(self) -> Members:
        """Find the members of the texts themselves."""
        rows = np.searchsorted(self._bounds, self._places[self._top], "right") - 1
        return Members(len(self._bounds) - 1, rows, self._top_names)

    @cached_property
    def _top(self) -> Ints:
        return np.flatnonzero((self._roles == _COLON) & (self._depth == 1))

    @cached_property
    def _top_names(self) -> pa.DictionaryArray:
        return self._names(self._top)

    @cached_property
    def _owners(self) -> Ints:
        """Number the last top member before each place, from 1."""
        steps = np.zeros(len(self._places), np.int32)
        steps[self._top] = 1
        return np.cumsum(steps, dtype=np.int32)

    def _is_named(self, name: str) -> Any:
        names = self._top_names
        wanted = np.array([each == name for each in names.dictionary.to_pylist()], bool)
        return wanted[names.indices.to_numpy()] if len(wanted) else np.zeros(0, bool)

    def _under(self, name: str) -> Any:
        """Say of each place whether the last top member before it is ``name``."""
        return np.concatenate(([False], self._is_named(name)))[self._owners]

    def _names(self, colons: Ints) -> pa.DictionaryArray:
        after = self._quotes_before[colons]
        starts, stops = self._quotes[after - 2] + 1, self._quotes[after - 1]
        names = _cut(self._bytes, starts, stops, np.arange(len(colons)), len(colons))
        encoded = names.dictionary_encode()
        plain = [_unescaped(each) for each in encoded.dictionary.to_pylist()]
        return pa.DictionaryArray.from_arrays(encoded.indices, pa.array(plain, pa.string()))


def _unescaped(name: str) -> str:
    return json.loads(f'"{name}"') if "\\" in name else name


def _drop_escaped(data: Any, places: Ints, is_quote: Any) -> None:
    """Take out the quotes before which an odd number of backslashes stands."""
    slashes = np.flatnonzero(data == _BACKSLASH)
    if not len(slashes):
        return
    last = np.flatnonzero(np.append(np.diff(slashes) > 1, True))
    sizes = np.diff(last, prepend=-1)
    after = slashes[last] + 1
    escaped = after[(sizes & 1 == 1) & (after < len(data))]
    is_quote[np.searchsorted(places, escaped[data[escaped] == _QUOTE])] = False


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
