"""Compiled plans: a query as a JSON file that a later pkray runs as it was planned."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pkray import json_files, relational
from pkray.arguments.facade import checked_class
from pkray.errors import PlanError, QueryError, UnsupportedError
from pkray.relational import running
from pkray.relational.catalog import Catalog
from pkray.relational.continuous.outlets.conflicts import RETRACTING, settled
from pkray.relational.continuous.queries.options import QueryOptions
from pkray.relational.continuous.queries.query import Query, start_query
from pkray.relational.continuous.queries.query_store import Definition
from pkray.relational.dialect import Dialect
from pkray.relational.optimizer import optimize
from pkray.relational.plan.json_writer import in_order, shared_nodes, to_json
from pkray.relational.plan.keys import best_key, unique_keys, upsert_keys
from pkray.relational.plan.nodes import ROW_KEY, Node, RowKey, Scan, Sink
from pkray.relational.plan.physical import tells_twice, to_logical, to_physical
from pkray.relational.plan.plan_diff import PlanDiff, diff_of, refusals
from pkray.relational.plan.state import states, ttl_of
from pkray.relational.plan.total_rows import with_total_rows
from pkray.relational.session import QuerySession
from pkray.relational.sources.table import TableSource
from pkray.relational.sql.statements import kinds as said
from pkray.relational.statements.changing import BoundInsert, write_sink
from pkray.relational.statements.definitions import DONE
from pkray.table.table import Table
from pkray.version import __version__

if TYPE_CHECKING:
    from pkray.api.relation import Relation
from pkray.relational.plan_files import (
    check_plan_path,
    plan_exists,
    read_plan,
    roots_of,
    write_plan,
)


@checked_class
class Plan:
    """A compiled plan.

    Made by ``Relation.compile_plan``, ``Catalog.load_plan`` and ``COMPILE PLAN``.

    Args:
        document: as JSON has it.
        roots: the physical plan: one that gives rows, or one a table.
        session: of the catalog whose tables it reads; None where it reads none.

    Attributes:
        roots: see above.
    """

    def __init__(
        self, document: dict[str, Any], roots: tuple[Node, ...], session: QuerySession | None
    ) -> None:
        self._document = document
        self.roots = roots
        self._session = session

    def to_dict(self) -> dict[str, Any]:
        """Give the plan as JSON has it; changing it changes nothing here."""
        copied: dict[str, Any] = json.loads(json.dumps(self._document))
        return copied

    def write(self, path: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Write the plan to a file.

        Args:
            path: a URL, or a path from the working directory on.
            overwrite: replace a file that is there.

        Raises:
            TableExistsError: there is one, and `overwrite` is false.
            StorageError: it cannot be written.
        """
        write_plan(self._document, os.fspath(path), overwrite=overwrite)

    def execute(self, continuous: bool = True) -> Any:
        """Run the plan.

        Args:
            continuous: keep its table up to date; False: once, over the newest snapshots.

        Returns:
            of a continuous run the query; else the snapshots by table, None where there was nothing
            to commit; of a plan that goes into no table the rows, a ``pa.Table``.

        Raises:
            UnsupportedError: it is to run continuously and goes into no table, or a node does not.
            QueryExistsError: a query of its table is there, with another plan.
        """
        if continuous:
            return self.start()
        logical = [to_logical(root) for root in self.roots]
        sinks = [root for root in logical if isinstance(root, Sink)]
        if not sinks:
            return _rows(logical[0], self._session)
        assert self._session is not None
        catalog = self._session.catalog
        return {sink.table: write_sink(catalog, sink) for sink in sinks}

    def start(
        self,
        name: str | None = None,
        options: QueryOptions | None = None,
        *,
        owns: bool = False,
        replace: bool = False,
    ) -> Query:
        """Run the plan continuously.

        Args:
            name: of the query; default the names of its tables.
            options: how it runs.
            owns: whether its tables are to hold its rows and no others.
            replace: begin anew, and replace all that its tables hold.

        Raises:
            As `execute`.
        """
        sinks = [root for root in self.roots if isinstance(root, Sink)]
        if not sinks or self._session is None:
            raise UnsupportedError(
                "a plan runs continuously into tables: compile an INSERT, or call stream()"
            )
        return start_query(
            self._session.catalog,
            name or "+".join(sink.table for sink in sinks),
            self.to_dict(),
            self.roots,
            [_needs_before(root, self._session) for root in self.roots],
            self._document["dialect"],
            (options or QueryOptions()).bounded_by(self._session.options),
            owns=owns,
            replace=replace,
        )

    def diff(self, other: Plan) -> PlanDiff:
        """Compare the operators with state of this plan with those of a newer one.

        Returns:
            for each of `other` whether its state is kept or computed anew, which states of this
            one are dropped, and why `other` cannot take over, where it cannot.
        """
        kept = [_stateful(plan.roots) for plan in (self, other)]
        found = diff_of(self._document, other._document, (kept[0], kept[1]))
        return PlanDiff((*found.nodes, *refusals(self.roots, other.roots, other._root_numbers())))

    def _root_numbers(self) -> dict[int, int]:
        taken = {edge["source"] for edge in self._document["edges"]}
        numbers = [node["id"] for node in self._document["nodes"] if node["id"] not in taken]
        return dict(enumerate(numbers))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plan) and self._document == other._document

    def __hash__(self) -> int:
        return hash(json.dumps(self._document, sort_keys=True))

    def __repr__(self) -> str:
        nodes = self._document["nodes"]
        lines = "".join(f"\n    {node['id']:>4} {node['description']}" for node in nodes)
        return f"Plan: {len(nodes)} nodes{lines}"


def _stateful(roots: Sequence[Node]) -> set[int]:
    nodes = enumerate(in_order(shared_nodes(roots)), 1)
    return {number for number, node in nodes if states(node)}


def replacing(
    catalog: Catalog, current: Definition, new: Any
) -> tuple[dict[str, Any], tuple[Node, ...], list[bool]]:
    """Compile what is to take the place of a query's plan.

    Args:
        new: a relation, a plan, a statement, or SQL.

    Returns:
        the plan as JSON has it, its roots, and of each whether rows before updates are needed.

    Raises:
        UnsupportedError: it is nothing of that.
    """
    if isinstance(new, str):
        new = relational.run_statement(catalog, new, current.dialect)
    if isinstance(new, Plan):
        return new.to_dict(), new.roots, [_needs_before(r, new._session) for r in new.roots]
    if hasattr(new, "compile"):  # a statement
        return replacing(catalog, current, new.compile())
    if not hasattr(new, "compile_plan") or len(current.tables) != 1:
        raise UnsupportedError(
            f"query {current.name} takes the plan of a relation, a plan, a statement or SQL; into "
            f"{', '.join(current.tables)} the statements of as many tables"
        )
    table = catalog.load_table(current.tables[0])
    sink = _sink_for(new, table)
    return replacing(catalog, current, compile_plans([sink], new.dialect, catalog.session))


def _sink_for(relation: Any, table: Table) -> Sink:
    """Let a relation's rows go to a table that is there, with the key of the table."""
    plan = relation.plan
    if ROW_KEY in table.primary_keys:
        plan = RowKey(plan, best_key(plan, unique_keys(plan)) or ())
    return Sink(plan, table.name, plan.fields.names)


def compile_relation(relation: Relation, into: str | None = None) -> Plan:
    """Compile a relation's plan; as of ``Relation.compile_plan``."""
    session = session_of(relation)
    if into is not None:
        if session is None:
            raise QueryError(f"no catalog has {into}: compile a relation of catalog.sql")
        tree = said.Insert(tuple(into.split(".")), relation.tree)
        bound = BoundInsert(session.catalog, tree, relation.dialect, relation)
        return compile_plans([bound.node], relation.dialect, session)
    return compile_plans([relation.plan], relation.dialect, session)


def session_of(relation: Relation) -> QuerySession | None:
    """Give a relation's session, or open the warehouse of the first table that it reads; None
    where it reads none.
    """
    if relation.names.session is not None:
        return relation.names.session
    scans = (node for node in relation.plan.walk() if isinstance(node, Scan))
    tables = (each.source.original for each in scans if isinstance(each.source, TableSource))
    for table in tables:
        place = table.location
        warehouse = place.url.rsplit("/", 2)[0]  # the table's folder is in that of its database
        return QuerySession(Catalog(warehouse, table.runtime, place.storage_options))
    return None


def compile_inserts(catalog: Catalog, inserts: Sequence[BoundInsert], dialect: Dialect) -> Plan:
    """Compile INSERTs into one plan; what they have in common is in it once."""
    for each in inserts:
        if each.overwrite or each.partition:
            raise UnsupportedError(
                "INSERT OVERWRITE and PARTITION do not go into plans: write INSERT INTO, with the "
                "partition's columns in the query"
            )
    return compile_plans([each.node for each in inserts], dialect, catalog.session)


def compile_plans(plans: Sequence[Node], dialect: Dialect, session: QuerySession | None) -> Plan:
    """Compile bound plans; what is equal in several of them is in it once."""
    optimized = [_settled(with_total_rows(optimize(plan), dialect), session) for plan in plans]
    before = [_needs_before(plan, session) for plan in optimized]
    options = session.options if session else {}
    duplicates = tells_twice(options)
    physical = tuple(
        to_physical(plan, before=needed, by_key=not needed, duplicates=duplicates)
        for plan, needed in zip(optimized, before, strict=True)
    )
    document = to_json(
        physical,
        dialect=str(dialect),
        version=__version__,
        ttl=ttl_of(options),
        before=before,
    )
    return Plan(document, physical, session)


def _settled(plan: Node, session: QuerySession | None) -> Node:
    if not isinstance(plan, Sink) or session is None:
        return plan
    return settled(plan, session.catalog.load_table(plan.table))


def _needs_before(plan: Node, session: QuerySession | None) -> bool:
    """Whether the plan's table is keyed otherwise than its changes: rows must be taken back."""
    if not isinstance(plan, Sink) or session is None:
        return True
    key = best_key(plan.input, upsert_keys(plan.input))
    if key is None:
        return True
    names = dict(zip(plan.input.fields.names, plan.target, strict=True))
    table = session.catalog.load_table(plan.table)
    if table.schema.core.merge_engine in RETRACTING:
        return True
    return {names[name] for name in key} != set(table.schema.primary_keys)


def run_plan_statement(
    catalog: Catalog, asked: said.CompilePlan | said.ExecutePlan, dialect: Dialect
) -> pa.Table:
    """Do COMPILE PLAN or EXECUTE PLAN."""
    session = catalog.session
    check_plan_path(asked.path, session.options)
    if isinstance(asked, said.CompilePlan):
        if asked.if_not_exists and plan_exists(asked.path):
            return DONE
        asked_for = asked.statement
        inserts = (asked_for,) if isinstance(asked_for, said.Insert) else asked_for.inserts
        bound = [BoundInsert(catalog, each, dialect) for each in inserts]
        compile_inserts(catalog, bound, dialect).write(asked.path)
        return DONE
    if asked.if_exists and not plan_exists(asked.path):
        return DONE
    bounded = session.options.get("execution.runtime-mode", "").lower() == "batch"
    plan = load_plan(session, asked.path)
    if not bounded:
        return pa.table({"query": [plan.start().name]})
    snapshots = plan.execute(continuous=False)
    ids = [made.id if made else None for made in snapshots.values()]
    return pa.table({"table": list(snapshots), "snapshot": pa.array(ids, pa.int64())})


def load_plan(session: QuerySession, path: str | os.PathLike[str]) -> Plan:
    """Read a plan from a file; as of ``Catalog.load_plan``."""
    data = read_plan(os.fspath(path))
    try:
        document = json_files.values(data)
    except ValueError as error:
        raise PlanError(f"{path} is no plan: {error}", faults=(("", str(error)),)) from None
    return Plan(document, roots_of(session, document), session)


def _rows(plan: Node, session: QuerySession | None) -> pa.Table:
    memory = session.memory if session else None
    found = running.run(running.pinned(plan), memory=memory)
    return pa.Table.from_batches(found, plan.fields.arrow)
