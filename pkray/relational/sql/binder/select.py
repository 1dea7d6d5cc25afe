"""One SELECT: from its tables to its rows."""

from collections.abc import Iterable

from sqlglot import exp

from pkray.relational.dialect import Dialect
from pkray.relational.plan.expressions import Expression, all_of
from pkray.relational.sql.binder.clauses import check_clauses, table_hints
from pkray.relational.sql.binder.context import BoundQuery
from pkray.relational.sql.binder.from_clause.base import SUBQUERIES, flattened
from pkray.relational.sql.binder.from_clause.from_binder import FromBinder
from pkray.relational.sql.binder.from_clause.time_windows import TimeWindows
from pkray.relational.sql.binder.group_by import bind_group
from pkray.relational.sql.binder.order_by import finished
from pkray.relational.sql.binder.outputs import Output, name_lazily, output_values, read_outputs
from pkray.relational.sql.binder.over import OverBinder, all_spread, windows_in
from pkray.relational.sql.binder.patterns import filtered, where
from pkray.relational.sql.binder.scope import OuterRef, Visible, outer_references
from pkray.relational.sql.binder.select_state import SelectState
from pkray.relational.sql.binder.subqueries import Subqueries
from pkray.relational.sql.places import unsupported


class SelectBinder(SelectState):
    """Binds one SELECT."""

    def bind(self) -> BoundQuery:
        """Bind it."""
        check_clauses(self.select)
        source = FromBinder(
            self.queries, self.select, self.correlation, self.settle, table_hints(self.select)
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
        outputs = read_outputs(self)
        order = all_spread(self.select.args.get("order"), len(outputs))
        bind_group(self, outputs, order)
        having = self.select.args.get("having")
        name_lazily(self, outputs)
        if having is not None:
            self._filter(flattened(having.this))
        self._windows(outputs, order)
        values = output_values(self, outputs)
        if not self.pairs and not any(outer_references(value) for value in values):
            self.defers = False
        qualify = self.select.args.get("qualify")
        if qualify is not None:
            condition = self.settled(self.binder().condition(qualify.this))
            self.rows.node = filtered(self.rows.node, condition)
        return finished(self, outputs, values, order)

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
            self.sort_condition(residual.transform(change), local)
        self.rows.node = filtered(self.rows.node, all_of(tuple(local)))

    def _where(self, conditions: list[exp.Expr]) -> None:
        local: list[Expression] = []
        binder = self.binder()
        later = [each for each in conditions if each.find(*SUBQUERIES)]
        for each in conditions:
            if each not in later:
                self.sort_condition(binder.condition(each), local)
        self.rows.node = where(self.rows.node, all_of(tuple(local)))
        self._filter(later)

    def _filter(self, conditions: Iterable[exp.Expr]) -> None:
        local: list[Expression] = []
        for each in conditions:
            if Subqueries(self.queries, self.scope, self.bound).filter(each):
                continue
            condition = self.binder().condition(each)
            if self.grouping is not None:
                condition = self.settled(condition)
            self.sort_condition(condition, local)
        self.rows.node = filtered(self.rows.node, all_of(tuple(local)))

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
            raise unsupported(
                "a SELECT with two different windows of time is not supported: write one of them "
                "in a subquery",
                others[0],
            )
        self.check_residuals()
        self.window = call
        functions = TimeWindows(self.queries)
        self.window_column = functions.window_of_rows(call, self.rows, self.bound)
        if not any(self.base.key(each.name) == "window" for each in self.base.columns):
            shown = Visible("window", self.window_column, in_star=False)
            self.base.columns.append(shown)

    def _windows(self, outputs: list[Output], order: list[exp.Ordered]) -> None:
        places: list[exp.Expr] = [each.node for each in outputs if each.node is not None]
        qualify = self.select.args.get("qualify")
        places += [qualify.this] if qualify is not None else []
        places += [each.this for each in order]
        found = [window for place in places for window in windows_in(place)]
        if found:
            self.check_residuals()
        named = {each.this.name.lower(): each for each in self.select.args.get("windows") or ()}
        over = OverBinder(self.queries, self.rows, self.bound, named, self.correlated)
        if found:
            over.add(found)
        self.over = over
