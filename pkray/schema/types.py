"""Column types: Paimon's SQL types, their JSON form, and the Arrow types rows are held in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, TypeAlias

import pyarrow as pa

from pkray.arguments.checks import Give
from pkray.arguments.facade import checked
from pkray.errors import SchemaError

MAX_LENGTH = 2**31 - 1

MAX_LEVELS = 48
"""Of ARRAY, MAP and ROW in each other: Parquet's readers go 100 levels deep, of two an ARRAY."""

TypeText: TypeAlias = Annotated[
    str | Mapping[str, Any],
    Give("a type as text, such as 'BIGINT NOT NULL', or its JSON form", SchemaError),
]
INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
STRINGS = ("CHAR", "VARCHAR", "STRING")
BINARIES = ("BINARY", "VARBINARY", "BYTES")
TIMESTAMPS = ("TIMESTAMP", "TIMESTAMP_LTZ")
NESTED = ("ARRAY", "MAP", "ROW")

_ARROW: dict[str, pa.DataType] = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "DATE": pa.date32(),
    "TIME": pa.time32("ms"),
    **dict.fromkeys(STRINGS, pa.string()),
    **dict.fromkeys(BINARIES, pa.binary()),
}
DEFAULT_LENGTH = dict.fromkeys(("CHAR", "VARCHAR", "BINARY", "VARBINARY"), 1)
DEFAULT_PRECISION = {"TIME": 0, "TIMESTAMP": 6, "TIMESTAMP_LTZ": 6, "DECIMAL": 10}
_UNBOUNDED = {"VARCHAR": "STRING", "VARBINARY": "BYTES"}
ROOTS = (*_ARROW, "DECIMAL", *TIMESTAMPS, *NESTED)


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

    Raises:
        SchemaError: an unknown root, or a parameter out of range.
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

    def __post_init__(self) -> None:
        root: object = self.root
        if not isinstance(root, str) or root not in ROOTS:
            said = repr(root) if isinstance(root, str) else type(root).__name__
            raise SchemaError(f"unknown type {said}; known: {', '.join(ROOTS)}")
        parts: tuple[object, ...] = (self.element, self.key, self.value)
        if not all(part is None or isinstance(part, DataType) for part in parts):
            raise SchemaError(f"{self.root} is of types: give DataType.parse('INT') as a part")
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
    def parse(text_or_json: TypeText) -> DataType:
        """The type Paimon's schema files or SQL write so.

        Takes ``DECIMAL(20, 4) NOT NULL``, both spellings of TIMESTAMP_LTZ, ``ARRAY<INT>`` and
        ``{"type": "ARRAY", "element": "INT"}``.

        Raises:
            SchemaError: it is no type.
            UnsupportedError: MULTISET and other types that pkray does not have.
        """
        from pkray.schema.type_text import parse

        try:
            return parse(text_or_json)
        except RecursionError:
            raise _too_deep() from None

    def to_json(self) -> str | dict[str, Any]:
        """As Paimon's schema files write it: text, or an object for ARRAY, MAP and ROW."""
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
        """As SQL; ``DataType.parse`` reads it back (but for the field ids of a ROW)."""
        return self._sql() + self._null_suffix

    def __repr__(self) -> str:
        return f"DataType({str(self)!r})"

    @property
    def _null_suffix(self) -> str:
        return "" if self.nullable else " NOT NULL"

    def _sql(self) -> str:
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
        """ARRAY, MAP or ROW: a value only, never a key or a statistic."""
        return self.root in NESTED

    def with_nullable(self, nullable: bool) -> DataType:
        """The same type, nullable or not."""
        return replace(self, nullable=nullable)

    @cached_property
    def arrow(self) -> pa.DataType:
        """The canonical Arrow type: what rows of this column are held in everywhere."""
        if self.root in _ARROW:
            return _ARROW[self.root]
        if self.root == "DECIMAL":
            return pa.decimal128(self.precision, self.scale)
        if self.root in TIMESTAMPS:
            digits = self.precision or 0
            unit = "ms" if digits <= 3 else "us" if digits <= 6 else "ns"
            return pa.timestamp(unit, tz="UTC" if self.root == "TIMESTAMP_LTZ" else None)
        if self.root == "ARRAY":
            return pa.list_(_nested_field("element", self.element))
        if self.root == "MAP":
            key = pa.field("key", _present(self.key).arrow, nullable=False)
            return pa.map_(key, _nested_field("value", self.value))
        return pa.struct([field.arrow for field in self.fields or ()])

    @staticmethod
    @checked
    def given(said: NamedType) -> DataType:
        """The type that a user named: as SQL, as an Arrow type or as itself.

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
        """The type that holds values of an Arrow type.

        timestamp s, ms, us, ns become TIMESTAMP(0), (3), (6), (9), with a time zone TIMESTAMP_LTZ.

        Raises:
            UnsupportedError: no type holds them without loss; the message names what to cast to.
        """
        from pkray.schema.type_inference import of_arrow

        try:
            return of_arrow(arrow).with_nullable(nullable)
        except RecursionError:
            raise _too_deep() from None

    @staticmethod
    @checked
    def from_field(field: pa.Field) -> DataType:
        """The type of an Arrow field; its metadata ``paimon.type`` says it exactly, if there.

        Raises:
            SchemaError: ``paimon.type`` does not fit the field's Arrow type.
            UnsupportedError: as :meth:`from_arrow`, naming the field.
        """
        from pkray.schema.type_inference import of_field

        return of_field(field)


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
        json: dict[str, Any] = {"id": self.id, "name": self.name, "type": self.type.to_json()}
        if self.description is not None:
            json["description"] = self.description
        return json

    @staticmethod
    def from_json(json: Mapping[str, Any]) -> DataField:
        number, name, description = json["id"], json["name"], json.get("description")
        if type(number) is not int or not isinstance(name, str):
            raise TypeError(f"a column has the id {number!r} and the name {name!r}")
        if not isinstance(description, str | None):
            raise TypeError(f"column {name!r} has the description {description!r}")
        return DataField(number, name, DataType.parse(json["type"]), description)


def check_nesting(column: str, data_type: DataType) -> None:
    """Raises SchemaError: rows of the type could be written, and not be read again."""
    if _levels(data_type) > MAX_LEVELS:
        raise SchemaError(
            f"column {column!r} has types in types over more than {MAX_LEVELS} levels, which "
            "Parquet does not read: nest them less",
            column=column,
        )


def _levels(data_type: DataType) -> int:
    parts = [data_type.element, data_type.key, data_type.value]
    parts += [field.type for field in data_type.fields or ()]
    return max((1 + _levels(part) for part in parts if part is not None), default=0)


def _too_deep() -> SchemaError:
    return SchemaError(f"a type has types in types over more than {MAX_LEVELS} levels: nest less")


def _present(part: DataType | None) -> DataType:
    if part is None:
        raise SchemaError("ARRAY needs an element type, MAP a key and a value type")
    return part


def _nested_field(name: str, part: DataType | None) -> pa.Field:
    part = _present(part)
    return pa.field(name, part.arrow, nullable=part.nullable)


NamedType: TypeAlias = str | DataType | pa.DataType | Mapping[str, Any]
"""How users name a type: as SQL such as ``BIGINT NOT NULL``, an Arrow type, or Paimon's JSON."""
