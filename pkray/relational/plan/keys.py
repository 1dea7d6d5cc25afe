"""Find the columns that tell the rows of a node apart, as pure functions of the plan.

A **unique key** is a set of columns in which no two rows of the content agree. An **upsert key** is
one by which changes can be followed as well: all changes of a row reach the same place in their
order, because the key holds the columns by which rows were last brought together. The empty set is
a key of what has at most one row.
"""

from pkray.relational.plan.expressions import Cast, ColumnRef, Expression
from pkray.relational.plan.node import Keys, Node
from pkray.schema.types import DataType

MOST_KEYS = 16
"""Most keys that are followed for a node: wide joins would have a key for each choice of sides."""

_WIDENING = ("TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL")
_TEXTS = ("CHAR", "VARCHAR", "STRING")


def unique_keys(node: Node) -> Keys:
    """List the unique keys of what a node gives, the smallest ones only."""
    return _smallest(node.keys_from(unique_keys))


def upsert_keys(node: Node) -> Keys:
    """List the keys by which the changes that a node gives can be followed."""
    placed = node.placed_by()
    return _smallest(frozenset(key for key in node.keys_from(upsert_keys) if key >= placed))


def best_key(node: Node, keys: Keys) -> tuple[str, ...] | None:
    """Choose the key with the fewest columns; among them without NULLs, then the leftmost.

    Returns:
        the columns in the node's order; None where there is no key.
    """
    names = node.fields.names

    def rank(key: tuple[str, ...]) -> tuple[bool, int, list[int]]:
        nullable = any(node.fields[name].type.nullable for name in key)
        return nullable, len(key), [names.index(name) for name in key]

    ordered = [tuple(name for name in names if name in key) for key in keys]
    return min(ordered, key=rank, default=None)


def followed_key(node: Node) -> set[str] | None:
    """Give the key by which the changes of a node are followed."""
    key = best_key(node, upsert_keys(node))
    return None if key is None else {*key}


def injective_source(value: Expression) -> str | None:
    """Find the column of which an expression has another value for each of its values."""
    if isinstance(value, ColumnRef):
        return value.name
    if isinstance(value, Cast) and _is_injective(value.operand.type, value.type):
        return injective_source(value.operand)
    return None


def _is_injective(source: DataType, target: DataType) -> bool:
    """Whether a cast gives different values for different values, all of which it takes."""
    if source.with_nullable(True) == target.with_nullable(True):
        return True
    if source.root in _TEXTS and target.root in _TEXTS:
        return (target.length or 2**31) >= (source.length or 2**31) and source.root != "CHAR"
    if source.root in _WIDENING and target.root in _WIDENING:
        digits = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 19}
        before = digits.get(source.root, (source.precision or 0) - (source.scale or 0))
        after = digits.get(target.root, (target.precision or 0) - (target.scale or 0))
        return after >= before and (target.scale or 0) >= (source.scale or 0)
    return source.root in ("DATE", *_WIDENING[:4]) and target.root == "STRING"


def _smallest(keys: Keys) -> Keys:
    """Leave out keys that hold another one, and bound how many are followed."""
    minimal = [key for key in keys if not any(other < key for other in keys)]
    minimal.sort(key=lambda key: (len(key), sorted(key)))
    return frozenset(minimal[:MOST_KEYS])
