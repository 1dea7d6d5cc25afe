"""Images of rows in events: the objects that say what a row was and is."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.cdc.json_index import JsonIndex, Members
from pkray.cdc.parsing import lines, parsed
from pkray.cdc.readings import Reading
from pkray.errors import InputError

Bools = Any
Ints = Any

_OTHER_KIND = re.compile(r"Column\((/.*)\) changed from \w+ to \w+")


@dataclass
class ImageColumns:
    """The columns that images have, and how each was read last.

    Attributes:
        readings: how each column may be read; the first is tried first.
        chosen: the place of the reading that fitted last. It saves tries, and changes no value.
    """

    readings: Mapping[str, Sequence[Reading]]
    chosen: dict[str, int] = field(default_factory=dict)

    def reading(self, name: str) -> Reading:
        """Give the way in which a column is read now."""
        return self.readings[name][self.chosen.get(name, 0)]

    @property
    def json(self) -> pa.DataType:
        """The type by which Arrow's reader reads an image."""
        return pa.struct([pa.field(name, self.reading(name).json) for name in self.readings])

    @property
    def has_rows(self) -> bool:
        """Whether values of some column are objects."""
        return any(_has_struct(self.reading(name).json) for name in self.readings)

    def turn(self, name: str) -> None:
        """Try the next way in which a column may be read."""
        self.chosen[name] = (self.chosen.get(name, 0) + 1) % len(self.readings[name])

    def begin(self) -> None:
        """Try numbers first again where the last ones stood beside texts."""
        for name in [each for each in self.chosen if self.reading(each).takes_quoted]:
            del self.chosen[name]


@dataclass(frozen=True)
class Image:
    """One image of each event, or the images that events list, one after the other.

    Args:
        rows: struct; null where an event has no image.
        members: those of the images that are there.
    """

    rows: pa.Array
    members: Members

    @property
    def is_there(self) -> Bools:
        """Say which images are there: bool, one a row."""
        return self.rows.is_valid().to_numpy(zero_copy_only=False)

    def column(self, name: str) -> pa.Array:
        """Give a column's values as they were read; null where the image is."""
        return pc.struct_field(self.rows, name)

    def has(self, names: Sequence[str]) -> Bools:
        """Say which images have which members: bool, (rows, names)."""
        found = np.zeros((len(self.rows), len(names)), bool)
        found[self.is_there] = self.members.has(names)
        return found

    def strange(self, known: Collection[str]) -> list[str]:
        """List the members of any image that are none of the columns that are known."""
        return [each for each in self.members.names.dictionary.to_pylist() if each not in known]


@dataclass(frozen=True)
class Events:
    """Holds what was read of some events.

    Args:
        texts: what was read: as `checked_texts` gives them, or structs.
        images: by name.
        sizes: how many images of each name each event lists: int64, one an event; by name.
        others: members of the envelope.
        index: of the texts; None: a schema says which members there are.
    """

    texts: pa.Array
    images: Mapping[str, Image]
    sizes: Mapping[str, Ints]
    others: pa.Table
    index: JsonIndex | None

    def other(self, name: str) -> pa.Array:
        """Give a member of the envelope."""
        return pa.concat_arrays(self.others.column(name).chunks)


def read_events(
    texts: pa.Array,
    names: Sequence[str],
    columns: ImageColumns,
    others: Mapping[str, pa.DataType],
    *,
    listed: bool = False,
) -> Events:
    """Read events whose images are members of them.

    Args:
        texts: as `checked_texts` gives them.
        names: of the members that are images.
        others: types of other members that are read.
        listed: whether each image member is a list of images.

    Raises:
        InputError, pa.ArrowInvalid: an event is not as it must be.
    """
    columns.begin()
    tries = sum(len(each) + 1 for each in columns.readings.values()) + 1
    failure: pa.ArrowInvalid | None = None
    plain, quoted = texts, set[str]()
    for _ in range(tries):
        image = pa.list_(columns.json) if listed else columns.json
        schema = pa.schema([*((name, image) for name in names), *others.items()])
        try:
            table = parsed(texts, schema)
        except pa.ArrowInvalid as error:
            failure = failure or error
            name = _column_of(str(error), names, columns)
            if name is None or len(columns.readings[name]) == 1:
                raise
            if columns.reading(name).takes_quoted and name not in quoted:
                quoted.add(name)
                texts = JsonIndex(texts).with_quoted_numbers(names, name, 3 if listed else 2)
            else:
                columns.turn(name)
            continue
        index = JsonIndex(texts)
        images, sizes = {}, {}
        for name in names:
            rows = pa.concat_arrays(table.column(name).chunks)
            if listed:
                sizes[name] = pc.fill_null(pc.list_value_length(rows), 0).to_numpy()
                rows = rows.flatten()
            images[name] = Image(rows, index.members(name, 3 if listed else 2))
        if columns.has_rows:
            for name, image in images.items():
                if not image.strange(columns.readings):
                    _check_rows(index.values(name), columns)
        return Events(plain, images, sizes, table.select(list(others)), index)
    assert failure is not None
    raise failure


def _has_struct(kind: pa.DataType) -> bool:
    return pa.types.is_struct(kind) or (pa.types.is_list(kind) and _has_struct(kind.value_type))


def _check_rows(images: pa.Array, columns: ImageColumns) -> None:
    """Check that objects inside of images have no members that ROWs have not: the reader drops
    them."""
    images = pc.ascii_trim_whitespace(images.drop_null())
    images = images.filter(pc.starts_with(images, "{"))
    if len(images):
        try:
            parsed(lines(images), pa.schema(list(columns.json)), "error")
        except pa.ArrowInvalid as error:
            raise InputError(f"an object has members that its ROW has not: {error}") from None


def _column_of(error: str, names: Sequence[str], columns: ImageColumns) -> str | None:
    """Find the column of which Arrow's reader says that it changed its kind."""
    found = _OTHER_KIND.search(error)
    path = found[1] if found else ""
    for name in names:
        for prefix in (f"/{name}/[]/", f"/{name}/"):
            rest = path.removeprefix(prefix)
            if rest != path:
                fitting = [each for each in columns.readings if f"{rest}/".startswith(f"{each}/")]
                return max(fitting, key=len, default=None)
    return None
