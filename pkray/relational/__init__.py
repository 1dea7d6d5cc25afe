"""Relations: queries over keyed tables as one typed plan with one meaning.

::

    text (spark, flink) ──▶ sql ──┐                         ┌──▶ local        Arrow batches, no Java
    methods ──▶ Relation ─────────┴──▶ plan ──▶ optimizer ──┤
                                        │                   └──▶ pkray.spark  a DataFrame
                                        └──▶ plan.compiled    JSON, and back

A `Relation` is lazy and immutable: a query (a syntax tree) bound to a plan. Its methods write the
same syntax that a text is parsed into, so that both give the same plan.

- **expression** (`plan.expressions`): typed and explicit. Casts, checked or wrapping arithmetic,
  the order of NULLs and the treatment of zeros stand in it; nothing below the binder knows of
  dialects.
- **node** (`plan.nodes`): what is done to rows. The columns of a node have distinct names, and only
  filters, projections and the further conditions of joins hold expressions: all else names columns.
- **source** (`sources`): where rows come from.
- **statement** (`statements`): what ``catalog.sql`` does besides queries. `api` has the methods
  that write syntax; what a user holds is in ``pkray.api``.
- **function** (`functions`): a name, its typing, its kernel over Arrow arrays and its Spark SQL.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pkray.api.backups import Backups as Backups
    from pkray.api.inputs import Changelog, changelog, from_arrow, query
    from pkray.api.plan import Plan
    from pkray.api.plan import load_plan as load_plan
    from pkray.api.plan import run_plan_statement as run_plan_statement
    from pkray.api.query import held as held
    from pkray.api.relation import Relation
    from pkray.api.relation import of_system_table as of_system_table
    from pkray.api.relation import of_table as of_table
    from pkray.api.statement import Statement
    from pkray.api.statement import run_statement as run_statement
    from pkray.relational.api import func as func
    from pkray.relational.api.column import Column, col, exists, lit, when
    from pkray.relational.api.grouped import Grouped, cube, grouping_sets, rollup
    from pkray.relational.api.windows import Cumulate, Session, Slide, Tumble
    from pkray.relational.cancellation import Cancellation
    from pkray.relational.continuous.queries.definitions.options import QueryOptions as QueryOptions
    from pkray.relational.continuous.queries.definitions.query_store import (
        check_unused as check_unused,
    )
    from pkray.relational.continuous.queries.materializing import materialize as materialize
    from pkray.relational.continuous.queries.query import find_query as find_query
    from pkray.relational.continuous.queries.query import list_queries as list_queries
    from pkray.relational.continuous.queries.state_tables import state_rows as state_rows
    from pkray.relational.continuous.queries.stream import for_each_batch as for_each_batch
    from pkray.relational.continuous.queries.stream import open_stream as open_stream
    from pkray.relational.continuous.queries.verification.verify import check_exact as check_exact
    from pkray.relational.continuous.queries.wanted import halt_all as halt_all
    from pkray.relational.continuous.queries.wanted import resume_wanted as resume_wanted
    from pkray.relational.session import QuerySession as QuerySession
    from pkray.relational.sources.watermarks import options_of as options_of
    from pkray.relational.statements.compiling import compile_inserts as compile_inserts
    from pkray.relational.statements.compiling import compile_relation as compile_relation
    from pkray.relational.statements.views import create_view as create_view
    from pkray.relational.statements.views import drop_view as drop_view
    from pkray.relational.statements.views import register_function as register_function

__all__ = [
    "Cancellation",
    "Changelog",
    "Column",
    "Cumulate",
    "Grouped",
    "Plan",
    "Relation",
    "Session",
    "Slide",
    "Statement",
    "Tumble",
    "changelog",
    "col",
    "cube",
    "exists",
    "from_arrow",
    "func",
    "grouping_sets",
    "lit",
    "query",
    "rollup",
    "when",
]

_MEMBERS = {
    "pkray.api.backups": ("Backups",),
    "pkray.api.inputs": ("Changelog", "changelog", "from_arrow", "query"),
    "pkray.api.plan": ("Plan", "load_plan", "run_plan_statement"),
    "pkray.api.query": ("held",),
    "pkray.api.relation": ("Relation", "of_system_table", "of_table"),
    "pkray.api.statement": ("Statement", "run_statement"),
    "pkray.relational.api.column": ("Column", "col", "exists", "lit", "when"),
    "pkray.relational.api.grouped": ("Grouped", "cube", "grouping_sets", "rollup"),
    "pkray.relational.api.windows": ("Cumulate", "Session", "Slide", "Tumble"),
    "pkray.relational.cancellation": ("Cancellation",),
    "pkray.relational.continuous.queries.materializing": ("materialize",),
    "pkray.relational.continuous.queries.definitions.options": ("QueryOptions",),
    "pkray.relational.continuous.queries.query": ("find_query", "list_queries"),
    "pkray.relational.continuous.queries.definitions.query_store": ("check_unused",),
    "pkray.relational.continuous.queries.wanted": ("halt_all", "resume_wanted"),
    "pkray.relational.continuous.queries.state_tables": ("state_rows",),
    "pkray.relational.continuous.queries.stream": ("for_each_batch", "open_stream"),
    "pkray.relational.continuous.queries.verification.verify": ("check_exact",),
    "pkray.relational.statements.compiling": ("compile_inserts", "compile_relation"),
    "pkray.relational.session": ("QuerySession",),
    "pkray.relational.sources.watermarks": ("options_of",),
    "pkray.relational.statements.views": ("create_view", "drop_view", "register_function"),
}
"""Where names are: those of `__all__`, and those that `pkray.api` opens when they are called."""
_MODULES = {name: module for module, names in _MEMBERS.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "func":
        return importlib.import_module("pkray.relational.api.func")
    if name not in _MODULES:
        raise AttributeError(f"module 'pkray.relational' has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *globals()})
