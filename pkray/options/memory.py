"""Options of memory and local disk: buffers, spilled rows, local copies for lookups."""

from dataclasses import dataclass

from pkray.options.option import option
from pkray.options.values import BOOLEAN, DURATION, HOUR, MB, POSITIVE_SIZE, SIZE, choice, integer


@dataclass(frozen=True)
class MemoryOptions:
    """Options of what a process holds in memory, and where it puts the rest."""

    write_buffer_size: int = option(
        "write-buffer-size", POSITIVE_SIZE, 256 * MB, "Rows held in memory before a flush."
    )
    sort_spill_threshold: int | None = option(
        "sort-spill-threshold",
        integer(2),
        None,
        "Sorted runs read at once by a merge; num-sorted-run.stop-trigger + 1 if unset.",
    )
    sort_spill_buffer_size: int = option(
        "sort-spill-buffer-size",
        SIZE,
        64 * MB,
        "Rows a merge holds at a time, and rows set aside before they go to the local disk.",
    )
    spill_compression: str = option(
        "spill-compression", choice("zstd", "lz4", "none"), "zstd", "Codec of spilled rows."
    )
    spill_compression_zstd_level: int = option(
        "spill-compression.zstd-level", integer(1), 1, "zstd level of spilled rows."
    )
    lookup_cache_file_retention: int = option(
        "lookup.cache-file-retention", DURATION, HOUR, "Idle time before a local copy goes."
    )
    lookup_cache_max_disk_size: int | None = option(
        "lookup.cache-max-disk-size", SIZE, None, "Local disk for lookups; unlimited if unset."
    )
    lookup_cache_max_memory_size: int = option(
        "lookup.cache-max-memory-size", SIZE, 256 * MB, "Memory for lookups."
    )
    lookup_pages_enabled: bool = option(
        "lookup.pages.enabled",
        BOOLEAN,
        False,
        "Rows are written in small pages beside large data files: fresh owners find keys at once.",
    )
