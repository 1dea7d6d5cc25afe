"""PIVOT and UNPIVOT, written as the queries that they stand for."""

from collections.abc import Iterable, Sequence

from sqlglot import exp

from pkray.relational.sql.binder.calls import AggregateNames
from pkray.relational.sql.binder.context import Queries
from pkray.relational.sql.dialects import shown
from pkray.relational.sql.places import nearest, unsupported, wrong

_NULL_OF_NONE = ("sum", "avg", "min", "max", "first", "last", "any_value")
"""Aggregates that give NULL for no rows; what else a PIVOT computes is NULL there, too."""


class Pivots:
    """Writes a PIVOT or an UNPIVOT of a query.

    Args:
        names: of the query's columns.
    """

    def __init__(self, queries: Queries, names: Sequence[str]) -> None:
        self.queries = queries
        self.names = names

    def written(self, query: exp.Select, pivot: exp.Pivot) -> exp.Select:
        """Write the whole query."""
        if pivot.args.get("group") or pivot.args.get("default_on_null"):
            raise unsupported("PIVOT takes no GROUP BY and no DEFAULT", pivot)
        made = self._unpivoted if pivot.unpivot else self._pivoted
        return made(query.subquery("$pivot"), pivot)

    # Rows to columns

    def _pivoted(self, table: exp.Subquery, pivot: exp.Pivot) -> exp.Select:
        if len(pivot.fields) != 1 or pivot.fields[0].args.get("field") is not None:
            raise unsupported(
                "PIVOT is by one FOR … IN (values): for two columns write FOR (a, b) IN ((1, 2))",
                pivot,
            )
        (chosen,) = pivot.fields
        keys = chosen.this.expressions if isinstance(chosen.this, exp.Tuple) else [chosen.this]
        used = self._columns([*pivot.expressions, *keys])
        groups = [_column(name) for name in self.names if name.lower() not in used]
        query = exp.select(*groups)
        for entry in chosen.expressions:
            for aggregate in pivot.expressions:
                name = _value_name(entry)
                if len(pivot.expressions) > 1:
                    name += "_" + (aggregate.alias or _text(aggregate))
                value = self._where(aggregate.unalias(), _equal(keys, entry))
                query.select(exp.alias_(value, name, quoted=True), copy=False)
        return query.from_(table).group_by(*groups) if groups else query.from_(table)

    def _columns(self, parts: Iterable[exp.Expr]) -> set[str]:
        """List the columns that aggregates and FOR name, in small letters."""
        used: set[str] = set()
        known = {name.lower() for name in self.names}
        for part in parts:
            for column in part.find_all(exp.Column, exp.Identifier):
                if not isinstance(column, exp.Column) and not isinstance(
                    column.parent, exp.In | exp.Tuple
                ):
                    continue
                name = column.name.lower()
                if name not in known:
                    raise wrong(
                        f"there is no column {column.name}{nearest(column.name, self.names)}",
                        column,
                    )
                used.add(name)
        return used

    def _where(self, value: exp.Expr, condition: exp.Expr) -> exp.Expr:
        """Compute aggregates of the rows of one value; NULL where there are none."""
        value = exp.paren(value)
        calls = list(AggregateNames(self.queries).calls_in(value))
        if not calls:
            raise wrong(f"PIVOT computes aggregates, not {shown(value.this)}", value.this)
        for call in calls:
            if call.filter is not None:
                both = exp.and_(call.filter.copy(), condition.copy())
                call.filter.replace(both)
            else:
                where = exp.Where(this=condition.copy())
                call.whole.replace(exp.Filter(this=call.whole.copy(), expression=where))
        plain = len(calls) == 1 and calls[0].name.lower() in _NULL_OF_NONE
        if plain and isinstance(value.this, exp.Filter):
            return value.this
        rows = exp.Anonymous(this="count", expressions=[exp.Star()])
        there = exp.Filter(this=rows, expression=exp.Where(this=condition.copy()))
        return exp.Case().when(exp.GT(this=there, expression=exp.Literal.number(0)), value)

    # Columns to rows

    def _unpivoted(self, table: exp.Subquery, pivot: exp.Pivot) -> exp.Select:
        (chosen,) = pivot.fields
        values = [each.name for part in pivot.expressions for each in _parts(part)]
        if isinstance(chosen.this, exp.Tuple):
            raise unsupported(
                "UNPIVOT gives one column of names: UNPIVOT ((x, y) FOR name IN ((a, b), (c, d)))",
                chosen.this,
            )
        name = chosen.this.name
        used: set[str] = set()
        stacked: list[exp.Expr] = [exp.Literal.number(len(chosen.expressions))]
        for entry in chosen.expressions:
            written = entry.this if isinstance(entry, exp.PivotAlias) else entry
            columns = _parts(written)
            if len(columns) != len(values):
                raise wrong(
                    f"UNPIVOT gives {len(values)} columns of values, and {shown(written)} names "
                    f"{len(columns)}",
                    written,
                )
            used |= self._columns(columns)
            label = "_".join(each.name for each in columns)
            if isinstance(entry, exp.PivotAlias):
                label = entry.args["alias"].name
            stacked += [exp.Literal.string(label), *(each.copy() for each in columns)]
        stack = exp.Anonymous(this="stack", expressions=stacked)
        made = [exp.to_identifier(each, quoted=True) for each in (name, *values)]
        alias = exp.TableAlias(this=exp.to_identifier("$stack", quoted=True), columns=made)
        kept = [_column(each) for each in self.names if each.lower() not in used]
        query = exp.select(*kept, *map(_column, (name, *values))).from_(table)
        query.append("laterals", exp.Lateral(this=stack, view=True, alias=alias))
        if pivot.args.get("include_nulls"):
            return query
        there = (
            exp.Not(this=exp.Is(this=_column(value), expression=exp.Null())) for value in values
        )
        return query.where(exp.or_(*there))


def _parts(written: exp.Expr) -> list[exp.Expr]:
    """List the columns of one, or of several in parentheses."""
    return list(written.expressions) if isinstance(written, exp.Tuple) else [written.unnest()]


def _column(name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True))


def _equal(keys: Sequence[exp.Expr], entry: exp.Expr) -> exp.Expr:
    value = entry.this if isinstance(entry, exp.PivotAlias) else entry
    values = value.expressions if isinstance(value, exp.Tuple) else [value]
    if len(values) != len(keys):
        raise wrong(f"{shown(value)} is compared with {len(keys)} columns of PIVOT", value)
    pairs = zip(keys, values, strict=True)
    same = [exp.NullSafeEQ(this=key.copy(), expression=each.copy()) for key, each in pairs]
    return exp.and_(*same)


def _value_name(entry: exp.Expr) -> str:
    if isinstance(entry, exp.PivotAlias):
        return str(entry.args["alias"].name)
    if isinstance(entry, exp.Tuple):
        return f"{{{', '.join(_value_name(each) for each in entry.expressions)}}}"
    return entry.name if isinstance(entry, exp.Literal) else _text(entry)


def _text(node: exp.Expr) -> str:
    return node.sql("spark", normalize_functions="lower")
