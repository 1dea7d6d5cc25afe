"""Flink's functions that write JSON: values, quoted text, objects and arrays."""

import json
from collections.abc import Sequence

from pkray.errors import EvaluationError, QueryError
from pkray.relational.dialect import Dialect
from pkray.relational.functions import function, signatures
from pkray.relational.functions.coercion import STRING
from pkray.relational.functions.function import NO_SPARK, Written
from pkray.relational.functions.json.functions import JSON, by_text
from pkray.relational.functions.json.values import decode
from pkray.relational.plan.expressions import Call, Expression

ABSENT, NULL = "ABSENT ON NULL", "NULL ON NULL"


def _quoted(value: str) -> str:
    return json.dumps(value).replace("/", "\\/")


def _unquoted(value: str) -> str:
    """Read text that is quoted; what is not, or not well, stays as it is."""
    if len(value) < 2 or not value.startswith('"') or not value.endswith('"'):
        return value
    try:
        found = str(json.loads(value))
        found.encode()
    except (ValueError, UnicodeEncodeError):
        return value
    return found


for _name, _about, _compute in (
    ("json_quote", "Write text as JSON: in quotes, with special characters escaped.", _quoted),
    ("json_unquote", "Read text that is quoted as JSON; other text stays as it is.", _unquoted),
):
    JSON.only(Dialect.FLINK).infallible.add(
        f"{_name}(text) -> STRING",
        _about,
        signatures.takes(signatures.text),
        by_text(_compute),
        signatures.result(STRING),
        NO_SPARK,
    )


def _member(value: Expression, on_null: str) -> Expression:
    """Write a value; what is built of JSON already stays as it is."""
    built = isinstance(value, Call) and value.function == "json_built"
    said = value if built else function.resolve("json_string", (value,), Dialect.FLINK)
    if on_null == ABSENT:
        return said
    return function.resolve("coalesce", (said, signatures.text_literal("null")), Dialect.FLINK)


def _built(start: str, members: Sequence[Expression], end: str) -> Expression:
    """Put members that are not NULL between brackets."""
    whole: Expression = signatures.text_literal(start + end)
    if members:
        lists = function.resolve("array", tuple(members), Dialect.FLINK)
        inside = function.resolve(
            "array_join", (lists, signatures.text_literal(",")), Dialect.FLINK
        )
        parts = (signatures.text_literal(start), inside, signatures.text_literal(end))
        whole = function.resolve("concat", parts, Dialect.FLINK)
    return Call(whole.type, "json_built", (whole,))


def _checked(value: str) -> str:
    try:
        decode(value)
    except ValueError as error:
        raise EvaluationError(
            f"json({value[:60]!r}): that is no JSON ({error}); JSON_QUOTE writes any text",
            function="json",
        ) from None
    return value


def _json(call: Written) -> Expression:
    document = signatures.takes(signatures.text)(call._replace(name="json_document"))
    return Call(document.type, "json_built", (document,))


JSON.only(Dialect.FLINK).alias(
    "json(text) -> STRING",
    "Take text as JSON: JSON_OBJECT and JSON_ARRAY put it in as it is.",
    _json,
)
JSON.add_inner(
    "json_document",
    "Give text that is JSON; others are refused.",
    by_text(_checked),
    signatures.result(STRING),
    NO_SPARK,
)


def _json_array(call: Written) -> Expression:
    return _built("[", [_member(each, ABSENT) for each in call.arguments], "]")


def _json_object(call: Written) -> Expression:
    """Type it: what becomes of NULL, then names and values in turn."""
    on_null, *pairs = call.arguments
    said = signatures.constant_text("json_object", on_null, "what becomes of NULL")
    if len(pairs) % 2:
        raise QueryError("json_object takes names and values in pairs", function="json_object")
    members: list[Expression] = []
    for key, value in zip(pairs[::2], pairs[1::2], strict=True):
        name = signatures.constant_text("json_object", key, "a name")
        parts = (
            signatures.text_literal(f"{json.dumps(name, ensure_ascii=False)}:"),
            _member(value, said),
        )
        members.append(function.resolve("concat", parts, call.dialect))
    return _built("{", members, "}")


JSON.only(Dialect.FLINK).alias(
    "json_array(value, …) -> STRING", "Write an array of JSON; NULLs are left out.", _json_array
)
JSON.only(Dialect.FLINK).alias(
    "json_object(KEY name VALUE value, … [NULL | ABSENT ON NULL]) -> STRING",
    "Write an object of JSON.",
    _json_object,
)
JSON.infallible.add_inner(
    "json_built",
    "Marks text that is JSON.",
    lambda call, values, rows: values[0],
    lambda arguments: arguments[0].type,
    lambda call, arguments: arguments[0],
)
