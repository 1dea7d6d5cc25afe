"""The base of relations, for those who write the syntax of their methods."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from sqlglot import exp

from pkray.relational.bound_query import BoundQuery


class Queried(BoundQuery, ABC):
    """A query that methods build on; `Relation` is the one there is.

    Names without an underscore in front are columns to people, so that what is only for writers
    of syntax has one.

    Attributes:
        origins: by number of each relation that this one was made of, what its columns are called
            here.
    """

    origins: dict[int, Mapping[str, str]]

    @abstractmethod
    def __getitem__(self, name: str) -> Any: ...

    @abstractmethod
    def filter(self, *conditions: object) -> Any:
        """Keep the rows for which all conditions are true."""

    @abstractmethod
    def select(self, *columns: object, **named: object) -> Any:
        """Compute columns."""

    @abstractmethod
    def _name(self, name: object) -> str:
        """Find a column's name as it is written in the plan."""

    @abstractmethod
    def _writer(self) -> Any:
        """Begin a query over it."""

    @abstractmethod
    def _made(self, tree: exp.Query, writer: Any, passed: Mapping[str, str]) -> Any:
        """Make a relation of a query that was written over it."""

    @abstractmethod
    def _selected(self, values: Any) -> Any:
        """Select expressions."""


class AsOf:
    """A relation as it was at each row's time, to be joined; made by ``Relation.as_of``."""

    def __init__(self, relation: Queried, time: object) -> None:
        self.relation = relation
        self.time = time

    def __repr__(self) -> str:
        return f"AsOf({self.relation!r}, {self.time!r})"
