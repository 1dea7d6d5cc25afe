"""Samples and splits, by hashes of rows."""

import random
from collections.abc import Sequence
from typing import Any

from pkray.errors import OptionError
from pkray.relational.api.column import Column
from pkray.relational.api.queried import Queried
from pkray.relational.plan.scans import scan_of
from pkray.relational.sql import syntax
from pkray.relational.sql.syntax import call, column

_BUCKETS = 1 << 30
"""Parts that rows are hashed to, of which samples and splits take some."""


# Samples


def sample(relation: Queried, fraction: float, seed: int | None) -> Any:
    """Keep a part of the rows; as of ``Relation.sample``."""
    if not 0 <= fraction <= 1:
        raise OptionError(
            f"fraction cannot be {fraction}: give 0 to 1", value=fraction, arguments=("fraction",)
        )
    return _bucketed(relation, 0, round(fraction * _BUCKETS), _seed(seed))


def split(relation: Queried, weights: Sequence[float], seed: int | None) -> list[Any]:
    """Divide rows into disjoint parts; as of ``Relation.split``."""
    total = sum(weights)
    if not weights or any(weight < 0 for weight in weights) or total <= 0:
        raise OptionError(
            f"weights cannot be {list(weights)}: give numbers of at least 0, not all 0",
            arguments=("weights",),
        )
    seed = _seed(seed)
    parts, before, end = [], 0.0, 0
    for number, weight in enumerate(weights):
        before += weight
        start = end
        end = _BUCKETS if number == len(weights) - 1 else round(before / total * _BUCKETS)
        parts.append(_bucketed(relation, start, end, seed))
    return parts


def _seed(seed: int | None) -> int:
    return random.getrandbits(31) if seed is None else seed


def _bucketed(relation: Queried, start: int, end: int, seed: int) -> Any:
    """Keep the rows whose hash is in a range of buckets."""
    hashed = [column(name) for name in _hashed(relation)]
    number = call("pmod", call("xxhash64", syntax.literal(seed), *hashed), syntax.literal(_BUCKETS))
    bucket = Column(number)
    low = (bucket >= start,) if start else ()
    high = () if start and end == _BUCKETS else (bucket < end,)
    return relation.filter(*low, *high)


def _hashed(relation: Queried) -> list[str]:
    """List the columns that tell rows apart: a table's key, or all."""
    scan = scan_of(relation.plan)
    keys = () if scan is None else scan.source.primary_key
    if keys and all(key in relation.fields for key in keys):
        return list(keys)
    return [field.name for field in relation.fields if field.type.root != "MAP"]
