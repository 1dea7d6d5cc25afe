"""What every relation is, for those who write its syntax: `Relation` adds the methods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlglot import exp

from pkray.relational.dialect import Dialect
from pkray.relational.plan.fields import Fields
from pkray.relational.plan.nodes import Node


class Queried:
    """A query with what it means.

    Attributes:
        tree: the query's syntax; nothing changes it.
        names: what the names in it stand for.
        origins: by number of each relation that this one was made of, what its columns are called
            here.
    """

    tree: exp.Query
    names: Any
    origins: dict[int, Mapping[str, str]]

    @property
    def plan(self) -> Node:
        """What it means, as a whole."""
        raise NotImplementedError

    @property
    def fields(self) -> Fields:
        """The columns with their types."""
        raise NotImplementedError

    @property
    def columns(self) -> list[str]:
        """The columns' names."""
        return list(self.fields.names)

    @property
    def dialect(self) -> Dialect:
        """By whose rules it is typed."""
        dialect: Dialect = self.names.dialect
        return dialect

    def __getitem__(self, name: str) -> Any:
        raise NotImplementedError

    def filter(self, *conditions: object) -> Any:
        """Keep the rows for which all conditions are true."""
        raise NotImplementedError

    def select(self, *columns: object, **named: object) -> Any:
        """Compute columns."""
        raise NotImplementedError

    def fresh_plan(self) -> Node:
        """Bind it anew: to tables and views as they are now."""
        raise NotImplementedError

    def _name(self, name: object) -> str:
        """Find a column's name as it is written in the plan."""
        raise NotImplementedError

    def _writer(self) -> Any:
        """Begin a query over it."""
        raise NotImplementedError

    def _made(self, tree: exp.Query, writer: Any, passed: Mapping[str, str]) -> Any:
        """Make a relation of a query that was written over it."""
        raise NotImplementedError

    def _selected(self, values: Any) -> Any:
        """Select expressions."""
        raise NotImplementedError


class AsOf:
    """A relation as it was at each row's time, to be joined; made by ``Relation.as_of``."""

    def __init__(self, relation: Queried, time: object) -> None:
        self.relation = relation
        self.time = time

    def __repr__(self) -> str:
        return f"AsOf({self.relation!r}, {self.time!r})"
