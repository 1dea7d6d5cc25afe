"""Compiled plans of statements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pkray.errors import UnsupportedError
from pkray.relational.dialect import Dialect
from pkray.relational.sql import statements as said

if TYPE_CHECKING:
    from pkray.table.catalog import Catalog


def compile_statement(catalog: Catalog, statement: Any) -> Any:
    """Make the plan of an INSERT or a statement set."""
    raise UnsupportedError("compiled plans are not offered yet")


def compile_relation(relation: Any, into: str | None) -> Any:
    """Make the plan of a relation."""
    raise UnsupportedError("compiled plans are not offered yet")


def load_plan(catalog: Catalog, path: str) -> Any:
    """Read a plan's file."""
    raise UnsupportedError("compiled plans are not offered yet")


def run_plan_statement(
    catalog: Catalog, asked: said.CompilePlan | said.ExecutePlan, dialect: Dialect
) -> Any:
    """Do COMPILE PLAN or EXECUTE PLAN."""
    raise UnsupportedError("compiled plans are not offered yet")
