"""A filter on a table's rows."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pkray.errors import InputError, PkrayError
from pkray.scan.comparisons import compare, one_of
from pkray.scan.conditions import AllOf, AnyOf, Compare, Condition, OneOf, Opaque
from pkray.scan.literals import literal
from pkray.schema.table_schema import TableSchema
from pkray.schema.types import DataField

_OPERATORS = {
    "=": "=",
    "==": "=",
    "!=": "<>",
    "<>": "<>",
    "<": "<",
    "<=": "<=",
    ">": ">",
    ">=": ">=",
}
_EXACT = frozenset(
    ("TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL", "CHAR", "VARCHAR", "STRING", "DATE")
)
"""Types whose values engines have as they are: they round TIMESTAMP(9), and widen FLOAT."""


@dataclass(frozen=True)
class Predicate:
    """A condition that rows meet, by SQL's rules: one that NULL leaves open is not met."""

    condition: Condition

    @classmethod
    def parse(cls, filter: object, schema: TableSchema) -> Predicate:
        """Parse the filter that a user passed.

        Args:
            filter: SQL text (``"amount > 10 AND id IN (1, 2)"``, in Spark's dialect); a list of
                (column, operator, value) that all hold, or a list of such lists one of which
                holds; a pyarrow expression, which prunes nothing.

        Raises:
            InputError: an unknown column, bad SQL, or a value that does not fit its column.
            UnsupportedError: SQL beyond comparisons of columns with literals.
        """
        if isinstance(filter, Predicate):
            return filter
        if isinstance(filter, str):
            # Tasks only unpickle predicates: they do without the SQL parser.
            from pkray.scan.filter_sql import parse_sql

            return cls(parse_sql(filter, lambda name: _field(schema, name)))
        if isinstance(filter, pc.Expression):
            return cls(Opaque(filter, _referenced(filter, schema)))
        if isinstance(filter, Sequence) and filter:
            return cls(_from_lists(filter, schema))
        raise InputError(
            f"filter {filter!r} is neither SQL text, nor a list of (column, operator, value), "
            "nor a pyarrow expression",
            filter=filter,
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns it refers to, sorted."""
        return tuple(sorted(self.condition.columns))

    def to_expression(self) -> pc.Expression:
        """Build the expression for rows with the columns of `TableSchema.arrow_schema`."""
        return self.condition.expression()

    def only(self, columns: Collection[str]) -> Predicate | None:
        """Return the conjuncts that refer to these columns alone; None without such."""
        within = frozenset(columns)
        parts = tuple(part for part in _conjuncts(self.condition) if part.columns <= within)
        if not parts:
            return None
        return Predicate(parts[0] if len(parts) == 1 else AllOf(parts))

    def of_stored(self, schema: TableSchema) -> Predicate | None:
        """Return the conjuncts that say of rows in files what they say of rows as read: those of
        columns without a default value.
        """
        if not schema.default_values:
            return self
        return self.only(set(schema.names).difference(schema.default_values))

    def equalities(self) -> dict[str, pa.Array]:
        """Map columns to the values one of which a matching row has; FLOAT and DOUBLE are left
        out."""
        return _equalities(self.condition)


def _field(schema: TableSchema, name: str) -> DataField:
    if name in schema.names:
        return schema.field(name)
    nearest = difflib.get_close_matches(name, schema.names, n=1)
    hint = f"did you mean {nearest[0]!r}?" if nearest else f"it has {', '.join(schema.names)}"
    raise InputError(f"column {name!r} of the filter is not in the table; {hint}", column=name)


def _from_lists(filter: Sequence[Any], schema: TableSchema) -> Condition:
    if all(isinstance(part, tuple) for part in filter):
        return _all(filter, schema)
    if all(isinstance(part, list) and part for part in filter):
        parts = tuple(_all(part, schema) for part in filter)
        return parts[0] if len(parts) == 1 else AnyOf(parts)
    raise InputError(
        f"filter {filter!r} is neither a list of (column, operator, value) nor a list of such "
        "lists",
        filter=filter,
    )


def _all(terms: Sequence[Any], schema: TableSchema) -> Condition:
    parts = tuple(_term(term, schema) for term in terms)
    return parts[0] if len(parts) == 1 else AllOf(parts)


def _term(term: Any, schema: TableSchema) -> Condition:
    if not isinstance(term, tuple) or len(term) != 3 or not isinstance(term[0], str):
        raise InputError(f"{term!r} is not (column, operator, value)", filter=term)
    name, operator, value = term
    field = _field(schema, name)
    word = operator.lower() if isinstance(operator, str) else operator
    if word in _OPERATORS:
        return compare(field, _OPERATORS[word], literal(value))
    if word in ("in", "not in"):
        if isinstance(value, str | bytes) or not hasattr(value, "__iter__"):
            raise InputError(f"{term!r}: {word!r} takes a list of values", filter=term)
        return one_of(field, [literal(each) for each in value], negated=word == "not in")
    raise InputError(
        f"{term!r}: operator {operator!r} is unknown; use one of {', '.join(_OPERATORS)}, in, "
        "not in",
        filter=term,
    )


def _referenced(expression: pc.Expression, schema: TableSchema) -> frozenset[str]:
    """Find the columns an expression does not work without; Arrow does not tell them."""
    empty = schema.arrow_schema.empty_table()
    try:
        empty.filter(expression)
    except (pa.ArrowException, NotImplementedError, TypeError) as error:
        raise InputError(f"filter {expression}: {error}", filter=str(expression)) from None
    referenced = set()
    for name in schema.names:
        try:
            empty.drop_columns([name]).filter(expression)
        except pa.ArrowException:
            referenced.add(name)
    return frozenset(referenced)


def _conjuncts(condition: Condition) -> Iterator[Condition]:
    """Yield the parts that all have to hold."""
    if isinstance(condition, AllOf):
        for part in condition.parts:
            yield from _conjuncts(part)
    else:
        yield condition


def _equalities(condition: Condition) -> dict[str, pa.Array]:
    """Map columns to the values one of which a matching row has; columns without such are absent.

    FLOAT and DOUBLE are left out: -0.0 equals 0.0 but hashes differently.
    """
    if isinstance(condition, Compare) and condition.operator == "=":
        found = {condition.column: pa.repeat(condition.value, 1)}
    elif isinstance(condition, OneOf) and not condition.negated:
        found = {condition.column: condition.values}
    elif isinstance(condition, AllOf):
        parts = [_equalities(part) for part in condition.parts]
        return _merged(parts, lambda a, b: a.filter(pc.is_in(a, value_set=b)))
    elif isinstance(condition, AnyOf):
        parts = [_equalities(part) for part in condition.parts]
        shared = set(parts[0]).intersection(*parts)
        kept = [{column: part[column] for column in shared} for part in parts]
        return _merged(kept, lambda a, b: pa.concat_arrays([a, b]).unique())
    else:
        return {}
    return {name: values for name, values in found.items() if not pa.types.is_floating(values.type)}


def _merged(
    parts: list[dict[str, pa.Array]], merge: Callable[[pa.Array, pa.Array], pa.Array]
) -> dict[str, pa.Array]:
    merged: dict[str, pa.Array] = {}
    for part in parts:
        for column, values in part.items():
            merged[column] = merge(merged[column], values) if column in merged else values
    return merged


def pushed(column: str, operator: str, value: object, schema: TableSchema) -> Predicate | None:
    """Make a predicate of a comparison with a literal; None where it is to prune nothing.

    Args:
        operator: ``=``, ``<``, ``<=``, ``>``, ``>=`` or ``in``, whose value is a list.
    """
    if column not in schema.names or schema.field(column).type.root not in _EXACT:
        return None
    if isinstance(value, list | tuple):
        value = [each for each in value if each is not None]
    if value is None or value == []:
        return None
    try:
        return Predicate.parse([(column, operator, value)], schema)
    except PkrayError:
        return None


def with_pushed(predicate: Predicate | None, more: Iterable[Predicate | None]) -> Predicate | None:
    """Give the predicate for which all of these are true, leaving out those that are None."""
    parts = [each for each in (predicate, *more) if each is not None]
    if len(parts) < 2:
        return parts[0] if parts else None
    return Predicate(AllOf(tuple(part.condition for part in parts)))
