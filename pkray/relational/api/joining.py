"""Joins of relations: their keys, and what the columns of both sides are called."""

from collections.abc import Sequence
from typing import Any

from sqlglot import exp

from pkray.errors import OptionError, QueryError
from pkray.relational.api import composing
from pkray.relational.api.column import Column, expression, listed
from pkray.relational.api.composing import Side, Writer, item_of
from pkray.relational.api.queried import AsOf, Queried
from pkray.relational.api.windows import interval, microseconds
from pkray.relational.plan.fields import distinct_names
from pkray.relational.sql import syntax
from pkray.relational.sql.syntax import ORIGIN, call, column, identifier, star

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


# Joins


def join(
    left: Queried, right: Queried | AsOf, on: object, how: str, suffixes: Sequence[str] | None
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
            this=column(left._name(key), left_name), expression=column(other._name(key), right_name)
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
    same = isinstance(value, exp.Column) and value.name == name
    return value if same else exp.Alias(this=value, alias=identifier(name))


def _with_origins(
    result: Any, left: Queried, right: Queried, outs: _Outs, *, keeps_right: bool
) -> Any:
    of_left = composing.passed_on(left.origins, outs.left)
    of_right = composing.passed_on(right.origins, outs.right_origins() if keeps_right else {})
    twice = of_left.keys() & of_right.keys() if keeps_right else ()
    result.origins.update({**of_right, **of_left, **{number: {} for number in twice}})
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
