"""Write the methods of relations that wrap a query in another: limits, numbers, windows, hints."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlglot import exp

from pkray.errors import OptionError, QueryError
from pkray.relational.api import composing
from pkray.relational.api.column import expression
from pkray.relational.api.composing import item_of, opened, subquery
from pkray.relational.api.queried import Queried
from pkray.relational.api.windows import Window, interval, microseconds
from pkray.relational.bound_query import NUMBER
from pkray.relational.plan.fields import distinct_names
from pkray.relational.sql.dialects import TableArgument
from pkray.relational.sql.syntax import aliased, call, column, identifier, star

ROWTIME = " *ROWTIME*"


# Order, limits, numbers


def limitable(tree: exp.Query, without: Sequence[str]) -> exp.Select:
    """Give a query that LIMIT or OFFSET goes right into."""
    if isinstance(tree, exp.Select) and not any(tree.args.get(key) for key in without):
        return composing.changeable(tree)
    return star(subquery(tree))


def numbered(
    relation: Queried,
    partition_by: Sequence[object],
    order_by: Sequence[exp.Expr],
    numbers: tuple[int, int],
    with_rank: bool,
) -> Any:
    """Keep the rows of each partition whose numbers are within a range."""
    writer = relation._writer()
    rank = distinct_names(["rownum"], relation.columns)[0]
    window = exp.Window(
        this=call("ROW_NUMBER"),
        partition_by=[writer.settled(expression(each)) for each in partition_by],
        order=exp.Order(expressions=[writer.ordering(each) for each in order_by]),
        over="OVER",
    )
    inner = opened(relation.tree)
    inner.set("expressions", [exp.Star(), aliased(window, rank)])
    outer = star(subquery(inner))
    if not with_rank:
        outer.set("expressions", [column(name) for name in relation.columns])
    outer.set("where", exp.Where(this=_within(rank, *numbers)))
    return relation._made(outer, writer, {name: name for name in relation.columns})


def _within(name: str, start: int, end: int) -> exp.Expr:
    def compared(kind: type[exp.Expr], number: int) -> exp.Expr:
        return kind(this=column(name), expression=exp.Literal.number(number))

    if start == end:
        return compared(exp.EQ, start)
    if start == 1:
        return compared(exp.LTE, end)
    return exp.And(this=compared(exp.GTE, start), expression=compared(exp.LTE, end))


# Windows and hints


def windowed(
    relation: Queried, window: Window, early: object = None, lateness: object = None
) -> Any:
    """Write a window table function; as of ``Relation.window``."""
    writer = relation._writer()
    table = composing.table_of(relation.tree)
    plain = table is not None and not table.args.get("alias") and not table.args.get("hints")
    common = None
    if table is None or not plain:
        common = exp.CTE(this=relation.tree, alias=exp.TableAlias(this=identifier("rows")))
        table = exp.Table(this=identifier("rows"))
    keys = [writer.settled(key.copy()) for key in window.keys]
    argument = TableArgument(this=table.copy(), partition_by=keys or None)
    further = [writer.settled(each) for each in window.arguments()]
    for name, duration in (("EARLY", early), ("LATENESS", lateness)):
        if duration is not None:
            value = interval(microseconds(duration))
            further.append(exp.Kwarg(this=exp.var(name), expression=value))
    function = call(window.function, argument, *further)
    made = star(exp.Table(this=call("TABLE", function)))
    if common is not None:
        made.set("with_", exp.With(expressions=[common]))
    return relation._made(made, writer, {name: name for name in relation.columns})


_TABLE_HINTS = {
    "STATE_TTL": {"table": "1 d"},
    "STATEFUL": {"table": "true"},
    "LOOKUP": {"table": "rates", "cache.max-rows": "10000"},
    "UPDATES": {"table": "true"},
}
"""The hints that name tables, each with options as they are written."""


def hinted(relation: Queried, name: str, options: Mapping[str, str]) -> Any:
    """Write a hint; as of ``Relation.hint``."""
    kind = name.upper()
    pairs: list[exp.Expr] = [
        exp.EQ(this=exp.Literal.string(key), expression=exp.Literal.string(str(value)))
        for key, value in options.items()
    ]
    hint = exp.Hint(expressions=[call(kind, *pairs)])
    passed = {each: each for each in relation.columns}
    if kind == "OPTIONS":
        made = relation.tree.copy()
        table = composing.table_of(made)
        if table is None:
            raise QueryError("OPTIONS are of a table: give the hint before other methods")
        made.meta.pop(NUMBER)
        table.set("hints", [*(table.args.get("hints") or []), hint])
        return relation._made(made, relation._writer(), passed)
    if kind not in _TABLE_HINTS:
        raise QueryError(
            f"no hint is called {name!r}: known are OPTIONS, {', '.join(_TABLE_HINTS)}"
        )
    if not options:
        raise OptionError(f"{kind} lacks its options: {_TABLE_HINTS[kind]}", arguments=("options",))
    free = isinstance(relation.tree, exp.Select) and not relation.tree.args.get("hint")
    made = composing.changeable(relation.tree) if free else star(subquery(relation.tree))
    made.set("hint", hint)
    return relation._made(made, relation._writer(), passed)


# Users' functions


def map_rows(relation: Queried, function: Any, columns: Sequence[object]) -> Any:
    """Compute one row of each row; as of ``Relation.map``."""
    if function.type.root != "ROW" or str(function.kind) != "scalar":
        raise QueryError(
            f"map takes a scalar function that gives a ROW: {function.name} gives "
            f"{function.type}; use select for single values and flat_map for table functions"
        )
    made = relation.select(function(*columns).alias("made"))
    return made.select(*(made["made"][each.name].alias(each.name) for each in function.type.fields))


def flat_map(relation: Queried, function: Any, columns: Sequence[object]) -> Any:
    """Compute rows of each row; as of ``Relation.flat_map``."""
    if str(function.kind) != "table":
        raise QueryError(f"flat_map takes a table function: {function.name} is none")
    writer = relation._writer()
    item, _ = item_of(relation.tree)
    called = writer.settled(function(*columns).tree)
    names = [identifier(each.name) for each in function.columns]
    made = star(item)
    made.set("expressions", [column(each.name, "made") for each in function.columns])
    lateral = exp.Lateral(
        this=called,
        view=True,
        outer=False,
        alias=exp.TableAlias(this=identifier("made"), columns=names),
    )
    made.set("laterals", [lateral])
    return relation._made(made, writer, {})
