"""Where a table is."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pkray.storage.object_store import ObjectStore


@dataclass(frozen=True)
class TableLocation:
    """Enough to open a table in any process.

    Args:
        url: the table's root, a local path or an object store's URL.
        name: ``database.table``, for messages.
        storage_options: what the object store needs to be opened.
    """

    url: str
    name: str
    storage_options: Mapping[str, Any] = field(default_factory=dict)

    def open(self) -> ObjectStore:
        return ObjectStore.open(self.url, **self.storage_options)

    @cached_property
    def fingerprint(self) -> str:
        """Sixteen hexadecimal digits that tell tables apart."""
        return hashlib.blake2b(self.url.rstrip("/").encode(), digest_size=8).hexdigest()
