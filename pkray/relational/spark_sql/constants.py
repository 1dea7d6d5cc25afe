"""Names, types and constants as Spark writes them."""

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from pkray.relational.plan.expressions import Literal, SortKey
from pkray.schema.types import DataType

FLOATS = ("FLOAT", "DOUBLE")
_SUFFIXES = {"TINYINT": "Y", "SMALLINT": "S", "INT": "", "BIGINT": "L"}
_LEAST = {"TINYINT": -(2**7), "SMALLINT": -(2**15), "INT": -(2**31), "BIGINT": -(2**63)}
_TYPES = {"CHAR": "STRING", "VARCHAR": "STRING", "VARBINARY": "BINARY", "BYTES": "BINARY"}


def quoted(name: str) -> str:
    """Write a column's name."""
    return f"`{name.replace('`', '``')}`"


def type_text(kind: DataType) -> str:
    """Write a type as Spark calls it."""
    match kind.root:
        case "DECIMAL":
            return f"DECIMAL({kind.precision}, {kind.scale})"
        case "TIMESTAMP":
            return "TIMESTAMP_NTZ"
        case "TIMESTAMP_LTZ":
            return "TIMESTAMP"
        case "ARRAY":
            return f"ARRAY<{type_text(_part(kind.element))}>"
        case "MAP":
            return f"MAP<{type_text(_part(kind.key))}, {type_text(_part(kind.value))}>"
        case "ROW":
            inside = (f"{quoted(each.name)}: {type_text(each.type)}" for each in kind.fields or ())
            return f"STRUCT<{', '.join(inside)}>"
    return _TYPES.get(kind.root, kind.root)


def literal(value: Literal) -> str:
    """Write a constant of exactly its type."""
    return _constant(value.value, value.type)


def _constant(value: Any, kind: DataType) -> str:
    if value is None:
        return null_of(kind)
    match kind.root:
        case "BOOLEAN":
            return "true" if value else "false"
        case "TINYINT" | "SMALLINT" | "INT" | "BIGINT":
            if value == _LEAST[kind.root]:
                return f"CAST('{value}' AS {kind.root})"
            number = f"{value}{_SUFFIXES[kind.root]}"
            return number if value >= 0 else f"({number})"
        case "FLOAT" | "DOUBLE":
            return f"CAST('{_float(value)}' AS {kind.root})"
        case "DECIMAL":
            return f"CAST('{Decimal(value):f}' AS {type_text(kind)})"
        case "DATE":
            return f"DATE'{_date(value)}'"
        case "TIMESTAMP":
            return f"TIMESTAMP_NTZ'{_datetime(value)}'"
        case "TIMESTAMP_LTZ":
            return f"TIMESTAMP'{_datetime(value)} UTC'"
        case "BINARY" | "VARBINARY" | "BYTES":
            return f"X'{bytes(value).hex()}'"
        case "ARRAY":
            inside = ", ".join(_constant(each, _part(kind.element)) for each in value)
            return f"CAST(array({inside}) AS {type_text(kind)})"
        case "MAP":
            pairs = value.items() if isinstance(value, dict) else value
            inside = ", ".join(
                f"{_constant(k, _part(kind.key))}, {_constant(v, _part(kind.value))}"
                for k, v in pairs
            )
            return f"CAST(map({inside}) AS {type_text(kind)})"
        case "ROW":
            inside = ", ".join(
                f"'{plain_text(each.name)}', {_constant(value[each.name], each.type)}"
                for each in kind.fields or ()
            )
            return f"named_struct({inside})"
        case "TIME":
            assert isinstance(value, time)
            return f"TIME'{value.isoformat()}'"
    return f"'{plain_text(str(value))}'"


def plain_text(name: str) -> str:
    """Write a name for use within quotes."""
    return name.replace("\\", "\\\\").replace("'", "\\'")


def null_of(kind: DataType) -> str:
    """Write a NULL of a type."""
    return f"CAST(NULL AS {type_text(kind)})"


def _float(value: float) -> str:
    text = repr(float(value))
    return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(text, text)


def _date(value: date | datetime) -> str:
    return value.isoformat()[:10]


def _datetime(value: datetime | int) -> str:
    if isinstance(value, int):
        value = datetime(1970, 1, 1) + timedelta(microseconds=value // 1000)
    if value.tzinfo is not None:
        value = value.astimezone(UTC).replace(tzinfo=None)
    return value.isoformat(sep=" ")


def _part(kind: DataType | None) -> DataType:
    assert kind is not None
    return kind


def names_of(names: Iterable[str]) -> str:
    """Write columns' names, with commas between."""
    return ", ".join(quoted(name) for name in names)


def order_of(keys: Sequence[SortKey]) -> str:
    """Write what ORDER BY takes."""
    return ", ".join(
        f"{quoted(key.column)} {'DESC' if key.descending else 'ASC'} "
        f"NULLS {'FIRST' if key.nulls_first else 'LAST'}"
        for key in keys
    )


def micros_of(name: str) -> str:
    """Write a time column as microseconds since 1970."""
    return f"unix_micros(CAST({quoted(name)} AS TIMESTAMP))"


def moment(micros: str, kind: DataType) -> str:
    """Write microseconds since 1970 as a time."""
    return f"CAST(timestamp_micros({micros}) AS {type_text(kind)})"


def wrapped(value: str, kind: DataType) -> str:
    """Write an integer's low bits: what is left of it in a narrower type."""
    bits = {"TINYINT": 56, "SMALLINT": 48, "INT": 32}.get(kind.root)
    if bits is None:
        return f"CAST({value} AS {type_text(kind)})"
    wide = f"CAST({value} AS BIGINT)"
    return f"CAST(shiftright(shiftleft({wide}, {bits}), {bits}) AS {kind.root})"


def at_precision(value: str, kind: DataType) -> str:
    """Write a timestamp without the digits that its type does not have."""
    micros = f"unix_micros(CAST({value} AS TIMESTAMP))"
    unit = 10 ** (6 - (kind.precision or 0))
    return moment(f"{micros} - pmod({micros}, {unit}L)", kind)
