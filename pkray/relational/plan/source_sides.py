"""Find the sides of joins that need not be kept, as a source finds their rows by key."""

from dataclasses import dataclass

from pkray.relational.plan import nodes
from pkray.relational.plan.expressions import TRUE, ColumnRef

STATEFUL = "STATEFUL"
"""The hint under which a join keeps the rows of a side, though a source could find them."""
_OFF = (("keep", "false"), ("ttl", "0 ms"))


@dataclass(frozen=True)
class SourceSide:
    """Tells how the rows of one side of a join are found in a source.

    Attributes:
        path: what stands between the source and the join, from the source up; all of it looks at
            one row at a time.
        key: the source's columns that are joined by, in the order of the join's keys.
        finds: whether the source finds rows by them. Otherwise an index has the primary keys of
            each join key, and the source finds rows by those.
        primary_key: the source's primary key as columns of the side; empty where the side lacks
            some of it.
    """

    scan: nodes.Scan
    path: tuple[nodes.Calc, ...]
    key: tuple[str, ...]
    finds: bool
    primary_key: tuple[str, ...]


def _source_side(node: nodes.Join | nodes.TemporalJoin, index: int) -> SourceSide | None:
    """Say how the rows of a side are found in a source; None: they are not.

    Args:
        index: 0 for the left side, 1 for the right one.
    """
    if node.kind is nodes.JoinKind.SINGLE or not node.left_keys:
        return None
    if getattr(node, "null_aware", False):
        return None
    path: list[nodes.Calc] = []
    each: nodes.Node = node.inputs[index]
    while not isinstance(each, nodes.Scan):
        if isinstance(each, nodes.Hint) and _keeps(each):
            return None
        if isinstance(each, nodes.Calc):
            path.append(each)
        elif not isinstance(each, nodes.Exchange | nodes.Hint):
            return None
        (each,) = each.inputs
    names = {name: name for name in each.fields.names}
    for calc in reversed(path):
        names = {
            name: names[value.name]
            for name, value in calc.columns
            if isinstance(value, ColumnRef) and value.name in names
        }
    keys = (node.left_keys, node.right_keys)[index]
    if any(key not in names for key in keys):
        return None
    source = each.source
    columns = tuple(names[key] for key in keys)
    by_name = {column: name for name, column in names.items()}
    primary = tuple(by_name.get(column, "") for column in source.primary_key)
    whole = primary if all(primary) else ()
    finds = len(set(columns)) == len(columns) and source.finds_by(columns)
    if not finds and not (whole and source.finds_by(source.primary_key)):
        return None
    return SourceSide(each, tuple(reversed(path)), columns, finds, whole)


def _keeps(hint: nodes.Hint) -> bool:
    """Whether a hint wants a state."""
    names = (STATEFUL, "STATE_TTL")
    return hint.name.upper() in names and any(each not in _OFF for each in hint.options)


def source_sides(
    node: nodes.Join | nodes.TemporalJoin,
) -> tuple[SourceSide | None, SourceSide | None]:
    """Say of both sides of a join how their rows are found in sources; None: they are kept.

    A semi, anti or mark join by keys alone needs counts of keys on the right. It reads sources
    where both find rows by those keys, and on the right one row at most.
    """
    left, right = _source_side(node, 0), _source_side(node, 1)
    if isinstance(node, nodes.TemporalJoin):
        return None, right
    if node.kind.keeps_right:
        return left, right
    if right is not None and not right.finds:
        right = None  # an index needs columns that the join does not
    if node.condition != TRUE:
        return left, right
    if left is None or right is None or not left.finds:
        return None, None
    is_one = set(right.key) >= set(right.scan.source.primary_key)
    return (left, right) if is_one else (None, None)
