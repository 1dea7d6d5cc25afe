"""Hold what a catalog has for queries, and resolve the names in a query."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from sqlglot import exp

from pkray import errors
from pkray.options.values import SIZE
from pkray.relational.catalog import Catalog
from pkray.relational.dialect import Dialect
from pkray.relational.plan.nodes import Node, Project, Scan, WatermarkAssign
from pkray.relational.plan.scans import scan_of
from pkray.relational.sources.computed import values_of
from pkray.relational.sources.system import SystemSource
from pkray.relational.sources.table import TableSource
from pkray.relational.sources.watermarks import declared_watermark
from pkray.relational.sql.binder.binder import Binder
from pkray.relational.sql.names import EMISSION
from pkray.relational.sql.parser import parse_query
from pkray.relational.sql.places import nearest
from pkray.scan.moment import LATEST, Moment
from pkray.table.system_table import SystemTable
from pkray.table.table import Table
from pkray.table.views import StoredView

TIME_ZONE = "table.local-time-zone"
DEFAULT_DATABASE = "default"
MAX_VIEWS = 32
"""Most views in each other: each costs some of Python's stack."""

PLANS = "$"
"""The database, which no table has, of relations by their numbers."""
_numbers = itertools.count(1)


def fresh_name(what: str) -> str:
    """Make a name that no other relation of this process has."""
    return f"{what}_{next(_numbers)}"


@dataclass(frozen=True)
class Environment:
    """Tells what the names in a relation's query stand for.

    Attributes:
        bound: relations that are no tables of the catalog, by their names.
        session: what the catalog holds; None for relations without a catalog.
        functions: users' functions that a method was given, by their names.
        depth: how many views this one is in.
        database: where names without one are looked up.
        plans: what the relations give that this one was made of, by their numbers.
        found: tables and views as they were when they were first asked for: a query and those made
            of it see one schema of each.
        time_zone: the zone of TIMESTAMP_LTZ as text, days and hours.
        emission: options of when windows give results.
    """

    dialect: Dialect = Dialect.SPARK
    bound: Mapping[tuple[str, ...], Node] = field(default_factory=dict)
    session: QuerySession | None = None
    functions: Mapping[str, Any] = field(default_factory=dict)
    depth: int = 0
    database: str | None = None
    plans: Mapping[int, Node] = field(default_factory=dict)
    found: dict[Any, Node] = field(default_factory=dict, compare=False)
    time_zone: str = "UTC"
    emission: Mapping[str, str] = field(default_factory=dict)

    def relation(self, parts: tuple[str, ...], options: Mapping[str, str], at: Moment) -> Node:
        """Find a table or a view."""
        node = self.bound.get(parts)
        if node is None and parts[0] == PLANS and parts[-1].isdigit():
            node = self.plans.get(int(parts[-1]))
        if node is not None:
            return _with_options(node, options, at)
        if self.session is not None:
            asked = (parts, tuple(sorted(options.items())), at)
            if asked not in self.found:
                self.found[asked] = self.session.relation(parts, options, at, self)
            return self.found[asked]
        known = [".".join(each) for each in self.bound]
        name = ".".join(parts)
        raise errors.QueryError(
            f"no table is called {name}{nearest(name, known)}: this relation has no catalog; "
            "write catalog.sql for a query of its tables",
            table=name,
        )

    def udf(self, name: str) -> Any | None:
        """Find a user's function."""
        found = self.functions.get(name.lower())
        if found is None and self.session is not None:
            found = self.session.functions.get(name.lower())
        return found

    def with_bound(self, parts: tuple[str, ...], node: Node) -> Environment:
        """Add a name."""
        return replace(self, bound={**self.bound, parts: node})

    def joined(self, other: Environment, tree: exp.Query) -> tuple[Environment, exp.Query]:
        """Take in the names of another relation.

        Args:
            tree: its query; names that mean something else here are changed in it.
        """
        if other.dialect is not self.dialect:
            raise AssertionError("relations of another dialect are taken in as bound names")
        bound = dict(self.bound)
        session = self.session or other.session
        renamed: dict[tuple[str, ...], str] = {}
        for parts in _tables(tree):
            node = other._known(parts)
            if node is None:
                continue
            if parts in other.bound and parts not in bound and self.session is None:
                bound[parts] = node
            elif self._known(parts) != node:
                renamed[parts] = fresh_name(parts[-1].partition("$")[0])
                bound[(renamed[parts],)] = node
        if renamed:
            tree = tree.copy()
            _rename(tree, renamed)
        functions = {**other.functions, **self.functions}
        plans = {**other.plans, **self.plans}
        found = self.found if self.session else other.found
        made = replace(
            self, bound=bound, session=session, functions=functions, plans=plans, found=found
        )
        return made, tree

    def _known(self, parts: tuple[str, ...]) -> Node | None:
        try:
            return self.relation(parts, {}, LATEST)
        except (errors.QueryError, errors.TableError):
            return None


class View(Protocol):
    """A query under a name."""

    def fresh_plan(self) -> Node:
        """Bind it to tables and views as they are now."""

    def sql(self) -> str:
        """Write it as SQL."""


class QuerySession:
    """Holds what one catalog object has for its queries: options, temporary views, functions.

    Attributes:
        database: where names without one are looked up.
        options: what SET has set.
        views: temporary views: what each gives when it is read.
        functions: users' functions, by lower-case name.
    """

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.database = DEFAULT_DATABASE
        self.options: dict[str, str] = {}
        self.views: dict[str, View] = {}
        self.functions: dict[str, Any] = {}

    @property
    def memory(self) -> int | None:
        """Give the bytes that a query in this process may hold; None: not said."""
        said = self.options.get("execution.memory")
        return None if said is None else int(SIZE.parse(said))

    def environment(self, dialect: Dialect) -> Environment:
        """Give what names stand for in a query of this dialect."""
        zone = self.options.get(TIME_ZONE, "UTC")
        emission = {k: v for k, v in self.options.items() if k.startswith(EMISSION)}
        return Environment(
            dialect, session=self, database=self.database, time_zone=zone, emission=emission
        )

    def relation(
        self, parts: tuple[str, ...], options: Mapping[str, str], at: Moment, asking: Environment
    ) -> Node:
        """Find a table or a view; as of ``Names.relation``."""
        if len(parts) > 2:
            raise errors.QueryError(
                f"{'.'.join(parts)} names more than a database and a table: write database.table"
            )
        if len(parts) == 1 and parts[0] in self.views:
            return _with_options(self.views[parts[0]].fresh_plan(), options, at)
        name = self.full_name(parts, asking.database)
        try:
            table: Any = self.catalog.load_table(name)
        except (errors.TableNotFoundError, errors.DatabaseNotFoundError) as error:
            view = self.catalog.find_view(name)
            if view is None and "$" in name and self.catalog.table_exists(name.partition("$")[0]):
                raise errors.QueryError(error.message, table=name) from None
            if view is None:
                raise self._missing(parts, name) from None
            return _with_options(self._view(name, view, asking), options, at)
        if isinstance(table, SystemTable):
            if options:
                raise errors.UnsupportedError(
                    f"{name} is a system table: it takes no OPTIONS", table=name
                )
            return Scan(SystemSource(table, at))
        return table_scan(table, options, at)

    def full_name(self, parts: tuple[str, ...], database: str | None = None) -> str:
        """Add the current database to a name that has none."""
        return ".".join(parts if len(parts) == 2 else (database or self.database, *parts))

    def _view(self, name: str, view: StoredView, asking: Environment) -> Node:
        if asking.depth >= MAX_VIEWS:
            raise errors.QueryError(
                f"view {name} is read within {MAX_VIEWS} others, or by itself: write its query "
                "anew",
                view=name,
            )
        dialect = Dialect(view.dialect)
        inside = replace(self.environment(dialect), depth=asking.depth + 1, database=view.database)
        return Binder(inside).query(parse_query(view.query, dialect))

    def _missing(self, parts: tuple[str, ...], name: str) -> errors.QueryError:
        known = [*self.views, *self.catalog.list_tables(), *self.catalog.views()]
        here = f"{self.database}."
        known += [each.removeprefix(here) for each in known if each.startswith(here)]
        said = ".".join(parts)
        hint = nearest(said, known) or f" in {name.split('.')[0]}"
        return errors.QueryError(f"no table or view is called {said}{hint}", table=name)


def table_scan(table: Table, options: Mapping[str, str] | None = None, at: Moment = LATEST) -> Node:
    """Read a table: what it stores, and above that what it computes, with its watermark.

    Args:
        options: of a hint.
        at: the moment that the query names.
    """
    mark = declared_watermark(table.schema)
    of_row = None if mark is None else {mark.column, *mark.expression.columns()}
    is_stored = of_row is None or of_row <= set(table.schema.names)
    source = TableSource(table, at, options, mark if is_stored else None)
    node: Node = Scan(source, options=tuple(sorted(source.options.items())))
    if len(source.columns) > len(source.fields):
        node = Project(node, tuple(values_of(source.columns)))
    if mark is None or of_row is None or is_stored or not of_row <= set(node.fields.names):
        return node
    return WatermarkAssign(node, mark.column, mark.expression)


def _with_options(node: Node, options: Mapping[str, str], at: Moment) -> Node:
    """Read a bound relation with options, or at a moment, which tables alone have."""
    if not options and at.is_latest:
        return node
    scan = scan_of(node)
    if scan is not None and isinstance(scan.source, TableSource):
        given = {**scan.source.options, **options}
        return table_scan(scan.source.original, given, scan.source.at if at.is_latest else at)
    raise errors.UnsupportedError(
        "OPTIONS and AS OF go with the name of a table: this is a view, or no table; write them "
        "in its query"
    )


def _tables(tree: exp.Query) -> set[tuple[str, ...]]:
    return {_parts(table) for table in tree.find_all(exp.Table) if table.name}


def _parts(table: exp.Table) -> tuple[str, ...]:
    return tuple(part.name for part in table.parts)


def _rename(tree: exp.Query, renamed: Mapping[tuple[str, ...], str]) -> None:
    for table in list(tree.find_all(exp.Table)):
        new = renamed.get(_parts(table)) if table.name else None
        if new is not None:
            if not table.alias:
                table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name)))
            table.set("this", exp.to_identifier(new))
            table.set("db", None)
