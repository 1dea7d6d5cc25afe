"""Columns and the fields of ROWs inside them, found by name and rebuilt."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from pkray.errors import SchemaError
from pkray.schema.columns import no_column
from pkray.schema.types import DataField, DataType, with_parts

Fields: TypeAlias = tuple[DataField, ...]
Edit: TypeAlias = Callable[[Fields, str], Fields]
"""Takes the fields of one level and the name of one of them."""

_INSIDE = {"ARRAY": "element", "MAP": "value"}
"""The steps that lead into nested types, as in Paimon: ``("items", "element", "price")``."""


def resolve(fields: Fields, name: str | Sequence[str], *, new: bool = False) -> tuple[str, ...]:
    """Resolve a column's path: one name, or several from the column to a field of its ROW.

    Args:
        name: text with dots is a path, unless a column has that very name.
        new: the last name need not be there.

    Raises:
        SchemaError: there is no such column.
    """
    if isinstance(name, str):
        is_column = any(field.name == name for field in fields)
        head = name.partition(".")[0]
        is_path = "." in name and any(field.name == head for field in fields)
        path = tuple(name.split(".")) if is_path and not is_column else (name,)
    elif isinstance(name, Sequence):
        path = tuple(name)
    else:
        raise SchemaError(f"a column cannot be named {name!r}: names are text", column=name)
    if not path:
        raise SchemaError("a column's name is empty", column=name)
    if not new:
        edit_fields(fields, path, lambda found, last: _require(found, last, path))
    return path


def edit_fields(fields: Fields, path: tuple[str, ...], edit: Edit) -> Fields:
    """Edit one level of the columns' fields.

    Raises:
        SchemaError: the path leads nowhere.
    """
    if len(path) == 1:
        return edit(fields, path[0])
    _require(fields, path[0], path)
    return tuple(
        replace(field, type=_edit_type(field.type, path[1:], edit, path[0]))
        if field.name == path[0]
        else field
        for field in fields
    )


def _edit_type(data_type: DataType, path: tuple[str, ...], edit: Edit, column: str) -> DataType:
    if data_type.fields is not None:
        return replace(data_type, fields=edit_fields(data_type.fields, path, edit))
    step = _INSIDE.get(data_type.root)
    part: DataType | None = getattr(data_type, step) if step else None
    if step is None or part is None:
        raise SchemaError(
            f"column {column!r} is {data_type}, which has no field {path[0]!r}: name a field of a "
            "ROW",
            column=column,
            field=path[0],
        )
    inner = path[1:] if path[0] == step else path
    if not inner:
        raise SchemaError(
            f"{column}.{step} is {part}: name a field of a ROW in it, or change the type of "
            f"{column!r}",
            column=column,
        )
    changed = _edit_type(part, inner, edit, column)
    if step == "element":
        return replace(data_type, element=changed)
    return replace(data_type, value=changed)


def placed(fields: Fields, field: DataField, first: bool, after: str | None) -> Fields:
    """Insert one more field: at the front, after another one, or at the end."""
    if first and after is not None:
        raise SchemaError(
            f"column {field.name!r} cannot be first and after {after!r}: give one of them",
            column=field.name,
        )
    if first:
        return (field, *fields)
    if after is None:
        return (*fields, field)
    names = [other.name for other in fields]
    if after not in names:
        raise no_column(after, names)
    place = names.index(after) + 1
    return (*fields[:place], field, *fields[place:])


def mapped(fields: Fields, name: str, change: Callable[[DataField], DataField]) -> Fields:
    """Change one of the fields."""
    return tuple(change(field) if field.name == name else field for field in fields)


def check_free(fields: Fields, name: str) -> None:
    """Raise a SchemaError where there is such a field already, or the name is no text."""
    if not isinstance(name, str):
        raise SchemaError(f"a column cannot be named {name!r}: names are text", column=name)
    if any(field.name == name for field in fields):
        raise SchemaError(
            f"column {name!r} is there already: choose another name, or drop it first", column=name
        )


def renumbered(data_type: DataType, next_id: Callable[[], int]) -> DataType:
    """Give nested fields new ids, depth first, as Paimon numbers them."""
    return with_parts(
        data_type,
        lambda part: renumbered(part, next_id),
        lambda field: replace(field, id=next_id()),
    )


def _require(fields: Fields, name: str, path: tuple[str, ...]) -> Fields:
    if all(field.name != name for field in fields):
        known = [field.name for field in fields]
        raise no_column(name, known, f"{'.'.join(path)!r}: column" if len(path) > 1 else "column")
    return fields
