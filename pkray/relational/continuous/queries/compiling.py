"""Plans of queries, compiled: what JSON has of them, and what runs continuously."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pkray.relational.bound_query import BoundQuery
from pkray.relational.continuous.outlets.conflicts import RETRACTING, settled
from pkray.relational.dialect import Dialect
from pkray.relational.optimizer import optimize
from pkray.relational.plan.json.writer import to_json
from pkray.relational.plan.keys import best_key, unique_keys, upsert_keys
from pkray.relational.plan.nodes import ROW_KEY, Node, RowKey, Sink
from pkray.relational.plan.physical import check_kept, tells_twice, to_physical
from pkray.relational.plan.state import ttl_of
from pkray.relational.plan.total_rows import with_total_rows
from pkray.relational.session import QuerySession
from pkray.table.table import Table
from pkray.version import __version__


@dataclass(frozen=True)
class Compiled:
    """A compiled plan.

    Attributes:
        document: as JSON has it.
        roots: the physical plan: one that gives rows, or one a table.
        session: of the catalog whose tables it reads; None where it reads none.
        results: tables that it writes, by name, which are loaded already.
        text: the SQL that it was compiled of; empty: it was made otherwise.
    """

    document: dict[str, Any]
    roots: tuple[Node, ...]
    session: QuerySession | None
    results: dict[str, Table] = field(default_factory=dict, compare=False, repr=False)
    text: str = field(default="", compare=False)

    @property
    def before(self) -> list[bool]:
        """Say of each root whether rows before updates are needed."""
        return [_needs_before(root, self.session, self.results) for root in self.roots]


def compile_plans(
    plans: Sequence[Node],
    dialect: Dialect,
    session: QuerySession | None,
    results: Sequence[Table] = (),
) -> Compiled:
    """Compile bound plans; what is equal in several of them is in it once.

    Args:
        results: tables that are written, which are loaded already.

    Raises:
        UnsupportedError: a column is an INTERVAL, which neither state nor tables hold.
    """
    for plan in plans:
        check_kept(plan)
    tables = {each.name: each for each in results}
    optimized = [
        _settled(with_total_rows(optimize(plan), dialect), session, tables) for plan in plans
    ]
    before = [_needs_before(plan, session, tables) for plan in optimized]
    options = session.options if session else {}
    duplicates = tells_twice(options)
    physical = tuple(
        to_physical(plan, before=needed, by_key=not needed, duplicates=duplicates)
        for plan, needed in zip(optimized, before, strict=True)
    )
    document = to_json(
        physical, dialect=str(dialect), version=__version__, ttl=ttl_of(options), before=before
    )
    return Compiled(document, physical, session, tables)


def _settled(plan: Node, session: QuerySession | None, tables: dict[str, Table]) -> Node:
    if not isinstance(plan, Sink) or session is None:
        return plan
    return settled(plan, _table(plan.table, session, tables))


def _table(name: str, session: QuerySession, tables: dict[str, Table]) -> Table:
    """Load a table once."""
    if name not in tables:
        tables[name] = session.catalog.load_table(name)
    return tables[name]


def _needs_before(plan: Node, session: QuerySession | None, tables: dict[str, Table]) -> bool:
    """Whether the plan's table is keyed otherwise than its changes: rows must be taken back."""
    if not isinstance(plan, Sink) or session is None:
        return True
    key = best_key(plan.input, upsert_keys(plan.input))
    if key is None:
        return True
    names = dict(zip(plan.input.fields.names, plan.target, strict=True))
    table = _table(plan.table, session, tables)
    if table.schema.core.merge_engine in RETRACTING:
        return True
    return {names[name] for name in key} != set(table.schema.primary_keys)


def sink_for(relation: BoundQuery, table: Table) -> Sink:
    """Let a relation's rows go to a table that is there, with the key of the table."""
    plan = relation.plan
    if ROW_KEY in table.primary_keys:
        plan = RowKey(plan, best_key(plan, unique_keys(plan)) or ())
    return Sink(plan, table.name, plan.fields.names)
