"""Find the parts of a condition by which files can be left out: a column against constants."""

from dataclasses import dataclass

import pyarrow as pa

from pkray.errors import EvaluationError, InputError, UnsupportedError
from pkray.relational.functions.evaluation.compiled import compile_expression
from pkray.relational.functions.function import function
from pkray.relational.plan import expressions as ir
from pkray.relational.plan.fields import Fields
from pkray.scan.comparisons import SWAPPED, compare, like, one_of
from pkray.scan.conditions import AllOf, AnyOf, Condition, IsNull
from pkray.scan.literals import literal
from pkray.scan.predicate import Predicate
from pkray.schema.table_schema import TableSchema
from pkray.schema.types import INTEGERS, DataField, DataType

_FLOATS = ("FLOAT", "DOUBLE")
_ONE_ROW = pa.record_batch([pa.nulls(1)], ["none"]).select([])


@dataclass(frozen=True)
class Pushed:
    """A condition in two parts.

    Attributes:
        predicate: of the files; None where nothing of the condition is.
        remaining: what is still to be checked of the rows that meet the predicate.
    """

    predicate: Predicate | None
    remaining: ir.Expression


def pushed(condition: ir.Expression, schema: TableSchema) -> Pushed:
    """Divide a condition over a table's columns."""
    understood: list[Condition] = []
    remaining: list[ir.Expression] = []
    for part in ir.conjuncts(condition):
        found = _condition(part, schema)
        if found is not None:
            understood.append(found)
        if found is None or not _is_exact(part):
            remaining.append(part)
    if not understood:
        return Pushed(None, condition)
    whole = understood[0] if len(understood) == 1 else AllOf(tuple(understood))
    return Pushed(Predicate(whole), ir.all_of(tuple(remaining)))


def _is_exact(part: ir.Expression) -> bool:
    """Whether files and expressions compare alike; floats have zeros and NaNs."""
    return not any(each.type.root in _FLOATS for each in part.walk())


def _condition(part: ir.Expression, schema: TableSchema) -> Condition | None:
    """Translate; None where files know nothing of it."""
    try:
        return _of_call(part, schema)
    except (InputError, UnsupportedError):  # what filters do not compare
        return None


def _of_call(part: ir.Expression, schema: TableSchema, negated: bool = False) -> Condition | None:
    if not isinstance(part, ir.Call):
        return None
    name, arguments = part.function, part.arguments
    if name == "not":
        return _of_call(arguments[0], schema, not negated)
    if name in ("and", "or"):
        parts = [_of_call(each, schema, negated) for each in arguments]
        known = tuple(each for each in parts if each is not None)
        if len(known) < len(parts):
            return None
        return AllOf(known) if (name == "and") != negated else AnyOf(known)
    if name in ("is_null", "is_not_null"):
        field = _field(arguments[0], schema)
        return IsNull(field.name, (name == "is_not_null") != negated) if field else None
    if name in ir.COMPARISONS:
        return _comparison(ir.COMPARISONS[name], arguments[0], arguments[1], schema, negated)
    field = _field(arguments[0], schema) if arguments else None
    values = [_constant(each) for each in arguments[1:]]
    if field is None or any(value is None for value in values):
        return None
    constants = [value for value in values if value is not None]
    if name == "in":
        return one_of(field, [literal(each) for each in constants], negated)
    if name == "like" and len(constants) == 1:
        return like(field, literal(constants[0]), negated=negated)
    return None


def _comparison(
    operator: str, left: ir.Expression, right: ir.Expression, schema: TableSchema, negated: bool
) -> Condition | None:
    field, constant = _field(left, schema), _constant(right)
    if field is None or constant is None:
        field, constant, operator = _field(right, schema), _constant(left), SWAPPED[operator]
    if field is None or constant is None:
        return None
    return compare(field, operator, literal(constant), negated)


def _field(value: ir.Expression, schema: TableSchema) -> DataField | None:
    """Find the column that a value is, perhaps as a wider type."""
    if isinstance(value, ir.Cast) and _is_wider(value.operand.type, value.type):
        value = value.operand
    if not isinstance(value, ir.ColumnRef) or value.name not in schema.names:
        return None
    field = schema.field(value.name)
    return None if field.type.root == "CHAR" else field


def _constant(value: ir.Expression) -> pa.Scalar | None:
    """Compute what depends on no column; None for what does, or changes from call to call."""
    if value.type.is_nested or value.columns():
        return None
    if any(
        isinstance(part, ir.UdfCall | ir.Lambda) or not _is_fixed(part) for part in value.walk()
    ):
        return None
    try:
        computed = compile_expression(value, Fields(())).evaluate(_ONE_ROW)
    except EvaluationError:  # said when the query computes it
        return None
    return computed[0]


def _is_fixed(part: ir.Expression) -> bool:
    return not isinstance(part, ir.Call) or function(part.function).deterministic


def _is_wider(narrow: DataType, wide: DataType) -> bool:
    """Whether a cast keeps each value and its order."""
    if narrow.root in INTEGERS:
        if wide.root in INTEGERS:
            return INTEGERS.index(wide.root) >= INTEGERS.index(narrow.root)
        whole = (wide.precision or 0) - (wide.scale or 0)
        return wide.root == "DECIMAL" and whole >= 19
    if narrow.root == wide.root == "DECIMAL":
        scales = (narrow.scale or 0, wide.scale or 0)
        wholes = ((narrow.precision or 0) - scales[0], (wide.precision or 0) - scales[1])
        return scales[1] >= scales[0] and wholes[1] >= wholes[0]
    if narrow.root == wide.root and narrow.root.startswith("TIMESTAMP"):
        return (wide.precision or 0) >= (narrow.precision or 0)
    return narrow.root in ("VARCHAR", "STRING") and wide.root == "STRING"
