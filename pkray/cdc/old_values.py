"""Events that say what a row is, and of an update what the columns that changed were."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.cdc.envelopes import check_known, metadata_columns, metadata_types
from pkray.cdc.images import Events, Image, ImageColumns, read_events
from pkray.cdc.readings import Reading
from pkray.cdc.row_changes import Changes, Target, order_of, rows_of
from pkray.errors import InputError
from pkray.schema.row_kind import INSERT, UPDATE_AFTER

Bools = Any


@dataclass(frozen=True)
class Words:
    """The words of a format for what happened, in its member ``type``.

    Args:
        passed_over: of events that are no changes of rows.
        emptying: of events that take all rows of the table, which are bad.
    """

    inserts: Collection[str]
    update: str
    delete: str
    passed_over: Collection[str]
    emptying: Collection[str]


@dataclass(frozen=True)
class _Before(Image):
    """Holds rows as they were: of a delete the row, of an update it with its old values."""

    data: Image

    def has(self, names: Sequence[str]) -> Bools:
        return self.data.has(names) & self.is_there[:, None]


@dataclass(frozen=True)
class OldValuesReader:
    """Reads such events.

    Args:
        listed: whether ``data`` and ``old`` list rows.
        unit_of_ts: of times in the envelope.
    """

    target: Target
    readings: Mapping[str, Sequence[Reading]]
    words: Words
    listed: bool
    unit_of_ts: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "_columns", ImageColumns(self.readings))

    def read(self, texts: pa.Array) -> list[Changes]:
        """Read events into changes.

        Args:
            texts: as `checked_texts` gives them.

        Raises:
            InputError, pa.ArrowInvalid: an event is not as it must be.
            NewColumns: events have columns that the target has not.
        """
        if not len(texts):
            return []
        columns: ImageColumns = self._columns  # type: ignore[attr-defined] # made above
        others = {"type": pa.string(), **metadata_types(self.target)}
        events = read_events(texts, ("data", "old"), columns, others, listed=self.listed)
        data, old = events.images["data"], events.images["old"]
        kinds = events.other("type")
        of_rows = self._checked(kinds, data, events)
        if self.listed:
            sizes = np.where(of_rows, events.sizes["data"], 0)
            owners = np.repeat(np.arange(len(texts)), events.sizes["data"])
            data = _taken(data, np.flatnonzero(sizes[owners]))
            owners = np.repeat(np.arange(len(texts)), sizes)
        else:
            owners = np.flatnonzero(of_rows)
            data = _taken(data, owners)
        known = set(self.target.values)
        strange = [*data.strange(known), *old.strange(known)]
        check_known(self.target, strange, events, ("data",))
        words = kinds.take(pa.array(owners))
        updates = _are(words, [self.words.update])
        deletes = _are(words, [self.words.delete])
        places = self._old_places(events, owners, updates)
        before = self._before(columns, data, old, places, deletes)
        takes = before.is_there
        order = order_of(len(owners), takes, ~deletes, np.where(updates, UPDATE_AFTER, INSERT))
        metadata = {
            name: values.take(pa.array(owners))
            for name, values in metadata_columns(self.target, events, self.unit_of_ts).items()
        }
        return [rows_of(self.target, columns, before, data, order, metadata, markers=False)]

    def _checked(self, kinds: pa.Array, data: Image, events: Events) -> Bools:
        """Check what events say that they are; return which are changes of rows."""
        words = self.words
        of_rows = _are(kinds, [*words.inserts, words.update, words.delete])
        strange = ~of_rows & ~_are(kinds, words.passed_over)
        if strange.any():
            word = kinds[int(np.flatnonzero(strange)[0])].as_py()
            if word in words.emptying:
                raise InputError(
                    f"the event takes all rows of the table (type {word!r}), which changes of rows "
                    "do not say: drop the table's rows by hand",
                    type=word,
                )
            raise InputError(f"type {word!r} is none that is known: is the event of this format?")
        there = events.sizes["data"] > 0 if self.listed else data.is_there
        if (of_rows & ~there).any():
            raise InputError("the event has no data")
        return of_rows

    def _old_places(self, events: Events, owners: Any, updates: Bools) -> Any:
        """Find the image of old values of each row: int64, -1 where there is none."""
        places = np.full(len(owners), -1)
        if not self.listed:
            there = events.images["old"].is_there[owners]
            places[updates & there] = owners[updates & there]
            return places
        sizes = events.sizes["old"]
        starts = np.concatenate(([0], np.cumsum(sizes)))[:-1]
        firsts = np.searchsorted(owners, owners)
        nth = np.arange(len(owners)) - firsts
        has_old = updates & (sizes[owners] > 0)
        if (has_old & (nth >= sizes[owners])).any():
            raise InputError("the event lists fewer rows in old than in data")
        places[has_old] = (starts[owners] + nth)[has_old]
        return places

    def _before(
        self, columns: ImageColumns, data: Image, old: Image, places: Any, deletes: Bools
    ) -> Image:
        names = list(columns.readings)
        has_old = places >= 0
        safe = np.where(has_old, places, 0)
        changed = np.zeros((len(places), len(names)), bool)
        if has_old.any():
            changed = old.has(names)[safe] & has_old[:, None]
        values = []
        for number, name in enumerate(names):
            now = data.column(name)
            if changed[:, number].any():
                was = old.column(name).take(pa.array(safe))
                now = pc.if_else(pa.array(changed[:, number]), was, now)
            values.append(now)
        mask = pa.array(~(has_old | deletes))
        rows = pa.StructArray.from_arrays(values, names=names, mask=mask)
        return _Before(rows, data.members, data)


def _are(words: pa.Array, known: Collection[str]) -> Bools:
    found = pc.is_in(words, value_set=pa.array(list(known), pa.string()))
    return found.to_numpy(zero_copy_only=False)


def _taken(image: Image, places: Any) -> Image:
    """Take some images; all of the others are none of rows, and their members do not count."""
    if len(places) == len(image.rows):
        return image
    objects = np.cumsum(image.is_there) - 1
    new = np.full(max(image.members.objects, 1), -1)
    there = places[image.is_there[places]]
    new[objects[there]] = np.arange(len(there))
    members = image.members
    kept = new[members.owner] >= 0
    names = members.names.take(pa.array(np.flatnonzero(kept)))
    names = names.dictionary_decode().dictionary_encode()
    chosen = type(members)(len(there), new[members.owner][kept], names)
    return Image(image.rows.take(pa.array(places)), chosen)
