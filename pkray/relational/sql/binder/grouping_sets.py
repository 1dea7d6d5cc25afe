"""GROUP BY as it is written: keys, and the sets of them."""

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from sqlglot import exp

from pkray.relational.sql.places import unsupported, wrong

_T = TypeVar("_T")
MAX_SETS = 1024
"""Most grouping sets: each repeats every row; CUBE of ten columns has that many."""


@dataclass
class Groups:
    """Holds the keys and grouping sets of GROUP BY.

    Attributes:
        keys: the expressions, each once.
        sets: positions in `keys`, a grouping set each; one set of all keys where GROUP BY is plain.
        is_plain: whether no grouping sets are written.
    """

    keys: list[exp.Expr] = field(default_factory=list)
    sets: list[tuple[int, ...]] = field(default_factory=lambda: [()])
    is_plain: bool = True


def read_groups(group: exp.Group | None, resolve: Callable[[exp.Expr], exp.Expr]) -> Groups:
    """Read GROUP BY.

    Args:
        resolve: finds what an ordinal or an alias stands for.
    """
    groups = Groups()
    if group is None:
        return groups
    if group.args.get("totals"):
        raise unsupported("WITH TOTALS is not offered: write ROLLUP", group)
    parts = [_sets(each, groups, resolve) for each in group.expressions]
    plain = _merged(each for part in parts for each in part)
    for kind in ("rollup", "cube"):
        for each in group.args.get(kind) or ():
            if isinstance(each, exp.Rollup | exp.Cube) and not each.expressions:
                groups.is_plain = False
                parts = [_prefixes(plain) if kind == "rollup" else _subsets(plain)]
            elif isinstance(each, exp.Expr):
                parts.append(_sets(each, groups, resolve))
    for each in group.args.get("grouping_sets") or ():
        parts = [_sets(each, groups, resolve)]
    count = 1
    for part in parts:
        count *= len(part)
        if count > MAX_SETS:
            raise wrong(f"GROUP BY has more than {MAX_SETS} grouping sets", group)
    groups.sets = [_merged(each) for each in itertools.product(*parts)]
    return groups


def _sets(
    node: exp.Expr, groups: Groups, resolve: Callable[[exp.Expr], exp.Expr]
) -> list[tuple[int, ...]]:
    if isinstance(node, exp.GroupingSets):
        groups.is_plain = False
        return [each for part in node.expressions for each in _sets(part, groups, resolve)]
    if isinstance(node, exp.Rollup | exp.Cube):
        groups.is_plain = False
        if len(node.expressions) > 10 and isinstance(node, exp.Cube):
            raise wrong("CUBE takes at most ten columns", node)
        parts = [_sets(each, groups, resolve)[0] for each in node.expressions]
        chosen = _prefixes(parts) if isinstance(node, exp.Rollup) else _subsets(parts)
        return [_merged(each) for each in chosen]
    if isinstance(node, exp.Tuple):
        return [_merged(_sets(each, groups, resolve)[0] for each in node.expressions)]
    if isinstance(node, exp.Paren):
        return _sets(node.this, groups, resolve)
    key = resolve(node)
    if key not in groups.keys:
        groups.keys.append(key)
    return [(groups.keys.index(key),)]


def _merged(sets: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    """List the places that stand in any of some sets, each once."""
    return tuple(dict.fromkeys(itertools.chain.from_iterable(sets)))


def _prefixes(parts: Sequence[_T]) -> list[tuple[_T, ...]]:
    return [tuple(parts[:length]) for length in range(len(parts), -1, -1)]


def _subsets(parts: Sequence[_T]) -> list[tuple[_T, ...]]:
    return [
        chosen
        for length in range(len(parts), -1, -1)
        for chosen in itertools.combinations(parts, length)
    ]
