"""Answer SQL over a catalog's tables by Spark, and give tables names in a session."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, lit

from pkray.api.relation import Snapshots, of_node
from pkray.arguments.checks import Give
from pkray.arguments.facade import Name, checked
from pkray.errors import OptionError, QueryError
from pkray.relational.dialect import Dialect
from pkray.relational.plan.nodes import Node
from pkray.relational.running import pinned_together
from pkray.relational.spark_sql.constants import quoted
from pkray.scan.moment import LATEST, Timestamp
from pkray.schema.types import DataType
from pkray.spark.arguments import Session, check_catalog, check_session
from pkray.spark.failure import typed
from pkray.spark.queries.needs import Comparison, Needs, needs_of, stand_in
from pkray.spark.queries.texts import Mention, QueryText, class_name
from pkray.spark.relations import named
from pkray.spark.source import register

if TYPE_CHECKING:
    from pkray.api.catalog import Catalog

Arguments: TypeAlias = Mapping[str, Any] | Sequence[Any]
TableNames: TypeAlias = Annotated[
    Mapping[str, str] | Sequence[str],
    Give("names of tables, such as ['shop.orders'], or {'view': 'shop.orders'}"),
]
_MARK = "pkray"
_INTEGERS = frozenset(("TINYINT", "SMALLINT", "INT", "BIGINT"))
_TEXTS = frozenset(("STRING", "VARCHAR"))


@checked
@typed()
def sql(
    spark: Session,
    catalog: Catalog,
    text: str,
    args: Arguments | None = None,
    *,
    snapshot: Snapshots | None = None,
    tag: str | None = None,
    timestamp: Timestamp | None = None,
) -> DataFrame:
    """Give a query in Spark's SQL over a catalog's tables as a lazy DataFrame of the session.

    Each call reads the newest snapshots, all of one instant; the DataFrame stays on them. Of a
    table it reads the columns that the query looks at, and leaves out files that hold no row which
    the query's comparisons keep. Files that need no merging are read by Spark's own Parquet reader.

    A name is ``database.table``, also of a branch or a system table in backquotes, a view of the
    catalog, or one in its current database; what `views` has named is read anew, at the newest
    snapshot. All other names are Spark's own: temporary views, and tables of Spark's catalog. In
    the text columns are qualified by a table's name or alias, without the database.

    Args:
        args: values of ``:name`` or ``?`` in the text, as ``spark.sql`` takes them.
        snapshot, tag, timestamp: the moment at which its tables are read; `snapshot` is an id, or
            ids by table where it reads several.

    Raises:
        QueryError: no table or view has a name of the text, or a temporary view of the session
            and a table have the same one.
        UnsupportedError: it is no query, but changes something.
        SnapshotNotFoundError, TagNotFoundError: a table has no such snapshot.
        ParseException, AnalysisException: Spark does not understand it.
    """
    check_session("sql", spark)
    check_catalog("sql", catalog)
    register(spark)
    query = QueryText.parse(spark, text)
    found = {each: node for each in query.mentions if (node := _found(spark, catalog, each))}
    pinned = pinned_together(list(found.values()), snapshot, tag, timestamp)
    tables = dict(zip(found, pinned, strict=True))
    given = None if args is None else dict(args) if isinstance(args, Mapping) else list(args)
    stand_ins = {
        each: stand_in(spark, node.fields.arrow, number)
        for number, (each, node) in enumerate(tables.items())
    }
    needs = needs_of(spark, _over(spark, query, stand_ins, given))
    read = {
        each: _rows(spark, tables[each], frame, needs[number]) if number in needs else frame
        for number, (each, frame) in enumerate(stand_ins.items())
    }
    return _over(spark, query, read, given)


@checked
@typed()
def views(
    spark: Session,
    catalog: Catalog,
    tables: TableNames | None = None,
    *,
    database: Name | None = None,
    snapshot: Snapshots | None = None,
    tag: str | None = None,
    timestamp: Timestamp | None = None,
) -> dict[str, str]:
    """Give tables names in a session: temporary views, for ``spark.sql("SELECT …")``.

    A view is at the snapshot that is the newest now, all views at one instant, and stays there:
    **call again to move them** to new snapshots. `sql` moves by itself, also where its text names
    these views. A view of a snapshot that has expired, or of a table that was dropped, fails with
    Spark's error for a missing file, until the next call.

    Spark pushes filters down to a view. Of files that need no merging its Parquet reader reads the
    columns of the query alone; of those to be merged a view reads every column, for Spark does not
    say which it needs. `sql` reads those few.

    Args:
        tables: ``database.table`` of each, whose view is called ``table``; or by the views' names.
        database: all tables of this one.
        snapshot, tag, timestamp: the moment at which they are read, as of `sql`.

    Returns:
        ``database.table`` by the view's name.

    Raises:
        OptionError: neither tables nor a database, or both.
        QueryError: no table has the name, or another view does.
    """
    check_session("views", spark)
    check_catalog("views", catalog)
    if (tables is None) == (database is None):
        raise OptionError("views takes tables or a database: give one of them")
    chosen = _chosen(catalog.list_tables(database) if tables is None else tables)
    full = {
        view: catalog.session.full_name(tuple(name.split(".", 1))) for view, name in chosen.items()
    }
    for view, name in full.items():
        holder = _temporary_view(spark, view)
        if holder is not None and _marked(holder) != _mark(catalog, name):
            raise QueryError(
                f"the session has a view {view!r} of something else than {name}: name this one "
                f"otherwise, as by {{'{view}_2': {name!r}}}, or drop it by "
                f"spark.catalog.dropTempView({view!r})",
                view=view,
                table=name,
            )
    nodes = [_node(catalog, tuple(name.split(".", 1))) for name in full.values()]
    pinned = pinned_together(nodes, snapshot, tag, timestamp)
    register(spark)
    frames = [of_node(("t",), node).to_spark(spark) for node in pinned]
    for (view, name), frame in zip(full.items(), frames, strict=True):
        with named(frame) as whole:
            spark.table(whole).alias(_mark(catalog, name)).createOrReplaceTempView(view)
    return full


def _chosen(tables: Mapping[str, str] | Sequence[str]) -> Mapping[str, str]:
    if isinstance(tables, Mapping):
        return tables
    names = [tables] if isinstance(tables, str) else tables
    chosen: dict[str, str] = {}
    for name in names:
        view = name.rpartition(".")[2]
        if chosen.setdefault(view, name) != name:
            raise QueryError(
                f"{chosen[view]} and {name} would both be the view {view!r}: name them otherwise, "
                f"as by {{'{view}_2': {name!r}}}",
                view=view,
                table=name,
            )
    return chosen


def _over(
    spark: SparkSession, query: QueryText, frames: Mapping[Mention, DataFrame], given: Any
) -> DataFrame:
    """Run the text with DataFrames in place of its tables."""
    with ExitStack() as names:
        views = {each: names.enter_context(named(frame)) for each, frame in frames.items()}
        return spark.sql(query.written(views), given)


def _found(spark: SparkSession, catalog: Catalog, mention: Mention) -> Node | None:
    """Find what a name is in the catalog; None where it is one of Spark's."""
    parts, name = mention.parts, ".".join(mention.parts)
    holder = _temporary_view(spark, name) if len(parts) == 1 else None
    marked = holder and _marked(holder)
    if marked and marked == _mark(catalog, table := marked.split(" ")[1]):
        return _node(catalog, tuple(table.split(".", 1)))
    try:
        node = _node(catalog, parts)
    except QueryError:
        if holder or spark.catalog.tableExists(".".join(map(quoted, parts))):
            return None
        raise
    if holder:
        whole = catalog.session.full_name(parts)
        raise QueryError(
            f"{name!r} is a temporary view of the session, and a table or view of the catalog: "
            f"write {whole} for the latter, or drop the former by "
            f"spark.catalog.dropTempView({name!r})",
            view=name,
            table=whole,
        )
    return node


def _node(catalog: Catalog, parts: tuple[str, ...]) -> Node:
    names = catalog.session.environment(Dialect.SPARK)
    node: Node = names.relation(parts, {}, LATEST)
    return node


def _rows(spark: SparkSession, table: Node, stand: DataFrame, needs: Needs) -> DataFrame:
    """Read what a query needs; what it does not look at is NULL."""
    rows = of_node(("t",), table)
    for each in _understood(table, needs.conditions):
        rows = rows.filter(getattr(rows[each.column], each.method)(*each.values))
    read = [name for name in table.fields.names if name in needs.columns]
    kept = [rows[name] for name in read or table.fields.names[:1]]
    frame: DataFrame = rows.select(*kept).to_spark(spark)
    return frame.select(
        *(
            col(quoted(each.name))
            if each.name in needs.columns
            else lit(None).cast(each.dataType).alias(each.name)
            for each in stand.schema
        )
    )


def _understood(table: Node, conditions: Iterable[Comparison]) -> Iterable[Comparison]:
    for each in conditions:
        if each.column in table.fields and all(
            _is_of(table.fields[each.column].type, value) for value in each.values
        ):
            yield each


def _is_of(kind: DataType, value: object) -> bool:
    if isinstance(value, int):
        return kind.root in _INTEGERS
    return kind.root in _TEXTS if isinstance(value, str) else kind.root == "DATE"


def _temporary_view(spark: SparkSession, name: str) -> Any:
    """Find a temporary view of the session's; None without."""
    session: Any = spark._jsparkSession
    found = session.sessionState().catalog().getTempView(name)
    return found.get() if found.isDefined() else None


def _mark(catalog: Catalog, name: str) -> str:
    return f"{_MARK} {name} {catalog.warehouse}"


def _marked(view: Any) -> str | None:
    """Say which table a view is of, where `views` made it."""
    while view.children().size() == 1:
        view = view.children().apply(0)
        if class_name(view) == "SubqueryAlias":
            alias = str(view.identifier().name())
            return alias if alias.startswith(f"{_MARK} ") else None
    return None
