"""Run a statement of ``catalog.sql``: a query becomes a relation, an INSERT a `Statement`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from pkray import relational
from pkray.api.relation import of_query
from pkray.arguments.facade import checked_class
from pkray.errors import QueryError
from pkray.relational import running
from pkray.relational.api import printing
from pkray.relational.api.composing import in_dialect
from pkray.relational.bound_query import BoundQuery
from pkray.relational.dialect import Dialect
from pkray.relational.explanation import Explanation
from pkray.relational.plan.nodes import Sink
from pkray.relational.plan.state import ttl_of
from pkray.relational.plan.total_rows import with_total_rows
from pkray.relational.sql.statements import kinds as said
from pkray.relational.sql.statements.reading import parse_statement, placed
from pkray.relational.statements import changing, definitions
from pkray.relational.statements.changing import BoundInsert
from pkray.relational.statements.definitions import DONE
from pkray.scan.moment import LATEST
from pkray.storage.secrets import redact

if TYPE_CHECKING:
    from pkray.format.snapshot import Snapshot
    from pkray.relational.catalog import Catalog


@checked_class
class Statement:
    """An INSERT, or a statement set; nothing runs before it is told to.

    Args:
        inserts: bound to their tables.

    Attributes:
        text: the SQL that it was read from, without secrets.
    """

    def __init__(self, catalog: Catalog, inserts: Sequence[BoundInsert], dialect: Dialect) -> None:
        self._catalog = catalog
        self._inserts = tuple(inserts)
        self.dialect = dialect
        self.text = ""

    def __repr__(self) -> str:
        return f"Statement(INSERT INTO {', '.join(self.tables)})"

    @property
    def tables(self) -> list[str]:
        """Name the tables that it writes to."""
        return [each.table.name for each in self._inserts]

    @property
    def sinks(self) -> list[Sink]:
        """List the plans, one a table."""
        return [each.node for each in self._inserts]

    def run(self) -> dict[str, Snapshot | None]:
        """Run it once, over what the tables hold at one instant now; each INSERT is one commit.

        Returns:
            the snapshots by table; None where there was nothing to commit.

        Raises:
            EvaluationError: a row cannot be computed; nothing of that INSERT was written.
            InputError: a row does not fit the table; nothing of that INSERT was written.
        """
        plans = running.pinned_together([each.node.input for each in self._inserts])
        pairs = zip(self._inserts, plans, strict=True)
        return {each.table.name: each.run(plan) for each, plan in pairs}

    def start(
        self,
        name: str | None = None,
        *,
        trigger: str = "changes",
        max_rows: int | None = None,
        on_error: Literal["stop", "skip"] = "stop",
        clock: Callable[[], int] | None = None,
        on_failure: Callable[[dict[str, Any]], object] | None = None,
        backfill: Literal["local", "spark"] | None = None,
        strict: bool = False,
        replace: bool = False,
    ) -> Any:
        """Let it go on as its sources change.

        Args:
            name: of the query; default the names of its tables.
            trigger, max_rows, on_error, clock, on_failure, backfill, strict: as of
                ``Relation.materialize``.
            replace: begin anew: a query of this name is dropped, and one commit a table has its
                whole content go for the query's rows, whoever wrote it.

        Returns:
            the query; one that is there with this name and plan goes on.

        Raises:
            QueryExistsError: there is one of this name with another plan.
            SharedResultError: a dropped query of this name has left rows in a table, and others
                have written to it too.
            UnsupportedError: a node does not run continuously; or, with `strict`, is excepted from
                the claim that results equal bounded ones.
        """
        if strict:
            relational.check_exact(self.sinks, self.dialect, ttl_of(self._catalog.session.options))
        options = relational.QueryOptions(
            trigger, max_rows, on_error, clock=clock, on_failure=on_failure, backfill=backfill
        )
        return self.compile().start(name, options, replace=replace)

    def compile(self) -> Any:
        """Make the plan that ``COMPILE PLAN`` writes."""
        compiled = relational.compile_inserts(self._catalog, self._inserts, self.dialect)
        return relational.Plan.from_compiled(replace(compiled, text=self.text))

    def explain(self) -> list[Explanation]:
        """Say how each INSERT would run."""
        options = self._catalog.session.options
        plans = [with_total_rows(sink, self.dialect) for sink in self.sinks]
        return [Explanation(plan, options) for plan in plans]


def run_statement(catalog: Catalog, text: str, dialect: str) -> Any:
    """Read one statement, and do it or make it ready; as of ``Catalog.sql``."""
    kind = in_dialect(dialect)
    try:
        made = _do(catalog, parse_statement(text, kind), kind)
    except QueryError as error:
        raise placed(error, text, kind) from error.__cause__
    if isinstance(made, BoundQuery | Statement):
        made.text = redact(text.strip(), catalog.storage_options)
    return made


def _do(catalog: Catalog, asked: said.Statement, dialect: Dialect) -> Any:
    match asked:
        case said.Query():
            return of_query(asked.tree, catalog.session.environment(dialect))
        case said.Insert():
            return Statement(catalog, [BoundInsert(catalog, asked, dialect)], dialect)
        case said.StatementSet():
            inserts = [BoundInsert(catalog, each, dialect) for each in asked.inserts]
            return Statement(catalog, inserts, dialect)
        case said.Update():
            return changing.update(catalog, asked, dialect)
        case said.Delete():
            return changing.delete(catalog, asked, dialect)
        case said.Merge():
            return changing.merge(catalog, asked, dialect)
        case said.SetOption():
            return definitions.set_option(catalog, asked)
        case said.Show():
            return definitions.show(catalog, asked, dialect)
        case said.Describe():
            return _described(catalog, asked, dialect)
        case said.Explain():
            return _explained(catalog, asked, dialect)
        case said.CompilePlan() | said.ExecutePlan():
            return relational.run_plan_statement(catalog, asked, dialect)
    _define(catalog, asked, dialect)
    return DONE


def _define(catalog: Catalog, asked: said.Statement, dialect: Dialect) -> None:
    match asked:
        case said.CreateTable():
            _create_table(catalog, asked, dialect)
        case said.AlterTable():
            definitions.alter_table(catalog, asked, dialect)
        case said.Drop():
            definitions.drop(catalog, asked)
        case said.CreateDatabase():
            catalog.create_database(asked.name, if_not_exists=asked.if_not_exists)
        case said.Use():
            definitions.use(catalog, asked.name)
        case said.CreateView():
            definitions.make_view(catalog, asked, dialect)
        case said.Reset():
            definitions.reset(catalog, asked.key)


def _create_table(catalog: Catalog, asked: said.CreateTable, dialect: Dialect) -> None:
    name = catalog.session.full_name(asked.name)
    was_there = asked.tree is not None and catalog.table_exists(name)
    definitions.create_table(catalog, asked, dialect)
    if asked.tree is not None and not was_there:
        BoundInsert(catalog, said.Insert(asked.name, asked.tree), dialect).run()


def _described(catalog: Catalog, asked: said.Describe, dialect: Dialect) -> pa.Table:
    names = catalog.session.environment(dialect)
    plan = (
        of_query(asked.tree, names).plan if asked.tree else names.relation(asked.name, {}, LATEST)
    )
    return printing.described(plan)


def _explained(catalog: Catalog, asked: said.Explain, dialect: Dialect) -> pa.Table:
    made = _do(catalog, asked.statement, dialect)
    explained = made.explain()
    parts = explained if isinstance(explained, list) else [explained]
    return pa.table({"plan": ["\n".join(map(str, parts))]})
