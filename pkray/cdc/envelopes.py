"""Read what the envelopes of all formats share: metadata, and columns that a table has not yet."""

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pkray import constants
from pkray.cdc.images import Events
from pkray.cdc.parsing import lines, parsed
from pkray.cdc.row_changes import Target
from pkray.errors import InputError, UnsupportedError
from pkray.schema.types import DataField, DataType

_OPENED, _CLOSED, _NOTHING = constants.texts(['{"":', "}", ""]).cast(pa.large_string())
_UNITS = {"_ms": "ms", "_us": "us", "_ns": "ns"}


class NewColumns(Exception):
    """Asks for columns that events have and the target has not.

    Args:
        columns: those whose types are known.
        names: of all of them; those of ``columns`` unless said.
    """

    def __init__(self, columns: Sequence[DataField], names: Iterable[str] = ()) -> None:
        self.columns = list(columns)
        self.names = list(names) or [each.name for each in columns]
        super().__init__(", ".join(self.names))


def check_known(
    target: Target, strange: Iterable[str], events: Events, images: Sequence[str]
) -> None:
    """Check what columns events have that the target has not.

    Those that show nothing but nulls pass where the target lets them: a later value shows their
    type.

    Raises:
        NewColumns: the target is to get some, or none may be there.
    """
    names = list(dict.fromkeys(strange))
    if names:
        columns = _shown(names, events, images)
        if columns or not target.passes_nulls:
            raise NewColumns(columns, names)


def _shown(names: Sequence[str], events: Events, images: Sequence[str]) -> list[DataField]:
    """Take the types from the values that events have: wide ones, as nothing says theirs."""
    found: dict[str, pa.DataType] = dict.fromkeys(names, pa.null())
    assert events.index is not None
    for image in images:
        for name, kind in _inferred(events.index.values(image).drop_null(), names).items():
            if name in found and pa.types.is_null(found[name]):
                found[name] = kind
    return [
        DataField(0, name, _wide(name, kind))
        for name, kind in found.items()
        if not pa.types.is_null(kind)
    ]


def _inferred(images: pa.Array, names: Sequence[str]) -> dict[str, pa.DataType]:
    """Infer the types of the members of images, or of images that are listed."""
    if not len(images):
        return {}
    rows = pc.binary_join_element_wise(_OPENED, images, _CLOSED, _NOTHING)
    try:
        [kind] = parsed(lines(rows), pa.schema([]), "infer").schema.types
    except pa.ArrowInvalid as error:
        raise InputError(
            f"the type of new columns ({', '.join(names)}) is not plain: {error}; add them by "
            "table.alter.add_column",
            columns=list(names),
        ) from None
    if pa.types.is_list(kind):
        kind = kind.value_type
    return {each.name: each.type for each in kind} if pa.types.is_struct(kind) else {}


def _wide(name: str, kind: pa.DataType) -> DataType:
    if pa.types.is_string(kind) or pa.types.is_temporal(kind):
        return DataType("STRING")
    if pa.types.is_nested(kind):
        raise UnsupportedError(
            f"the new column {name!r} is nested, and events bring no schema that says its type: "
            "add it by table.alter.add_column",
            column=name,
        )
    return DataType.from_arrow(kind)


def metadata_types(target: Target) -> dict[str, pa.DataType]:
    """Give the types by which members of the envelope are read that become columns."""
    found: dict[str, Any] = {}
    for column, path in target.metadata.items():
        top, _, inner = path.partition(".")
        kind = _json_type(column, target.columns[column])
        if inner:
            found.setdefault(top, {})[inner] = kind
        else:
            found[top] = kind
    return {
        name: pa.struct(list(kind.items())) if isinstance(kind, dict) else kind
        for name, kind in found.items()
    }


def metadata_columns(target: Target, events: Events, unit_of_ts: str = "ms") -> dict[str, pa.Array]:
    """Give the values of metadata columns, one an event.

    Args:
        unit_of_ts: of times whose names do not say theirs.
    """
    found = {}
    for column, path in target.metadata.items():
        top, _, inner = path.partition(".")
        values = events.other(top)
        if inner:
            values = pc.struct_field(values, inner)
        kind = target.columns[column]
        if kind.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
            unit = _UNITS.get(path[-3:], unit_of_ts)
            values = values.cast(pa.timestamp(unit, "UTC" if kind.root.endswith("LTZ") else None))
        found[column] = values
    return found


def _json_type(column: str, kind: DataType) -> pa.DataType:
    if kind.root in ("TINYINT", "SMALLINT", "INT", "BIGINT", "BOOLEAN", "STRING", "DOUBLE"):
        return kind.arrow
    if kind.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        return pa.int64()
    raise UnsupportedError(
        f"the metadata column {column!r} is {kind}: make it a BIGINT, a STRING or a TIMESTAMP",
        column=column,
    )
