"""The plan as it runs continuously: with exchanges, normalization, and one node a computation."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pkray.errors import UnsupportedError
from pkray.relational.plan import expressions as ir
from pkray.relational.plan import nodes
from pkray.relational.plan.changelog_modes import change_kinds, changelog_modes
from pkray.relational.plan.node import INSERT
from pkray.relational.plan.slicing import in_slices, without_slices

_DUPLICATES = "table.exec.source.cdc-events-duplicate"
_STATELESS = (
    nodes.Project,
    nodes.Filter,
    nodes.Exchange,
    nodes.Hint,
    nodes.WatermarkAssign,
    nodes.Expand,
    nodes.Unnest,
)


def tells_twice(options: Mapping[str, str]) -> bool:
    """Whether sources may tell of a change more than once, as an option says."""
    return options.get(_DUPLICATES, "false").lower() == "true"


def check_kept(plan: nodes.Node) -> None:
    """Check that state, and what a continuous query gives, can hold each column of a plan.

    Raises:
        UnsupportedError: a column is an INTERVAL.
    """
    for column in (each for node in plan.walk() for each in node.fields):
        if column.type.span:
            raise UnsupportedError(
                f"{column.name} is {column.type}, which no state and no table of a continuous "
                "query holds: use it inside an expression, CAST it to STRING, or to BIGINT for "
                "its seconds"
            )


def to_physical(
    plan: nodes.Node, *, before: bool, by_key: bool = False, duplicates: bool = False
) -> nodes.Node:
    """Put exchanges, normalization and computations into a logical plan.

    Args:
        before: whether what takes the plan's changes needs the rows before updates.
        by_key: whether it finds the rows that are deleted by their key alone.
        duplicates: whether sources may tell of a change more than once: see `tells_twice`.

    Raises:
        UnsupportedError: such a source has no key by which it could be completed.
    """
    lifted = _lifted(plan).transform(_with_all_versions)
    placed = lifted.transform(lambda node: node.exchanged()).transform(_fused).transform(in_slices)
    modes = changelog_modes(placed, before=before)
    read_whole = set() if by_key else set(_reaching(placed))

    def normalized(node: nodes.Node) -> nodes.Node:
        if not isinstance(node, nodes.Scan):
            return node
        if duplicates and node.source.mode == "all":
            return _normalized(_with_key(node))
        if node.source.mode != "upsert":
            return node
        return _normalized(node) if modes[id(node)].before or id(node) in read_whole else node

    complete = placed.transform(normalized)
    return complete.transform(_with_watermark) if _needs_watermarks(complete) else complete


def _needs_watermarks(plan: nodes.Node) -> bool:
    """Whether anything waits for event time."""
    return any(node.waits_for_time() for node in plan.walk())


def _with_watermark(node: nodes.Node) -> nodes.Node:
    """Have the rows of a source move its watermark."""
    if not isinstance(node, nodes.Scan) or node.source.watermark is None:
        return node
    mark = node.source.watermark
    whole = _reading(node, sorted({mark.column, *mark.expression.columns()}))
    assigned = nodes.WatermarkAssign(whole, mark.column, mark.expression)
    return assigned if whole is node else nodes.Calc(assigned, node.fields.refs)


def _reading(scan: nodes.Scan, names: Sequence[str]) -> nodes.Scan:
    """Have a scan give columns beside those that it gives."""
    lacking = [name for name in names if name not in scan.fields]
    return replace(scan, columns=(*scan.fields.names, *lacking)) if lacking else scan


def _lifted(node: nodes.Node) -> nodes.Node:
    """Take conditions out of scans: what a change is of the rows that meet one is told above."""
    match node:
        case nodes.Filter(input=nodes.Scan() as scan) if scan.condition != ir.TRUE:
            return _above(scan, node.condition)
        case nodes.Scan() if node.condition != ir.TRUE:
            return _above(node, ir.TRUE)
    return node.map_inputs(_lifted)


def _above(scan: nodes.Scan, further: ir.Expression) -> nodes.Node:
    conditions = (*ir.conjuncts(scan.condition), *ir.conjuncts(further))
    condition = ir.all_of(tuple(dict.fromkeys(conditions)))
    whole = _reading(scan, sorted(condition.columns()))
    read = replace(whole, columns=whole.fields.names, condition=ir.TRUE)
    kept = nodes.Filter(read, condition)
    return kept if whole is scan else nodes.Project(kept, scan.fields.refs)


def _with_all_versions(node: nodes.Node) -> nodes.Node:
    """Give a temporal join all rows of a view that keeps the newest of each key: its versions.

    The view itself would give, of the rows of one epoch, the newest alone. Rows that may go again
    are told apart as wholes, so that one that goes is the version that goes.
    """
    if not isinstance(node, nodes.TemporalJoin) or node.right_time is None:
        return node
    versions = _versions(node.right, node.right_time, frozenset(node.right_keys))
    return node if versions is None else node.with_inputs(node.left, versions)


def _versions(node: nodes.Node, time: str, keys: frozenset[str]) -> nodes.Node | None:
    """Find the rows of which a view keeps the newest of each key; None if it is no such view."""
    match node:
        case nodes.Hint():
            below = _versions(node.input, time, keys)
        case nodes.Project():
            names = {
                name: each.name for name, each in node.columns if isinstance(each, ir.ColumnRef)
            }
            if not names.keys() >= keys | {time}:
                return None
            below = _versions(node.input, names[time], frozenset(names[key] for key in keys))
        case nodes.Deduplicate(keep_first=False, rank_name=None):
            of_key = node.order_by == time and frozenset(node.keys) == keys
            appends = change_kinds(node.input) == INSERT
            return (node.input if appends else nodes.Distinct(node.input)) if of_key else None
        case _:
            return None
    return None if below is None else node.with_inputs(below)


def _reaching(node: nodes.Node) -> Iterator[int]:
    """List the nodes whose deletes reach the root as they are, by their ``id``."""
    yield id(node)
    if isinstance(node, _STATELESS) or (isinstance(node, nodes.SetOperation) and not node.states()):
        for each in node.inputs:
            yield from _reaching(each)


def _with_key(scan: nodes.Scan) -> nodes.Scan:
    if not scan.source.primary_key:
        raise UnsupportedError(
            f"{scan.source.name} has no primary key by which changes that come twice are told "
            f"apart: declare one, or leave {_DUPLICATES} out",
            table=scan.source.name,
        )
    return scan


def _normalized(scan: nodes.Scan) -> nodes.Node:
    """Complete a source's changes by its key, which has to be read for that."""
    key = scan.source.primary_key
    whole = _reading(scan, key)
    complete = nodes.Normalize(nodes.Exchange(whole, key), key)
    return complete if whole is scan else nodes.Calc(complete, scan.fields.refs)


def completed(plan: nodes.Node) -> nodes.Node:
    """Have sources that give complete changes count once those that come twice."""

    def complete(node: nodes.Node) -> nodes.Node:
        if not isinstance(node, nodes.Scan) or node.source.mode != "all":
            return node
        source = node.source.completed()
        return node if source is node.source else replace(node, source=source)

    return plan.transform(complete)


def to_logical(plan: nodes.Node) -> nodes.Node:
    """Take out again what `to_physical` put in: what is left runs bounded."""
    return plan.transform(_bounded)


def _bounded(node: nodes.Node) -> nodes.Node:
    match node:
        case nodes.Normalize():
            return completed(node.input)
        case nodes.Exchange() | nodes.RowKey() | nodes.Unique():
            return node.input
        case nodes.Aggregate():
            return without_slices(node)
        case nodes.Calc():
            filtered = _filtered(node.input, node.condition)
            return filtered if _is_identity(node) else nodes.Project(filtered, node.columns)
    return node


def _filtered(node: nodes.Node, condition: ir.Expression) -> nodes.Node:
    return node if condition == ir.TRUE else nodes.Filter(node, condition)


def _is_identity(node: nodes.Project) -> bool:
    columns = tuple((name, ir.ColumnRef(value.type, name)) for name, value in node.columns)
    return columns == node.columns and node.input.fields.names == node.fields.names


def _fused(node: nodes.Node) -> nodes.Node:
    """Make one computation of a projection and the filter below it."""
    match node:
        case nodes.Calc():
            return node
        case nodes.Project(input=nodes.Calc() as below) if _is_identity(below):
            return nodes.Calc(below.input, node.columns, below.condition)
        case nodes.Project():
            return nodes.Calc(node.input, node.columns)
        case nodes.Filter():
            return nodes.Calc(node.input, node.fields.refs, node.condition)
    return node


def exchange_keys(node: nodes.Node) -> tuple[str, ...]:
    """Find by which columns the rows of an operator's input were brought together."""
    while not isinstance(node, nodes.Exchange) and len(node.inputs) == 1:
        (node,) = node.inputs
    return node.keys if isinstance(node, nodes.Exchange) else ()
