"""Scans of tables, below what queries compute of them."""

from collections.abc import Iterable, Iterator

from pkray.relational.plan.expressions import ColumnRef
from pkray.relational.plan.nodes import Node, Project, Scan, WatermarkAssign


def scan_of(node: Node) -> Scan | None:
    """Find the scan of a source all of whose columns a node gives, the computed ones included; None
    where the node gives others, in another order or with another watermark.
    """
    below, time = node, None
    if isinstance(node, WatermarkAssign):
        below, time = node.input, node.time
    passed = True
    if type(below) is Project:
        passed = all(value.name == name for name, value in _references(below))
        below = below.input
    if not isinstance(below, Scan):
        return None
    source = below.source
    names = source.read_names
    is_declared = time is None or (source.watermark is None and time == source.time_column)
    has_computed = len(names) > len(source.fields)
    if not passed or not is_declared or (below is not node and not has_computed):
        return None
    return below if names == node.fields.names else None


def scans_in(roots: Iterable[Node]) -> list[Scan]:
    """List the scans of plans."""
    return [node for root in roots for node in root.walk() if isinstance(node, Scan)]


def _references(node: Project) -> Iterator[tuple[str, ColumnRef]]:
    return ((name, value) for name, value in node.columns if isinstance(value, ColumnRef))
