"""One SELECT: from its tables to its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from sqlglot import exp

from pkray.errors import QueryError, UnsupportedError
from pkray.options.values import duration_text
from pkray.relational.compiled import fold
from pkray.relational.dialect import Dialect
from pkray.relational.plan.expressions import (
    TRUE,
    Call,
    Case,
    ColumnRef,
    Expression,
    Literal,
    SortKey,
    all_of,
)
from pkray.relational.plan.fields import distinct_names
from pkray.relational.plan.nodes import Distinct, JoinKind, Limit, Project, Sort, TopN
from pkray.relational.sql.binder.calls import AggregateNames, Written
from pkray.relational.sql.binder.context import BoundQuery, Pair, Queries
from pkray.relational.sql.binder.from_clause.base import SINGLE_ROW, SUBQUERIES, flattened
from pkray.relational.sql.binder.from_clause.from_binder import FromBinder
from pkray.relational.sql.binder.from_clause.generators import Generators
from pkray.relational.sql.binder.from_clause.joins import (
    EQUALITIES,
    JoinBuilder,
    normalized,
    renamed,
)
from pkray.relational.sql.binder.from_clause.time_windows import TimeWindows
from pkray.relational.sql.binder.grouping import GroupedScope, Grouping, not_grouped
from pkray.relational.sql.binder.grouping_sets import Groups, read_groups
from pkray.relational.sql.binder.over import (
    OverBinder,
    all_spread,
    check_sortable,
    unique_keys,
    windows_in,
)
from pkray.relational.sql.binder.patterns import filtered, pruned, where
from pkray.relational.sql.binder.scope import (
    Correlation,
    NeedsDomainError,
    OuterRef,
    Rows,
    Scope,
    Visible,
    outer_references,
)
from pkray.relational.sql.binder.subqueries import Subqueries
from pkray.relational.sql.dialects import DIALECTS, WINDOW_FUNCTIONS, shown
from pkray.relational.sql.expressions.expressions import ExpressionBinder
from pkray.relational.sql.hints import hint_options
from pkray.relational.sql.places import position

_KNOWN = {
    "with_", "hint", "distinct", "expressions", "from_", "joins", "laterals", "where", "group",
    "having", "windows", "qualify", "order", "limit", "offset",
}  # fmt: skip

_CLAUSES = {"sort": "SORT BY", "cluster": "CLUSTER BY", "distribute": "DISTRIBUTE BY"}


@dataclass(frozen=True)
class Output:
    """One column of the result.

    Attributes:
        node: what computes it; None for a column that ``*`` gives.
        column: of ``*``: the column of the rows.
    """

    name: str
    node: exp.Expr | None = None
    column: str = ""


class SelectBinder:
    """Binds one SELECT.

    Attributes:
        rows: the plan so far.
        pairs, residuals: what the rows of this subquery are joined to the query around by.
    """

    def __init__(
        self,
        queries: Queries,
        select: exp.Select,
        correlation: Correlation | None,
        *,
        is_scalar: bool,
    ) -> None:
        self.queries = queries
        self.dialect = queries.dialect
        self.select = select
        self.correlation = correlation
        self.is_scalar = is_scalar
        self.pairs: list[Pair] = []
        self.residuals: list[Expression] = []
        self.grouping: Grouping | None = None
        self._over: OverBinder | None = None
        self._calls: list[Written] = []
        self._defers = False
        self._window: exp.Anonymous | None = None
        self._window_column = ""

    def bind(self) -> BoundQuery:
        """Bind it."""
        self._check_clauses()
        source = FromBinder(
            self.queries, self.select, self.correlation, self._settle, self._hints()
        )
        self.pairs = source.sources.pairs
        self.residuals = source.sources.residuals
        self.rows = source.rows
        self.base = self.scope = source.bind()
        self._take_residuals()
        clause = self.select.args.get("where")
        conditions = flattened(clause.this) if clause is not None else []
        self._where([*source.sources.deferred, *conditions])
        self._time_windows()
        outputs = self._outputs()
        order = self._order_nodes(outputs)
        self._group(outputs, order)
        having = self.select.args.get("having")
        self._name_lazily(outputs)
        if having is not None:
            self._filter(flattened(having.this))
        self._windows(outputs, order)
        values = self._values(outputs)
        if not self.pairs and not any(outer_references(value) for value in values):
            self._defers = False
        qualify = self.select.args.get("qualify")
        if qualify is not None:
            condition = self._settled(self._binder().condition(qualify.this))
            self.rows.node = filtered(self.rows.node, condition)
        return self._finished(outputs, values, order)

    # Clauses

    def _check_clauses(self) -> None:
        for name, value in self.select.args.items():
            if value and name not in _KNOWN:
                said = _CLAUSES.get(name, name.strip("_").upper().replace("_", " "))
                raise UnsupportedError(
                    f"{said} of a SELECT is not offered", **position(self.select)
                )
        if not self.select.expressions:
            raise QueryError("SELECT names no columns", **position(self.select))

    def _hints(self) -> dict[str, str]:
        hint = self.select.args.get("hint")
        found: dict[str, str] = {}
        for call in hint.expressions if hint is not None else ():
            if call.name != "STATE_TTL":
                raise QueryError(
                    f"hint {call.name} stands after the name of a table, not after SELECT",
                    **position(self.select),
                )
            for alias, ttl in hint_options(call).items():
                found[alias] = self._ttl(alias, ttl)
        return found

    def _ttl(self, alias: str, ttl: str) -> str:
        try:
            return duration_text(ttl)
        except ValueError:
            raise QueryError(
                f"hint STATE_TTL of {alias} cannot be {ttl!r}: write a duration such as '12 h'",
                **position(self.select),
            ) from None

    def _binder(self) -> ExpressionBinder:
        return ExpressionBinder(self.queries.names, self.scope, self._replaced)

    def _replaced(self, node: exp.Expr) -> Expression | None:
        """Find the column that stands for a node which the binder of expressions does not know."""
        found = self._in_window(node)
        if found is None and self._over is not None:
            found = self._over.replaced(node)
        if found is not None:
            return found
        if self.grouping is not None:
            found = self.grouping.replaced(node)
            if found is not None:
                return found
        else:
            self._check_plain(node)
        return Subqueries(self.queries, self.scope, self._bound).replaced(node)

    def _check_plain(self, node: exp.Expr) -> None:
        if isinstance(node, exp.Window) and self._over is None:
            raise QueryError(
                "a function with OVER cannot stand here: compute it in a subquery, or filter by "
                "QUALIFY",
                **position(node),
            )
        if isinstance(node, exp.Anonymous):
            check_window_function(node)
            if AggregateNames(self.queries).is_aggregate(node.name):
                raise QueryError(
                    f"{node.name} cannot stand here: filter groups by HAVING, or aggregate in a "
                    "subquery",
                    **position(node),
                )
            if node.name.lower() in ("grouping", "grouping_id"):
                raise QueryError(
                    f"{node.name.upper()} is for queries with GROUP BY", **position(node)
                )

    def _bound(self, node: exp.Expr) -> Expression:
        return self._settled(self._binder().bind(node))

    # The query around

    def _settled(self, expression: Expression) -> Expression:
        return self._settle(expression) if outer_references(expression) else expression

    def _settle(self, expression: Expression) -> Expression:
        """Read columns of the query around from rows that are equal to them."""

        def change(part: Expression) -> Expression:
            if not isinstance(part, OuterRef):
                return part
            for pair in self.pairs:
                if isinstance(pair.outer, ColumnRef) and pair.outer.name == part.name:
                    mine = self.rows.ref(pair.column)
                    if mine.type.with_nullable(True) == part.type.with_nullable(True):
                        return mine
            equal = [each.outer.name for each in self.pairs if isinstance(each.outer, ColumnRef)]
            raise NeedsDomainError(part, self.select, equal)

        return expression.transform(change)

    def _take_residuals(self) -> None:
        """Filter by the conditions of FROM's subqueries whose columns are here by now."""
        domain = self.base.domain

        def change(part: Expression) -> Expression:
            if isinstance(part, OuterRef) and part.name in domain:
                return self.rows.ref(domain[part.name])
            return part

        found, self.residuals = self.residuals, []
        local: list[Expression] = []
        for residual in found:
            self._condition(residual.transform(change), local)
        self.rows.node = filtered(self.rows.node, all_of(tuple(local)))

    def _check_residuals(self) -> None:
        """Filter by what else holds, where that cannot wait for the join with the query around."""
        local = [self._settle(residual) for residual in self.residuals]
        self.residuals = []
        self.rows.node = filtered(self.rows.node, all_of(tuple(local)))

    @property
    def _correlated(self) -> list[str]:
        return list(dict.fromkeys(pair.column for pair in self.pairs))

    # WHERE and HAVING

    def _where(self, conditions: list[exp.Expr]) -> None:
        local: list[Expression] = []
        binder = self._binder()
        later = [each for each in conditions if each.find(*SUBQUERIES)]
        for each in conditions:
            if each not in later:
                self._condition(binder.condition(each), local)
        self.rows.node = where(self.rows.node, all_of(tuple(local)))
        self._filter(later)

    def _condition(self, condition: Expression, local: list[Expression]) -> None:
        """Sort a condition: for the rows here, or for the join with the query around."""
        if condition == TRUE:
            return
        if not outer_references(condition):
            local.append(condition)
        elif not self._as_pair(condition):
            self.residuals.append(condition)

    def _as_pair(self, condition: Expression) -> bool:
        if not isinstance(condition, Call) or condition.function not in EQUALITIES:
            return False
        for inner, outer in (condition.arguments, condition.arguments[::-1]):
            mixed = outer.columns() or outer_references(inner) or not inner.columns()
            same = inner.type.with_nullable(True) == outer.type.with_nullable(True)
            if mixed or not same:
                continue
            (column,) = self.rows.compute([normalized(inner, self.dialect)], "c")
            around = outer.transform(
                lambda part: ColumnRef(part.type, part.name) if isinstance(part, OuterRef) else part
            )
            self.pairs.append(Pair(around, column, EQUALITIES[condition.function]))
            return True
        return False

    def _filter(self, conditions: Iterable[exp.Expr]) -> None:
        local: list[Expression] = []
        for each in conditions:
            if Subqueries(self.queries, self.scope, self._bound).filter(each):
                continue
            condition = self._binder().condition(each)
            if self.grouping is not None:
                condition = self._settled(condition)
            self._condition(condition, local)
        self.rows.node = filtered(self.rows.node, all_of(tuple(local)))

    # window(…) of Spark

    def _time_windows(self) -> None:
        """Put rows in the windows of time that ``window(time, size …)`` names."""
        clauses = [self.select.args.get(name) for name in ("group", "having", "qualify", "order")]
        places = [*self.select.expressions, *(each for each in clauses if each is not None)]
        calls = dict.fromkeys(
            node
            for place in places
            for node in place.walk(prune=lambda node: isinstance(node, exp.Query))
            if self.dialect is Dialect.SPARK
            and isinstance(node, exp.Anonymous)
            and node.name.lower() in ("window", "session_window")
        )
        if not calls:
            return
        call, *others = calls
        if others:
            raise UnsupportedError(
                "a SELECT with two different windows of time is not supported: write one of them "
                "in a subquery",
                **position(others[0]),
            )
        self._check_residuals()
        self._window = call
        functions = TimeWindows(self.queries)
        self._window_column = functions.window_of_rows(call, self.rows, self._bound)
        if not any(self.base.key(each.name) == "window" for each in self.base.columns):
            shown = Visible("window", self._window_column, in_star=False)
            self.base.columns.append(shown)

    def _in_window(self, node: exp.Expr) -> Expression | None:
        """Find the column for ``window(…)``; None for any other node."""
        if self._window is None or node != self._window:
            return None
        if self._window_column not in self.rows.node.fields:
            raise not_grouped(shown(node), node, self.dialect)
        return self.rows.ref(self._window_column)

    # SELECT

    def _outputs(self) -> list[Output]:
        outputs: list[Output] = []
        for place, node in enumerate(self.select.expressions):
            if isinstance(node, exp.Star) or (
                isinstance(node, exp.Column) and isinstance(node.this, exp.Star)
            ):
                outputs += self._star(node)
                continue
            made = self._generated(node)
            if made is not None:
                outputs += made
                continue
            outputs.append(Output(self._name(node, place), node.unalias()))
        names = distinct_names(output.name for output in outputs)
        return [replace(output, name=name) for output, name in zip(outputs, names, strict=True)]

    def _star(self, node: exp.Expr) -> list[Output]:
        star = node.this if isinstance(node, exp.Column) else node
        qualifier = tuple(
            each.name
            for name in ("catalog", "db", "table")
            if (each := node.args.get(name)) is not None
        )
        fields = self._fields(qualifier, node)
        if fields:
            return fields
        for name in ("replace", "rename"):
            if star.args.get(name):
                raise UnsupportedError(f"* {name.upper()} is not offered", **position(node))
        found = self.base.star(qualifier, node)
        if not found and not qualifier:
            raise QueryError("SELECT * needs a FROM", **position(self.select))
        left_out = {
            self.base.key(each.name): each
            for each in star.args.get("except_") or star.args.get("except") or ()
        }
        for name, each in left_out.items():
            if name not in {self.base.key(column.name) for column in found}:
                raise self.base.unknown((each.name,), each)
        return [
            Output(each.name, column=each.column)
            for each in found
            if self.base.key(each.name) not in left_out
        ]

    def _fields(self, path: tuple[str, ...], node: exp.Expr) -> list[Output]:
        """Expand ``r.*`` of a ROW column; nothing where a table is called so."""
        if not path or any(each.qualifier[-1:] == path[-1:] for each in self.base.columns):
            return []
        value = self.base.find(path, node)
        if value is None or value.type.root != "ROW":
            return []
        root = exp.column(*reversed([exp.to_identifier(part, quoted=True) for part in path]))
        return [
            Output(
                each.name,
                exp.Dot(this=exp.Paren(this=root.copy()), expression=exp.to_identifier(each.name)),
            )
            for each in value.type.fields or ()
        ]

    def _generated(self, node: exp.Expr) -> list[Output] | None:
        """Bind ``explode(x) AS y`` in SELECT; None for what makes no rows."""
        call = node.this if isinstance(node, exp.Alias | exp.Aliases) else node
        functions = Generators(self.queries)
        if not isinstance(call, exp.Anonymous) or not functions.is_generator(call):
            return None
        given: list[str] = []
        if isinstance(node, exp.Aliases):
            given = [each.name for each in node.expressions]
        elif isinstance(node, exp.Alias):
            given = [node.alias]
        added = functions.generate(self.rows, call, given, self._bound, outer=False)
        return [Output(shown, column=column) for shown, column in added]

    def _name(self, node: exp.Expr, place: int) -> str:
        if isinstance(node, exp.Alias):
            return node.alias
        if isinstance(node, exp.Column):
            return node.name
        if isinstance(node, exp.Dot):
            return node.expression.name
        if node == self._window:
            return "window"
        if self.dialect is Dialect.FLINK:
            return f"EXPR${place}"
        text = node.sql(DIALECTS[self.dialect], normalize_functions="lower", comments=False)
        return "count(1)" if text == "count(*)" else text

    def _name_lazily(self, outputs: list[Output]) -> None:
        """Let HAVING and QUALIFY use the names of SELECT."""
        for output in outputs:
            if output.node is not None and output.name:
                self.scope.aliases.setdefault(self.scope.key(output.name), self._once(output.node))

    def _once(self, node: exp.Expr) -> Callable[[], Expression]:
        busy = False

        def bound() -> Expression:
            nonlocal busy
            if busy and self.grouping is not None:
                raise not_grouped(shown(node), node, self.dialect)
            if busy:
                raise QueryError(f"{shown(node)} is defined by itself", **position(node))
            busy = True
            try:
                return self._bound(node)
            finally:
                busy = False

        return bound

    def _values(self, outputs: list[Output]) -> list[Expression]:
        values: list[Expression] = []
        self.scope.aliases.clear()
        binder = self._binder()
        for output in outputs:
            value = (
                self._starred(output.column) if output.node is None else binder.bind(output.node)
            )
            if not self._defers:
                value = self._settled(value)
            values.append(value)
            if output.node is not None:
                self.scope.aliases.setdefault(self.scope.key(output.name), _given(value))
        return values

    def _starred(self, column: str) -> Expression:
        if self.grouping is None:
            return self.rows.ref(column)
        key = self.grouping.key_of(self.base.rows.ref(column))
        if key is None:
            raise QueryError(
                f"SELECT * gives column {column}, which is not in GROUP BY: name the columns",
                **position(self.select),
            )
        return key

    # GROUP BY

    def _group(self, outputs: list[Output], order: list[exp.Ordered]) -> None:
        names = AggregateNames(self.queries)
        having, qualify = self.select.args.get("having"), self.select.args.get("qualify")
        places: list[exp.Expr] = [each.node for each in outputs if each.node is not None]
        places += [each.this for each in (having, qualify) if each is not None]
        places += [each.this for each in order]
        for name in self.select.args.get("windows") or ():
            places.append(name)
        calls = [call for place in places for call in names.calls_in(place)]
        group = self.select.args.get("group")
        if group is None and not calls and having is None:
            return
        self._check_residuals()
        groups = self._groups(group, outputs, names)
        around = self._correlated
        if not groups.keys and groups.is_plain and self.correlation is not None:
            self._defers = self._may_defer()
        grouping = Grouping(self.queries, self.base, self._below(), self._settled, self._settle)
        grouping.bind(groups, calls, around)
        if around and not groups.keys and groups.is_plain and not self._defers:
            self._complete(grouping)
        self.grouping = grouping
        self.rows = grouping.rows
        if self._defers:
            grouping.domain = {}
        self.scope = GroupedScope(grouping, self.base, self.correlation)

    def _below(self) -> ExpressionBinder:
        scope = self.base

        def replaced(node: exp.Expr) -> Expression | None:
            found = self._in_window(node)
            if found is not None:
                return found
            self._check_plain(node)
            return Subqueries(self.queries, scope, self._bound).replaced(node)

        return ExpressionBinder(self.queries.names, scope, replaced)

    def _groups(
        self, group: exp.Group | None, outputs: list[Output], names: AggregateNames
    ) -> Groups:
        if group is not None and group.args.get("all"):
            keys = [
                each.node
                for each in outputs
                if each.node is not None and not any(True for _ in names.calls_in(each.node))
            ]
            group = exp.Group(expressions=[each.copy() for each in keys])
        elif group is not None and not any(group.args.values()):
            raise QueryError("GROUP BY names no columns", **position(self.select))
        return read_groups(group, lambda node: self._group_key(node, outputs))

    def _group_key(self, node: exp.Expr, outputs: list[Output]) -> exp.Expr:
        """Find what an ordinal or an alias in GROUP BY stands for."""
        if isinstance(node, exp.Literal) and not node.is_string:
            return self._ordinal(node, outputs)
        is_name = isinstance(node, exp.Column) and not node.table
        if is_name and self.base.find((node.name,), node) is None:
            for output in outputs:
                if output.node is not None and self.base.key(output.name) == self.base.key(
                    node.name
                ):
                    return output.node
        return node

    def _ordinal(self, node: exp.Expr, outputs: list[Output]) -> exp.Expr:
        text = node.name
        if not text.isdigit() or not 1 <= int(text) <= len(outputs):
            raise QueryError(
                f"there is no column {text} in SELECT: it has {len(outputs)}", **position(node)
            )
        output = outputs[int(text) - 1]
        if output.node is not None:
            return output.node
        shown = next(each for each in self.base.columns if each.column == output.column)
        parts = [*shown.qualifier[-1:], shown.name]
        return exp.column(*reversed([exp.to_identifier(part, quoted=True) for part in parts]))

    def _may_defer(self) -> bool:
        """Whether the value of this aggregate can be computed after the join with the rows around.

        A group that is not there then counts as an empty one.
        """
        args = self.select.args
        plain = not any(args.get(name) for name in ("having", "qualify", "distinct", "offset"))
        windows = any(True for each in self.select.expressions for _ in windows_in(each))
        inner = any(each.find(*SUBQUERIES) for each in self.select.expressions)
        return self.is_scalar and plain and not windows and not inner

    def _complete(self, grouping: Grouping) -> None:
        """Give a group for each value of the query around: an aggregate always has a row."""
        assert self.correlation is not None
        outer = self.correlation.outer.rows
        names = [self.queries.numbers.fresh("d") for _ in self.pairs]
        values = tuple(
            (name, normalized(pair.outer, self.dialect))
            for name, pair in zip(names, self.pairs, strict=True)
        )
        domain = Rows(Distinct(Project(outer.node, values)), self.queries.numbers)
        builder = JoinBuilder(domain, grouping.rows.node, self.dialect)
        for name, pair in zip(names, self.pairs, strict=True):
            builder.equate(
                domain.ref(name), builder.right.ref(pair.column), null_safe=pair.null_safe
            )
        joined = Rows(builder.join(JoinKind.LEFT), self.queries.numbers)
        columns: list[tuple[str, Expression]] = [(name, joined.ref(name)) for name in names]
        for each in grouping.rows.node.fields:
            if each.name not in self._correlated:
                columns.append((each.name, counted(joined.ref(each.name), each.type.nullable)))
        grouping.domain = {
            pair.outer.name: name
            for name, pair in zip(names, self.pairs, strict=True)
            if isinstance(pair.outer, ColumnRef)
        }
        grouping.rows = Rows(Project(joined.node, tuple(columns)), self.queries.numbers)
        self.pairs[:] = [
            Pair(pair.outer, name, null_safe=True)
            for name, pair in zip(names, self.pairs, strict=True)
        ]

    # OVER

    def _windows(self, outputs: list[Output], order: list[exp.Ordered]) -> None:
        places: list[exp.Expr] = [each.node for each in outputs if each.node is not None]
        qualify = self.select.args.get("qualify")
        places += [qualify.this] if qualify is not None else []
        places += [each.this for each in order]
        found = [window for place in places for window in windows_in(place)]
        if found:
            self._check_residuals()
        named = {each.this.name.lower(): each for each in self.select.args.get("windows") or ()}
        over = OverBinder(self.queries, self.rows, self._bound, named, self._correlated)
        if found:
            over.add(found)
        self._over = over

    # ORDER BY, DISTINCT and LIMIT

    def _order_nodes(self, outputs: list[Output]) -> list[exp.Ordered]:
        return all_spread(self.select.args.get("order"), len(outputs))

    def _finished(
        self, outputs: list[Output], values: list[Expression], order: list[exp.Ordered]
    ) -> BoundQuery:
        names = tuple(output.name for output in outputs)
        limit, offset = self._limit()
        distinct = self.select.args.get("distinct")
        if distinct is not None and distinct.args.get("on"):
            raise UnsupportedError(
                "DISTINCT ON is not offered: QUALIFY ROW_NUMBER() OVER (…) = 1 does the same",
                **position(self.select),
            )
        if self._defers:
            return BoundQuery(self.rows.node, names, names, tuple(self.pairs), values=tuple(values))
        if distinct is not None or limit is not None or offset:
            self._check_residuals()
        keys, sorted_by = self._keys(outputs, values, order, is_distinct=distinct is not None)
        if distinct is not None:
            values = [normalized(value, self.dialect) for value in values]
        columns = [*zip(names, values, strict=True), *self._added(names, values)]
        wanted = [name for name, _ in columns]
        project = Project(self.rows.node, (*columns, *sorted_by))
        rows = Rows(project, self.queries.numbers)
        if distinct is not None:
            rows.node = Distinct(rows.node)
        self._sort(rows, keys, limit, offset)
        if sorted_by:
            rows.node = Project(rows.node, tuple((name, rows.ref(name)) for name in wanted))
        node = pruned(rows.node, wanted)
        is_single = (
            self.grouping is not None
            and not self.grouping.groups.keys
            and self.grouping.groups.is_plain
            and not any(self.select.args.get(name) for name in ("having", "qualify", "offset"))
            and limit != 0
        )
        return BoundQuery(
            node,
            names,
            names,
            tuple(self.pairs),
            tuple(self.residuals),
            is_single=is_single,
        )

    def _added(
        self, names: tuple[str, ...], values: list[Expression]
    ) -> list[tuple[str, Expression]]:
        """List the columns that the join with the query around needs besides those of SELECT."""
        needed = dict.fromkeys(self._correlated)
        for residual in self.residuals:
            needed.update(dict.fromkeys(sorted(residual.columns())))
        taken = {name.lower() for name in names}
        given = dict(zip(values, names, strict=True))
        added: list[tuple[str, Expression]] = []
        called: dict[str, str] = {}
        for column in needed:
            reference = self.rows.ref(column)
            name = given.get(reference)
            if name is None:
                name = self.rows.fresh("c") if column.lower() in taken else column
                added.append((name, reference))
            called[column] = name
        self.pairs = [replace(pair, column=called[pair.column]) for pair in self.pairs]
        self.residuals = [renamed(each, called) for each in self.residuals]
        return added

    def _keys(
        self,
        outputs: list[Output],
        values: list[Expression],
        order: list[exp.Ordered],
        *,
        is_distinct: bool,
    ) -> tuple[tuple[SortKey, ...], list[tuple[str, Expression]]]:
        """Bind ORDER BY; give the columns to add for it."""
        added: list[tuple[str, Expression]] = []
        keys = []
        by_value = {
            value: output.name for output, value in reversed([*zip(outputs, values, strict=True)])
        }
        for each in order:
            value = self._order_value(each.this, outputs, values)
            if isinstance(value, Literal):
                continue
            check_sortable(value, each)
            name = by_value.get(value)
            if name is None:
                if is_distinct:
                    raise QueryError(
                        "ORDER BY of SELECT DISTINCT is by columns of SELECT: select what it is "
                        "ordered by",
                        **position(each),
                    )
                name = self.rows.fresh("o")
                by_value[value] = name
                added.append((name, value))
            keys.append(
                SortKey(name, bool(each.args.get("desc")), bool(each.args.get("nulls_first")))
            )
        return unique_keys(iter(keys)), added

    def _order_value(
        self, node: exp.Expr, outputs: list[Output], values: list[Expression]
    ) -> Expression:
        if isinstance(node, exp.Literal) and not node.is_string:
            self._ordinal(node, outputs)
            return values[int(node.name) - 1]
        if isinstance(node, exp.Column) and not node.table:
            for output, value in zip(outputs, values, strict=True):
                if self.base.key(output.name) == self.base.key(node.name):
                    return value
        return self._bound(node)

    def _limit(self) -> tuple[int | None, int]:
        return read_limit(self.queries, self.select)

    def _sort(self, rows: Rows, keys: tuple[SortKey, ...], limit: int | None, offset: int) -> None:
        if self._correlated and (limit is not None or offset):
            end = offset + (limit if limit is not None else 2**62)
            if limit == 0:
                rows.node = Limit(rows.node, 0)
            else:
                rows.node = TopN(rows.node, tuple(self._correlated), keys, offset + 1, end)
            return
        if keys:
            rows.node = Sort(rows.node, keys)
        if limit is not None or offset:
            rows.node = Limit(rows.node, limit, offset)


def check_window_function(node: exp.Anonymous) -> None:
    """Refuse ``GROUP BY TUMBLE(…)``: windows stand in FROM."""
    name = node.name.upper()
    root = name.removesuffix("_START").removesuffix("_END").removesuffix("_ROWTIME")
    if root in WINDOW_FUNCTIONS:
        raise QueryError(
            f"{name} stands in FROM: write FROM TABLE({root}(TABLE t, DESCRIPTOR(time), …)) and "
            "group by window_start and window_end",
            **position(node),
        )


def _given(value: Expression) -> Callable[[], Expression]:
    return lambda: value


def read_limit(queries: Queries, tree: exp.Expr) -> tuple[int | None, int]:
    """Read LIMIT, FETCH and OFFSET; LIMIT ALL is None."""
    limit = tree.args.get("limit")
    count: int | None = None
    if isinstance(limit, exp.Fetch):
        if limit.args.get("limit_options"):
            options = limit.args["limit_options"]
            if options.args.get("percent") or options.args.get("with_ties"):
                raise UnsupportedError("FETCH takes a number of ROWS ONLY", **position(tree))
        number = limit.args.get("count")
        count = _whole(queries, number, "FETCH") if number is not None else 1
    elif limit is not None:
        value = limit.expression
        is_all = isinstance(value, exp.Column | exp.Var) and value.name.upper() == "ALL"
        count = None if is_all or value is None else _whole(queries, value, "LIMIT")
        if limit.expressions:
            raise UnsupportedError("LIMIT … BY is not offered", **position(tree))
    offset = tree.args.get("offset")
    return count, _whole(queries, offset.expression, "OFFSET") if offset is not None else 0


def _whole(queries: Queries, node: exp.Expr, what: str) -> int:
    scope = Scope(Rows(SINGLE_ROW, queries.numbers), (), queries.dialect)
    value = fold(ExpressionBinder(queries.names, scope).bind(node))
    number = value.value if isinstance(value, Literal) else None
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise QueryError(
            f"{what} takes a whole number that is not negative, not {shown(node)}", **position(node)
        )
    return number


def counted(value: ColumnRef, nullable: bool) -> Expression:
    """Give a count that an outer join has made NULL its value for no rows: 0."""
    if nullable:
        return value
    kind = value.type.with_nullable(False)
    zero = Literal(kind, [] if kind.root == "ARRAY" else 0)
    is_null = Call(TRUE.type, "is_null", (value,))
    return Case(kind, ((is_null, zero),), value)


def visible(names: Iterable[str], columns: Iterable[str]) -> list[Visible]:
    """Make columns ones that a query can name."""
    return [Visible(name, column) for name, column in zip(names, columns, strict=True)]
