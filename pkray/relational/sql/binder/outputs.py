"""SELECT … : the columns of the result, and their names."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlglot import exp

from pkray.relational.dialect import Dialect
from pkray.relational.plan.expressions import Expression
from pkray.relational.plan.fields import distinct_names
from pkray.relational.sql.binder.from_clause.generators import Generators
from pkray.relational.sql.binder.grouping import not_grouped
from pkray.relational.sql.binder.select_state import SelectState
from pkray.relational.sql.dialects import DIALECTS, shown
from pkray.relational.sql.places import unsupported, wrong


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


def read_outputs(state: SelectState) -> list[Output]:
    """List the columns of the result; ``*`` is expanded."""
    outputs: list[Output] = []
    for place, node in enumerate(state.select.expressions):
        if isinstance(node, exp.Star) or (
            isinstance(node, exp.Column) and isinstance(node.this, exp.Star)
        ):
            outputs += _star(state, node)
            continue
        made = _generated(state, node)
        if made is not None:
            outputs += made
            continue
        outputs.append(Output(_name(state, node, place), node.unalias()))
    names = distinct_names(output.name for output in outputs)
    return [replace(output, name=name) for output, name in zip(outputs, names, strict=True)]


def _star(state: SelectState, node: exp.Expr) -> list[Output]:
    star = node.this if isinstance(node, exp.Column) else node
    qualifier = tuple(
        each.name
        for name in ("catalog", "db", "table")
        if (each := node.args.get(name)) is not None
    )
    fields = _fields(state, qualifier, node)
    if fields:
        return fields
    for name in ("replace", "rename"):
        if star.args.get(name):
            raise unsupported(f"* {name.upper()} is not offered", node)
    found = state.base.star(qualifier, node)
    if not found and not qualifier:
        raise wrong("SELECT * needs a FROM", state.select)
    left_out = {
        state.base.key(each.name): each
        for each in star.args.get("except_") or star.args.get("except") or ()
    }
    for name, each in left_out.items():
        if name not in {state.base.key(column.name) for column in found}:
            raise state.base.unknown((each.name,), each)
    return [
        Output(each.name, column=each.column)
        for each in found
        if state.base.key(each.name) not in left_out
    ]


def _fields(state: SelectState, path: tuple[str, ...], node: exp.Expr) -> list[Output]:
    """Expand ``r.*`` of a ROW column; nothing where a table is called so."""
    if not path or any(each.qualifier[-1:] == path[-1:] for each in state.base.columns):
        return []
    value = state.base.find(path, node)
    if value is None or value.type.root != "ROW":
        return []
    root = exp.column(*reversed(path), quoted=True)
    return [
        Output(
            each.name,
            exp.Dot(this=exp.Paren(this=root.copy()), expression=exp.to_identifier(each.name)),
        )
        for each in value.type.fields or ()
    ]


def _generated(state: SelectState, node: exp.Expr) -> list[Output] | None:
    """Bind ``explode(x) AS y`` in SELECT; None for what makes no rows."""
    call = node.this if isinstance(node, exp.Alias | exp.Aliases) else node
    functions = Generators(state.queries)
    if not isinstance(call, exp.Anonymous) or not functions.is_generator(call):
        return None
    given: list[str] = []
    if isinstance(node, exp.Aliases):
        given = [each.name for each in node.expressions]
    elif isinstance(node, exp.Alias):
        given = [node.alias]
    added = functions.generate(state.rows, call, given, state.bound, outer=False)
    return [Output(shown, column=column) for shown, column in added]


def _name(state: SelectState, node: exp.Expr, place: int) -> str:
    if isinstance(node, exp.Alias):
        return node.alias
    if isinstance(node, exp.Column):
        return node.name
    if isinstance(node, exp.Dot):
        return node.expression.name
    if node == state.window:
        return "window"
    if state.dialect is Dialect.FLINK:
        return f"EXPR${place}"
    said = node.meta.get("said")
    if said is not None:
        return str(said)
    text = node.sql(DIALECTS[state.dialect], normalize_functions="lower", comments=False)
    return "count(1)" if text == "count(*)" else text


def name_lazily(state: SelectState, outputs: list[Output]) -> None:
    """Let HAVING and QUALIFY use the names of SELECT."""
    for output in outputs:
        if output.node is not None and output.name:
            state.scope.aliases.setdefault(state.scope.key(output.name), _once(state, output.node))


def _once(state: SelectState, node: exp.Expr) -> Callable[[], Expression]:
    busy = False

    def bound() -> Expression:
        nonlocal busy
        if busy and state.grouping is not None:
            raise not_grouped(shown(node), node, state.dialect)
        if busy:
            raise wrong(f"{shown(node)} is defined by itself", node)
        busy = True
        try:
            return state.bound(node)
        finally:
            busy = False

    return bound


def output_values(state: SelectState, outputs: list[Output]) -> list[Expression]:
    """Bind the columns of the result."""
    values: list[Expression] = []
    state.scope.aliases.clear()
    binder = state.binder()
    for output in outputs:
        value = _starred(state, output.column) if output.node is None else binder.bind(output.node)
        if not state.defers:
            value = state.settled(value)
        values.append(value)
        if output.node is not None:
            state.scope.aliases.setdefault(state.scope.key(output.name), _given(value))
    return values


def _starred(state: SelectState, column: str) -> Expression:
    if state.grouping is None:
        return state.rows.ref(column)
    key = state.grouping.key_of(state.base.rows.ref(column))
    if key is None:
        raise wrong(
            f"SELECT * gives column {column}, which is not in GROUP BY: name the columns",
            state.select,
        )
    return key


def _given(value: Expression) -> Callable[[], Expression]:
    return lambda: value
