"""How much local disk and memory copies of data files take, and for how long."""

from __future__ import annotations

from dataclasses import dataclass

from pkray.options import TableOptions


@dataclass(frozen=True)
class CopyLimits:
    """Limits of what one store of copies holds.

    Args:
        max_disk_bytes: of all copies; the least recently used go first. None: no limit.
            Source: ``lookup.cache-max-disk-size``.
        max_memory_bytes: of the indexes of the copies. Source: ``lookup.cache-max-memory-size``.
        retention_millis: copies not used for so long are removed when another is made, or by
            `LookupStore.expire`.
            Source: ``lookup.cache-file-retention``.
    """

    max_disk_bytes: int | None
    max_memory_bytes: int
    retention_millis: int

    @classmethod
    def from_options(cls, options: TableOptions) -> CopyLimits:
        return cls(
            options.lookup_cache_max_disk_size,
            options.lookup_cache_max_memory_size,
            options.lookup_cache_file_retention,
        )
