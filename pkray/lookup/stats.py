"""What a lookup store has done and holds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LookupStats:
    """Counters since the store was made, and what it holds now.

    Args:
        hits: lookups in a file whose copy was there.
        builds: copies made.
        scans: lookups that read the data file, for many keys or without a copy.
        degraded: those of them that did so because the local disk failed.
        evictions: copies removed for space, age or damage.
        making: copies being made now; lookups read these files meanwhile.
    """

    hits: int = 0
    builds: int = 0
    scans: int = 0
    degraded: int = 0
    evictions: int = 0
    making: int = 0
    files: int = 0
    disk_bytes: int = 0
    memory_bytes: int = 0
