"""Views and users' functions of a catalog."""

from typing import Any

from pkray.errors import OptionError, QueryError, TableExistsError, TableNotFoundError
from pkray.relational.bound_query import BoundQuery
from pkray.relational.catalog import Catalog
from pkray.relational.dialect import Dialect
from pkray.relational.functions import function
from pkray.relational.functions.aggregates import catalogue as aggregates
from pkray.relational.sql.parser import parse_query
from pkray.relational.sql.places import nearest
from pkray.relational.udf import Udf
from pkray.table.views import StoredView


def create_view(
    catalog: Catalog,
    name: str,
    query: object,
    *,
    temporary: bool = False,
    dialect: Dialect = Dialect.SPARK,
    replace: bool = False,
    if_not_exists: bool = False,
) -> None:
    """Give a query a name; as of ``Catalog.create_view``."""
    session = catalog.session
    if isinstance(query, str):
        query = BoundQuery(parse_query(query, dialect), session.environment(dialect))
    if not isinstance(query, BoundQuery):
        raise QueryError(
            f"a view is of a query: give a Relation or SQL text, not {type(query).__name__}"
        )
    if temporary:
        _create_temporary(session, name, query, replace=replace, if_not_exists=if_not_exists)
        return
    if name.count(".") > 1:
        raise QueryError(f"{name!r} names more than a database and a view: write database.view")
    full = session.full_name(tuple(name.split(".")))
    if catalog.table_exists(full):
        raise TableExistsError(f"{full} is a table: choose another name", table=full)
    there = catalog.find_view(full)
    if there is not None and if_not_exists:
        return
    if query.reads_memory:
        raise QueryError(
            f"view {full} cannot be stored: its query reads rows that are in memory alone, or "
            "functions of this process; make it temporary",
            view=full,
        )
    view = StoredView(query.sql(), query.dialect.value, session.database)
    catalog.create_database(full.split(".")[0], if_not_exists=True)
    if replace:
        catalog._views.replace(full, view)
    else:
        catalog._views.create(full, view)


def _create_temporary(
    session: Any, name: str, query: BoundQuery, *, replace: bool, if_not_exists: bool
) -> None:
    if "." in name:
        raise QueryError(f"a temporary view is in no database: call it {name.split('.')[-1]!r}")
    if name in session.views and not replace:
        if if_not_exists:
            return
        raise TableExistsError(
            f"a temporary view {name!r} exists already: drop it, or create or replace it",
            table=name,
        )
    session.views[name] = query


def drop_view(catalog: Catalog, name: str, *, if_exists: bool = False) -> None:
    """Forget a view; as of ``Catalog.drop_view``."""
    session = catalog.session
    if session.views.pop(name, None) is not None:
        return
    full = session.full_name(tuple(name.split(".")))
    if catalog.find_view(full) is not None:
        catalog._views.drop(full)
    elif not if_exists:
        known = [*session.views, *catalog.views()]
        raise TableNotFoundError(f"no view is called {full}{nearest(name, known)}", table=full)


def register_function(catalog: Catalog, name: str, made: Any) -> None:
    """Give a user's function a name; as of ``Catalog.register_function``."""
    if not isinstance(made, Udf):
        raise OptionError(
            f"function cannot be {made!r}: make one by pkray.relational.udf, as by "
            '@udf("BIGINT") above a function of Arrow arrays',
            arguments=("function",),
        )
    taken = any(
        function.is_function(name, dialect) or aggregates.is_aggregate(name, dialect)
        for dialect in Dialect
    )
    if taken or not name.isidentifier():
        raise QueryError(
            f"a function cannot be called {name!r}: "
            + ("SQL has one of this name" if taken else "give letters, digits and _"),
            function=name,
        )
    catalog.session.functions[name.lower()] = made
