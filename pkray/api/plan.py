"""Compiled plans: a query as a JSON file that a later pkray runs as it was planned."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from pkray import json_files
from pkray.api.query import Query, held
from pkray.arguments.facade import checked_class
from pkray.errors import PlanError
from pkray.relational import outcome, plan_files, running
from pkray.relational.catalog import Catalog
from pkray.relational.continuous.queries.compiling import Compiled
from pkray.relational.continuous.queries.definitions.options import QueryOptions
from pkray.relational.continuous.queries.query import start_query
from pkray.relational.dialect import Dialect
from pkray.relational.plan.drawn import drawn_document
from pkray.relational.plan.json.writer import in_order, shared_nodes
from pkray.relational.plan.nodes import Node, Sink
from pkray.relational.plan.physical import to_logical
from pkray.relational.plan.plan_diff import PlanDiff, diff_of, refusals
from pkray.relational.session import QuerySession
from pkray.relational.sql.statements import kinds as said
from pkray.relational.statements.changing import BoundInsert, write_sink
from pkray.relational.statements.compiling import compile_inserts
from pkray.relational.statements.definitions import DONE
from pkray.shown import html_table


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
        self._text = ""

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
        plan_files.write_plan(self._document, os.fspath(path), overwrite=overwrite)

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
        return held(start_query(self.compiled, name, options, owns=owns, replace=replace))

    @classmethod
    def from_compiled(cls, compiled: Compiled) -> Plan:
        """Hold what was compiled.

        Args:
            compiled: its document, roots and session.
        """
        made = cls(compiled.document, compiled.roots, compiled.session)
        made._text = compiled.text
        return made

    @property
    def compiled(self) -> Compiled:
        """Give what runs."""
        return Compiled(self.to_dict(), self.roots, self._session, text=self._text)

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

    def _repr_html_(self) -> str:
        rows = [(node["id"], node["description"]) for node in self._document["nodes"]]
        caption = f"Plan: {len(rows)} nodes"
        return drawn_document(self._document, {}) + html_table(caption, rows, ("node", "does"))


def _stateful(roots: Sequence[Node]) -> set[int]:
    nodes = enumerate(in_order(shared_nodes(roots)), 1)
    return {number for number, node in nodes if node.states()}


def run_plan_statement(
    catalog: Catalog, asked: said.CompilePlan | said.ExecutePlan, dialect: Dialect
) -> pa.Table:
    """Do COMPILE PLAN or EXECUTE PLAN."""
    session = catalog.session
    plan_files.check_plan_path(asked.path, session.options)
    if isinstance(asked, said.CompilePlan):
        if asked.if_not_exists and plan_files.plan_exists(asked.path):
            return DONE
        asked_for = asked.statement
        inserts = (asked_for,) if isinstance(asked_for, said.Insert) else asked_for.inserts
        bound = [BoundInsert(catalog, each, dialect) for each in inserts]
        Plan.from_compiled(compile_inserts(catalog, bound, dialect)).write(asked.path)
        return DONE
    if asked.if_exists and not plan_files.plan_exists(asked.path):
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
    data = plan_files.read_plan(os.fspath(path))
    try:
        document = json_files.values(data)
    except ValueError as error:
        raise PlanError(f"{path} is no plan: {error}", faults=(("", str(error)),)) from None
    return Plan(document, plan_files.roots_of(session, document), session)


def _rows(plan: Node, session: QuerySession | None) -> pa.Table:
    memory = session.memory if session else None
    found = running.run(running.pinned(plan), memory=memory)
    shown = outcome.shown(found, plan.fields)
    return pa.Table.from_batches(shown, outcome.arrow_schema(plan.fields))
