"""Columns of relations and what is computed from them, as syntax."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from operator import itemgetter
from typing import Any, NoReturn, TypeAlias

import pyarrow as pa
from sqlglot import exp

from pkray.errors import QueryError
from pkray.relational.api.queried import Queried
from pkray.relational.dialect import Dialect
from pkray.relational.functions import function
from pkray.relational.functions.aggregates import catalogue as aggregates
from pkray.relational.sql import syntax
from pkray.relational.sql.chains import CHAINED, applied
from pkray.relational.sql.dialects import PkraySpark
from pkray.relational.sql.syntax import Inner, Text, UserCall
from pkray.schema.types import DataType

Bounds: TypeAlias = tuple[Any, Any]
"""The ends of a frame: numbers before (negative) or after the row, 0 the row, None unbounded."""

_STEPS = 250
"""After so many operators in a row their syntax is made: too many are refused soon."""
_UNITS = ("microsecond", "millisecond", "second", "minute", "hour", "day", "week", "month", "year")


class Column:
    """A value a row: a column, a constant, or what operators and functions make of them.

    In operators, text is a constant (``rel.a == "x"``); as an argument of functions and of a
    relation's methods it is SQL (``f.sum("a + b")``). Functions are methods too:
    ``rel.name.upper()``.
    """

    __slots__ = ("_left", "_operator", "_right", "_steps", "_tree")
    __hash__ = object.__hash__
    _left: Column
    _operator: type[exp.Expr]
    _right: exp.Expr
    _steps: int
    _tree: exp.Expr | None

    def __init__(self, tree: exp.Expr) -> None:
        self._tree = tree
        self._steps = 0

    @classmethod
    def _of_step(cls, left: Column, operator: type[exp.Expr], right: exp.Expr) -> Column:
        """Apply an operator of numbers, or AND or OR; the syntax of many in a row is made once."""
        made = Column.__new__(Column)
        made._tree = None
        made._left, made._operator, made._right = left, operator, right
        made._steps = left._steps + 1
        if not made._steps % _STEPS:
            made._settle()
        return made

    @property
    def tree(self) -> exp.Expr:
        """Its syntax; nothing changes it."""
        return self._settle() if self._tree is None else self._tree

    def _settle(self) -> exp.Expr:
        steps = []
        column: Column = self
        while column._tree is None:
            steps.append((column._operator, column._right))
            column = column._left
        tree = column._tree.copy()
        for operator, alike in groupby(reversed(steps), key=itemgetter(0)):
            rights = [right.copy() for _, right in alike]
            if issubclass(operator, exp.Connector):
                tree = _connected(operator, [tree, *rights])
                continue
            for right in rights:
                tree = applied(operator, syntax.wrapped(tree), right)
        self._tree = tree
        return tree

    def __repr__(self) -> str:
        return f"Column({self._shown()})"

    def __bool__(self) -> NoReturn:
        raise QueryError(
            f"{self._shown()} has no truth of its own: join conditions by &, | and ~, each in "
            "parentheses, and write between() for a < b < c"
        )

    def __iter__(self) -> NoReturn:
        raise QueryError(f"{self._shown()} is a column: it is not iterated over")

    def __getattr__(self, name: str) -> Callable[..., Column]:
        if name.startswith("_") or not is_known(name):
            raise AttributeError(f"a column has no attribute, and SQL no function {name!r}")
        return lambda *arguments: called(name, self, *map(constant, arguments))

    def __getitem__(self, key: object) -> Column:
        """Take an element of an array, the value of a map's key, or a field of a row."""
        if isinstance(key, str) and isinstance(self.tree, exp.Column | exp.Dot):
            return Column(exp.Dot(this=self.tree.copy(), expression=syntax.identifier(key)))
        this = syntax.wrapped(self.tree.copy())
        return Column(exp.Bracket(this=this, expressions=[_operand(key)]))

    def field(self, name: str) -> Column:
        """Take a field of a row."""
        return self[name]

    # Operators

    def __add__(self, other: object) -> Column:
        return self._with(exp.Add, other)

    def __radd__(self, other: object) -> Column:
        return constant(other)._with(exp.Add, self)

    def __sub__(self, other: object) -> Column:
        return self._with(exp.Sub, other)

    def __rsub__(self, other: object) -> Column:
        return constant(other)._with(exp.Sub, self)

    def __mul__(self, other: object) -> Column:
        return self._with(exp.Mul, other)

    def __rmul__(self, other: object) -> Column:
        return constant(other)._with(exp.Mul, self)

    def __truediv__(self, other: object) -> Column:
        return self._with(exp.Div, other)

    def __rtruediv__(self, other: object) -> Column:
        return constant(other)._with(exp.Div, self)

    def __mod__(self, other: object) -> Column:
        return self._with(exp.Mod, other)

    def __rmod__(self, other: object) -> Column:
        return constant(other)._with(exp.Mod, self)

    def __neg__(self) -> Column:
        return Column(exp.Neg(this=syntax.wrapped(self.tree.copy())))

    def __eq__(self, other: object) -> Column:  # type: ignore[override] # a condition
        return self._compared(exp.EQ, other)

    def __ne__(self, other: object) -> Column:  # type: ignore[override] # a condition
        return self._compared(exp.NEQ, other)

    def __lt__(self, other: object) -> Column:
        return self._compared(exp.LT, other)

    def __le__(self, other: object) -> Column:
        return self._compared(exp.LTE, other)

    def __gt__(self, other: object) -> Column:
        return self._compared(exp.GT, other)

    def __ge__(self, other: object) -> Column:
        return self._compared(exp.GTE, other)

    def __and__(self, other: object) -> Column:
        return self._joined(exp.And, other)

    __rand__ = __and__

    def __or__(self, other: object) -> Column:
        return self._joined(exp.Or, other)

    __ror__ = __or__

    def __invert__(self) -> Column:
        return Column(exp.Not(this=syntax.wrapped(self.tree.copy())))

    # Conditions

    @property
    def is_null(self) -> _Both:
        """Whether it is NULL; ``.is_null()`` is the same."""
        return _Both(exp.Is(this=syntax.wrapped(self.tree.copy()), expression=exp.Null()))

    @property
    def is_not_null(self) -> _Both:
        """Whether it is not NULL; ``.is_not_null()`` is the same."""
        return _Both(exp.Not(this=self.is_null.tree))

    def is_not_distinct_from(self, other: object) -> Column:
        """Whether they are equal, NULL being equal to NULL."""
        return self._with(exp.NullSafeEQ, other)

    def isin(self, *values: object) -> Column:
        """Whether it is one of some values, of a list of them, or of a relation's one column."""
        this = syntax.wrapped(self.tree.copy())
        if len(values) == 1 and isinstance(values[0], Queried):
            return Column(exp.In(this=this, query=exp.Subquery(this=Inner(this=values[0]))))
        given = values[0] if len(values) == 1 else values
        items = list(given) if isinstance(given, list | tuple | set | frozenset) else list(values)
        if not items:
            raise QueryError(f"isin of {self._shown()} is given no values: give one at least")
        return Column(exp.In(this=this, expressions=[_operand(each) for each in items]))

    def between(self, low: object, high: object) -> Column:
        """Whether it is within two values, both included."""
        this = syntax.wrapped(self.tree.copy())
        ends = {"low": syntax.wrapped(_operand(low)), "high": syntax.wrapped(_operand(high))}
        return Column(exp.Between(this=this, **ends))

    def like(self, pattern: object, escape: str | None = None) -> Column:
        """Whether text fits a pattern of ``%`` and ``_``."""
        made = self._with(exp.Like, pattern).tree
        if escape is None:
            return Column(made)
        return Column(exp.Escape(this=made, expression=exp.Literal.string(escape)))

    def ilike(self, pattern: object) -> Column:
        """Whether text fits a pattern, whatever the case of its letters."""
        return self._with(exp.ILike, pattern)

    # Types and names

    def cast(self, type: object) -> Column:
        """Turn it into a type; a value that the type does not hold fails the query.

        Args:
            type: as text (``DECIMAL(10, 2)``), a DataType or a pyarrow type.
        """
        return Column(exp.Cast(this=self.tree.copy(), to=_type(type)))

    def try_cast(self, type: object) -> Column:
        """Turn it into a type; NULL where the type does not hold the value."""
        return Column(exp.TryCast(this=self.tree.copy(), to=_type(type), safe=True))

    def alias(self, name: str) -> Column:
        """Give it a name."""
        _check_name(name)
        bare = self.tree.this if isinstance(self.tree, exp.Alias) else self.tree
        return Column(exp.Alias(this=bare.copy(), alias=syntax.identifier(name)))

    # Order

    @property
    def asc(self) -> _Both:
        """Sort from the least on, NULLs first; ``.asc()`` is the same."""
        return self._ordered(descending=False, nulls_first=True)

    @property
    def desc(self) -> _Both:
        """Sort from the greatest on, NULLs last; ``.desc()`` is the same."""
        return self._ordered(descending=True, nulls_first=False)

    @property
    def nulls_first(self) -> _Both:
        """Sort NULLs before all others: ``rel.a.desc.nulls_first``."""
        return self._ordered(self._is_descending, nulls_first=True)

    @property
    def nulls_last(self) -> _Both:
        """Sort NULLs after all others: ``rel.a.asc.nulls_last``."""
        return self._ordered(self._is_descending, nulls_first=False)

    # Aggregates and windows

    @property
    def distinct(self) -> _Both:
        """Count each value of an aggregate's argument once: ``f.count(rel.a).distinct()``."""
        made = self.tree.copy()
        if not isinstance(made, exp.Anonymous):
            raise QueryError(f"{self._shown()} is no aggregate: distinct goes with f.count(…)")
        made.set("expressions", [exp.Distinct(expressions=made.expressions)])
        return _Both(made)

    def filter(self, condition: object) -> Column:
        """Let an aggregate see only rows for which a condition is true."""
        where = exp.Where(this=conditional(condition))
        return Column(exp.Filter(this=self.tree.copy(), expression=where))

    def over(
        self,
        partition_by: object = (),
        order_by: object = (),
        *,
        rows: Bounds | None = None,
        range: Bounds | None = None,
    ) -> Column:
        """Compute an aggregate or window function over the rows around each row.

        Args:
            partition_by, order_by: a column, SQL text, or a list of them.
            rows: the first and the last row of the frame, counted from the row: (-2, 0) is it and
                the two before; None is unbounded.
            range: the same in values of the one column of `order_by`; durations for times.

        Raises:
            QueryError: both `rows` and `range`, or a frame that is no pair.
        """
        if rows is not None and range is not None:
            raise QueryError("a frame is of rows or of a range: give one of them")
        spec = None
        if rows is not None or range is not None:
            spec = _frame(*(("ROWS", rows) if range is None else ("RANGE", range)))
        order = [ordering(each) for each in listed(order_by)]
        return Column(
            exp.Window(
                this=self.tree.copy(),
                partition_by=[expression(each) for each in listed(partition_by)],
                order=exp.Order(expressions=order) if order else None,
                spec=spec,
                over="OVER",
            )
        )

    # When

    def when(self, condition: object, value: object) -> Column:
        """Add a branch to what `when` made."""
        if not isinstance(self.tree, exp.Case) or self.tree.args.get("default") is not None:
            raise QueryError(f"{self._shown()} takes no further when(): it goes before otherwise()")
        made = self.tree.copy()
        made.append("ifs", exp.If(this=conditional(condition), true=_operand(value)))
        return Column(made)

    def otherwise(self, value: object) -> Column:
        """Give the value where no condition of `when` is true; NULL by default."""
        if not isinstance(self.tree, exp.Case) or self.tree.args.get("default") is not None:
            raise QueryError(f"{self._shown()} takes no otherwise(): it goes after when()")
        made = self.tree.copy()
        made.set("default", _operand(value))
        return Column(made)

    @property
    def _is_descending(self) -> bool:
        return isinstance(self.tree, exp.Ordered) and bool(self.tree.args.get("desc"))

    def _ordered(self, descending: bool, nulls_first: bool) -> _Both:
        bare = self.tree.this if isinstance(self.tree, exp.Ordered) else self.tree
        return _Both(exp.Ordered(this=bare.copy(), desc=descending, nulls_first=nulls_first))

    def _with(self, kind: type[exp.Expr], other: object) -> Column:
        right = syntax.wrapped(_operand(other))
        if kind in CHAINED:
            return Column._of_step(self, kind, right)
        return Column(applied(kind, syntax.wrapped(self.tree.copy()), right))

    def _joined(self, kind: type[exp.Connector], other: object) -> Column:
        return Column._of_step(self, kind, _operand(other))

    def _compared(self, kind: type[exp.Expr], other: object) -> Column:
        if other is None:
            raise QueryError(
                f"nothing compares with None: write is_null() or is_not_null() of {self._shown()}"
            )
        return self._with(kind, other)

    def _shown(self) -> str:
        text = shown(self.tree)
        return text if len(text) <= 80 else f"{text[:79]}…"


class _Both(Column):
    """A column that is also given by calling it: ``a.desc`` and ``a.desc()``."""

    __slots__ = ()

    def __call__(self) -> Column:
        return self


def _duration(unit: str) -> property:
    def span(self: Column) -> _Both:
        value = self.tree
        if not isinstance(value, exp.Literal) or value.is_string:
            raise QueryError(f"{self._shown()} is no constant number: write lit(10).{unit}s")
        return _Both(syntax.interval(float(value.name), unit.upper()))

    return property(span, doc=f"Make a span of {unit}s of a constant: ``lit(10).{unit}s``.")


for _unit in _UNITS:
    setattr(Column, f"{_unit}s", _duration(_unit))
    setattr(Column, _unit, _duration(_unit))


def col(name: str) -> Column:
    """Name a column: ``col("a")``, or of an alias ``col("o.a")``.

    Raises:
        QueryError: no text, or an empty name.
    """
    _check_name(name)
    if name == "*":
        return Column(exp.Star())
    first, *fields = (syntax.identifier(part) for part in name.split("."))
    if not fields:
        return Column(exp.Column(this=first))
    found: exp.Expr = exp.Column(this=fields[0], table=first)
    for each in fields[1:]:
        found = exp.Dot(this=found, expression=each)
    return Column(found)


def lit(value: object) -> Column:
    """Write a constant.

    Raises:
        QueryError: a value that no type has.
    """
    return constant(value)


def when(condition: object, value: object) -> Column:
    """Give a value where a condition is true: ``when(a > 1, "x").when(…).otherwise("y")``."""
    branch = exp.If(this=conditional(condition), true=_operand(value))
    return Column(exp.Case(ifs=[branch]))


def exists(relation: Queried) -> Column:
    """Whether a relation has a row; its columns may be compared with those outside."""
    return Column(exp.Exists(this=Inner(this=relation)))


def is_known(name: str) -> bool:
    """Whether SQL has a function of this name."""
    written = name.removesuffix("_")
    return aggregates.is_window(written) or any(
        function.is_function(written, each) or aggregates.is_aggregate(written, each)
        for each in Dialect
    )


def called(name: str, *arguments: object) -> Column:
    """Call a function of SQL, or a user's.

    Args:
        name: ``and_`` and the like stand for names that Python keeps for itself.
        arguments: columns, SQL text or constants; ``"*"`` is all columns.
    """
    written = name.removesuffix("_")
    trees = [_argument(each) for each in arguments]
    if written == "count" and not trees:
        trees = [exp.Star()]
    return Column(syntax.call(written, *trees))


def _argument(value: object) -> exp.Expr:
    if isinstance(value, str) and value.strip() == "*":
        return exp.Star()
    return expression(value)


def constant(value: object) -> Column:
    """Take a column as it is, all else as a constant."""
    return value if isinstance(value, Column) else Column(syntax.literal(value))


def expression(value: object) -> exp.Expr:
    """Take a column, or SQL text, to be read later on; all else as a constant."""
    if isinstance(value, str):
        if not value.strip():
            raise QueryError("an expression is empty text: give a column's name or SQL")
        return Text(this=value)
    return constant(value).tree.copy()


def conditional(value: object) -> exp.Expr:
    """Take a condition as of `expression`; None is none, though SQL would read it as NULL."""
    if value is None:
        raise QueryError("a condition is None: give a column or SQL, such as 'a > 10'")
    return expression(value)


def ordering(value: object) -> exp.Expr:
    """Take what rows are sorted by; text may say ``a DESC NULLS LAST``."""
    made = expression(value)
    if isinstance(made, exp.Ordered | Text):
        return made
    return exp.Ordered(this=made, desc=False, nulls_first=True)


def listed(value: object) -> list[object]:
    """Take one thing, or a list of them."""
    return list(value) if isinstance(value, list | tuple) else [value]


def shown(tree: exp.Expr) -> str:
    """Write syntax for people."""
    return tree.transform(_readable).sql(dialect=PkraySpark)


def _readable(node: exp.Expr) -> exp.Expr:
    if isinstance(node, Text):
        return exp.Var(this=node.this)
    if isinstance(node, Inner):
        return exp.Var(this="(…)")
    if isinstance(node, UserCall):
        return syntax.call(node.this.name, *node.expressions)
    return node


def _connected(kind: type[exp.Connector], sides: list[exp.Expr]) -> exp.Expr:
    """Join by AND or OR, as a tree whose depth is that of a few."""
    terms = [
        term.pop()
        for side in sides
        for term in (list(side.flatten(unnest=False)) if isinstance(side, kind) else [side])
    ]
    return syntax.joined(kind, terms)


def _operand(value: object) -> exp.Expr:
    if isinstance(value, Queried):
        return exp.Subquery(this=Inner(this=value))
    return constant(value).tree.copy()


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not all(name.split(".")):
        raise QueryError(f"a column cannot be called {name!r}: give text")


def _type(given: object) -> exp.Expr:
    if isinstance(given, str):
        return Text(this=given)
    if isinstance(given, DataType | pa.DataType):
        return syntax.type_syntax(DataType.given(given))
    raise QueryError(
        f"a cast takes a type as text, a DataType or a pyarrow type, not a {type(given).__name__}"
    )


def _frame(kind: str, bounds: object) -> exp.WindowSpec:
    if not isinstance(bounds, tuple | list) or len(bounds) != 2:
        raise QueryError(f"a frame is a pair such as (-2, 0), not {bounds!r}")
    start, start_side = _bound(bounds[0], "PRECEDING")
    end, end_side = _bound(bounds[1], "FOLLOWING")
    return exp.WindowSpec(kind=kind, start=start, start_side=start_side, end=end, end_side=end_side)


def _bound(value: Any, unbounded: str) -> tuple[Any, str | None]:
    if value is None:
        return "UNBOUNDED", unbounded
    tree = constant(value).tree.copy()
    if isinstance(tree, exp.Neg):
        return tree.this, "PRECEDING"
    if isinstance(tree, exp.Literal) and tree.name in ("0", "0e0"):
        return "CURRENT ROW", None
    return tree, "FOLLOWING"
