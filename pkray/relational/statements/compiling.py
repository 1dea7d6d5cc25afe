"""Compile relations and INSERTs into plans."""

from collections.abc import Sequence
from dataclasses import replace

from pkray.errors import QueryError, UnsupportedError
from pkray.relational.bound_query import BoundQuery, session_of
from pkray.relational.catalog import Catalog
from pkray.relational.continuous.queries.compiling import Compiled, compile_plans
from pkray.relational.dialect import Dialect
from pkray.relational.sql.statements import kinds as said
from pkray.relational.statements.changing import BoundInsert


def compile_relation(relation: BoundQuery, into: str | None = None) -> Compiled:
    """Compile a relation's plan; as of ``Relation.compile_plan``."""
    session = session_of(relation)
    if into is not None:
        if session is None:
            raise QueryError(f"no catalog has {into}: compile a relation of catalog.sql")
        tree = said.Insert(tuple(into.split(".")), relation.tree)
        bound = BoundInsert(session.catalog, tree, relation.dialect, relation)
        made = compile_plans([bound.node], relation.dialect, session)
        return replace(made, text=relation.text)
    return replace(compile_plans([relation.plan], relation.dialect, session), text=relation.text)


def compile_inserts(catalog: Catalog, inserts: Sequence[BoundInsert], dialect: Dialect) -> Compiled:
    """Compile INSERTs into one plan; what they have in common is in it once."""
    for each in inserts:
        if each.overwrite or each.partition:
            raise UnsupportedError(
                "INSERT OVERWRITE and PARTITION do not go into plans: write INSERT INTO, with the "
                "partition's columns in the query"
            )
    return compile_plans([each.node for each in inserts], dialect, catalog.session)
