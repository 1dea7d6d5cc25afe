"""Functions of JSON text.

Text that is no JSON gives NULL. Each distinct text of a batch is read once.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from pkray.errors import EvaluationError, QueryError, SchemaError
from pkray.relational.dialect import Dialect
from pkray.relational.functions.casts.casting import all_nullable
from pkray.relational.functions.coercion import BOOLEAN, INT, STRING
from pkray.relational.functions.function import (
    NO_SPARK,
    Family,
    Kernel,
    Value,
    Written,
    typed_call,
    wrong_argument,
)
from pkray.relational.functions.json.values import (
    EMPTY,
    OUTCOMES,
    decode,
    encode,
    exists_at,
    from_plain,
    length_at,
    object_at,
    outcome_at,
    path_steps,
    query_at,
    to_plain,
    value_at,
)
from pkray.relational.functions.signatures import (
    anything,
    constant,
    result,
    takes,
    text,
    text_literal,
)
from pkray.relational.functions.values import as_array, by_distinct
from pkray.relational.plan.expressions import Call, Expression, Literal
from pkray.rows.python_values import to_python_list
from pkray.schema.types import DataType

Values = Sequence[Value]
JSON = Family("json")


def _with_path(call: Written) -> Expression:
    _, said, *wrapper = call.between(2, 3 if call.name == "json_query" else 2)
    path = _path(call.name, said)
    return typed_call(call.name, text.taken(call, 0), path, *map(_wrapper, wrapper))


def _path(name: str, argument: Expression) -> Literal:
    path = constant(name, argument, "the path")
    if not isinstance(path, str):
        raise QueryError(f"the path of {name} must be text such as '$.a'", function=name)
    path_steps(path)
    return text_literal(path)


def _wrapper(argument: Expression) -> Literal:
    said = constant("json_query", argument, "the wrapper")
    if said not in ("without", "conditional", "unconditional"):
        raise QueryError(
            f"json_query has no wrapper {said!r}: write WITH CONDITIONAL WRAPPER, WITH "
            "UNCONDITIONAL WRAPPER or WITHOUT WRAPPER",
            function="json_query",
        )
    return text_literal(said)


def _by_path(compute: Callable[..., Any]) -> Kernel:
    def kernel(call: Call, values: Values, rows: int) -> Value:
        path, *more = (each.value for each in call.arguments[1:] if isinstance(each, Literal))
        steps = path_steps(path)
        kind = call.type.arrow
        return by_distinct(values[0], lambda each: compute(each, steps, *more), kind, rows)

    return kernel


def by_text(compute: Callable[[str], Any]) -> Kernel:
    """Make a kernel that computes what each distinct text gives."""
    return lambda call, values, rows: by_distinct(values[0], compute, call.type.arrow, rows)


def _is_json(text: str) -> bool:
    try:
        decode(text)
    except ValueError:
        return False
    return True


def _read(text: str) -> Any:
    try:
        return decode(text)
    except ValueError:
        return None


def _length(text: str) -> int | None:
    value = _read(text)
    return len(value) if isinstance(value, list) else None


def _keys(text: str) -> list[str] | None:
    value = _read(text)
    return list(value) if isinstance(value, dict) else None


_KEYS = DataType("ARRAY", element=STRING)
for _name, _about, _compute, _kind, _spark in (
    (
        "get_json_object",
        "Give what a path leads to: text as it is, else JSON; NULL where there is nothing.",
        object_at,
        STRING,
        None,
    ),
    ("json_value", "Give the scalar that a path leads to, as text.", value_at, STRING, NO_SPARK),
    ("json_query", "Give the object or array that a path leads to.", query_at, STRING, NO_SPARK),
    ("json_exists", "Whether a path leads to something.", exists_at, BOOLEAN, NO_SPARK),
):
    JSON.infallible.add(
        f"{_name}(text, path) -> {_kind}",
        _about,
        _with_path,
        _by_path(_compute),
        result(_kind, nullable=_kind is STRING or None),
        _spark,
    )


def _outcome(call: Call, values: Values, rows: int) -> Value:
    """Say of each text how a call ends: 0 with a value, 1 with none, 2 in an error."""
    path, name, raised, wrapper = (
        each.value for each in call.arguments[1:] if isinstance(each, Literal)
    )

    def found(each: str) -> int:
        outcome = outcome_at(each, path, name, wrapper)
        if outcome and outcome in raised.split():
            problem = "nothing is there" if outcome == EMPTY else "it is no JSON that has it"
            shown = each if len(each) <= 60 else f"{each[:60]}…"
            raise EvaluationError(
                f"{name}({shown!r}, {path!r}): {problem}; leave out ERROR ON {outcome.upper()}",
                function=name,
            )
        return OUTCOMES[outcome]

    return by_distinct(values[0], found, call.type.arrow, rows)


JSON.add_inner("json_outcome", "Say how an SQL/JSON call ends.", _outcome, result(INT), NO_SPARK)


def _json_length(call: Written) -> Expression:
    _, *said = call.between(1, 2)
    path = _path("json_length", said[0]) if said else text_literal("$")
    return typed_call("json_length", text.taken(call, 0), path)


JSON.only(Dialect.FLINK).infallible.add(
    "json_length(text [, path]) -> INT",
    "Count the elements of an array, or the names of an object; a scalar has one.",
    _json_length,
    _by_path(length_at),
    result(INT, nullable=True),
    NO_SPARK,
)
JSON.infallible.add(
    "is_json(text) -> BOOLEAN",
    "Whether text is JSON.",
    takes(text),
    by_text(_is_json),
    result(BOOLEAN),
    NO_SPARK,
)
JSON.infallible.add(
    "json_array_length(text) -> INT",
    "Count the elements of an array.",
    takes(text),
    by_text(_length),
    result(INT, nullable=True),
)
JSON.infallible.add(
    "json_object_keys(text) -> ARRAY<STRING>",
    "Give an object's names.",
    takes(text),
    by_text(_keys),
    result(_KEYS, nullable=True),
)


# --- Rows -----------------------------------------------------------------------------------------


def _to_json(call: Written) -> Expression:
    (value,) = call.exactly(1)
    if not value.type.is_nested:
        raise wrong_argument("to_json", 0, value, "a ROW, an ARRAY or a MAP")
    return typed_call("to_json", value)


def _from_json(call: Written) -> Expression:
    name = "from_json"
    _, said = call.exactly(2)
    schema = constant(name, said, "the schema")
    if not isinstance(schema, str):
        raise QueryError(f"the schema of {name} must be text such as 'a INT'", function=name)
    kind = read_schema(schema, call.dialect)
    return Call(kind, name, (text.taken(call, 0), text_literal(str(kind))))


def read_schema(text: str, dialect: Dialect) -> DataType:
    """Read a type, or the fields of a ROW: ``a INT, b ARRAY<STRING>``.

    Raises:
        QueryError: it is none.
    """
    plain = re.sub(r"\bSTRUCT\s*<", "ROW<", re.sub(r":", " ", text), flags=re.I)
    if dialect is Dialect.SPARK:
        plain = re.sub(r"\bTIMESTAMP\b(?!_)", "TIMESTAMP_LTZ", plain, flags=re.I)
        plain = re.sub(r"\bTIMESTAMP_NTZ\b", "TIMESTAMP", plain, flags=re.I)
    for said in (plain, f"ROW<{plain}>"):
        try:
            kind = DataType.parse(said)
        except SchemaError as error:
            last = error
            continue
        if kind.is_nested:
            return all_nullable(kind)
    raise QueryError(f"{text!r} is no schema: write 'a INT, b STRING' ({last.message})")


def _type_of_schema(arguments: tuple[Expression, ...]) -> DataType:
    return DataType.parse(str(getattr(arguments[1], "value", "")))


@JSON.kernel(
    "to_json(ROW | ARRAY | MAP) -> STRING",
    "Write JSON; NULL fields are left out.",
    _to_json,
    result(STRING),
)
@JSON.only(Dialect.FLINK).infallible.kernel(
    "json_string(value) -> STRING",
    "Write a value as JSON.",
    takes(anything),
    result(STRING),
    NO_SPARK,
)
def _to_json_kernel(call: Call, values: Values, rows: int) -> Value:
    kind, is_whole = call.arguments[0].type, call.function == "json_string"
    written = (
        None if value is None else encode(to_plain(value, kind, is_whole=is_whole))
        for value in to_python_list(as_array(values[0], rows))
    )
    return pa.array(list(written), pa.string())


@JSON.infallible.kernel(
    "from_json(text, schema) -> ROW | ARRAY | MAP",
    "Read JSON by a schema such as 'a INT, b STRING'; what does not fit is NULL.",
    _from_json,
    _type_of_schema,
    NO_SPARK,
)
def _from_json_kernel(call: Call, values: Values, rows: int) -> Value:
    empty = {each.name: None for each in call.type.fields or ()} or None

    def read(text: str) -> Any:
        if not text.strip():
            return None
        found = from_plain(_read(text), call.type)
        return empty if found is None else found

    return by_distinct(values[0], read, call.type.arrow, rows)
