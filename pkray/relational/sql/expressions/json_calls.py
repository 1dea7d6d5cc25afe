"""SQL/JSON calls: what they give where a path leads to nothing, or to what they do not take.

A call with clauses becomes a CASE over ``json_outcome``, which says whether a document has a value
at the path (0), none (1), or what is an error (2): it is no JSON, a strict path is missing, or the
value is none that the call takes.
"""

from dataclasses import replace

from sqlglot import exp

from pkray.errors import QueryError
from pkray.relational.functions.coercion import BOOLEAN, INT, STRING, untyped_null
from pkray.relational.functions.conditional import case_of
from pkray.relational.functions.function import typed_call
from pkray.relational.functions.json.values import EMPTY, ERROR
from pkray.relational.functions.signatures import text_literal
from pkray.relational.plan.expressions import Call, Cast, Expression, Literal
from pkray.relational.sql.dialects import JsonCall
from pkray.relational.sql.expressions.base import BaseBinder
from pkray.relational.sql.expressions.types import type_of

_ANSWERS = {
    "JSON_VALUE": ("NULL", "ERROR", "DEFAULT value"),
    "JSON_QUERY": ("NULL", "ERROR", "EMPTY ARRAY", "EMPTY OBJECT"),
    "JSON_EXISTS": ("TRUE", "FALSE", "UNKNOWN", "ERROR"),
}
_RAISE = object()


def json_call(binder: BaseBinder, node: exp.Expr) -> Expression:
    """Bind a call with its clauses."""
    assert isinstance(node, JsonCall)
    name, function = node.this, node.this.lower()
    _check(node)
    arguments = tuple(binder.bind(each) for each in node.expressions)
    if node.args.get("wrapper") and len(arguments) == 2:
        arguments = (*arguments, text_literal(node.args["wrapper"]))
    value = plain = binder.resolve(function, arguments)
    on_empty, on_error = (_answer(binder, node, event) for event in ("on_empty", "on_error"))
    returning = node.args.get("returning")
    unfit: Expression | None = None
    if returning is not None:
        kind = type_of(returning, binder.dialect)
        if name == "JSON_QUERY":
            value = binder.resolve("from_json", (value, text_literal(str(kind))))
        else:
            on_type = "raise" if on_error is _RAISE else "null"
            value = Cast(kind.with_nullable(True), value, on_type)
            missing = Call(BOOLEAN.with_nullable(False), "is_null", (value,))
            given = Call(BOOLEAN.with_nullable(False), "is_not_null", (plain,))
            unfit = binder.resolve("and", (given, missing))
    if node.args.get("on_empty") is None and node.args.get("on_error") is None:
        return value
    raised = " ".join(
        word for word, each in ((EMPTY, on_empty), (ERROR, on_error)) if each is _RAISE
    )
    wrapper = text_literal(node.args.get("wrapper") or "without")
    said = (*plain.operands()[:2], text_literal(function), text_literal(raised), wrapper)
    outcome = typed_call("json_outcome", *said)
    conditions: list[Expression] = []
    values: list[Expression] = []
    for number, answer in ((1, on_empty), (2, on_error)):
        condition = _equals(binder, outcome, number)
        if number == 2 and unfit is not None and answer is not _RAISE:
            condition = binder.resolve("or", (condition, unfit))
        conditions.append(condition)
        values.append(answer if isinstance(answer, Expression) else untyped_null())
    return case_of(conditions, [*values, value], binder.dialect)


def _equals(binder: BaseBinder, outcome: Expression, number: int) -> Expression:
    return binder.resolve("equal", (outcome, Literal(INT.with_nullable(False), number)))


def _answer(binder: BaseBinder, node: JsonCall, event: str) -> Expression | object:
    """Bind what the call gives at an event; `_RAISE` where that is an error."""
    answer = node.args.get(event)
    if answer is None:
        false = Literal(BOOLEAN.with_nullable(False), False)
        return false if node.this == "JSON_EXISTS" else untyped_null()
    if not isinstance(answer, exp.Var):
        default = binder.bind(answer)
        returning = node.args.get("returning")
        kind = STRING if returning is None else type_of(returning, binder.dialect)
        return Cast(replace(kind, nullable=default.type.nullable), default, "raise")
    match answer.name:
        case "ERROR":
            return _RAISE
        case "EMPTY ARRAY":
            return text_literal("[]")
        case "EMPTY OBJECT":
            return text_literal("{}")
        case "TRUE" | "FALSE":
            return Literal(BOOLEAN.with_nullable(False), answer.name == "TRUE")
        case "UNKNOWN":
            return Literal(BOOLEAN, None)
    return untyped_null()


def _check(node: JsonCall) -> None:
    """Refuse clauses that the call does not have.

    Raises:
        QueryError: with what it has.
    """
    name = node.this
    if node.args.get("wrapper") and name != "JSON_QUERY":
        raise QueryError(f"{name} has no WRAPPER: JSON_QUERY has one", function=name.lower())
    if node.args.get("returning") is not None and name == "JSON_EXISTS":
        raise QueryError("JSON_EXISTS gives a BOOLEAN: leave out RETURNING", function="json_exists")
    for event in ("on_empty", "on_error"):
        answer = node.args.get(event)
        if answer is None:
            continue
        title = event.replace("_", " ").upper()
        if name == "JSON_EXISTS" and event == "on_empty":
            raise QueryError("JSON_EXISTS has ON ERROR, not ON EMPTY", function="json_exists")
        said = answer.name if isinstance(answer, exp.Var) else "DEFAULT value"
        if said not in _ANSWERS[name]:
            raise QueryError(
                f"{name} has no {said} {title}: write {', '.join(_ANSWERS[name])}",
                function=name.lower(),
            )
