"""Divide keys into groups, and groups among workers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from pkray.lookup.key_hash import hash_keys

KEY_GROUPS = 1 << 10
"""Parts of all keys that are dealt to workers: many more than workers, so that these get alike."""


def key_groups(keys: pa.Array) -> np.ndarray:
    """Give the group of each key: int64, 0 … KEY_GROUPS - 1.

    Args:
        keys: BINARY, without NULLs.
    """
    if not len(keys):
        return np.zeros(0, np.int64)
    return (hash_keys([keys]) % np.uint64(KEY_GROUPS)).astype(np.int64)


def workers_of(keys: pa.Array, count: int) -> np.ndarray:
    """Give the number of the worker that has the rows of each key: int64, 0 … count - 1.

    Args:
        count: of the workers.
    """
    return key_groups(keys) * count // KEY_GROUPS
