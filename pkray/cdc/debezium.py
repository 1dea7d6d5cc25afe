"""Debezium's events in JSON: ``before``, ``after``, ``op`` and ``source``, with a schema or not."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray import constants
from pkray.cdc.connect import ConnectField, image_fields
from pkray.cdc.envelopes import NewColumns, check_known, metadata_columns, metadata_types
from pkray.cdc.images import Events, ImageColumns, read_events
from pkray.cdc.json_index import JsonIndex
from pkray.cdc.parsing import lines, parsed
from pkray.cdc.readings import Handling, Reading, readings_of
from pkray.cdc.row_changes import Changes, Target, order_of, rows_of
from pkray.errors import InputError
from pkray.schema.row_kind import INSERT, UPDATE_AFTER

_CREATE, _READ, _UPDATE, _DELETE, _MESSAGE = range(5)
_OPS = constants.texts(["c", "r", "u", "d", "m"])
_STATUS = constants.texts(["BEGIN", "END"])
_NO_MEMBERS = pa.schema([])


class DebeziumJson:
    """Reads events that Debezium's connectors write as JSON."""

    def __init__(self, target: Target, handling: Handling) -> None:
        self.target = target
        self._handling = handling
        self._columns: dict[str | None, ImageColumns] = {}
        self._readings(None)  # raises for types that are not read
        self._schema_of = lru_cache(8)(image_fields)

    def read(self, texts: pa.Array) -> list[Changes]:
        """Read events into changes, in parts that follow each other.

        Args:
            texts: as `checked_texts` gives them.

        Raises:
            InputError, pa.ArrowInvalid: an event is not as it must be.
            NewColumns: events have columns that the target has not.
        """
        if not len(texts):
            return []
        if not _has_payload(texts[0].as_py()):
            return [self._changes(texts, None)]
        parsed(texts, _NO_MEMBERS)
        index = JsonIndex(texts)
        schemas, payloads = index.values("schema"), index.values("payload")
        if payloads.null_count:
            raise InputError("the event has no payload, and others have")
        schemas = pc.fill_null(pc.ascii_trim_whitespace(schemas), "null")
        payloads = pc.ascii_trim_whitespace(payloads)
        parts = []
        for start, stop in runs(schemas):
            schema = schemas[start].as_py()
            run = payloads.slice(start, stop - start)
            run = run.filter(pc.not_equal(run, "null"))
            if len(run):
                parts.append(self._changes(lines(run), None if schema == "null" else schema))
        return parts

    def _changes(self, texts: pa.Array, schema: str | None) -> Changes:
        fields = None if schema is None else self._schema_of(schema)
        if fields is not None and (strange := added(fields, self.target)):
            raise NewColumns([each.data_field() for each in strange])
        columns = self._columns.get(schema)
        if columns is None:
            columns = self._columns[schema] = ImageColumns(self._readings(fields))
            while len(self._columns) > 8:  # as many schemas as topics have in flight
                self._columns.pop(next(iter(self._columns)))
        others = {"op": pa.string(), "status": pa.string(), **metadata_types(self.target)}
        events = read_events(texts, ("before", "after"), columns, others)
        return changes_of(self.target, events, columns)

    def _readings(self, fields: Mapping[str, ConnectField] | None) -> dict[str, Sequence[Reading]]:
        values = self.target.values
        if fields is None:
            return {name: readings_of(kind, self._handling) for name, kind in values.items()}
        return image_readings(fields, self.target, self._handling)


def image_readings(
    fields: Mapping[str, ConnectField], target: Target, handling: Handling | None
) -> dict[str, Sequence[Reading]]:
    """List how the target's columns are read of images whose schema is known."""
    # A column that the schema lacks is read as what it never is, and found lacking.
    lacking = [Reading(pa.string(), lambda texts: pa.nulls(len(texts)))]
    return {
        name: fields[name].readings(handling) if name in fields else lacking
        for name in target.values
    }


def changes_of(target: Target, events: Events, columns: ImageColumns) -> Changes:
    """Make changes of events whose images and ``op`` were read.

    Raises:
        InputError, pa.ArrowInvalid: an event is not as it must be.
        NewColumns: events have columns that the target has not.
    """
    before, after = events.images["before"], events.images["after"]
    known = set(target.values)
    strange = [*after.strange(known), *before.strange(known)]
    check_known(target, strange, events, ("after", "before"))
    op = events.other("op")
    codes = pc.fill_null(pc.index_in(op, value_set=_OPS), -1).to_numpy()
    if (codes < 0).any():
        _check_passed_over(events, op, codes < 0)
    deletes, updates = codes == _DELETE, codes == _UPDATE
    adds = np.isin(codes, (_CREATE, _READ, _UPDATE))
    _check_images(op, adds & ~after.is_there, "after")
    _check_images(op, deletes & ~before.is_there, "before")
    takes = deletes | (updates & before.is_there)
    kinds = np.where(updates, UPDATE_AFTER, INSERT)
    order = order_of(len(codes), takes, adds, kinds)
    metadata = metadata_columns(target, events)
    return rows_of(target, columns, before, after, order, metadata)


def _has_payload(text: str) -> bool:
    """Whether an event is an envelope of schema and payload."""
    with suppress(ValueError, RecursionError):
        found = json.loads(text)
        return isinstance(found, dict) and "payload" in found and "op" not in found
    return False


def runs(values: pa.Array) -> list[tuple[int, int]]:
    """List the bounds of runs of equal values."""
    codes = values.dictionary_encode().indices.to_numpy()
    starts = np.flatnonzero(np.concatenate(([True], codes[1:] != codes[:-1])))
    return list(zip(starts.tolist(), [*starts[1:].tolist(), len(codes)], strict=True))


def added(fields: Mapping[str, ConnectField], target: Target) -> list[ConnectField]:
    """List the fields that the target has no column of."""
    return [each for name, each in fields.items() if name not in target.values]


def _check_images(op: pa.Array, bad: np.ndarray, image: str) -> None:
    if bad.any():
        word = op[int(np.flatnonzero(bad)[0])].as_py()
        hint = ": give the source's table a replica identity" if image == "before" else ""
        raise InputError(f"an event of op {word!r} has no image {image}{hint}", op=word)


def _check_passed_over(events: Events, op: pa.Array, rest: np.ndarray) -> None:
    """Check that events without an op are heartbeats or bounds of transactions.

    Raises:
        InputError: one is neither.
    """
    unknown = rest
    if events.index is not None:
        names = events.index.top_names()
        alone = np.bincount(names.owner, minlength=len(rest)) == 1
        heartbeats = alone & names.has(["ts_ms"])[:, 0]
        bounds = pc.is_in(events.other("status"), value_set=_STATUS).to_numpy(zero_copy_only=False)
        unknown = rest & ~(op.is_null().to_numpy(zero_copy_only=False) & (heartbeats | bounds))
    if not unknown.any():
        return
    word = op[int(np.flatnonzero(unknown)[0])].as_py()
    if word == "t":
        raise InputError(
            "the event truncates the table (op 't'), which changes of rows do not say: drop the "
            "table's rows by hand, or have the connector skip truncates",
            op=word,
        )
    if word is None:
        raise InputError("the event has no op, and is no heartbeat: is it of this format?", op=None)
    raise InputError(f"op {word!r} is none of c, r, u, d: is the event of this format?", op=word)
