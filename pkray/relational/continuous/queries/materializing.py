"""Start a query that keeps a table up to date."""

import dataclasses
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from pkray.arguments.facade import Options
from pkray.errors import PkrayError, QueryError, SchemaError, TableExistsError
from pkray.relational.bound_query import BoundQuery, session_of
from pkray.relational.continuous.queries.compiling import compile_plans
from pkray.relational.continuous.queries.definitions.failure_hooks import OnFailure
from pkray.relational.continuous.queries.definitions.options import QueryOptions
from pkray.relational.continuous.queries.definitions.query_store import QueryStore
from pkray.relational.continuous.queries.query import Query, start_query
from pkray.relational.continuous.queries.verification.verify import check_exact
from pkray.relational.plan.keys import best_key, unique_keys
from pkray.relational.plan.nodes import Node, RowKey, Sink
from pkray.relational.plan.state import ttl_of
from pkray.table.table import Table


def materialize(
    relation: BoundQuery,
    name: str,
    primary_key: Sequence[str] | None,
    options: Options | None,
    trigger: str,
    max_rows: int | None,
    strict: bool,
    on_error: str,
    clock: Callable[[], int] | None,
    on_failure: OnFailure | None = None,
    backfill: str | None = None,
    replace: bool = False,
) -> Query:
    """Start a query; as of ``Relation.materialize``."""
    session = session_of(relation)
    if session is None:
        raise QueryError(
            f"no catalog has the table {name}: make the relation by catalog.sql or from a table"
        )
    if strict:
        check_exact([relation.plan], relation.dialect, ttl_of(session.options))
    chosen = QueryOptions(
        trigger, max_rows, on_error, clock=clock, on_failure=on_failure, backfill=backfill
    )
    chosen.trigger_of()
    key = tuple(primary_key) if primary_key else best_key(relation.plan, unique_keys(relation.plan))
    plan, key = _keyed(relation.plan, key, given=primary_key is not None)
    full = session.full_name(tuple(name.split(".")))
    made = _create_table(session.catalog, full, plan, key, options)
    try:
        table = made or _checked_table(session.catalog, full, plan, key, replace=replace)
        sink = Sink(plan, table.name, plan.fields.names)
        compiled = compile_plans([sink], relation.dialect, session, [table])
        started = dataclasses.replace(compiled, text=relation.text)
        return start_query(started, full, chosen, owns=True, replace=replace)
    except PkrayError:
        if made is not None:
            _drop_unused(session.catalog, full)
        raise


def _keyed(plan: Node, key: tuple[str, ...] | None, *, given: bool) -> tuple[Node, tuple[str, ...]]:
    """Give a plan a key without NULLs."""
    for name in key or ():
        if name not in plan.fields:
            raise SchemaError(
                f"primary key column {name!r} is not in the result, which has "
                f"{', '.join(plan.fields.names)}",
                column=name,
            )
    if given or (key and not any(plan.fields[name].type.nullable for name in key)):
        return plan, key or ()
    keyed = RowKey(plan, key or ())
    return keyed, (keyed.name,)


def _create_table(
    catalog: Any, name: str, plan: Node, key: tuple[str, ...], options: Options | None
) -> Table | None:
    """Create the table of a result; None where there is one."""
    columns = [
        (each.name, each.type.with_nullable(each.type.nullable and each.name not in key))
        for each in plan.fields
    ]
    try:
        made: Table = catalog.create_table(name, columns, key, options=options)
    except TableExistsError:
        return None
    return made


def _drop_unused(catalog: Any, name: str) -> None:
    """Drop the table that was made for a query that was refused, unless somebody uses it by now."""
    with suppress(PkrayError):
        if catalog.load_table(name).latest_snapshot() is None:
            catalog.drop_table(name)


def _checked_table(
    catalog: Any, name: str, plan: Node, key: tuple[str, ...], *, replace: bool
) -> Table:
    """Load the table of a result, and check that it can hold that."""
    table: Table = catalog.load_table(name)
    there = [(each.name, str(each.type.with_nullable(True))) for each in table.schema.fields]
    wanted = [(each.name, str(each.type.with_nullable(True))) for each in plan.fields]
    if not replace and QueryStore(catalog.store).find(name) is not None:
        return table  # the query that is there has this plan, or says how another takes over
    if there != wanted or set(table.primary_keys) != set(key):
        raise SchemaError(
            f"table {name} has the columns {_listed(there)} and the key "
            f"{', '.join(table.primary_keys)}; the result has {_listed(wanted)} and the key "
            f"{', '.join(key)}: give another name",
            table=name,
        )
    return table


def _listed(columns: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns)
