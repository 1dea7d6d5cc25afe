"""Functions of comma-separated values."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc

from pkray.errors import QueryError
from pkray.relational.dialect import Dialect
from pkray.relational.functions import function, signatures
from pkray.relational.functions.coercion import INT, STRING, cast_to
from pkray.relational.functions.conditional import case_of
from pkray.relational.functions.function import Family, Value, Written, typed_call, wrong_argument
from pkray.relational.functions.json.functions import read_schema
from pkray.relational.functions.json.schemas import NOTHING, integer_shape, type_of_shape
from pkray.relational.functions.values import as_array, by_distinct
from pkray.relational.plan.expressions import Call, Cast, Expression, Literal
from pkray.schema.types import INTEGERS, DataType

TEXT = Family("text")

_OPTIONS = ("sep", "nullValue", "dateFormat", "timestampFormat")
_FIELDS = DataType("ARRAY", element=STRING)
_DOUBLE = r"(?:[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?))"
_DATE, _CLOCK = r"[0-9]{4}-[0-9]{2}-[0-9]{2}", r"[0-9]{2}:[0-9]{2}:[0-9]{2}"


@dataclass(frozen=True)
class Options:
    """Tells how values are written: what is between them, what NULL is, patterns of times."""

    sep: str = ","
    null_value: str = ""
    date: str | None = None
    timestamp: str | None = None


def _options(name: str, arguments: Sequence[Expression]) -> Options:
    """Read ``map('sep', '|', …)``.

    Raises:
        QueryError: it is no map of constants, or has an option that is not known.
    """
    if not arguments:
        return Options()
    given, found = arguments[0], dict[str, str]()
    parts = given.arguments if isinstance(given, Call) and given.function == "map" else None
    if parts is None:
        raise QueryError(
            f"the options of {name} are a map of constants, as map('sep', '|')", function=name
        )
    for key, item in zip(parts[::2], parts[1::2], strict=True):
        option = signatures.constant_text(name, key, "an option")
        option = "sep" if option == "delimiter" else option
        if option not in _OPTIONS:
            known = ", ".join(_OPTIONS)
            raise QueryError(f"{name} has no option {option!r}; it has {known}", function=name)
        found[option] = signatures.constant_text(name, item, f"the option {option}")
    sep = found.get("sep", ",")
    if len(sep) != 1 or sep in '"\\\n\r':
        raise QueryError(f"the option sep of {name} is one character, not {sep!r}", function=name)
    null = found.get("nullValue", "")
    return Options(sep, null, found.get("dateFormat"), found.get("timestampFormat"))


# Reading


def fields_of(line: str, sep: str) -> list[str]:
    """Take a line apart; a quote that is not closed before a separator is a character."""
    ends, place, found = re.compile(re.escape(sep)), 0, list[str]()
    quoted = re.compile(rf'"((?:[^"\\]|\\.)*)"\s*({re.escape(sep)}|\Z)', re.S)
    while True:
        inside = quoted.match(line, place)
        if inside:
            found.append(inside[1].replace('\\"', '"'))
            place = inside.end()
            if not inside[2]:
                return found
            continue
        end = ends.search(line, place)
        found.append(line[place : end.start()] if end else line[place:])
        if end is None:
            return found
        place = end.end()


def _fields(call: Call, values: Sequence[Value], rows: int) -> Value:
    sep, null, count = (each.as_py() for each in values[1:])

    def read(line: str) -> list[str | None]:
        found: list[str | None] = [
            None if each in (null, "") else each for each in fields_of(line, sep)[:count]
        ]
        return found + [None] * (count - len(found))

    return by_distinct(values[0], read, call.type.arrow, rows)


TEXT.infallible.add_inner(
    "csv_fields",
    "Take lines of comma-separated values apart.",
    _fields,
    lambda arguments: _FIELDS.with_nullable(arguments[0].type.nullable),
    function.NO_SPARK,
)


def _read(value: Expression, kind: DataType, options: Options, dialect: Dialect) -> Expression:
    """Read a field; what does not fit its type is NULL."""
    kind = kind.with_nullable(True)
    pattern = options.date if kind.root == "DATE" else None
    pattern = options.timestamp if kind.root in ("TIMESTAMP", "TIMESTAMP_LTZ") else pattern
    if pattern is not None:
        moment = function.resolve(
            "try_to_timestamp", (value, signatures.text_literal(pattern)), dialect
        )
        return Cast(kind, moment, "null")
    if kind.root == "STRING":
        return value
    if kind.is_nested or kind.root in ("BYTES", "BINARY", "VARBINARY"):
        raise QueryError(f"from_csv reads no {kind}: read a STRING", function="from_csv")
    read: Expression = Cast(kind, value, "null")
    like = {"BOOLEAN": "(?i)^(?:true|false)\\z", "FLOAT": None, "DOUBLE": None}
    if kind.root in INTEGERS:
        like["BOOLEAN"] = None
    shape = r"^[+-]?[0-9]+\z" if kind.root in INTEGERS else like.get(kind.root)
    if shape is None:
        return read
    fits = function.resolve("rlike", (value, signatures.text_literal(shape)), Dialect.SPARK)
    return case_of([fits], [read, Literal(kind, None)], dialect)


def _from_csv(call: Written) -> Expression:
    (_, schema, *given), name = call.between(2, 3), call.name
    value = signatures.text.taken(call, 0)
    kind = read_schema(signatures.constant_text(name, schema, "the schema"), call.dialect)
    if kind.root != "ROW":
        raise QueryError(f"the schema of {name} is fields, as 'a INT, b STRING'", function=name)
    options = _options(name, given)
    fields = kind.fields or ()
    count = Literal(INT.with_nullable(False), len(fields))
    between = map(signatures.text_literal, (options.sep, options.null_value))
    parts = typed_call("csv_fields", value, *between, count)
    pairs: list[Expression] = []
    for place, each in enumerate(fields):
        at = Literal(INT.with_nullable(False), place)
        field = function.resolve("get", (parts, at), Dialect.SPARK)
        read = _read(field, each.type, options, call.dialect)
        pairs += [signatures.text_literal(each.name), read]
    row = function.resolve("named_struct", tuple(pairs), call.dialect)
    if not value.type.nullable:
        return row
    missing = function.resolve("is_null", (value,), call.dialect)
    return case_of([missing], [Literal(row.type.with_nullable(True), None), row], call.dialect)


TEXT.alias(
    "from_csv(text, schema [, options MAP]) -> ROW",
    "Read comma-separated values by a schema such as 'a INT, b STRING'; what does not fit is NULL.",
    _from_csv,
)


# Writing


def _quoted(call: Call, values: Sequence[Value], rows: int) -> Value:
    sep, null, first = (each.as_py() for each in values[1:])
    texts = as_array(values[0], rows)
    trimmed = pc.replace_substring_regex(texts, r"^[\x00-\x20]+|[\x00-\x20]+\z", "")
    start = "|^#" if first else ""
    needs = pc.match_substring_regex(trimmed, rf'^\z|["\n\r\x{{{ord(sep):x}}}]{start}')
    escaped = pc.replace_substring(trimmed, '"', '\\"')
    quoted = pc.binary_join_element_wise('"', escaped, '"', "")
    return pc.fill_null(pc.if_else(needs, quoted, trimmed), null)


TEXT.infallible.add_inner(
    "csv_field",
    "Write one of comma-separated values.",
    _quoted,
    lambda arguments: STRING.with_nullable(False),
    function.NO_SPARK,
)
_MOMENT = "yyyy-MM-dd'T'HH:mm:ss.SSS"


def _field_text(value: Expression, options: Options, dialect: Dialect) -> Expression:
    root = value.type.root
    if root in ("BYTES", "BINARY", "VARBINARY"):
        raise wrong_argument("to_csv", 0, value, "no BYTES; write them with base64")
    patterns = {
        "DATE": options.date,
        "TIMESTAMP": options.timestamp or _MOMENT,
        "TIMESTAMP_LTZ": options.timestamp or f"{_MOMENT}XXX",
    }
    pattern = patterns.get(root)
    if pattern is None:
        return cast_to(value, STRING)
    return function.resolve("date_format", (value, signatures.text_literal(pattern)), dialect)


def _to_csv(call: Written) -> Expression:
    value, *given = call.between(1, 2)
    if value.type.root != "ROW":
        raise wrong_argument(call.name, 0, value, "a ROW")
    options = _options(call.name, given)
    null = signatures.text_literal(options.null_value)
    parts: list[Expression] = []
    for place, each in enumerate(value.type.fields or ()):
        field = function.resolve("field", (value, signatures.text_literal(each.name)), call.dialect)
        said = _field_text(field, options, call.dialect)
        first = Literal(DataType("BOOLEAN", nullable=False), place == 0)
        written = (said, signatures.text_literal(options.sep), null, first)
        parts += [signatures.text_literal(options.sep)] * (place > 0)
        parts.append(Call(STRING.with_nullable(False), "csv_field", written))
    line = function.resolve("concat", tuple(parts), call.dialect)
    missing = function.resolve("is_null", (value,), call.dialect)
    return case_of([missing], [Literal(STRING, None), line], call.dialect)


TEXT.alias("to_csv(ROW [, options MAP]) -> STRING", "Write comma-separated values.", _to_csv)


# Schemas


def _kind(field: str) -> Any:
    """Tell what a field of an example is."""
    if re.fullmatch(r"[+-]?[0-9]+", field, re.A):
        small = -(1 << 31) <= int(field) < 1 << 31
        return "INT" if small else integer_shape(int(field))
    if re.fullmatch(_DOUBLE, field.strip()):
        return "DOUBLE"
    if re.fullmatch(_DATE, field, re.A):
        return "DATE"
    if re.fullmatch(rf"{_DATE}[ T]{_CLOCK}(?:\.[0-9]{{1,6}})?Z?", field, re.A):
        return "TIMESTAMP"
    return "BOOLEAN" if field.lower() in ("true", "false") else NOTHING


def _schema_of_csv(call: Written) -> Expression:
    (example, *given), name = call.between(1, 2), call.name
    line = signatures.constant_text(name, example, "the example")
    options = _options(name, given)
    if not line.strip():
        raise QueryError(f"the example of {name} is empty; write one as '1,abc'", function=name)
    kinds = [_kind(each) for each in fields_of(line, options.sep)]
    fields = (f"_c{place}: {type_of_shape(each)}" for place, each in enumerate(kinds))
    return signatures.text_literal(f"STRUCT<{', '.join(fields)}>")


TEXT.alias(
    "schema_of_csv(example [, options MAP]) -> STRING",
    "Give the schema that a constant example of comma-separated values has, for from_csv.",
    _schema_of_csv,
)
