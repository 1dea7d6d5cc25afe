"""Column types: Paimon's SQL types, their JSON form, and the Arrow types rows are held in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from pkray.errors import SchemaError, UnsupportedError

MAX_LENGTH = 2**31 - 1
TYPE_METADATA = b"paimon.type"

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
_DEFAULT_LENGTH = dict.fromkeys(("CHAR", "VARCHAR", "BINARY", "VARBINARY"), 1)
_DEFAULT_PRECISION = {"TIME": 0, "TIMESTAMP": 6, "TIMESTAMP_LTZ": 6, "DECIMAL": 10}
_UNBOUNDED = {"VARCHAR": "STRING", "VARBINARY": "BYTES"}
_SYNONYMS = {"INTEGER": "INT", "DEC": "DECIMAL", "NUMERIC": "DECIMAL"}
_ROOTS = (*_ARROW, "DECIMAL", *TIMESTAMPS, *NESTED)


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
        if self.root not in _ROOTS:
            raise SchemaError(f"unknown type {self.root!r}; known: {', '.join(_ROOTS)}")
        if self.root in _DEFAULT_LENGTH:
            self._default("length", _DEFAULT_LENGTH[self.root])
            self._check("length", 1, MAX_LENGTH)
            if self.length == MAX_LENGTH and self.root in _UNBOUNDED:
                object.__setattr__(self, "root", _UNBOUNDED[self.root])
        if self.root in ("STRING", "BYTES"):
            object.__setattr__(self, "length", None)
        if self.root in _DEFAULT_PRECISION:
            self._default("precision", _DEFAULT_PRECISION[self.root])
            self._check("precision", *((1, 38) if self.root == "DECIMAL" else (0, 9)))
        if self.root == "DECIMAL":
            self._default("scale", 0)
            self._check("scale", 0, self.precision or 0)

    def _default(self, parameter: str, value: int) -> None:
        if getattr(self, parameter) is None:
            object.__setattr__(self, parameter, value)

    def _check(self, parameter: str, low: int, high: int) -> None:
        value = getattr(self, parameter)
        if not low <= value <= high:
            raise SchemaError(
                f"{self.root} cannot have {parameter} {value}: it must be {low} to {high}",
                type=self.root,
                value=value,
            )

    @staticmethod
    def parse(text_or_json: str | Mapping[str, Any]) -> DataType:
        """The type Paimon's schema files or SQL write so.

        Takes ``DECIMAL(20, 4) NOT NULL``, both spellings of TIMESTAMP_LTZ, ``ARRAY<INT>`` and
        ``{"type": "ARRAY", "element": "INT"}``.

        Raises:
            SchemaError: it is no type.
            UnsupportedError: MULTISET and other types that pkray does not have.
        """
        if isinstance(text_or_json, str):
            return _Parser(text_or_json).parse()
        if isinstance(text_or_json, Mapping) and isinstance(text_or_json.get("type"), str):
            return _parse_json(text_or_json)
        raise SchemaError(f"not a type: {text_or_json!r}", value=text_or_json)

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

    @property
    def _null_suffix(self) -> str:
        return "" if self.nullable else " NOT NULL"

    def _sql(self) -> str:
        if self.root == "DECIMAL":
            return f"DECIMAL({self.precision}, {self.scale})"
        if self.root in _DEFAULT_LENGTH:
            return f"{self.root}({self.length})"
        if self.root in _DEFAULT_PRECISION:
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
        return self if self.nullable == nullable else replace(self, nullable=nullable)

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
    def from_arrow(arrow: pa.DataType, nullable: bool = True) -> DataType:
        """The type that holds values of an Arrow type.

        timestamp s, ms, us, ns become TIMESTAMP(0), (3), (6), (9), with a time zone TIMESTAMP_LTZ.

        Raises:
            UnsupportedError: no type holds them without loss; the message names what to cast to.
        """
        return _from_arrow(arrow).with_nullable(nullable)

    @staticmethod
    def from_field(field: pa.Field) -> DataType:
        """The type of an Arrow field; its metadata ``paimon.type`` says it exactly, if there.

        Raises:
            SchemaError: ``paimon.type`` does not fit the field's Arrow type.
            UnsupportedError: as :meth:`from_arrow`, naming the field.
        """
        try:
            said = (field.metadata or {}).get(TYPE_METADATA)
            inferred = DataType.from_arrow(field.type, field.nullable)
        except UnsupportedError as error:
            raise UnsupportedError(
                f"column {field.name!r}: {error.message}", **error.values, column=field.name
            ) from None
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


@dataclass(frozen=True)
class DataField:
    """A named column, or a named field of a ROW. ``id`` is unique in the table for ever."""

    id: int
    name: str
    type: DataType
    description: str | None = None

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
        return DataField(
            int(json["id"]),
            str(json["name"]),
            DataType.parse(json["type"]),
            json.get("description"),
        )


def _present(part: DataType | None) -> DataType:
    if part is None:
        raise SchemaError("ARRAY needs an element type, MAP a key and a value type")
    return part


def _nested_field(name: str, part: DataType | None) -> pa.Field:
    part = _present(part)
    return pa.field(name, part.arrow, nullable=part.nullable)


def _family(data_type: DataType) -> str:
    for family, roots in (("string", STRINGS), ("binary", BINARIES)):
        if data_type.root in roots:
            return family
    return data_type.root


def _parse_json(json: Mapping[str, Any]) -> DataType:
    words = json["type"].upper().split()
    root, nullable = words[0] if words else "", words[-2:] != ["NOT", "NULL"]
    if root == "MULTISET":
        raise _no_multiset()
    try:
        if root == "ARRAY" and "element" in json:
            return DataType("ARRAY", nullable, element=DataType.parse(json["element"]))
        if root == "MAP" and "key" in json:
            key, value = DataType.parse(json["key"]), DataType.parse(json["value"])
            return DataType("MAP", nullable, key=key, value=value)
        if root == "ROW" and "fields" in json:
            fields = tuple(DataField.from_json(field) for field in json["fields"])
            return DataType("ROW", nullable, fields=fields)
    except (KeyError, TypeError, ValueError) as error:
        raise SchemaError(f"not a type: {dict(json)!r}", value=dict(json)) from error
    return DataType.parse(json["type"])


def _no_multiset() -> UnsupportedError:
    return UnsupportedError("MULTISET is not supported; use MAP<element, INT NOT NULL>")


_TOKEN = re.compile(r"\s*(?:(?P<quoted>`(?:[^`]|``)+`)|(?P<word>\w+)|(?P<mark>[<>(),]))")


class _Parser:
    """Recursive descent over SQL type text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(self._tokenise(text))
        self._next = 0
        self._field_id = 0

    def _tokenise(self, text: str) -> Iterator[str]:
        position, end = 0, len(text.rstrip())
        while position < end:
            match = _TOKEN.match(text, position)
            if match is None:
                raise self._error(f"unexpected {text[position:].strip()[:10]!r}")
            yield match.group().strip()
            position = match.end()

    def parse(self) -> DataType:
        parsed = self._type()
        if self._next < len(self._tokens):
            raise self._error(f"unexpected {self._tokens[self._next]!r}")
        return parsed

    def _error(self, what: str) -> SchemaError:
        return SchemaError(
            f"{self._text!r} is not a type: {what}; "
            "write for example BIGINT NOT NULL, DECIMAL(20, 4) or TIMESTAMP(6)",
            value=self._text,
        )

    def _take(self) -> str:
        if self._next == len(self._tokens):
            raise self._error("it ends too early")
        self._next += 1
        return self._tokens[self._next - 1]

    def _accept(self, *words: str) -> bool:
        found = self._tokens[self._next : self._next + len(words)]
        if tuple(token.upper() for token in found) != words:
            return False
        self._next += len(words)
        return True

    def _expect(self, mark: str) -> None:
        if not self._accept(mark):
            raise self._error(f"{mark!r} is missing")

    def _type(self) -> DataType:
        word = self._take().upper()
        root = _SYNONYMS.get(word, word)
        if root == "MULTISET":
            raise _no_multiset()
        if root == "ARRAY":
            (element,) = self._arguments(1)
            bare = DataType("ARRAY", element=element)
        elif root == "MAP":
            key, value = self._arguments(2)
            bare = DataType("MAP", key=key, value=value)
        elif root == "ROW":
            bare = DataType("ROW", fields=self._row_fields())
        elif root in _ROOTS:
            bare = self._scalar(root)
        else:
            raise self._error(f"there is no type {word}")
        if self._accept("NOT", "NULL"):
            return bare.with_nullable(False)
        self._accept("NULL")
        return bare

    def _scalar(self, root: str) -> DataType:
        numbers = self._numbers(2 if root == "DECIMAL" else 1)
        if numbers and root not in _DEFAULT_LENGTH and root not in _DEFAULT_PRECISION:
            raise self._error(f"{root} takes no parameter")
        if root == "DOUBLE":
            self._accept("PRECISION")
        if root in ("TIME", "TIMESTAMP"):
            self._accept("WITHOUT", "TIME", "ZONE")
        if root == "TIMESTAMP" and self._accept("WITH", "LOCAL", "TIME", "ZONE"):
            root = "TIMESTAMP_LTZ"
        first = numbers[0] if numbers else None
        if root in _DEFAULT_LENGTH:
            return DataType(root, length=first)
        return DataType(root, precision=first, scale=numbers[1] if len(numbers) > 1 else None)

    def _numbers(self, most: int) -> list[int]:
        if not self._accept("("):
            return []
        numbers = [self._number()]
        while len(numbers) < most and self._accept(","):
            numbers.append(self._number())
        self._expect(")")
        return numbers

    def _number(self) -> int:
        token = self._take()
        if not token.isdecimal():
            raise self._error(f"a number is expected, not {token!r}")
        return int(token)

    def _arguments(self, count: int) -> list[DataType]:
        self._expect("<")
        arguments = [self._type()]
        while len(arguments) < count:
            self._expect(",")
            arguments.append(self._type())
        self._expect(">")
        return arguments

    def _row_fields(self) -> tuple[DataField, ...]:
        self._expect("<")
        fields: list[DataField] = []
        while not fields or self._accept(","):
            name = self._take()
            if name.startswith("`"):
                name = name[1:-1].replace("``", "`")
            field_id, self._field_id = self._field_id, self._field_id + 1
            fields.append(DataField(field_id, name, self._type()))
        self._expect(">")
        return tuple(fields)


_FROM_ARROW = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.date32(): "DATE",
    **dict.fromkeys((pa.string(), pa.large_string(), pa.string_view()), "STRING"),
    **dict.fromkeys((pa.binary(), pa.large_binary(), pa.binary_view()), "BYTES"),
}
_REMEDIES = {
    pa.uint8(): "cast it to int16",
    pa.uint16(): "cast it to int32",
    pa.uint32(): "cast it to int64",
    pa.uint64(): "cast it to decimal128(20, 0)",
    pa.float16(): "cast it to float32",
    pa.date64(): "cast it to date32",
    pa.time64("us"): "cast it to time32('ms'), which is all that Paimon keeps of a TIME",
    pa.time64("ns"): "cast it to time32('ms'), which is all that Paimon keeps of a TIME",
    pa.null(): "a column of nulls has no type of its own: cast it to the type it should have",
}
_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def _from_arrow(arrow: pa.DataType) -> DataType:
    if arrow in _FROM_ARROW:
        return DataType(_FROM_ARROW[arrow])
    is_a = pa.types
    if is_a.is_dictionary(arrow):
        return DataType.from_arrow(arrow.value_type)
    if is_a.is_decimal(arrow) and arrow.precision <= 38 and 0 <= arrow.scale <= arrow.precision:
        return DataType("DECIMAL", precision=arrow.precision, scale=arrow.scale)
    if is_a.is_time32(arrow):
        return DataType("TIME", precision=_DIGITS[arrow.unit])
    if is_a.is_timestamp(arrow):
        root = "TIMESTAMP" if arrow.tz is None else "TIMESTAMP_LTZ"
        return DataType(root, precision=_DIGITS[arrow.unit])
    if is_a.is_fixed_size_binary(arrow):
        return DataType("BINARY", length=arrow.byte_width)
    if is_a.is_map(arrow):
        key, value = DataType.from_field(arrow.key_field), DataType.from_field(arrow.item_field)
        return DataType("MAP", key=key.with_nullable(False), value=value)
    if is_a.is_list(arrow) or is_a.is_large_list(arrow) or is_a.is_fixed_size_list(arrow):
        return DataType("ARRAY", element=DataType.from_field(arrow.value_field))
    if is_a.is_struct(arrow):
        fields = (DataField(i, f.name, DataType.from_field(f)) for i, f in enumerate(arrow))
        return DataType("ROW", fields=tuple(fields))
    raise UnsupportedError(f"{arrow} is not supported: {_remedy(arrow)}", type=str(arrow))


def _remedy(arrow: pa.DataType) -> str:
    if pa.types.is_duration(arrow) or pa.types.is_interval(arrow):
        return "cast it to int64"
    if pa.types.is_decimal(arrow):
        return "use a decimal128 of at most 38 digits and a scale of 0 or more"
    return _REMEDIES.get(arrow, "cast it to a type that Paimon has")
