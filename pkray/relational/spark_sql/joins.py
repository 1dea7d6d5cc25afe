"""Joins, of which Spark lacks some."""

from pkray.errors import UnsupportedError
from pkray.relational.plan.expressions import TRUE
from pkray.relational.plan.nodes import IntervalJoin, Join, JoinKind, Pairing, TemporalJoin
from pkray.relational.spark_sql.constants import micros_of, names_of, quoted
from pkray.relational.spark_sql.writer import Writer, check_compared, write

_JOINS = {
    JoinKind.INNER: "JOIN",
    JoinKind.LEFT: "LEFT JOIN",
    JoinKind.RIGHT: "RIGHT JOIN",
    JoinKind.FULL: "FULL JOIN",
    JoinKind.SEMI: "LEFT SEMI JOIN",
    JoinKind.ANTI: "LEFT ANTI JOIN",
}


@write.register
def _join(node: Join, writer: Writer) -> str:
    if node.kind is JoinKind.MARK:
        return _mark(node, writer)
    if node.kind is JoinKind.ANTI and node.null_aware:
        unmatched, unknown = _on(node, writer), _unknown(node, writer)
        below = writer.name(node.left)
        right = _right(node, writer)
        return f"SELECT * FROM {below} LEFT ANTI JOIN {right} ON ({unmatched}) OR ({unknown})"
    if node.kind is JoinKind.SINGLE:
        return _single(node, writer)
    return _joined(node, writer, _on(node, writer))


def _joined(node: Join | IntervalJoin, writer: Writer, on: str) -> str:
    left, right = writer.name(node.left), _right(node, writer)
    joined = f"{left} {_JOINS[node.kind]} {right} ON {on}"
    if on == "true" and node.kind is JoinKind.INNER:
        joined = f"{left} CROSS JOIN {right}"
    return f"SELECT {names_of(node.fields.names) or '1 AS `$none`'} FROM {joined}"


def _right(node: Pairing, writer: Writer) -> str:
    pairs = zip(node.right.fields.names, node.right_names, strict=True)
    columns = ", ".join(f"{quoted(name)} AS {quoted(new)}" for name, new in pairs)
    return f"(SELECT {columns or '1 AS `$one`'} FROM {writer.name(node.right)})"


def _keys(node: Pairing) -> list[tuple[str, str]]:
    check_compared(node.left, node.left_keys)
    renamed = node.names_given
    pairs = zip(node.left_keys, node.right_keys, strict=True)
    return [(quoted(left), quoted(renamed[right])) for left, right in pairs]


def _on(node: Join, writer: Writer, *, skip: int = 0) -> str:
    safe = node.null_safe or (False,) * len(node.left_keys)
    parts = [
        f"{left} {'<=>' if each else '='} {right}"
        for (left, right), each in list(zip(_keys(node), safe, strict=True))[skip:]
    ]
    if node.condition != TRUE:
        parts.append(writer.expression(node.condition))
    return " AND ".join(parts) or "true"


def _unknown(node: Join, writer: Writer) -> str:
    """Write what pairs a row with one that it may equal: one of the two keys is NULL."""
    left, right = _keys(node)[0]
    return f"({left} IS NULL OR {right} IS NULL) AND {_on(node, writer, skip=1)}"


def _mark(node: Join, writer: Writer) -> str:
    """Write the matched rows and the others as two queries: Spark has no join that marks."""
    left, right = writer.name(node.left), _right(node, writer)
    columns, mark = [quoted(name) for name in node.left.fields.names], quoted(node.mark_name or "")
    on = _on(node, writer)

    def marked(value: str, joins: str) -> str:
        return f"SELECT {', '.join([*columns, f'{value} AS {mark}'])} FROM {left} {joins}"

    matched = marked("true", f"LEFT SEMI JOIN {right} ON {on}")
    if not node.null_aware:
        return f"{matched} UNION ALL {marked('false', f'LEFT ANTI JOIN {right} ON {on}')}"
    unknown = _unknown(node, writer)
    others = f"(SELECT * FROM {left} LEFT ANTI JOIN {right} ON {on})"
    unsure = ", ".join([*columns, f"CAST(NULL AS BOOLEAN) AS {mark}"])
    null = f"SELECT {unsure} FROM {others} LEFT SEMI JOIN {right} ON {unknown}"
    false = marked("false", f"LEFT ANTI JOIN {right} ON ({on}) OR ({unknown})")
    return f"{matched} UNION ALL {null} UNION ALL {false}"


def _single(node: Join, writer: Writer) -> str:
    """Write a scalar subquery as a join with groups that are checked to have one row."""
    if node.condition != TRUE:
        raise UnsupportedError(
            "a scalar subquery that is correlated by more than equality does not run on Spark: "
            "run it with engine='local', or aggregate in the subquery",
            node="Join",
        )
    left, right, keys = writer.name(node.left), _right(node, writer), _keys(node)
    grouped = [name for _, name in keys]
    values = [quoted(name) for name in node.right_names]
    reason = "'a scalar subquery gives more than one row'"
    checked = [
        name
        if name in grouped
        else f"first(if(`$rows` > 1, raise_error({reason}), {name})) AS {name}"
        for name in values
    ]
    partition = f"PARTITION BY {', '.join(grouped)}" if grouped else ""
    counted = f"(SELECT *, count(*) OVER ({partition}) AS `$rows` FROM {right})"
    by = f" GROUP BY {', '.join(grouped)}" if grouped else ""
    one = f"(SELECT {', '.join(checked)} FROM {counted}{by})"
    columns = ", ".join([*map(quoted, node.left.fields.names), *values])
    return f"SELECT {columns} FROM {left} LEFT JOIN {one} ON {_on(node, writer)}"


@write.register
def _intervaljoin(node: IntervalJoin, writer: Writer) -> str:
    renamed = node.names_given
    parts = [f"{left} = {right}" for left, right in _keys(node)]
    near = f"{micros_of(node.left_time)} - {micros_of(renamed[node.right_time])}"
    parts.append(f"{near} BETWEEN {node.lower}L AND {node.upper}L")
    if node.condition != TRUE:
        parts.append(writer.expression(node.condition))
    return _joined(node, writer, " AND ".join(parts))


@write.register
def _temporaljoin(node: TemporalJoin, writer: Writer) -> str:
    """Write rows and versions in one order, and take the last version before each row."""
    if node.condition != TRUE:
        raise UnsupportedError(
            "a temporal join with a further condition does not run on Spark: filter after it",
            node="TemporalJoin",
        )
    renamed = node.names_given
    if node.right_time is None:
        return write(node.of_all_times(), writer)
    assert node.left_time is not None, "versions are of a time"
    left, right, pairs = writer.name(node.left), _right(node, writer), _keys(node)
    row = f"struct({names_of(node.left.fields.names)})"
    version = f"struct({names_of(node.right_names)})"
    left_keys = ", ".join(f"{name} AS `$k{i}`" for i, (name, _) in enumerate(pairs))
    right_keys = ", ".join(f"{name} AS `$k{i}`" for i, (_, name) in enumerate(pairs))
    by = ", ".join(f"`$k{i}`" for i in range(len(pairs)))
    known = " AND ".join(f"`$k{i}` IS NOT NULL" for i in range(len(pairs)))
    events = (
        f"SELECT {left_keys}, {micros_of(node.left_time)} AS `$t`, 1 AS `$side`, "
        f"{row} AS `$row`, NULL AS `$version` FROM {left} UNION ALL "
        f"SELECT {right_keys}, {micros_of(renamed[node.right_time])}, 0, NULL, {version} "
        f"FROM {right}"
    )
    last = (
        f"if({known}, last_value(`$version`) IGNORE NULLS OVER (PARTITION BY {by} "
        "ORDER BY `$t`, `$side` ROWS UNBOUNDED PRECEDING), NULL) AS `$version`"
    )
    matched = f"(SELECT `$side`, `$row`, {last} FROM ({events}))"
    where = "`$side` = 1"
    if node.kind is JoinKind.INNER:
        where += " AND `$version` IS NOT NULL"
    return f"SELECT `$row`.*, `$version`.* FROM {matched} WHERE {where}"
