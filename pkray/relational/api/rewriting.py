"""Write the methods of relations that take more than a line of SQL."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
from sqlglot import exp

from pkray.errors import OptionError, QueryError
from pkray.relational.api import composing, syntax
from pkray.relational.api.column import Column, expression, listed
from pkray.relational.api.composing import Side, Writer, item_of, opened, star, subquery
from pkray.relational.api.queried import AsOf, Queried
from pkray.relational.api.syntax import ORIGIN, aliased, call, column, identifier
from pkray.relational.api.windows import Window, interval, microseconds
from pkray.relational.plan.fields import Field, distinct_names
from pkray.relational.plan.nodes import Node, Scan
from pkray.relational.sql.dialects import TableArgument
from pkray.rows.python_values import to_python_list
from pkray.schema.types import BINARIES, INTEGERS, STRINGS, TIMESTAMPS, DataType

_SIDES: dict[str, dict[str, str]] = {
    "inner": {},
    "left": {"side": "LEFT"},
    "right": {"side": "RIGHT"},
    "full": {"side": "FULL"},
    "semi": {"side": "LEFT", "kind": "SEMI"},
    "anti": {"side": "LEFT", "kind": "ANTI"},
    "cross": {"kind": "CROSS"},
}
_KEEPS_LEFT = ("semi", "anti")
_NUMBERS = (*INTEGERS, "DECIMAL", "FLOAT", "DOUBLE")
_TAKES: tuple[tuple[type, tuple[str, ...]], ...] = (
    (bool, ("BOOLEAN",)),
    (int, _NUMBERS),
    (float, ("FLOAT", "DOUBLE")),
    (Decimal, ("DECIMAL", "FLOAT", "DOUBLE")),
    (str, STRINGS),
    (bytes, BINARIES),
    (dt.datetime, TIMESTAMPS),
    (dt.date, ("DATE",)),
    (dt.time, ("TIME",)),
)
_KEPT = ("BOOLEAN", "INT", "BIGINT", "DOUBLE", "DATE", *STRINGS)
"""Types that a CASE of a column and a fitting constant has by itself."""
ROWTIME = " *ROWTIME*"
_BUCKETS = 1 << 30
"""Parts that rows are hashed to, of which samples and splits take some."""


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


# Joins


def join(
    left: Queried,
    right: Queried | AsOf,
    on: object,
    how: str,
    suffixes: Sequence[str] | None,
) -> Any:
    """Write a join; as of ``Relation.join``."""
    other = right.relation if isinstance(right, AsOf) else right
    if not isinstance(other, Queried):
        raise QueryError(f"a relation joins another relation, not a {type(other).__name__}")
    if suffixes is not None and len(suffixes) != 2:
        raise OptionError("suffixes are two texts: of left columns and of right ones")
    names, right_tree = composing.absorbed(left.names, other)
    left_item, left_name = item_of(left.tree)
    right_item, right_name = item_of(right_tree, left_name)
    writer = Writer([Side(left, left_name), Side(other, right_name)], names)
    made = star(left_item)
    if isinstance(right, AsOf):
        right_item = _versioned(made, right_item, right_tree, right_name)
        time = writer.settled(expression(right.time))
        version = exp.Version(this="TIMESTAMP", kind="AS OF", expression=time)
        right_item.set("version", version)
    keys, conditions = _divided(left, other, on, how)
    wanted: list[exp.Expr] = [
        exp.EQ(
            this=column(left._name(key), left_name),
            expression=column(other._name(key), right_name),
        )
        for key in keys
    ]
    wanted += [writer.settled(each) for each in conditions]
    joined = exp.Join(this=right_item, **_SIDES[how])
    if wanted:
        joined.set("on", syntax.joined(exp.And, wanted))
    made.set("joins", [joined])
    outs = _Outs(left, other, [left._name(key) for key in keys], how, suffixes)
    if how not in _KEEPS_LEFT and (keys or suffixes):
        made.set("expressions", outs.values(left_name, right_name))
    result = left._made(made, writer, {})
    return _with_origins(result, left, other, outs, keeps_right=how not in _KEEPS_LEFT)


class _Outs:
    """Names the columns of a join's sides in its result."""

    def __init__(
        self,
        left: Queried,
        right: Queried,
        keys: Sequence[str],
        how: str,
        suffixes: Sequence[str] | None,
    ) -> None:
        self._how = how
        self._keys = {key: right._name(key) for key in keys}
        rest = [name for name in right.columns if name not in self._keys.values()]
        lower = {name.lower() for name in left.columns} & {name.lower() for name in rest}
        of_left, of_right = suffixes or ("", "")

        def suffixed(name: str, suffix: str) -> str:
            clashes = name.lower() in lower and name not in self._keys
            return name + suffix if clashes else name

        self.left = {name: suffixed(name, of_left) for name in left.columns}
        others = [suffixed(name, of_right) for name in rest]
        fresh = distinct_names(others, self.left.values())
        self.right = dict(zip(rest, fresh, strict=True))

    def values(self, left: str, right: str) -> list[exp.Expr]:
        """Write the result's columns."""
        found = [self._left(name, out, left, right) for name, out in self.left.items()]
        return [*found, *(_as(column(name, right), out) for name, out in self.right.items())]

    def right_origins(self) -> dict[str, str]:
        """Map right columns to those of the result; keys where they are the same."""
        same = self._how in ("inner", "right")
        keys = {there: here for here, there in self._keys.items()} if same else {}
        return {**keys, **self.right}

    def _left(self, name: str, out: str, left: str, right: str) -> exp.Expr:
        there = self._keys.get(name)
        if there is not None and self._how == "right":
            return _as(column(there, right), out)
        if there is not None and self._how == "full":
            return _as(call("coalesce", column(name, left), column(there, right)), out)
        return _as(column(name, left), out)


def _as(value: exp.Expr, name: str) -> exp.Expr:
    if isinstance(value, exp.Column) and value.name == name:
        return value
    return exp.Alias(this=value, alias=identifier(name))


def _with_origins(
    result: Any, left: Queried, right: Queried, outs: _Outs, *, keeps_right: bool
) -> Any:
    of_left = composing.passed_on(left.origins, outs.left)
    of_right = composing.passed_on(right.origins, outs.right_origins() if keeps_right else {})
    twice = of_left.keys() & of_right.keys()
    merged = {**of_left, **of_right, **{number: {} for number in twice if keeps_right}}
    if not keeps_right:
        merged = {**of_right, **of_left}
    result.origins.update(merged)
    return result


def _divided(
    left: Queried, right: Queried, on: object, how: str
) -> tuple[list[str], list[exp.Expr]]:
    """Divide what a join is on into names of columns and conditions."""
    given = [] if on is None else listed(on)
    if how == "cross":
        if given:
            raise QueryError("a cross join has no condition: leave `on` out, or join by 'inner'")
        return [], []
    if not given:
        raise QueryError(
            f"a join of kind {how!r} needs `on`: names of columns that both sides have, or "
            "conditions; how='cross' pairs all rows"
        )
    keys: list[str] = []
    conditions: list[exp.Expr] = []
    for each in given:
        name = _column_name(each)
        if name is None:
            conditions.append(expression(each))
        else:
            left._name(name)
            right._name(name)
            keys.append(name)
    return keys, conditions


def _column_name(value: object) -> str | None:
    """Give the name that stands for a column of both sides."""
    if isinstance(value, str):
        return value if value.isidentifier() else None
    if isinstance(value, Column) and isinstance(value.tree, exp.Column):
        plain = not value.tree.table and ORIGIN not in value.tree.meta
        return value.tree.name if plain else None
    return None


def _versioned(made: exp.Select, item: exp.Expr, tree: exp.Query, name: str) -> exp.Expr:
    """Give an item of FROM that can stand at a time: a table's name."""
    if composing.table_of(tree) is not None:
        return item
    common = exp.CTE(this=tree, alias=exp.TableAlias(this=identifier(name)))
    made.set("with_", exp.With(expressions=[common]))
    return exp.Table(this=identifier(name))


def interval_join(
    left: Queried,
    right: Queried,
    on: object,
    left_time: object,
    right_time: object,
    lower: object,
    upper: object,
    how: str,
) -> Any:
    """Write a join of near times; as of ``Relation.interval_join``."""
    time = _own(left, left_time)
    low = Column(_shifted(_own(right, right_time).tree, microseconds(lower)))
    high = Column(_shifted(_own(right, right_time).tree, microseconds(upper)))
    keys = [
        left[each] == right[each] if isinstance(each, str) and each.isidentifier() else each
        for each in listed(on)
    ]
    return join(left, right, [*keys, time >= low, time <= high], how, None)


def _own(relation: Queried, value: object) -> Column:
    if isinstance(value, str):
        return relation[value]
    if isinstance(value, Column):
        return value
    raise QueryError(f"a time column is a name or a column, not {value!r}")


def _shifted(time: exp.Expr, micros: int) -> exp.Expr:
    if micros == 0:
        return time.copy()
    kind = exp.Add if micros > 0 else exp.Sub
    return kind(this=time.copy(), expression=interval(abs(micros)))


# Windows and hints


def windowed(relation: Queried, window: Window) -> Any:
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
    function = call(window.function, argument, *further)
    made = star(exp.Table(this=call("TABLE", function)))
    if common is not None:
        made.set("with_", exp.With(expressions=[common]))
    return relation._made(made, writer, {name: name for name in relation.columns})


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
        if composing.table_of(relation.tree) is None:
            raise QueryError("OPTIONS are of a table: give the hint before other methods")
        made = relation.tree.copy()
        made.meta.pop(composing.NUMBER)
        table = composing.table_of(made)
        assert table is not None
        table.set("hints", [*(table.args.get("hints") or []), hint])
        return relation._made(made, relation._writer(), passed)
    if kind != "STATE_TTL":
        raise QueryError(f"no hint is called {name!r}: known are OPTIONS and STATE_TTL")
    if not options:
        raise OptionError("STATE_TTL lacks its options: {'table': '1 d'}", arguments=("options",))
    free = isinstance(relation.tree, exp.Select) and not relation.tree.args.get("hint")
    made = composing.changeable(relation.tree) if free else star(subquery(relation.tree))
    made.set("hint", hint)
    return relation._made(made, relation._writer(), passed)


# NULLs and values


def dropna(relation: Queried, thresh: int | None, fields: Sequence[str] | None) -> Any:
    """Leave out rows with NULLs; as of ``Relation.dropna``."""
    names = _names(relation, fields)
    least = len(names) if thresh is None else 1 if thresh == -1 else thresh
    if not 0 <= least <= len(names):
        raise OptionError(
            f"thresh cannot be {thresh}: of {len(names)} columns give 0 to {len(names)}, or -1",
            value=thresh,
            arguments=("thresh",),
        )
    if least == len(names):
        return relation.filter(*(relation[name].is_not_null for name in names))
    counted = [Column(_counted(name)) for name in names]
    total = counted[0]
    for each in counted[1:]:
        total = total + each
    return relation.filter(total >= least)


def _counted(name: str) -> exp.Expr:
    there = exp.Not(this=exp.Is(this=column(name), expression=exp.Null()))
    branch = exp.If(this=there, true=exp.Literal.number(1))
    return exp.Paren(this=exp.Case(ifs=[branch], default=exp.Literal.number(0)))


def fillna(relation: Queried, value: object, fields: Sequence[str] | None) -> Any:
    """Put constants in the place of NULLs; as of ``Relation.fillna``."""
    if isinstance(value, Mapping):
        if fields is not None:
            raise OptionError("fillna takes values by column, or one value and fields: not both")
        values = {relation._name(name): each for name, each in value.items()}
    else:
        values = dict.fromkeys(_fitting(relation, [value], fields), value)

    def filled(name: str) -> exp.Expr:
        missing = exp.Is(this=column(name), expression=exp.Null())
        given = _constant(values[name], relation.fields[name])
        return exp.Case(ifs=[exp.If(this=missing, true=given)], default=column(name))

    return _replaced(relation, {name: filled(name) for name in values})


def replace(relation: Queried, mapping: Mapping[Any, Any], fields: Sequence[str] | None) -> Any:
    """Put constants in the place of others; as of ``Relation.replace``."""
    if not mapping:
        raise QueryError("replace takes new values by old ones: the mapping is empty")
    given = [each for pair in mapping.items() for each in pair if each is not None]

    def changed(name: str) -> exp.Expr:
        field = relation.fields[name]
        branches = []
        for old, new in mapping.items():
            test = exp.EQ(this=column(name), expression=syntax.literal(old))
            is_null = exp.Is(this=column(name), expression=exp.Null())
            when = is_null if old is None else test
            branches.append(exp.If(this=when, true=_constant(new, field)))
        return exp.Case(ifs=branches, default=column(name))

    names = _fitting(relation, given, fields)
    return _replaced(relation, {name: changed(name) for name in names})


def _replaced(relation: Queried, values: Mapping[str, exp.Expr]) -> Any:
    """Select all columns, some of them computed anew."""
    made = [
        exp.Alias(this=values[name], alias=identifier(name)) if name in values else column(name)
        for name in relation.columns
    ]
    return relation._selected(made)


def _fitting(
    relation: Queried, values: Sequence[object], fields: Sequence[str] | None
) -> list[str]:
    """List the columns whose type takes all of some constants."""
    names = _names(relation, fields)
    found = [name for name in names if all(_takes(relation.fields[name], v) for v in values)]
    if fields is not None and len(found) < len(names):
        wrong = next(name for name in names if name not in found)
        raise QueryError(
            f"column {wrong!r} is {relation.fields[wrong].type}: it does not hold "
            f"{next(v for v in values if not _takes(relation.fields[wrong], v))!r}",
            column_name=wrong,
        )
    if not found:
        raise QueryError(f"no column is of a type that holds {values[0]!r}")
    return found


def _takes(field: Field, value: object) -> bool:
    for kind, roots in _TAKES:
        if isinstance(value, kind):
            return field.type.root in roots
    return False


def _constant(value: object, field: Field) -> exp.Expr:
    """Write a constant so that the column keeps its type."""
    if value is not None and not _takes(field, value):
        raise QueryError(
            f"column {field.name!r} is {field.type}: it does not hold {value!r}",
            column_name=field.name,
        )
    written = syntax.literal(value)
    if value is None or field.type.root in _KEPT:
        return written
    kind: DataType = field.type.with_nullable(True)
    return exp.Cast(this=written, to=syntax.type_syntax(kind))


def _names(relation: Queried, fields: Sequence[str] | None) -> list[str]:
    return relation.columns if fields is None else [relation._name(name) for name in fields]


# Samples


def sample(relation: Queried, fraction: float, seed: int | None) -> Any:
    """Keep a part of the rows; as of ``Relation.sample``."""
    if not 0 <= fraction <= 1:
        raise OptionError(
            f"fraction cannot be {fraction}: give 0 to 1", value=fraction, arguments=("fraction",)
        )
    return _bucketed(relation, 0, round(fraction * _BUCKETS), _seed(seed))


def split(relation: Queried, weights: Sequence[float], seed: int | None) -> list[Any]:
    """Divide rows into disjoint parts; as of ``Relation.split``."""
    total = sum(weights)
    if not weights or any(weight < 0 for weight in weights) or total <= 0:
        raise OptionError(
            f"weights cannot be {list(weights)}: give numbers of at least 0, not all 0",
            arguments=("weights",),
        )
    seed = _seed(seed)
    parts, before, end = [], 0.0, 0
    for number, weight in enumerate(weights):
        before += weight
        start = end
        end = _BUCKETS if number == len(weights) - 1 else round(before / total * _BUCKETS)
        parts.append(_bucketed(relation, start, end, seed))
    return parts


def _seed(seed: int | None) -> int:
    return random.getrandbits(31) if seed is None else seed


def _bucketed(relation: Queried, start: int, end: int, seed: int) -> Any:
    """Keep the rows whose hash is in a range of buckets."""
    hashed = [column(name) for name in _hashed(relation)]
    number = call("pmod", call("xxhash64", syntax.literal(seed), *hashed), syntax.literal(_BUCKETS))
    bucket = Column(number)
    if start == 0:
        return relation.filter(bucket < end)
    return (
        relation.filter(bucket >= start)
        if end == _BUCKETS
        else relation.filter(bucket >= start, bucket < end)
    )


def _hashed(relation: Queried) -> list[str]:
    """List the columns that tell rows apart: a table's key, or all."""
    plan = relation.plan
    keys = plan.source.primary_key if isinstance(plan, Scan) else ()
    if keys and all(key in relation.fields for key in keys):
        return list(keys)
    return [field.name for field in relation.fields if field.type.root != "MAP"]


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


# For people


def described(plan: Node) -> pa.Table:
    """List columns as DESCRIBE does."""
    source = plan.source if isinstance(plan, Scan) else None
    keys = source.primary_key if source else ()
    mark = source.watermark if source else None
    key = f"PRI({', '.join(keys)})"
    rows = [
        {
            "name": field.name,
            "type": str(field.type.with_nullable(True))
            + (" *ROWTIME*" if field.is_rowtime else ""),
            "null": field.type.nullable,
            "key": key if field.name in keys else None,
            "extras": None,
            "watermark": mark.text if mark and mark.column == field.name else None,
        }
        for field in plan.fields
    ]
    names = ("name", "type", "null", "key", "extras", "watermark")
    types = [pa.bool_() if name == "null" else pa.string() for name in names]
    schema = pa.schema(list(zip(names, types, strict=True)))
    return pa.Table.from_pylist(rows, schema)


def printed(rows: pa.Table) -> str:
    """Draw a table of text."""
    cells = [[str(field.name) for field in rows.schema]]
    columns = [to_python_list(column) for column in rows.columns]
    cells += [["NULL" if v is None else str(v) for v in row] for row in zip(*columns, strict=True)]
    widths = [max(len(row[i]) for row in cells) for i in range(rows.num_columns)]
    lines = [" | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in cells]
    lines.insert(1, "-+-".join("-" * width for width in widths))
    return "\n".join(line.rstrip() for line in lines)
