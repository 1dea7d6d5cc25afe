"""Finds the buckets that a filter leaves: those that values of the bucket key hash to."""

from __future__ import annotations

import itertools
import math

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pkray.format.bucket import assign_buckets
from pkray.scan.predicate import Predicate
from pkray.schema.table_schema import TableSchema

MAX_KEYS = 10_000
"""Bucket keys hashed at most: more keys than a table has buckets leave none of them out."""


class BucketFilter:
    """The bucket keys one of which a matching row has.

    Args:
        keys: the bucket key's columns, a row a key.
    """

    def __init__(self, schema: TableSchema, keys: list[pa.Array]) -> None:
        self._keys = keys
        self._types = schema.types(schema.bucket_keys)
        self._function = schema.core.bucket_function_type
        self._known: dict[int, npt.NDArray[np.int32]] = {}

    @classmethod
    def from_predicate(cls, predicate: Predicate, schema: TableSchema) -> BucketFilter | None:
        """Make it from equalities and INs on the whole bucket key; None without, or of dynamic
        buckets."""
        if schema.core.bucket < 1:
            return None
        equalities = predicate.equalities()
        columns = [equalities.get(name) for name in schema.bucket_keys]
        if not columns or any(column is None for column in columns):
            return None
        found = [column for column in columns if column is not None]
        if math.prod(len(column) for column in found) > MAX_KEYS:
            return None
        places = list(itertools.product(*(range(len(column)) for column in found)))
        chosen = np.array(places, np.int64).reshape(-1, len(found))
        keys = [column.take(pa.array(chosen[:, i])) for i, column in enumerate(found)]
        return cls(schema, keys)

    def buckets(self, total: int) -> npt.NDArray[np.int32]:
        """Compute the buckets of these keys, where there are ``total``: distinct, ascending."""
        found = self._known.get(total)
        if found is None:
            if len(self._keys[0]):
                of_key = assign_buckets(self._keys, self._types, total, self._function)
                found = np.unique(of_key)
            else:
                found = np.zeros(0, np.int32)
            self._known[total] = found
        return found

    def keeps(
        self, buckets: npt.NDArray[np.int64], totals: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.bool_]:
        """Tell which files may hold one of the keys, by their bucket and the number of buckets
        then: int64, one a file; returns bool."""
        kept = np.ones(len(buckets), np.bool_)
        for total in np.unique(totals).tolist():
            if total > 0:
                of_total = totals == total
                kept[of_total] = np.isin(buckets[of_total], self.buckets(total))
        return kept
