"""Which columns tell the rows of a node apart, as pure functions of the plan.

A **unique key** is a set of columns in which no two rows of the content agree. An **upsert key** is
one by which changes can be followed as well: all changes of a row reach the same place in their
order, because the key holds the columns by which rows were last brought together. The empty set is
a key of what has at most one row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import singledispatch
from itertools import product
from typing import TypeAlias

from pkray.relational.plan.expressions import Cast, ColumnRef, Expression
from pkray.relational.plan.nodes import (
    Aggregate,
    Deduplicate,
    Distinct,
    Exchange,
    Expand,
    IntervalJoin,
    Join,
    JoinKind,
    Limit,
    Node,
    Normalize,
    Over,
    Project,
    RowKey,
    Scan,
    SetKind,
    SetOperation,
    TemporalJoin,
    TopN,
    Unique,
    Unnest,
    Window,
    WindowKind,
)
from pkray.schema.types import DataType

Key: TypeAlias = frozenset[str]
Keys: TypeAlias = frozenset[Key]
KeysOf: TypeAlias = Callable[[Node], Keys]

NO_KEYS: Keys = frozenset()
MOST_KEYS = 16
"""Most keys that are followed for a node: wide joins would have a key for each choice of sides."""

_WIDENING = ("TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL")
_TEXTS = ("CHAR", "VARCHAR", "STRING")


def unique_keys(node: Node) -> Keys:
    """List the unique keys of what a node gives, the smallest ones only."""
    return _smallest(_keys(node, unique_keys))


def upsert_keys(node: Node) -> Keys:
    """List the keys by which the changes that a node gives can be followed."""
    if isinstance(node, Exchange):
        placed = frozenset(node.keys)
        return frozenset(key for key in upsert_keys(node.input) if key >= placed)
    return _smallest(_keys(node, upsert_keys))


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


@singledispatch
def _keys(node: Node, keys_of: KeysOf) -> Keys:
    """Work out a node's keys from those of its inputs, as `keys_of` gives them.

    What changes neither the columns nor the number of rows upwards keeps its input's keys.
    """
    return keys_of(node.inputs[0]) if len(node.inputs) == 1 else NO_KEYS


@_keys.register
def _(node: Scan, keys_of: KeysOf) -> Keys:
    key = frozenset(node.source.primary_key)
    return frozenset({key}) if key and key <= set(node.fields.names) else NO_KEYS


@_keys.register
def _(node: Normalize, keys_of: KeysOf) -> Keys:
    return frozenset({frozenset(node.keys)})


@_keys.register
def _(node: Unique, keys_of: KeysOf) -> Keys:
    return frozenset({frozenset(node.keys)}) | keys_of(node.input)


@_keys.register
def _(node: RowKey, keys_of: KeysOf) -> Keys:
    return frozenset({frozenset({node.name})}) | keys_of(node.input)


@_keys.register
def _(node: Project, keys_of: KeysOf) -> Keys:
    names: dict[str, list[str]] = {}
    for name, value in node.columns:
        source = injective_source(value)
        if source is not None:
            names.setdefault(source, []).append(name)
    return frozenset(
        frozenset(chosen)
        for key in keys_of(node.input)
        if all(column in names for column in key)
        for chosen in product(*(names[column] for column in key))
    )


@_keys.register
def _(node: Limit, keys_of: KeysOf) -> Keys:
    return frozenset({frozenset[str]()}) if node.count == 1 else keys_of(node.input)


@_keys.register
def _(node: Aggregate, keys_of: KeysOf) -> Keys:
    inherited = (key for key in keys_of(node.input) if key <= set(node.keys))
    return frozenset({frozenset(node.keys), *inherited})


@_keys.register
def _(node: Distinct, keys_of: KeysOf) -> Keys:
    return frozenset({frozenset(node.fields.names)}) | keys_of(node.input)


@_keys.register
def _(node: Expand, keys_of: KeysOf) -> Keys:
    added = {node.number_name or node.id_name}
    kept = (key for key in keys_of(node.input) if not key & set(node.keys))
    return frozenset(key | added for key in kept)


@_keys.register
def _(node: Join, keys_of: KeysOf) -> Keys:
    left, right = keys_of(node.left), _renamed(node, keys_of(node.right))
    if not node.kind.keeps_right or node.kind is JoinKind.SINGLE:
        return left
    renamed = dict(zip(node.right.fields.names, node.right_names, strict=True))
    one_right = _covers([renamed[name] for name in node.right_keys], right)
    one_left = _covers(node.left_keys, left)
    found = set(_pairs(left, right))
    if one_right and node.kind in (JoinKind.INNER, JoinKind.LEFT):
        found |= left
    if one_left and node.kind in (JoinKind.INNER, JoinKind.RIGHT):
        found |= right
    if node.kind is JoinKind.FULL:
        found = {key for key in found if _tells_padding_apart(node, key)}
    return frozenset(found)


@_keys.register
def _(node: IntervalJoin, keys_of: KeysOf) -> Keys:
    left = keys_of(node.left)
    return _pairs(left, _renamed(node, keys_of(node.right))) if node.kind.keeps_right else left


@_keys.register
def _(node: TemporalJoin, keys_of: KeysOf) -> Keys:
    return keys_of(node.left)


@_keys.register
def _(node: Window, keys_of: KeysOf) -> Keys:
    start, end, _ = node.names
    added = {WindowKind.HOP: {start}, WindowKind.CUMULATE: {end}}.get(node.kind, set())
    return frozenset(key | added for key in keys_of(node.input))


@_keys.register
def _(node: Over, keys_of: KeysOf) -> Keys:
    return keys_of(node.input)


@_keys.register
def _(node: TopN, keys_of: KeysOf) -> Keys:
    found = set(keys_of(node.input))
    partition = frozenset(node.partition_by)
    if node.start == node.end:
        found.add(partition)
    elif node.rank_name:
        found.add(partition | {node.rank_name})
    return frozenset(found)


@_keys.register
def _(node: Deduplicate, keys_of: KeysOf) -> Keys:
    return frozenset({frozenset(node.keys)}) | keys_of(node.input)


@_keys.register
def _(node: SetOperation, keys_of: KeysOf) -> Keys:
    if node.kind is SetKind.UNION and node.all:
        return NO_KEYS
    whole = NO_KEYS if node.all else frozenset({frozenset(node.fields.names)})
    if node.kind is SetKind.UNION:
        return whole
    left = keys_of(node.left)
    if node.kind is SetKind.EXCEPT:
        return whole | left
    names = dict(zip(node.right.fields.names, node.fields.names, strict=True))
    right = (frozenset(names[name] for name in key) for key in keys_of(node.right))
    return whole | left | frozenset(right)


@_keys.register
def _(node: Unnest, keys_of: KeysOf) -> Keys:
    if node.function != "posexplode":
        return NO_KEYS
    there = frozenset(node.fields.names)
    return frozenset(key | {node.names[0]} for key in keys_of(node.input) if key <= there)


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


def _covers(columns: Iterable[str], keys: Keys) -> bool:
    """Whether rows that agree in the columns are one row."""
    given = frozenset(columns)
    return any(key <= given for key in keys)


def _pairs(left: Keys, right: Keys) -> Keys:
    return frozenset(one | other for one, other in product(left, right))


def _renamed(node: Join | IntervalJoin, keys: Keys) -> Keys:
    names = dict(zip(node.right.fields.names, node.right_names, strict=True))
    return frozenset(frozenset(names[name] for name in key) for key in keys)


def _tells_padding_apart(node: Join, key: Key) -> bool:
    """Whether a row without a match, padded with NULLs, agrees with no other one in the key."""
    sides = (node.left.fields, node.right_fields)
    return all(any(name in side and not side[name].type.nullable for name in key) for side in sides)


def has_one_version(node: TemporalJoin) -> bool:
    """Whether the right side of a temporal join has one row a key at a time: a newer version takes
    the place of the one before. Else each of its rows is a version."""
    keys = frozenset(node.right_keys)
    return any(key <= keys for key in upsert_keys(node.right))


def _smallest(keys: Keys) -> Keys:
    """Leave out keys that hold another one, and bound how many are followed."""
    minimal = [key for key in keys if not any(other < key for other in keys)]
    minimal.sort(key=lambda key: (len(key), sorted(key)))
    return frozenset(minimal[:MOST_KEYS])
