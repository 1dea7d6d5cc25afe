"""Queries that are bound: syntax, what its names stand for, and the plan that it means."""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

import pyarrow as pa
from sqlglot import exp

from pkray.arguments.facade import checked_class
from pkray.errors import QueryError
from pkray.relational import running
from pkray.relational.catalog import Catalog
from pkray.relational.dialect import Dialect
from pkray.relational.explanation import Explanation
from pkray.relational.plan.fields import Fields
from pkray.relational.plan.nodes import Node, Scan
from pkray.relational.plan.total_rows import with_total_rows
from pkray.relational.session import PLANS, Environment, QuerySession
from pkray.relational.sources.system import SystemSource
from pkray.relational.sources.table import TableSource
from pkray.relational.sql.binder.binder import Binder
from pkray.relational.sql.dialects import DIALECTS
from pkray.relational.sql.syntax import identifier, star

MAX_STEPS = 60
"""Most queries below one whose plan is bound as a whole; of more, each is bound by itself, as
binding a query takes some of Python's stack for each of its levels."""
_numbers = itertools.count(1)


@checked_class
class BoundQuery:
    """A query with what it means; a user's `Relation` is one.

    Attributes:
        tree: the query's syntax; nothing changes it.
        names: what the names in it stand for.
        text: the SQL that it was read from, without secrets; empty: it was made otherwise.
    """

    def __init__(self, tree: exp.Query, names: Environment) -> None:
        number = next(_numbers)
        try:
            bound = Binder(names).query(_shortened(tree, names))
        except RecursionError:
            raise _too_deep() from None
        tree.meta[NUMBER] = number
        self.tree = tree
        self.text = ""
        self.names = replace(names, plans={**names.plans, number: bound})
        self._number = number
        self._fields = bound.fields
        self._is_long = len(names.plans) > MAX_STEPS

    @cached_property
    def plan(self) -> Node:
        """Give what it means, as a whole."""
        if self._is_long:
            return self.names.plans[self._number]
        return Binder(self.names).query(self.tree.copy())

    @property
    def fields(self) -> Fields:
        """Give the columns with their types."""
        return self._fields

    @property
    def columns(self) -> list[str]:
        """Name the columns."""
        return list(self.fields.names)

    @property
    def dialect(self) -> Dialect:
        """Say by whose rules it is typed."""
        return self.names.dialect

    def sql(self, pretty: bool = False) -> str:
        """Write it as SQL, in its dialect."""
        try:
            return self.tree.copy().sql(dialect=DIALECTS[self.dialect], pretty=pretty)
        except RecursionError:
            raise _too_deep() from None

    def explain(self) -> Any:
        """Say how it would run: types, changes, keys and state of each node; print it."""
        session = self.names.session
        plan = with_total_rows(self.plan, self.dialect)
        return Explanation(plan, session.options if session else {})

    @property
    def reads_memory(self) -> bool:
        """Whether it reads rows, or calls functions, that this process alone has."""
        kept = (TableSource, SystemSource)
        scans = (node for node in self.plan.walk() if isinstance(node, Scan))
        return bool(self.names.functions) or any(not isinstance(s.source, kept) for s in scans)

    def fresh_plan(self) -> Node:
        """Bind it anew: to tables and views as they are now."""
        return Binder(replace(self.names, found={})).query(self.tree.copy())

    def _rows_now(self) -> Iterator[pa.RecordBatch]:
        """Compute the rows of what its tables hold at one instant now."""
        session = self.names.session
        return running.run(running.pinned(self.plan), memory=session.memory if session else None)


def session_of(relation: BoundQuery) -> QuerySession | None:
    """Give a relation's session, or open the warehouse of the first table that it reads; None
    where it reads none.
    """
    if relation.names.session is not None:
        return relation.names.session
    scans = (node for node in relation.plan.walk() if isinstance(node, Scan))
    tables = (each.source.original for each in scans if isinstance(each.source, TableSource))
    for table in tables:
        place = table.location
        return QuerySession(Catalog(place.warehouse, table.runtime, place.storage_options))
    return None


NUMBER = "number"
"""Key of a query's `meta`: the relation whose tree it is."""


def _shortened(tree: exp.Query, names: Environment) -> exp.Expr:
    """Copy a query with names in the place of relations that are bound already: so that each method
    binds what it writes alone.
    """

    def copied(node: exp.Expr) -> exp.Expr:
        number = node.meta.get(NUMBER) if isinstance(node, exp.Query) else None
        if number in names.plans and node is not tree:
            return star(exp.Table(this=identifier(str(number)), db=identifier(PLANS)))
        made = type(node)(**{key: part(value) for key, value in node.args.items()})
        made.meta.update(node.meta)
        return made

    def part(value: Any) -> Any:
        if isinstance(value, list):
            return [part(each) for each in value]
        return copied(value) if isinstance(value, exp.Expr) else value

    return copied(tree)


def _too_deep() -> QueryError:
    return QueryError(
        "the relation is nested too deeply: put fewer steps on top of each other, or go on from "
        "from_arrow(relation.to_arrow())"
    )
