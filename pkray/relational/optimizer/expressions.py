"""Rewrite and examine expressions for the steps of the optimizer."""

from collections.abc import Iterable, Mapping

from pkray.relational.functions.function import function
from pkray.relational.plan import expressions as ir
from pkray.relational.plan.fields import Fields
from pkray.relational.plan.nodes import Node
from pkray.schema.types import DataType

_STRICT = (
    *("equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "like", "in"),
    "is_not_null",
)
"""Conditions that are not true where an operand is NULL."""


def substitute(expression: ir.Expression, values: Mapping[str, ir.Expression]) -> ir.Expression:
    """Put expressions in the place of columns."""
    if isinstance(expression, ir.ColumnRef):
        return values.get(expression.name, expression)
    if isinstance(expression, ir.Lambda):
        inner = {name: each for name, each in values.items() if name not in expression.parameters}
        return expression.with_operands((substitute(expression.body, inner),))
    operands = expression.operands()
    changed = tuple(substitute(each, values) for each in operands)
    return expression if changed == operands else expression.with_operands(changed)


def renamed(expression: ir.Expression, names: Mapping[str, str]) -> ir.Expression:
    """Call columns otherwise."""
    refs = {
        part.name: ir.ColumnRef(part.type, names[part.name])
        for part in expression.walk()
        if isinstance(part, ir.ColumnRef) and part.name in names
    }
    return substitute(expression, refs)


def retyped(condition: ir.Expression, node: Node) -> ir.Expression:
    """Give columns the type that they have in a node: outer joins made them nullable above it."""
    return with_types(condition, node.fields)


def with_types(condition: ir.Expression, fields: Fields) -> ir.Expression:
    """Give columns the types that they have among some."""
    kinds: dict[str, DataType] = {each.name: each.type for each in fields}
    refs = {
        part.name: ir.ColumnRef(kinds[part.name], part.name)
        for part in condition.walk()
        if isinstance(part, ir.ColumnRef) and kinds.get(part.name, part.type) != part.type
    }
    return substitute(condition, dict(refs))


def is_deterministic(expression: ir.Expression) -> bool:
    """Whether it gives the same value for the same row wherever it is computed."""
    return all(
        not isinstance(part, ir.UdfCall)
        and (not isinstance(part, ir.Call) or function(part.function).deterministic)
        for part in expression.walk()
    )


def rejects_nulls(condition: ir.Expression, columns: Iterable[str]) -> bool:
    """Whether a condition is not true for rows whose `columns` are all NULL."""
    known = set(columns)
    if not isinstance(condition, ir.Call):
        return False
    if condition.function == "and":
        return any(rejects_nulls(each, known) for each in condition.arguments)
    if condition.function == "or":
        return all(rejects_nulls(each, known) for each in condition.arguments)
    if condition.function not in _STRICT:
        return False
    return any(_is_strict_in(each, known) for each in condition.arguments[:2])


def _is_strict_in(value: ir.Expression, columns: set[str]) -> bool:
    """Whether a value is NULL where the columns are: they pass through operators alone."""
    if isinstance(value, ir.ColumnRef):
        return value.name in columns
    strict = ("add", "subtract", "multiply", "negative", "upper", "lower")
    if isinstance(value, ir.Call) and value.function in strict:
        return any(_is_strict_in(each, columns) for each in value.arguments)
    return False


def factored(condition: ir.Expression) -> tuple[ir.Expression, ...]:
    """Split at AND, and take out of an OR what all of its alternatives say."""
    result: list[ir.Expression] = []
    for part in ir.conjuncts(condition):
        alternatives = [ir.conjuncts(each) for each in disjuncts(part)]
        common = [each for each in alternatives[0] if all(each in other for other in alternatives)]
        if len(alternatives) == 1 or not common:
            result.append(part)
            continue
        result.extend(common)
        rests = [[each for each in other if each not in common] for other in alternatives]
        if all(rests):
            result.append(any_of([_all(rest) for rest in rests]))
    return tuple(result)


def implied(condition: ir.Expression, columns: frozenset[str]) -> ir.Expression | None:
    """Find what an OR implies of some columns alone; None where it implies nothing."""
    alternatives = disjuncts(condition)
    if len(alternatives) == 1:
        return None
    parts = [
        [each for each in ir.conjuncts(other) if each.columns() and each.columns() <= columns]
        for other in alternatives
    ]
    return any_of([_all(each) for each in parts]) if all(parts) else None


def disjuncts(condition: ir.Expression) -> tuple[ir.Expression, ...]:
    """Split at OR."""
    if isinstance(condition, ir.Call) and condition.function == "or":
        return tuple(part for each in condition.arguments for part in disjuncts(each))
    return (condition,)


def any_of(conditions: list[ir.Expression]) -> ir.Expression:
    """Join by OR."""
    return _joined("or", conditions)


def _all(conditions: list[ir.Expression]) -> ir.Expression:
    return _joined("and", conditions)


def _joined(name: str, conditions: list[ir.Expression]) -> ir.Expression:
    result = conditions[0]
    for each in conditions[1:]:
        nullable = result.type.nullable or each.type.nullable
        result = ir.Call(DataType("BOOLEAN", nullable), name, (result, each))
    return result


def is_cheap(expression: ir.Expression) -> bool:
    """Whether it may be computed twice: a column, a constant, a cast of one."""
    return not any(
        isinstance(part, ir.Call | ir.Case | ir.Chain | ir.UdfCall) for part in expression.walk()
    )
