"""Column types: Paimon's SQL types, their JSON form, and the Arrow types rows are held in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, TypeAlias

import pyarrow as pa

from pkray.arguments.checks import Give
from pkray.arguments.facade import checked
from pkray.errors import SchemaError, UnsupportedError
from pkray.schema.arrow_types import (
    BINARIES,
    SCALARS,
    STRINGS,
    TIMESTAMPS,
    scalar_from_arrow,
    scalar_to_arrow,
)
from pkray.schema.type_text import TypeText

__all__ = ["BINARIES", "INTEGERS", "STRINGS", "TIMESTAMPS", "DataField", "DataType", "NamedType"]

MAX_LENGTH = 2**31 - 1

MAX_LEVELS = 48
"""Most levels of ARRAY, MAP and ROW in each other: Parquet's readers go 100 deep, two an ARRAY."""

TextOrJson: TypeAlias = Annotated[
    str | Mapping[str, Any],
    Give("a type as text, such as 'BIGINT NOT NULL', or its JSON form", SchemaError),
]
INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
NESTED = ("ARRAY", "MAP", "ROW")

DEFAULT_LENGTH = dict.fromkeys(("CHAR", "VARCHAR", "BINARY", "VARBINARY"), 1)
DEFAULT_PRECISION = {"TIME": 0, "TIMESTAMP": 6, "TIMESTAMP_LTZ": 6, "DECIMAL": 10}
SPANS = tuple(
    " TO ".join(dict.fromkeys((first, last)))
    for order in (("YEAR", "MONTH"), ("DAY", "HOUR", "MINUTE", "SECOND"))
    for place, first in enumerate(order)
    for last in order[place:]
)
"""The fields of INTERVALs, as SQL has them."""
_UNBOUNDED = {"VARCHAR": "STRING", "VARBINARY": "BYTES"}
ROOTS = (*SCALARS, *NESTED)
TYPE_METADATA = b"paimon.type"
_SYNONYMS = {"INTEGER": "INT", "DEC": "DECIMAL", "NUMERIC": "DECIMAL"}
_UNSUPPORTED = {
    "MULTISET": "use MAP<element, INT NOT NULL>",
    "VARIANT": "use STRING with JSON in it",
    "BLOB": "use BYTES",
    "VECTOR": "use ARRAY<FLOAT>",
}


@dataclass(frozen=True)
class DataType:
    """One column type.

    ``root`` is the type's name without parameters: BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT,
    DOUBLE, DECIMAL, CHAR, VARCHAR, STRING, BINARY, VARBINARY, BYTES, DATE, TIME, TIMESTAMP,
    TIMESTAMP_LTZ, ARRAY, MAP or ROW. Parameters left out get Paimon's defaults: CHAR(1),
    VARCHAR(1), BINARY(1), VARBINARY(1), DECIMAL(10, 0), TIME(0), TIMESTAMP(6). VARCHAR and
    VARBINARY of the largest length are STRING and BYTES.

    Args:
        length: characters of CHAR and VARCHAR, bytes of BINARY and VARBINARY; else None.
        precision: digits of DECIMAL (1..38); fraction digits of TIME and TIMESTAMP (0..9).
        scale: digits of DECIMAL after the point (0..precision).

        span: what a BIGINT counts that is an INTERVAL inside a query, such as ``DAY TO SECOND``
            (microseconds) or ``YEAR TO MONTH`` (months); no column of a table has one.

    Attributes:
        levels: types in each other below it: 0 of a scalar, 1 of ARRAY<INT>.

    Raises:
        SchemaError: an unknown root, a parameter out of range, or more than `MAX_LEVELS` levels.
    """

    root: str
    nullable: bool = True
    length: int | None = None
    precision: int | None = None
    scale: int | None = None
    element: DataType | None = None
    key: DataType | None = None
    value: DataType | None = None
    fields: tuple[DataField, ...] | None = None
    span: str | None = None
    levels: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        root: object = self.root
        if not isinstance(root, str) or root not in ROOTS:
            said = repr(root) if isinstance(root, str) else type(root).__name__
            raise SchemaError(f"unknown type {said}; known: {', '.join(ROOTS)}")
        fields: object = self.fields
        if fields is not None and not (
            isinstance(fields, tuple) and all(isinstance(each, DataField) for each in fields)
        ):
            raise SchemaError(f"{self.root} is of fields: give a tuple of DataField as fields")
        parts: list[object] = [self.element, self.key, self.value]
        parts += [each.type for each in self.fields or ()]
        if not all(part is None or isinstance(part, DataType) for part in parts):
            raise SchemaError(f"{self.root} is of types: give DataType.parse('INT') as a part")
        object.__setattr__(self, "levels", max((1 + part.levels for part in self.parts), default=0))
        if self.levels > MAX_LEVELS:
            raise _too_deep()
        span: object = self.span
        if span is not None and not (
            self.root == "BIGINT" and isinstance(span, str) and span in SPANS
        ):
            said = repr(span) if isinstance(span, str) else type(span).__name__
            raise SchemaError(f"{self.root} is no INTERVAL of span {said}: leave span out")
        if self.root in DEFAULT_LENGTH:
            self._default("length", DEFAULT_LENGTH[self.root])
            self._check("length", 1, MAX_LENGTH)
            if self.length == MAX_LENGTH and self.root in _UNBOUNDED:
                object.__setattr__(self, "root", _UNBOUNDED[self.root])
        if self.root in ("STRING", "BYTES"):
            object.__setattr__(self, "length", None)
        if self.root in DEFAULT_PRECISION:
            self._default("precision", DEFAULT_PRECISION[self.root])
            self._check("precision", *((1, 38) if self.root == "DECIMAL" else (0, 9)))
        if self.root == "DECIMAL":
            self._default("scale", 0)
            self._check("scale", 0, self.precision or 0)

    def _default(self, parameter: str, value: int) -> None:
        if getattr(self, parameter) is None:
            object.__setattr__(self, parameter, value)

    def _check(self, parameter: str, low: int, high: int) -> None:
        value = getattr(self, parameter)
        if not isinstance(value, int) or not low <= value <= high:
            said = value if isinstance(value, int) else type(value).__name__
            raise SchemaError(
                f"{self.root} cannot have {parameter} {said}: it must be {low} to {high}",
                type=self.root,
                value=value,
            )

    @staticmethod
    @checked
    def parse(text_or_json: TextOrJson) -> DataType:
        """Read a type from SQL text, or from its JSON form in Paimon's schema files.

        Takes ``DECIMAL(20, 4) NOT NULL``, both spellings of TIMESTAMP_LTZ, ``ARRAY<INT>`` and
        ``{"type": "ARRAY", "element": "INT"}``.

        Raises:
            SchemaError: it is no type.
            UnsupportedError: MULTISET and other types that pkray does not have.
        """
        try:
            return _parse(text_or_json)
        except RecursionError:  # of what is no type, and is repeated in an error
            raise _too_deep() from None

    def to_json(self) -> str | dict[str, Any]:
        """Write it as Paimon's schema files do: text, or an object for ARRAY, MAP and ROW."""
        if self.span:
            raise UnsupportedError(
                f"{self} is the type of no column of a table: CAST it to STRING, or to BIGINT "
                "for its seconds",
                type=str(self),
            )
        if not self.is_nested:
            return str(self)
        json: dict[str, Any] = {"type": self.root + self._null_suffix}
        if self.root == "ARRAY":
            json["element"] = _present(self.element).to_json()
        elif self.root == "MAP":
            json["key"] = _present(self.key).to_json()
            json["value"] = _present(self.value).to_json()
        else:
            json["fields"] = [field.to_json() for field in self.fields or ()]
        return json

    def __str__(self) -> str:
        """Write it as SQL; ``DataType.parse`` reads it back (but for the field ids of a ROW)."""
        return self._sql() + self._null_suffix

    def __repr__(self) -> str:
        return f"DataType({str(self)!r})"

    @property
    def _null_suffix(self) -> str:
        return "" if self.nullable else " NOT NULL"

    def _sql(self) -> str:
        if self.span:
            return f"INTERVAL {self.span}"
        if self.root == "DECIMAL":
            return f"DECIMAL({self.precision}, {self.scale})"
        if self.root in DEFAULT_LENGTH:
            return f"{self.root}({self.length})"
        if self.root in DEFAULT_PRECISION:
            return f"{self.root}({self.precision})"
        if self.root == "ARRAY":
            return f"ARRAY<{self.element}>"
        if self.root == "MAP":
            return f"MAP<{self.key}, {self.value}>"
        if self.root == "ROW":
            inner = (
                f"`{field.name.replace('`', '``')}` {field.type}" for field in self.fields or ()
            )
            return f"ROW<{', '.join(inner)}>"
        return self.root

    @property
    def is_nested(self) -> bool:
        """Whether it is ARRAY, MAP or ROW: a value only, never a key or a statistic."""
        return self.root in NESTED

    def with_nullable(self, nullable: bool) -> DataType:
        """Return the same type, nullable or not."""
        if nullable == self.nullable:
            return self
        changed = object.__new__(DataType)  # a query asks often, and its parts are checked
        vars(changed).update(vars(self), nullable=nullable)
        return changed

    @property
    def parts(self) -> list[DataType]:
        """List the types that it is made of: of elements, keys and values, or of fields."""
        parts = (self.element, self.key, self.value, *(each.type for each in self.fields or ()))
        return [part for part in parts if part is not None]

    @cached_property
    def arrow(self) -> pa.DataType:
        """Return the canonical Arrow type, which rows of this column are held in everywhere."""
        if not self.is_nested:
            return scalar_to_arrow(self.root, self.precision, self.scale)
        if self.root == "ARRAY":
            return pa.list_(_nested_field("element", self.element))
        if self.root == "MAP":
            key = pa.field("key", _present(self.key).arrow, nullable=False)
            return pa.map_(key, _nested_field("value", self.value))
        return pa.struct([field.arrow for field in self.fields or ()])

    @staticmethod
    @checked
    def given(said: NamedType) -> DataType:
        """Return the type that a user named: as SQL, as an Arrow type or as itself.

        Raises:
            SchemaError, UnsupportedError: as `parse` and `from_arrow`.
        """
        if isinstance(said, DataType):
            return said
        if isinstance(said, pa.DataType):
            return DataType.from_arrow(said)
        return DataType.parse(said)

    @staticmethod
    @checked
    def from_arrow(arrow: pa.DataType, nullable: bool = True) -> DataType:
        """Return the type that holds values of an Arrow type.

        timestamp s, ms, us, ns become TIMESTAMP(0), (3), (6), (9), with a time zone TIMESTAMP_LTZ.

        Raises:
            UnsupportedError: no type holds them without loss; the message names what to cast to.
        """
        return _from_arrow(arrow).with_nullable(nullable)

    @staticmethod
    @checked
    def from_field(field: pa.Field) -> DataType:
        """Return the type of an Arrow field: what its metadata ``paimon.type`` says, or infer it.

        Raises:
            SchemaError: ``paimon.type`` does not fit the field's Arrow type.
            UnsupportedError: as :meth:`from_arrow`, naming the field.
        """
        return _from_field(field)


@dataclass(frozen=True)
class DataField:
    """A named column, or a named field of a ROW. ``id`` is unique in the table for ever."""

    id: int
    name: str
    type: DataType
    description: str | None = None

    def __repr__(self) -> str:
        return f"DataField({self.id}, {self.name!r}, {str(self.type)!r})"

    @property
    def arrow(self) -> pa.Field:
        return pa.field(self.name, self.type.arrow, nullable=self.type.nullable)

    def to_json(self) -> dict[str, Any]:
        """Make the field's JSON, as schema files have it."""
        json: dict[str, Any] = {"id": self.id, "name": self.name, "type": self.type.to_json()}
        if self.description is not None:
            json["description"] = self.description
        return json

    @staticmethod
    def from_json(json: Mapping[str, Any]) -> DataField:
        """Parse the field's JSON."""
        with nesting_named(str(json["name"])):
            return _parse_field(json)


def _parse(text_or_json: object, levels: int = 0) -> DataType:
    """Read a type; what is deeper than types may be is not gone through.

    Args:
        levels: types that it stands in.
    """
    if levels > MAX_LEVELS:
        raise _too_deep()
    if isinstance(text_or_json, str):
        text = TypeText(text_or_json)
        parsed = _parse_type(text, levels)
        text.expect_end()
        return parsed
    if isinstance(text_or_json, Mapping) and isinstance(text_or_json.get("type"), str):
        return _parse_json(text_or_json, levels)
    raise SchemaError(
        f"{text_or_json!r} is not a type: write it as text, such as 'BIGINT NOT NULL'",
        value=text_or_json,
    )


def _parse_json(json: Mapping[str, Any], levels: int) -> DataType:
    words = json["type"].upper().split()
    root, nullable = words[0] if words else "", words[-2:] != ["NOT", "NULL"]
    _check_supported(root)
    try:
        if root == "ARRAY" and "element" in json:
            return DataType("ARRAY", nullable, element=_parse(json["element"], levels + 1))
        if root == "MAP" and "key" in json:
            key, value = _parse(json["key"], levels + 1), _parse(json["value"], levels + 1)
            return DataType("MAP", nullable, key=key, value=value)
        if root == "ROW" and "fields" in json:
            fields = tuple(_parse_field(field, levels + 1) for field in json["fields"])
            return DataType("ROW", nullable, fields=fields)
    except (KeyError, TypeError, ValueError) as error:
        raise SchemaError(f"not a type: {dict(json)!r}", value=dict(json)) from error
    return _parse(json["type"], levels)


def _parse_field(json: Mapping[str, Any], levels: int = 0) -> DataField:
    number, name, description = json["id"], json["name"], json.get("description")
    if type(number) is not int or not isinstance(name, str):
        raise TypeError(f"a column has the id {number!r} and the name {name!r}")
    if not isinstance(description, str | None):
        raise TypeError(f"column {name!r} has the description {description!r}")
    return DataField(number, name, _parse(json["type"], levels), description)


def _parse_type(text: TypeText, levels: int) -> DataType:
    """Read a type by recursive descent."""
    if levels > MAX_LEVELS:
        raise _too_deep()
    word = text.take().upper()
    root = _SYNONYMS.get(word, word)
    _check_supported(root)
    if root == "ARRAY":
        (element,) = _parse_arguments(text, 1, levels)
        bare = DataType("ARRAY", element=element)
    elif root == "MAP":
        key, value = _parse_arguments(text, 2, levels)
        bare = DataType("MAP", key=key, value=value)
    elif root == "ROW":
        bare = DataType("ROW", fields=_parse_fields(text, levels))
    elif root in ROOTS:
        bare = _parse_scalar(text, root)
    else:
        raise text.error(f"there is no type {word}")
    if text.accept("NOT", "NULL"):
        return bare.with_nullable(False)
    text.accept("NULL")
    return bare


def _parse_scalar(text: TypeText, root: str) -> DataType:
    numbers = text.numbers(2 if root == "DECIMAL" else 1)
    if numbers and root not in DEFAULT_LENGTH and root not in DEFAULT_PRECISION:
        raise text.error(f"{root} takes no parameter")
    if root == "DOUBLE":
        text.accept("PRECISION")
    if root in ("TIME", "TIMESTAMP"):
        text.accept("WITHOUT", "TIME", "ZONE")
    if root == "TIMESTAMP" and text.accept("WITH", "LOCAL", "TIME", "ZONE"):
        root = "TIMESTAMP_LTZ"
    first = numbers[0] if numbers else None
    if root in DEFAULT_LENGTH:
        return DataType(root, length=first)
    return DataType(root, precision=first, scale=numbers[1] if len(numbers) > 1 else None)


def _parse_arguments(text: TypeText, count: int, levels: int) -> list[DataType]:
    text.expect("<")
    arguments = [_parse_type(text, levels + 1)]
    while len(arguments) < count:
        text.expect(",")
        arguments.append(_parse_type(text, levels + 1))
    text.expect(">")
    return arguments


def _parse_fields(text: TypeText, levels: int) -> tuple[DataField, ...]:
    text.expect("<")
    fields: list[DataField] = []
    while not fields or text.accept(","):
        field_id, name = text.field()
        fields.append(DataField(field_id, name, _parse_type(text, levels + 1)))
    text.expect(">")
    return tuple(fields)


def _check_supported(root: str) -> None:
    if root in _UNSUPPORTED:
        raise UnsupportedError(f"type {root} is not supported: {_UNSUPPORTED[root]}", type=root)


def _from_field(field: pa.Field, levels: int = 0) -> DataType:
    try:
        said = (field.metadata or {}).get(TYPE_METADATA)
        inferred = _from_arrow(field.type, levels).with_nullable(field.nullable)
    except UnsupportedError as error:
        values = {**error.values, "column": field.name}
        raise UnsupportedError(f"column {field.name!r}: {error.message}", **values) from None
    if said is None:
        return inferred
    declared = DataType.parse(said.decode())
    if _family(declared) != _family(inferred):
        raise SchemaError(
            f"column {field.name!r} is {field.type} in Arrow, which its metadata "
            f"paimon.type={said.decode()!r} does not fit; drop the metadata or cast the column",
            column=field.name,
            type=str(field.type),
        )
    return declared.with_nullable(declared.nullable and field.nullable)


def _from_arrow(arrow: pa.DataType, levels: int = 0) -> DataType:
    if levels > MAX_LEVELS:
        raise _too_deep()
    is_a, below = pa.types, levels + 1
    if is_a.is_dictionary(arrow):
        return _from_arrow(arrow.value_type, levels)
    if is_a.is_map(arrow):
        key, value = _from_field(arrow.key_field, below), _from_field(arrow.item_field, below)
        return DataType("MAP", key=key.with_nullable(False), value=value)
    if is_a.is_list(arrow) or is_a.is_large_list(arrow) or is_a.is_fixed_size_list(arrow):
        return DataType("ARRAY", element=_from_field(arrow.value_field, below))
    if is_a.is_struct(arrow):
        fields = (DataField(i, f.name, _from_field(f, below)) for i, f in enumerate(arrow))
        return DataType("ROW", fields=tuple(fields))
    scalar = scalar_from_arrow(arrow)
    return DataType(
        scalar.root, length=scalar.length, precision=scalar.precision, scale=scalar.scale
    )


def _family(data_type: DataType) -> str:
    for family, roots in (("string", STRINGS), ("binary", BINARIES)):
        if data_type.root in roots:
            return family
    return data_type.root


def interval_type(fields: Sequence[str], *, nullable: bool) -> DataType:
    """Make the type of INTERVALs of a first and a last field: numbers inside queries."""
    return DataType("BIGINT", nullable, span=" TO ".join(dict.fromkeys(fields)))


def with_parts(
    data_type: DataType,
    change: Callable[[DataType], DataType],
    change_field: Callable[[DataField], DataField] = lambda field: field,
) -> DataType:
    """Return the same type with other parts.

    Args:
        change_field: comes before the change of the field's type.
    """
    if data_type.fields is not None:
        changed = (replace(change_field(f), type=change(f.type)) for f in data_type.fields)
        return replace(data_type, fields=tuple(changed))
    if not data_type.is_nested:
        return data_type
    return replace(
        data_type,
        element=data_type.element and change(data_type.element),
        key=data_type.key and change(data_type.key),
        value=data_type.value and change(data_type.value),
    )


@contextmanager
def nesting_named(column: str) -> Iterator[None]:
    """Name the column of a type that is refused because it is nested too deeply.

    Raises:
        SchemaError: with ``column``.
    """
    try:
        yield
    except SchemaError as error:
        if "levels" not in error.values:
            raise
        said = error.message.removeprefix("a type")
        raise SchemaError(f"column {column!r}{said}", **error.values, column=column) from None


def _too_deep() -> SchemaError:
    return SchemaError(
        f"a type has types in types over more than {MAX_LEVELS} levels, which Parquet does not "
        "read: nest them less",
        levels=MAX_LEVELS,
    )


def _present(part: DataType | None) -> DataType:
    if part is None:
        raise SchemaError("ARRAY needs an element type, MAP a key and a value type")
    return part


def _nested_field(name: str, part: DataType | None) -> pa.Field:
    part = _present(part)
    return pa.field(name, part.arrow, nullable=part.nullable)


NamedType: TypeAlias = str | DataType | pa.DataType | Mapping[str, Any]
"""A type as users name it: as SQL such as ``BIGINT NOT NULL``, an Arrow type, or Paimon's JSON."""
