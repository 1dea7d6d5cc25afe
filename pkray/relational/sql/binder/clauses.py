"""Clauses of a SELECT: which there are, hints, LIMIT and OFFSET."""

from sqlglot import exp

from pkray.errors import QueryError
from pkray.options.values import duration_text
from pkray.relational.functions.evaluation.compiled import fold
from pkray.relational.plan.expressions import Literal
from pkray.relational.plan.lookup_options import LookupOptions
from pkray.relational.sql.binder.context import Queries, TableHints
from pkray.relational.sql.binder.from_clause.calls import constants
from pkray.relational.sql.dialects import WINDOW_FUNCTIONS, shown
from pkray.relational.sql.hints import hint_options
from pkray.relational.sql.places import unsupported, wrong

_KNOWN = {
    "with_", "hint", "distinct", "expressions", "from_", "joins", "laterals", "where", "group",
    "having", "windows", "qualify", "order", "limit", "offset",
}  # fmt: skip
_CLAUSES = {"sort": "SORT BY", "cluster": "CLUSTER BY", "distribute": "DISTRIBUTE BY"}


def check_clauses(select: exp.Select) -> None:
    """Refuse clauses that are not offered."""
    for name, value in select.args.items():
        if value and name not in _KNOWN:
            said = _CLAUSES.get(name, name.strip("_").upper().replace("_", " "))
            raise unsupported(f"{said} of a SELECT is not offered", select)
    if not select.expressions:
        raise wrong("SELECT names no columns", select)


def table_hints(select: exp.Select) -> TableHints:
    """Read what hints after SELECT say of tables."""
    hint = select.args.get("hint")
    found: dict[str, dict[str, tuple[tuple[str, str], ...]]] = {}
    for call in hint.expressions if hint is not None else ():
        options = hint_options(call)
        match call.name:
            case "STATE_TTL":
                for alias, value in options.items():
                    ttl = _ttl(select, alias, value)
                    found.setdefault(alias, {})[call.name] = (("ttl", ttl),)
            case "STATEFUL" | "UPDATES":
                said = "keep" if call.name == "STATEFUL" else "updates"
                for alias, value in options.items():
                    is_so = _boolean(select, call.name, alias, value)
                    found.setdefault(alias, {})[call.name] = ((said, is_so),)
            case "LOOKUP":
                alias = _looked_up(select, options)
                found.setdefault(alias, {})[call.name] = tuple(sorted(options.items()))
            case _:
                raise wrong(
                    f"hint {call.name} stands after the name of a table, not after SELECT", select
                )
    return found


def _looked_up(select: exp.Select, options: dict[str, str]) -> str:
    """Take the table out of the options of LOOKUP, and check the others."""
    alias = options.pop("table", None)
    try:
        if alias is None:
            raise QueryError("hint LOOKUP lacks 'table': the name or alias of the one looked up")
        LookupOptions.read(options)
    except QueryError as error:
        raise wrong(str(error), select) from None
    return alias


def _boolean(select: exp.Select, hint: str, alias: str, value: str) -> str:
    if value.lower() not in ("true", "false"):
        raise wrong(f"hint {hint} of {alias} cannot be {value!r}: write 'true' or 'false'", select)
    return value.lower()


def _ttl(select: exp.Select, alias: str, ttl: str) -> str:
    try:
        return duration_text(ttl)
    except ValueError:
        raise wrong(
            f"hint STATE_TTL of {alias} cannot be {ttl!r}: write a duration such as '12 h'", select
        ) from None


def check_window_function(node: exp.Anonymous) -> None:
    """Refuse ``GROUP BY TUMBLE(…)``: windows stand in FROM."""
    name = node.name.upper()
    root = name.removesuffix("_START").removesuffix("_END").removesuffix("_ROWTIME")
    if root in WINDOW_FUNCTIONS:
        raise wrong(
            f"{name} stands in FROM: write FROM TABLE({root}(TABLE t, DESCRIPTOR(time), …)) and "
            "group by window_start and window_end",
            node,
        )


def read_limit(queries: Queries, tree: exp.Expr) -> tuple[int | None, int]:
    """Read LIMIT, FETCH and OFFSET; LIMIT ALL is None."""
    limit = tree.args.get("limit")
    count: int | None = None
    if isinstance(limit, exp.Fetch):
        if limit.args.get("limit_options"):
            options = limit.args["limit_options"]
            if options.args.get("percent") or options.args.get("with_ties"):
                raise unsupported("FETCH takes a number of ROWS ONLY", tree)
        number = limit.args.get("count")
        count = _whole(queries, number, "FETCH") if number is not None else 1
    elif limit is not None:
        value = limit.expression
        is_all = isinstance(value, exp.Column | exp.Var) and value.name.upper() == "ALL"
        count = None if is_all or value is None else _whole(queries, value, "LIMIT")
        if limit.expressions:
            raise unsupported("LIMIT … BY is not offered", tree)
    offset = tree.args.get("offset")
    return count, _whole(queries, offset.expression, "OFFSET") if offset is not None else 0


def _whole(queries: Queries, node: exp.Expr, what: str) -> int:
    value = fold(constants(queries).bind(node))
    number = value.value if isinstance(value, Literal) else None
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise wrong(f"{what} takes a whole number that is not negative, not {shown(node)}", node)
    return number
