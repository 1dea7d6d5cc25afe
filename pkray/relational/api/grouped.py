"""Groups of a relation's rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlglot import exp

from pkray.errors import QueryError
from pkray.relational.api.column import Column, conditional, expression, listed
from pkray.relational.api.composing import opened
from pkray.relational.api.queried import Queried
from pkray.relational.sql import syntax
from pkray.relational.sql.syntax import identifier


class Grouped:
    """Rows of a relation by keys; made by ``Relation.group_by``.

    Args:
        keys: columns, SQL text or grouping sets; those with aliases come out under them.
    """

    def __init__(
        self, relation: Queried, keys: Sequence[object], having: tuple[exp.Expr, ...] = ()
    ) -> None:
        self._relation = relation
        self._writer = relation._writer()
        self._keys = [self._writer.settled(expression(each)) for each in keys]
        self._given = list(keys)
        self._having = having

    def __repr__(self) -> str:
        keys = ", ".join(key.sql(dialect="spark") for key in self._keys)
        return f"Grouped({keys})"

    def having(self, *conditions: object) -> Grouped:
        """Keep the groups for which all conditions are true: ``having("count(*) > 1")``."""
        made = tuple(conditional(each) for each in conditions)
        return Grouped(self._relation, self._given, (*self._having, *made))

    def agg(self, *columns: object, **named: object) -> Any:
        """Give the keys, then aggregates: ``agg(total="sum(amount)")``."""
        keys = (key.copy() for key in self._plain_keys())
        return self._made([*keys, *self._values(columns, named)])

    def select(self, *columns: object, **named: object) -> Any:
        """Give keys and aggregates as they are listed."""
        values = self._values(columns, named)
        if not values:
            raise QueryError("select takes a column at least: a key or an aggregate")
        return self._made(values)

    def count(self, name: str = "count") -> Any:
        """Count the rows of each group."""
        return self.agg(**{name: Column(syntax.call("count", exp.Star()))})

    def _values(self, columns: Sequence[object], named: dict[str, object]) -> list[exp.Expr]:
        values = [expression(each) for column in columns for each in listed(column)]
        values += [
            exp.Alias(this=expression(value), alias=identifier(name))
            for name, value in named.items()
        ]
        return [self._writer.settled(value) for value in values]

    def _plain_keys(self) -> list[exp.Expr]:
        """List the keys, those of grouping sets once each."""
        found: list[exp.Expr] = []
        for key in self._keys:
            sets = isinstance(key, exp.Rollup | exp.Cube | exp.GroupingSets)
            for each in key.expressions if sets else [key]:
                inside = each.expressions if sets and isinstance(each, exp.Tuple) else [each]
                found += [part for part in inside if part not in found]
        return [key.unnest() for key in found]

    def _made(self, values: list[exp.Expr]) -> Any:
        relation = self._relation
        made = opened(relation.tree)
        made.set("expressions", values)
        keys = [key.unalias().copy() for key in self._keys]
        if keys:
            made.set("group", exp.Group(expressions=keys))
        if self._having:
            wanted = [self._writer.settled(each.copy()) for each in self._having]
            made.set("having", exp.Having(this=syntax.joined(exp.And, wanted)))
        passed = {
            key.name: value.alias_or_name
            for key in self._plain_keys()
            for value in values
            if isinstance(key, exp.Column) and value.unalias() == key
        }
        return relation._made(made, self._writer, passed)


def rollup(*keys: object) -> Column:
    """Group by all keys, then by all but the last, and so on, down to one group of all rows."""
    return Column(exp.Rollup(expressions=[expression(each) for each in keys]))


def cube(*keys: object) -> Column:
    """Group by each subset of the keys."""
    return Column(exp.Cube(expressions=[expression(each) for each in keys]))


def grouping_sets(*sets: object) -> Column:
    """Group by each of some lists of keys; an empty list is one group of all rows."""
    written = [exp.Tuple(expressions=[expression(key) for key in listed(each)]) for each in sets]
    return Column(exp.GroupingSets(expressions=written))
