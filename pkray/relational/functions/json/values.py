"""JSON text: paths into it, and values of columns as JSON and back."""

import base64
import json
import math
import re
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from functools import cache, partial
from typing import Any

import msgspec
import numpy as np

from pkray.errors import QueryError
from pkray.rows.decimals import EXACT
from pkray.schema.types import DataType

EVERY = object()
"""A step of a path that takes all elements, or all values."""
_STEP = re.compile(
    r"\s*(?:\.\s*(?P<name>[^.\[\]*'\s]+)|\.\s*(?P<star>\*)|\[\s*(?P<index>\d+)\s*\]"
    r"|\[\s*(?P<all>\*)\s*\]|\[\s*'(?P<quoted>(?:[^'\\]|\\.)*)'\s*\]"
    r'|\[\s*"(?P<double>(?:[^"\\]|\\.)*)"\s*\])'
)
_MODE = re.compile(r"^\s*(lax|strict)\b")
MOST_DIGITS = 17
"""Most characters of a number with a point that a DOUBLE surely holds."""


def _number(text: str) -> Decimal:
    """Read a number with a point; short ones lose zeros at the end, as those of DOUBLE do."""
    return Decimal(repr(float(text)) if len(text) <= MOST_DIGITS else text)


_decoder = msgspec.json.Decoder(float_hook=_number)
_encoder = msgspec.json.Encoder(decimal_format="number")
Step = Any


@cache
def path_steps(path: str) -> tuple[Step, ...]:
    """Read a path such as ``$.a[0]['b'].*``: names, indexes and `EVERY`.

    Raises:
        QueryError: it is none.
    """
    text = _MODE.sub("", path).strip()
    if not text.startswith("$"):
        raise QueryError(f"{path!r} is no path into JSON: write '$.name' or '$[0]'")
    steps: list[Step] = []
    place = 1
    while place < len(text):
        found = _STEP.match(text, place)
        if found is None:
            raise QueryError(f"{path!r} is no path into JSON, from {text[place:]!r} on")
        if found["index"] is not None:
            steps.append(int(found["index"]))
        elif found["star"] or found["all"]:
            steps.append(EVERY)
        else:
            quoted = found["quoted"] if found["quoted"] is not None else found["double"]
            steps.append(found["name"] if quoted is None else re.sub(r"\\(.)", r"\1", quoted))
        place = found.end()
    return tuple(steps)


def decode(text: str) -> Any:
    """Read JSON.

    Raises:
        ValueError: it is none.
    """
    try:
        return _decoder.decode(text)
    except (msgspec.DecodeError, RecursionError, InvalidOperation, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from None


def encode(value: Any) -> str:
    """Write JSON without blanks."""
    try:
        return _encoder.encode(value).decode()
    except (OverflowError, msgspec.MsgspecError):
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=_number_of)


def _number_of(value: Any) -> float:
    return float(bytes(value)) if isinstance(value, msgspec.Raw) else float(value)


def matches(value: Any, steps: tuple[Step, ...]) -> Iterator[Any]:
    """List the values that a path leads to."""
    if not steps:
        yield value
        return
    step, rest = steps[0], steps[1:]
    if step is EVERY:
        inside = (
            value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()
        )
        for each in inside:
            yield from matches(each, rest)
    elif isinstance(step, int):
        if isinstance(value, list) and step < len(value):
            yield from matches(value[step], rest)
    elif isinstance(value, dict) and step in value:
        yield from matches(value[step], rest)


def scalar_text(value: Any) -> str | None:
    """Write a value as text: a string as it is, other values as JSON; null gives None."""
    if value is None or isinstance(value, str):
        return value
    return encode(value)


def object_at(text: str, steps: tuple[Step, ...]) -> str | None:
    """Give what a path leads to, several values as an array; None where there is nothing."""
    try:
        found = list(matches(decode(text), steps))
    except ValueError:
        return None
    if not found:
        return None
    if EVERY in steps:
        return encode(found if len(found) > 1 else found[0])
    return scalar_text(found[0])


def _one_at(text: str, steps: tuple[Step, ...]) -> Any:
    """Give what a path leads to; what a path with a star leads to is an array.

    Raises:
        ValueError: the text is no JSON.
        LookupError: it leads to nothing.
    """
    found = list(matches(decode(text), steps))
    if not found:
        raise LookupError
    return found if EVERY in steps else found[0]


def value_at(text: str, steps: tuple[Step, ...]) -> str | None:
    """Give the one scalar that a path leads to; None for objects and arrays."""
    try:
        found = _one_at(text, steps)
    except (ValueError, LookupError):
        return None
    return None if isinstance(found, dict | list) else scalar_text(found)


def query_at(text: str, steps: tuple[Step, ...], wrapper: str = "without") -> str | None:
    """Give the object or array that a path leads to; None for scalars that are not wrapped.

    Args:
        wrapper: ``conditional``: scalars and objects are put into an array; ``unconditional``:
            arrays as well.
    """
    try:
        found = _one_at(text, steps)
    except (ValueError, LookupError):
        return None
    wrapped = _wrapped(found, wrapper)
    return encode(wrapped) if isinstance(wrapped, dict | list) else None


def _wrapped(value: Any, wrapper: str) -> Any:
    if value is None or wrapper == "without":
        return value
    return value if wrapper == "conditional" and isinstance(value, list) else [value]


def exists_at(text: str, steps: tuple[Step, ...]) -> bool:
    """Whether a path leads to something that is not null."""
    try:
        return _one_at(text, steps) is not None
    except (ValueError, LookupError):
        return False


def length_at(text: str, steps: tuple[Step, ...]) -> int | None:
    """Count the elements, or names, of what a path leads to; a scalar is one."""
    try:
        found = _one_at(text, steps)
    except (ValueError, LookupError):
        return None
    return len(found) if isinstance(found, dict | list) else 1


EMPTY, ERROR = "empty", "error"
OUTCOMES = {"": 0, EMPTY: 1, ERROR: 2}


def outcome_at(text: str, path: str, function: str, wrapper: str = "without") -> str:
    """Say how an SQL/JSON call ends: ``""`` with a value, `EMPTY` or `ERROR`.

    A path is strict unless it begins with ``lax``: what is not there is an error in it.
    """
    strict = not path.lstrip().startswith("lax")
    try:
        found = _wrapped(_one_at(text, path_steps(path)), wrapper)
    except ValueError:
        return ERROR
    except LookupError:
        return ERROR if strict else EMPTY
    if function == "json_exists":
        return ""
    if found is None:
        return EMPTY
    fits = isinstance(found, dict | list) == (function == "json_query")
    return "" if fits else ERROR if strict else EMPTY


# --- Values of columns ----------------------------------------------------------------------------


def to_plain(value: Any, kind: DataType, *, is_whole: bool = False) -> Any:
    """Give a column's value as JSON has it.

    Args:
        is_whole: write NULL fields of rows and all digits of a timestamp, as Flink does, and not
            milliseconds, as Spark.
    """
    if value is None:
        return None
    plain = partial(to_plain, is_whole=is_whole)
    match kind.root:
        case "ROW":
            fields = kind.fields or ()
            pairs = ((each.name, plain(value[each.name], each.type)) for each in fields)
            return {name: made for name, made in pairs if is_whole or made is not None}
        case "ARRAY":
            return [plain(each, _part(kind.element)) for each in value]
        case "MAP":
            key, item = _part(kind.key), _part(kind.value)
            return {_key_text(k, key): plain(v, item) for k, v in value}
        case "DATE":
            return str(value)
        case "TIME":
            return value.isoformat()
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            zone = "Z" if kind.root == "TIMESTAMP_LTZ" else ""
            if isinstance(value, str):  # later than Python's years
                return value.replace(" ", "T", 1).removesuffix("Z") + zone
            text = value.replace(tzinfo=None).isoformat(
                timespec="microseconds" if is_whole else "milliseconds"
            )
            return (text.rstrip("0").rstrip(".") if is_whole else text) + zone
        case "BYTES" | "BINARY" | "VARBINARY":
            return base64.b64encode(value).decode()
        case "FLOAT" | "DOUBLE" if not math.isfinite(value):
            return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
        case "FLOAT" | "DOUBLE":
            return msgspec.Raw(_float_text(value, kind).encode())
    return value


def _float_text(value: float, kind: DataType) -> str:
    """Write a float with the fewest digits, powers of ten from 10,000,000 on as ``1.0E7``."""
    text = str(np.float32(value)) if kind.root == "FLOAT" else repr(value)
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return text
    sign, digits, exponent = Decimal(text).normalize().as_tuple()
    first, *rest = map(str, digits)
    power = int(exponent) + len(digits) - 1
    return f"{'-' * sign}{first}.{''.join(rest) or 0}E{power}"


def _key_text(key: Any, kind: DataType) -> str:
    plain = to_plain(key, kind)
    return plain if isinstance(plain, str) else encode(plain)


def from_plain(plain: Any, kind: DataType) -> Any:
    """Give JSON as a column's value; what does not fit the type becomes None."""
    if plain is None:
        return None
    reader = _READERS.get(kind.root)
    try:
        return _nested(plain, kind) if reader is None else reader(plain, kind)
    except (ValueError, TypeError, InvalidOperation, OverflowError):
        return None


def _nested(plain: Any, kind: DataType) -> Any:
    if kind.root == "ARRAY" and isinstance(plain, list):
        return [from_plain(each, _part(kind.element)) for each in plain]
    if kind.root == "MAP" and isinstance(plain, dict):
        key, item = _part(kind.key), _part(kind.value)
        return [(from_plain(k, key), from_plain(v, item)) for k, v in plain.items()]
    if kind.root == "ROW" and isinstance(plain, dict):
        return {
            each.name: from_plain(plain.get(each.name), each.type) for each in kind.fields or ()
        }
    return None


_BITS = {"TINYINT": 7, "SMALLINT": 15, "INT": 31, "BIGINT": 63}


def _integer(plain: Any, kind: DataType) -> int | None:
    bound = 2 ** _BITS[kind.root]
    whole = isinstance(plain, int) and not isinstance(plain, bool) and -bound <= plain < bound
    return plain if whole else None


def _float(plain: Any, kind: DataType) -> float | None:
    words = ("NaN", "Infinity", "-Infinity", "INF", "-INF", "+INF", "+Infinity")
    known = isinstance(plain, int | Decimal) and not isinstance(plain, bool)
    return float(plain) if known or plain in words else None


def _decimal(plain: Any, kind: DataType) -> Decimal | None:
    if isinstance(plain, bool) or not isinstance(plain, int | Decimal | str):
        return None
    unit = Decimal(1).scaleb(-(kind.scale or 0))
    number = Decimal(plain).quantize(unit, ROUND_HALF_UP, EXACT)
    fits = number.is_finite() and number.adjusted() < (kind.precision or 0) - (kind.scale or 0)
    return number if fits or number == 0 else None


def _timestamp(plain: Any, kind: DataType) -> datetime | None:
    if not isinstance(plain, str):
        return None
    found = datetime.fromisoformat(plain)
    if kind.root == "TIMESTAMP":
        return found.replace(tzinfo=None)
    return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)


_READERS: dict[str, Callable[[Any, DataType], Any]] = {
    **dict.fromkeys(_BITS, _integer),
    **dict.fromkeys(("FLOAT", "DOUBLE"), _float),
    **dict.fromkeys(("STRING", "CHAR", "VARCHAR"), lambda plain, kind: scalar_text(plain)),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_LTZ"), _timestamp),
    **dict.fromkeys(
        ("BYTES", "BINARY", "VARBINARY"), lambda plain, kind: base64.b64decode(plain, validate=True)
    ),
    "BOOLEAN": lambda plain, kind: plain if isinstance(plain, bool) else None,
    "DECIMAL": _decimal,
    "DATE": lambda plain, kind: date.fromisoformat(plain[:10]),
    "TIME": lambda plain, kind: time.fromisoformat(plain),
}


def _part(kind: DataType | None) -> DataType:
    assert kind is not None
    return kind
